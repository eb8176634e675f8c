# SPDX-License-Identifier: BSD-3-Clause
# bench_bars.awk: a verdict for each bar and guideline: met, missed by how much, or not measured in a class.
#
# usage: awk -f bench_json.awk -f bench_bars.awk bars.txt SUMS
#        with -v list=1: only the points (mode, collective, ranks, size) that miss a bar or break a guideline
#
# Guidelines are what a program may expect of any library: all_reduce is no slower than reduce and broadcast,
# or reduce_scatter and all_gather, called after each other; a barrier no slower than an all_reduce of 8
# bytes; and twice the bytes take neither three times as long nor less than two thirds of the time. Where the
# caches end, what the machine allows (%limit of collperf) grows faster than the bytes; there the time may
# grow 1.5 times as fast as that. Medians of a shared machine are granted 5 percent.
BEGIN {
    slack = 1.05
    twice = "twice the bytes take at most 3 times as long, or 1.5 times what the limit grows"
    n_classes = split("NEAR FAR SHARED", classes, " ")
}
function bytes_of(text)
{
    return text * (text ~ /K$/ ? 1024 : text ~ /M$/ ? 1048576 : 1)
}
function is_in(asked, given)
{
    return asked == "any" || asked == given
}
FNR == NR {
    if (/^#/ || NF != 8)
        next
    bars++
    text[bars] = $0
    what[bars] = $1
    collective[bars] = $2
    ranks[bars] = $3
    from[bars] = bytes_of($4)
    to[bars] = bytes_of($5)
    memory[bars] = $6
    bar[bars, "NEAR"] = bar[bars, "SHARED"] = $7
    bar[bars, "FAR"] = $8
    next
}
function fits(i)
{
    return is_in(collective[i], field("collective")) && is_in(ranks[i], field("ranks")) &&
        is_in(memory[i], field("memory")) && field("size") + 0 >= from[i] && field("size") + 0 <= to[i]
}
# The row has `got` for a judgement, by these settings: note it at its bar, the worst in front.
function judge(judgement, got, settings,    i, class, how)
{
    class = field("class")
    if (got + 0 == 0)
        return
    for (i = 1; i <= bars; i++) {
        if (what[i] != judgement || !fits(i))
            continue
        how = (judgement ~ /^(off|startup|rest)$/ ? bar[i, class] / got : got / bar[i, class])
        rows[i, class]++
        missed[i, class] += how < 1
        if (how < 1)
            again[field("mode") " " field("collective") " " field("ranks") " " field("size")] = 1
        if (!((i, class) in worst) || how < worst[i, class]) {
            worst[i, class] = how
            shown[i, class] = sprintf("%.4g at %s %s %s%s", got, field("collective"), field("size"),
                field("memory"), settings)
        }
        return
    }
}
/^\{"mode"/ && field("class") ~ /^(NEAR|FAR|SHARED)$/ {
    if (field("mode") == "dirty") {
        judge("dirty", field("ratio"))
        next
    }
    own = field("tutti_us") + 0
    judge("faster", field("ratio"))
    judge("limit", field("limit"))
    judge("startup", field("startup_ms"))
    judge("rest", field("rest_kib"))
    judge("threads", field("threads_us") + 0 > 0 ? own / field("threads_us") : 0)
    judge("off", field("off_us") + 0 > 0 ? field("off_us") / own : 0)
    if (field("size") + 0 >= 1048576 && field("off_us") + 0 > 0) # where the bars are to hold without it, too
        judge("faster", field("ratio") * own / field("off_us"), " TUTTI_FUSED=off")
    where = field("ranks") " ranks, " field("size") " B, " field("memory") ", " field("class")
    if (field("collective") == "all_reduce") {
        compare("all_reduce <= reduce + broadcast", own, field("reduce_broadcast_us") + 0, where)
        compare("all_reduce <= reduce_scatter + all_gather", own, field("reduce_scatter_all_gather_us") + 0,
            where)
    }
    if (field("collective") == "barrier")
        compare("barrier <= all_reduce of 8 bytes", own, field("all_reduce_us") + 0, where)
}
# `whole` must take no longer than the parts together.
function compare(name, whole, parts, where)
{
    if (whole == 0 || parts == 0)
        return
    guided[name]++
    if (whole <= slack * parts)
        return
    broken[name] = broken[name] sprintf("\n    %.4g us instead of %.4g: %s", whole, parts, where)
    if (field("ladder") != "")
        again["ladder " field("ladder") " 2 0"] = 1
    else
        again[field("mode") " " field("collective") " " field("ranks") " " field("size")] = 1
}
# How many times as long twice the bytes may take, by what the machine allows.
function most_for(limit, limit_before,    grows)
{
    grows = limit_before > 0 ? limit / limit_before : 0
    return grows > 2 ? 1.5 * grows : 3
}
/^\{"ladder"/ && field("class") ~ /^(NEAR|FAR|SHARED)$/ {
    where = field("ladder") ", " field("memory") ", " field("class")
    n = split(field("us"), step, " ")
    for (i = 1; i <= n; i++) {
        split(step[i], at, ":")
        if (i > 1 && at[1] == 2 * size) {
            most = most_for(at[3], limit) * us
            compare(twice, at[2], most, where ", " at[1] " B")
            if (at[2] > slack * 3 * us && at[2] <= slack * most)
                steep = steep sprintf("\n    %.4g us, not %.4g: %s; the machine's limit grows %.2g times",
                    at[2], 3 * us, where ", " at[1] " B", at[3] / limit)
            compare("half the bytes take at most 1.5 times as long", us, 1.5 * at[2], where ", " size " B")
        }
        size = at[1]
        us = at[2]
        limit = at[3]
    }
}
/^\{"instructions"/ && !list {
    printf "# Instructions of one %s of %s bytes, %s ranks%s: %s\n", field("collective"), field("size"),
        field("ranks"), field("fused") == "off" ? ", TUTTI_FUSED=off" : "", field("instructions")
}
function verdict(i, class)
{
    if (!((i, class) in rows))
        return "not measured"
    if (missed[i, class] == 0)
        return "met: " shown[i, class]
    return sprintf("MISSED in %d of %d: %s, %.0f%%", missed[i, class], rows[i, class], shown[i, class],
        100 * worst[i, class])
}
END {
    if (list) {
        for (point in again)
            print point
        exit
    }
    print "# Bars (perf/bench/bars.txt); the worst row of each, and how much of the bar it reaches"
    for (i = 1; i <= bars; i++) {
        printf "%s\n", text[i]
        for (c = 1; c <= n_classes; c++)
            if (classes[c] != "SHARED" || (i, classes[c]) in rows)
                printf "    %-6s %s\n", classes[c], verdict(i, classes[c])
    }
    print "# Guidelines, with 5 percent for noise"
    for (name in guided)
        printf "%s: %s\n", name, (name in broken ? "BROKEN" broken[name] : "kept in all " guided[name])
    if (steep != "")
        print "More than 3 times as long, where the machine's limit grows as fast:" steep
}
