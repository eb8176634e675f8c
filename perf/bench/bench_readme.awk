# SPDX-License-Identifier: BSD-3-Clause
# bench_readme.awk: the medians of a run as a small table for README, or as all tables for perf/results.
#
# usage: awk -v form=small|full -f bench_json.awk -f bench_readme.awk SUMS
#
# Small is what somebody looks for who has never seen Tutti: five collectives, five sizes, ranks that have a
# core each (near each other) and ranks that share cores. Full is a table of each class.
function size_name(bytes)
{
    bytes += 0
    return bytes < 1024 ? bytes " B" : bytes < 1048576 ? bytes / 1024 " KiB" : bytes / 1048576 " MiB"
}
function number(text)
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
    print "with malloc'ed memory / with memory of `tutti_mem_alloc`; below 1 it is slower."
    if (form != "full")
        print "Two ranks stand on neighbouring cores; 8 share them. perf/results has cores that are far apart, and more collectives."
    if (form == "full") {
        print "NEAR and FAR: how far the cores were apart, which changes by itself on a virtual machine;"
        print "SHARED: more ranks than cores. - was not measured in the class."
    }
    cores = field("cores")
}
/^\{"mode": "steady"/ && field("class") ~ /^(NEAR|FAR|SHARED)$/ && field("collective") !~ /_v$/ {
    table = field("ranks") SUBSEP field("class")
    list("tables", table)
    list("sizes", field("size"))
    list("collectives", field("collective"))
    ratio[table, field("collective"), field("size"), field("memory")] = field("ratio")
}
function cell(table, collective, size,    key)
{
    key = table SUBSEP collective SUBSEP size SUBSEP
    if (ratio[key "malloc"] ratio[key "registered"] == "")
        return "-"
    return number(ratio[key "malloc"]) " / " number(ratio[key "registered"])
}
function print_row(name, table, collective, sizes,    s, n, size, row, known)
{
    n = split(sizes, size, " ")
    for (s = 1; s <= n; s++) {
        known = known || cell(table, collective, size[s]) != "-"
        row = row " " cell(table, collective, size[s]) " |"
    }
    if (known)
        printf "| %s |%s\n", name, row
}
function print_head(name, sizes,    s, n, size)
{
    n = split(sizes, size, " ")
    printf "\n| %s |", name
    for (s = 1; s <= n; s++)
        printf " %s |", size_name(size[s])
    printf "\n|---|"
    for (s = 1; s <= n; s++)
        printf "---|"
    printf "\n"
}
function print_full(    t, s, c, table, part, sizes)
{
    for (s = 1; s <= length_of["sizes"]; s++)
        sizes = sizes " " names["sizes", s]
    for (t = 1; t <= length_of["tables"]; t++) {
        table = names["tables", t]
        split(table, part, SUBSEP)
        print_head(part[1] " ranks, " part[2], sizes)
        for (c = 1; c <= length_of["collectives"]; c++)
            print_row(names["collectives", c], table, names["collectives", c], sizes)
    }
}
function print_small(    t, c, n, table, part, chosen)
{
    n = split("all_reduce reduce_scatter all_gather broadcast sendrecv", chosen, " ")
    print_head(cores " cores", "8 4096 65536 8388608 67108864")
    for (c = 1; c <= n; c++)
        for (t = 1; t <= length_of["tables"]; t++) {
            table = names["tables", t]
            split(table, part, SUBSEP)
            if (part[2] != "FAR")
                print_row(chosen[c] ", " part[1] " ranks", table, chosen[c], "8 4096 65536 8388608 67108864")
        }
}
END {
    if (form == "full")
        print_full()
    else
        print_small()
}
