# SPDX-License-Identifier: BSD-3-Clause
# bench_json.awk: what the others share: a field of a JSON line, a median, and how a time is written.

# Of a line that collperf, bench_mpi or bench_sum.awk wrote; "" where it is not there or not known.
function field(name,    value)
{
    if (!match($0, "\"" name "\": (\"[^\"]*\"|[^,}]*)"))
        return ""
    value = substr($0, RSTART, RLENGTH)
    sub(/^[^:]*: /, "", value)
    gsub(/"/, "", value)
    return value == "null" ? "" : value
}

function add(key, what)
{
    value[key, ++count[key]] = what + 0
}

# Of what was added for the key; 0 if nothing was.
function median(key,    i, j, n, t, v)
{
    n = count[key]
    if (n == 0)
        return 0
    for (i = 1; i <= n; i++) {
        t = value[key, i]
        for (j = i - 1; j > 0 && v[j] > t; j--)
            v[j + 1] = v[j]
        v[j + 1] = t
    }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

function microseconds(us)
{
    us += 0
    return us > 0 ? sprintf(us < 10 ? "%.3f" : us < 1000 ? "%.1f" : "%.0f", us) : "-"
}
