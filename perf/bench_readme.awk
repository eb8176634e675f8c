# SPDX-License-Identifier: BSD-3-Clause
# bench_readme.awk: the medians of a run as README's tables.
#
# usage: awk -f bench_json.awk -f bench_readme.awk SUMS
function size_name(bytes)
{
    bytes += 0
    return bytes < 1024 ? bytes " B" : bytes < 1048576 ? bytes / 1024 " KiB" : bytes / 1048576 " MiB"
}
function cell(text)
{
    if (text == "")
        return "-"
    return sprintf(text + 0 < 0.995 ? "**%.2f**" : text + 0 < 9.95 ? "%.1f" : "%.0f", text)
}
function list(what, key)
{
    if (!((what, key) in seen))
        names[what, ++length_of[what]] = key
    seen[what, key] = 1
}
/^\{"command"/ {
    printf "Measured %s on %s, beside Open MPI %s and MPICH %s, each at the better of\n", field("date"),
        field("machine"), field("openmpi"), field("mpich")
    print "its default and of bound to cores, as Tutti is. A cell says how many times faster Tutti is than the better:"
    print "with malloc'ed memory / with memory of `tutti_mem_alloc`; below 1 it is slower. NEAR and FAR: how"
    print "far the cores were apart, which changes by itself on a virtual machine; SHARED: more ranks than"
    print "cores. - was not measured in the class."
}
/^\{"mode": "steady"/ && field("class") ~ /^(NEAR|FAR|SHARED)$/ && field("collective") !~ /_v$/ {
    table = field("ranks") SUBSEP field("class")
    list("tables", table)
    list("sizes", field("size"))
    list("collectives", field("collective"))
    ratio[table, field("collective"), field("size"), field("memory")] = field("ratio")
}
function print_row(table, collective,    s, key, row, known)
{
    for (s = 1; s <= length_of["sizes"]; s++) {
        key = table SUBSEP collective SUBSEP names["sizes", s] SUBSEP
        if (ratio[key "malloc"] ratio[key "registered"] == "") {
            row = row " - |"
            continue
        }
        known = 1
        row = row " " cell(ratio[key "malloc"]) " / " cell(ratio[key "registered"]) " |"
    }
    if (known)
        printf "| %s |%s\n", collective, row
}
END {
    for (t = 1; t <= length_of["tables"]; t++) {
        table = names["tables", t]
        split(table, part, SUBSEP)
        printf "\n| %d ranks, %s |", part[1], part[2]
        for (s = 1; s <= length_of["sizes"]; s++)
            printf " %s |", size_name(names["sizes", s])
        printf "\n|---|"
        for (s = 1; s <= length_of["sizes"]; s++)
            printf "---|"
        printf "\n"
        for (c = 1; c <= length_of["collectives"]; c++)
            print_row(table, names["collectives", c])
    }
}
