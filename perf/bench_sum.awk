# bench_sum.awk: from every measurement of a run to one line for each point, memory and class: its medians.
#
# usage: awk -f bench_json.awk -f bench_sum.awk bench.jsonl
#
# A round counts in the class that all its programs saw. Where no round of a point was clean, those are given in
# which the class changed (MIXED) or another program had more than 8 percent of the cores (BUSY), and no bar is
# judged by them. A peer's time is the better of its two variants.
/^\{"asked"/ {
    header = $0
}
/^\{"point"/ {
    group = field("point")
    if (!(group in class_of)) {
        groups[++n_groups] = group
        class_of[group] = field("class")
    } else if (class_of[group] != field("class") && class_of[group] != "BUSY") {
        class_of[group] = "MIXED"
    }
    if (field("others") + 0 > 8)
        class_of[group] = "BUSY"
    lines[group] = lines[group] "\n" $0
}
function better(a, b)
{
    return a > 0 && (b == 0 || a < b) ? a : b
}
function best_of(peer)
{
    return better(median(peer SUBSEP "default" SUBSEP), median(peer SUBSEP "bound" SUBSEP))
}
# One line of one round: its time under the names by which the lines at the end ask.
function take(point, class,    key)
{
    key = point SUBSEP class SUBSEP field("library") SUBSEP field("variant") SUBSEP \
        (field("library") == "tutti" ? field("memory") : "")
    add(key, field("time_us"))
    add(point SUBSEP class SUBSEP "flag", field("flag_us"))
    if (field("library") == "tutti") {
        path[point, class, field("memory")] = field("path")
        algorithm[point, class, field("memory")] = field("algorithm")
        if (field("limit") != "")
            add(key SUBSEP "limit", field("limit"))
    }
}
function number(name, us)
{
    return us > 0 ? sprintf(us < 1000 ? ", \"%s\": %.4g" : ", \"%s\": %.0f", name, us) : ""
}
function print_line(point, class, memory,    base, own, openmpi, mpich, peer, p)
{
    split(point, p, " ")
    base = point SUBSEP class SUBSEP
    own = median(base "tutti" SUBSEP "default" SUBSEP memory)
    openmpi = best_of(base "openmpi")
    mpich = best_of(base "mpich")
    peer = better(openmpi, mpich)
    printf "{\"collective\": \"%s\", \"ranks\": %d, \"size\": %.0f, \"memory\": \"%s\", \"class\": \"%s\", " \
        "\"rounds\": %d", p[1], p[2], p[3], memory, class, rounds[point, class]
    printf "%s%s%s%s", number("tutti_us", own), number("openmpi_us", openmpi), number("mpich_us", mpich),
        number("ratio", own > 0 ? peer / own : 0)
    printf "%s, \"flag_us\": %.3f, \"path\": \"%s\", \"algorithm\": \"%s\"}\n",
        number("limit", median(base "tutti" SUBSEP "default" SUBSEP memory SUBSEP "limit")),
        median(base "flag"), path[point, class, memory], algorithm[point, class, memory]
}
END {
    print header
    for (i = 1; i <= n_groups; i++) {
        group = point = groups[i]
        sub(/ [^ ]*$/, "", point) # the round
        if (!(point in seen))
            points[++n_points] = point
        seen[point] = 1
        rounds[point, class_of[group]]++
        n_lines = split(lines[group], line, "\n")
        for (j = 2; j <= n_lines; j++) {
            $0 = line[j]
            take(point, class_of[group])
        }
    }
    n_classes = split("NEAR,FAR,ONE CORE,MIXED,BUSY", classes, ",")
    for (i = 1; i <= n_points; i++) {
        clean = 0
        for (j = 1; j <= n_classes; j++) {
            if (!((points[i], classes[j]) in rounds) || (j > 2 && clean))
                continue
            clean = 1
            print_line(points[i], classes[j], "malloc")
            print_line(points[i], classes[j], "registered")
        }
    }
}
