# bench_sum.awk: from every measurement of a run to one line for each point, memory and class: its medians.
#
# usage: awk -f bench_json.awk -f bench_sum.awk bench.jsonl
#
# A round counts in the class that all its programs saw at their beginning and end. Where no round of a point
# was clean, those are given in which the class changed (MIXED) or another program had more than 8 percent of
# the cores (BUSY), and no bar is judged by them. A peer's time is the better of its two variants. Of a
# ladder, each size has its own class.
/^\{"asked"/ {
    header = $0
    cores = field("cores") + 0
}
/^\{"point": "ladder / {
    if (field("others") + 0 <= 8 && (field("class_after") == "" || field("class_after") == field("class"))) {
        group = field("collective") SUBSEP field("memory") SUBSEP field("class")
        note(group, ladders)
        add(group SUBSEP field("bytes"), field("time_us"))
        if (!((group, field("bytes")) in in_ladder))
            steps[group] = steps[group] " " field("bytes")
        in_ladder[group, field("bytes")] = 1
    }
    next
}
/^\{"point"/ {
    group = field("point")
    note(group, groups)
    lines[group] = lines[group] "\n" $0
    see(group, field("class"))
    see(group, field("class_after"))
    if (field("others") + 0 > 8)
        class_of[group] = "BUSY"
}
# Another program of the round, or the same one at its end, saw this class.
function see(group, class)
{
    if (class == "" || (class == "ONE CORE" && field("ranks") > cores && class_of[group] != ""))
        return # ranks that share a core cannot always tell
    if (class_of[group] == "" || (class_of[group] == "ONE CORE" && field("ranks") > cores))
        class_of[group] = class
    else if (class_of[group] != class && class_of[group] != "BUSY")
        class_of[group] = "MIXED"
}
/^\{"instructions"/ {
    counted = counted $0 "\n"
}
BEGIN {
    n_extras = split("limit startup_ms rest_kib", extras, " ") # fields of collperf that have bars
}
# Append to a list what is not in it yet; its length is list[0].
function note(what, list)
{
    if (!((what, "noted") in seen))
        list[++list[0]] = what
    seen[what, "noted"] = 1
}
function better(a, b)
{
    return a > 0 && (b == 0 || a < b) ? a : b
}
function peer_time(base, peer)
{
    return better(median(base peer SUBSEP "default"), median(base peer SUBSEP "bound"))
}
# One line of one round.
function take(place,    key, i)
{
    key = place SUBSEP field("library") SUBSEP field("variant")
    if (field("library") == "tutti")
        key = key SUBSEP field("memory")
    add(key, field("time_us"))
    add(place SUBSEP "flag", field("flag_us"))
    if (field("library") == "tutti" && field("variant") == "default") {
        path[key] = field("path")
        algorithm[key] = field("algorithm")
        for (i = 1; i <= n_extras; i++)
            if (field(extras[i]) != "")
                add(key SUBSEP extras[i], field(extras[i]))
    }
}
function number(name, us)
{
    return us > 0 ? sprintf(us < 1000 ? ", \"%s\": %.4g" : ", \"%s\": %.0f", name, us) : ""
}
function print_line(point, class, memory,    base, own, key, openmpi, mpich, peer, p, i)
{
    split(point, p, " ")
    base = point SUBSEP class SUBSEP
    key = base "tutti" SUBSEP "default" SUBSEP memory
    own = median(key)
    openmpi = peer_time(base, "openmpi")
    mpich = peer_time(base, "mpich")
    peer = better(openmpi, mpich)
    printf "{\"mode\": \"%s\", \"collective\": \"%s\", \"ranks\": %d, \"size\": %.0f, \"memory\": \"%s\", " \
        "\"class\": \"%s\", \"rounds\": %d", p[1], p[2], p[3], p[4], memory, class, rounds[point, class]
    printf "%s%s%s%s", number("tutti_us", own), number("openmpi_us", openmpi), number("mpich_us", mpich),
        number("ratio", own > 0 ? peer / own : 0)
    printf "%s%s", number("off_us", median(base "tutti" SUBSEP "fused_off" SUBSEP memory)),
        number("threads_us", median(base "tutti" SUBSEP "threads" SUBSEP memory))
    for (i = 1; i <= n_extras; i++)
        printf "%s", number(extras[i], median(key SUBSEP extras[i]))
    printf ", \"flag_us\": %.3f, \"path\": \"%s\", \"algorithm\": \"%s\"}\n", median(base "flag"), path[key],
        algorithm[key]
}
function print_ladder(group,    g, n, i, step)
{
    split(group, g, SUBSEP)
    printf "{\"ladder\": \"%s\", \"memory\": \"%s\", \"class\": \"%s\", \"us\": \"", g[1], g[2], g[3]
    n = split(steps[group], step, " ")
    for (i = 1; i <= n; i++)
        printf "%s%s:%.4g", (i == 1 ? "" : " "), step[i], median(group SUBSEP step[i])
    printf "\"}\n"
}
END {
    print header
    for (i = 1; i <= groups[0]; i++) {
        group = point = groups[i]
        sub(/ [^ ]*$/, "", point) # the round
        note(point, points)
        rounds[point, class_of[group]]++
        n = split(lines[group], line, "\n")
        for (j = 2; j <= n; j++) {
            $0 = line[j]
            take(point SUBSEP class_of[group])
        }
    }
    n = split("NEAR,FAR,ONE CORE,MIXED,BUSY", classes, ",")
    for (i = 1; i <= points[0]; i++) {
        clean = 0
        for (j = 1; j <= n; j++) {
            if (!((points[i], classes[j]) in rounds) || (j > 2 && clean))
                continue
            clean = 1
            print_line(points[i], classes[j], "malloc")
            print_line(points[i], classes[j], "registered")
        }
    }
    for (i = 1; i <= ladders[0]; i++)
        print_ladder(ladders[i])
    printf "%s", counted
}
