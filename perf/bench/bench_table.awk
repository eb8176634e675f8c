# SPDX-License-Identifier: BSD-3-Clause
# bench_table.awk: what bench_sum.awk made, as a table for people; a ratio above 1 says how many times faster
# Tutti is than the better peer.
#
# usage: awk -f bench_json.awk -f bench_table.awk SUMS
function ratio(text)
{
    return text == "" ? "-" : sprintf("%.2fx%s", text, text + 0 < 1 ? " LOSS" : "")
}
BEGIN {
    printf "%-18s %5s %9s | %21s | %23s | %23s |\n", "", "", "", "peers, us",
        "Tutti, us", "Tutti is faster by"
    printf "%-18s %5s %9s | %10s %10s | %11s %11s | %11s %11s | %s\n", "collective", "ranks", "bytes",
        "Open MPI", "MPICH", "malloc", "registered", "malloc", "registered", "flag us, class, rounds"
}
/^\{"mode"/ && field("memory") == "malloc" {
    own = field("tutti_us")
    own_ratio = field("ratio")
}
/^\{"mode"/ && field("memory") == "registered" {
    name = field("collective") (field("mode") == "dirty" ? " dirty" : "")
    printf "%-18s %5s %9s | %10s %10s | %11s %11s | %11s %11s | %.3f %s %s\n", name,
        field("ranks"), field("size"), microseconds(field("openmpi_us")), microseconds(field("mpich_us")),
        microseconds(own), microseconds(field("tutti_us")), ratio(own_ratio), ratio(field("ratio")),
        field("flag_us"), field("class"), field("rounds")
}
