# SPDX-License-Identifier: BSD-3-Clause
# installed.awk: a document as it is installed, where all lie in one folder and the sources are not there.
#
# usage: awk -v there="README.md docs/tutorial.md .." -v folder=docs/ -f installed.awk docs/FILE.md
#
# A link to what is there leads to it; one to another file of the sources becomes its text and the file's name.
BEGIN {
    count = split(there, paths)
    for (i = 1; i <= count; i++)
        installed[paths[i]] = 1
}

function relink(text, target,    path, part)
{
    if (target ~ /^(#|[a-z]+:)/)
        return "[" text "](" target ")"
    path = target
    if (!sub(/^\.\.\//, "", path))
        path = folder path
    part = match(path, /#.*/) ? substr(path, RSTART) : ""
    sub(/\/?(#.*)?$/, "", path)
    if (!(path in installed))
        return (text == path ? text " (" : text " (" path " ") "of the sources)"
    sub(/.*\//, "", path)
    return "[" text "](" path part ")"
}

/^```/ {
    fenced = !fenced
}
{
    done = ""
    rest = $0
    while (!fenced && match(rest, /\[[^][]*\]\([^() ]*\)/)) {
        link = substr(rest, RSTART + 1, RLENGTH - 2)
        done = done substr(rest, 1, RSTART - 1)
        rest = substr(rest, RSTART + RLENGTH)
        at = index(link, "](")
        done = done relink(substr(link, 1, at - 1), substr(link, at + 2))
    }
    print done rest
}
