# SPDX-License-Identifier: BSD-3-Clause
# bench_sum.awk: from every measurement of a run to one line for each point, memory and class: its medians.
#
# usage: awk -f bench_json.awk -f bench_sum.awk bench.jsonl
#
# A measurement counts in the class that it saw at its beginning and end, if no other program had more than 8
# percent of the cores meanwhile; of ranks that share cores the class is SHARED. A class has a line if Tutti
# and all peers were measured in it. Where none has, one line called MIXED has the medians of all, and no bar
# is judged by it. A peer's time is the better of its two variants.
/^\{"command"/ {
    header = $0
    cores = field("cores") + 0
}
function class_of_line()
{
    if (field("others") + 0 > 8)
        return "MIXED"
    if (field("ranks") + 0 > cores)
        return "SHARED"
    return field("class_after") == field("class") ? field("class") : "MIXED"
}
/^\{"point": "ladder / {
    group = field("collective") SUBSEP field("memory") SUBSEP class_of_line()
    note(group, ladders)
    add(group SUBSEP field("bytes"), field("time_us"))
    add(group SUBSEP field("bytes") SUBSEP "limit", field("limit_us"))
    if (!((group, field("bytes")) in in_ladder))
        steps[group] = steps[group] " " field("bytes")
    in_ladder[group, field("bytes")] = 1
    next
}
/^\{"point"/ {
    point = field("point")
    sub(/ [^ ]*$/, "", point) # the round
    note(point, points)
    key = field("library") SUBSEP field("variant") SUBSEP (field("library") == "tutti" ? field("memory") : "")
    if (field("variant") ~ /^(default|bound)$/ && !((point, key) in is_program)) {
        is_program[point, key] = 1
        programs[point] = programs[point] "\n" key
    }
    class = class_of_line()
    take(point SUBSEP class SUBSEP, key)
    if (class != "MIXED")
        take(point SUBSEP "MIXED" SUBSEP, key)
}
/^\{"instructions"/ {
    counted = counted $0 "\n"
}
BEGIN {
    n_extras = split("limit startup_ms rest_kib", extras, " ") # fields of collperf that have bars
    n_instead = split("reduce+broadcast reduce_scatter+all_gather all_reduce", instead, " ") # of the collective
}
# Append to a list what is not in it yet; its length is list[0].
function note(what, list)
{
    if (!((what, "noted") in seen))
        list[++list[0]] = what
    seen[what, "noted"] = 1
}
# What a line says, for all lines of a point and class together.
function take(base, key,    i)
{
    add(base key, field("time_us"))
    add(base "flag", field("flag_us"))
    if (field("library") != "tutti" || field("variant") != "default")
        return
    path[base key] = field("path")
    algorithm[base key] = field("algorithm")
    for (i = 1; i <= n_extras; i++)
        if (field(extras[i]) != "")
            add(base key SUBSEP extras[i], field(extras[i]))
}
function better(a, b)
{
    return a > 0 && (b == 0 || a < b) ? a : b
}
function peer_time(base, peer)
{
    return better(median(base peer SUBSEP "default" SUBSEP), median(base peer SUBSEP "bound" SUBSEP))
}
# In how many rounds every program of a point was measured in a class.
function rounds_of(point, class,    i, n, key, least)
{
    n = split(programs[point], key, "\n")
    least = count[point, class, key[2]] + 0
    for (i = 3; i <= n; i++)
        if (count[point, class, key[i]] + 0 < least)
            least = count[point, class, key[i]] + 0
    return least
}
function number(name, us)
{
    return us > 0 ? sprintf(us < 1000 ? ", \"%s\": %.4g" : ", \"%s\": %.0f", name, us) : ""
}
function print_line(point, class, memory,    base, own, key, openmpi, mpich, peer, p, i, name)
{
    split(point, p, " ")
    base = point SUBSEP class SUBSEP
    key = base "tutti" SUBSEP "default" SUBSEP memory
    own = median(key)
    openmpi = peer_time(base, "openmpi")
    mpich = peer_time(base, "mpich")
    peer = better(openmpi, mpich)
    printf "{\"mode\": \"%s\", \"collective\": \"%s\", \"ranks\": %d, \"size\": %.0f, \"memory\": \"%s\", " \
        "\"class\": \"%s\", \"rounds\": %d", p[1], p[2], p[3], p[4], memory, class, rounds_of(point, class)
    printf "%s%s%s%s", number("tutti_us", own), number("openmpi_us", openmpi), number("mpich_us", mpich),
        number("ratio", own > 0 ? peer / own : 0)
    printf "%s%s", number("off_us", median(base "tutti" SUBSEP "fused_off" SUBSEP memory)),
        number("threads_us", median(base "tutti" SUBSEP "threads" SUBSEP memory))
    for (i = 1; i <= n_instead; i++) {
        name = instead[i] "_us"
        sub(/\+/, "_", name)
        printf "%s", number(name, median(base "tutti" SUBSEP instead[i] SUBSEP memory))
    }
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
        printf "%s%s:%.4g:%.4g", (i == 1 ? "" : " "), step[i], median(group SUBSEP step[i]),
            median(group SUBSEP step[i] SUBSEP "limit")
    printf "\"}\n"
}
END {
    print header
    n = split("NEAR FAR SHARED MIXED", classes, " ")
    for (i = 1; i <= points[0]; i++) {
        clean = 0
        for (j = 1; j <= n; j++) {
            if (rounds_of(points[i], classes[j]) == 0 || (classes[j] == "MIXED" && clean))
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
