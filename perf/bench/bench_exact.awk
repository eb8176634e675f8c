# SPDX-License-Identifier: BSD-3-Clause
# bench_exact.awk: medians of what bench_exact.sh measured, default beside exact.
#
# usage: awk -f bench_json.awk -f bench_exact.awk LINES
field("in_place") == "false" {
    point = field("ranks") SUBSEP field("type") SUBSEP field("bytes")
    add(point SUBSEP field("exact"), field("time_us"))
    if (!(point in seen))
        points[++n_points] = point
    seen[point] = 1
}
END {
    printf "%5s %9s %9s | %11s %11s | %s\n", "ranks", "type", "bytes", "default us", "exact us",
        "exact / default"
    for (i = 1; i <= n_points; i++) {
        split(points[i], p, SUBSEP)
        plain = median(points[i] SUBSEP "false")
        exact = median(points[i] SUBSEP "true")
        ratio = plain > 0 ? sprintf("%.2f", exact / plain) : "-"
        printf "%5s %9s %9s | %11.1f %11.1f | %s\n", p[1], p[2], p[3], plain, exact, ratio
    }
}
