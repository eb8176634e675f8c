/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest.c: names are compared by their common beginning and end, which one wrong, missing or added letter
 * leaves long. */
#include "suggest.h"

#include <ctype.h>
#include <string.h>

enum { WORD_BYTES = 64 };

static const struct {
    char letter;
    const char *name, *instead;
} foreign[] = {
    { 'a', "average", "times are of the slowest rank, as nccl-tests' -a 3; --json has no other either" },
    { 'm', "agg_iters", "-G N binds N calls and starts them as one" },
    { 'p', "parallel_init", "ranks always begin at once" },
    { 'F', "output_file", "--csv --output FILE" },
    { 'J', "output_json", "--json --output FILE" },
    { 'N', "run_cycles", "-n N is the number of calls in the timed loop" },
    { 'R', "local_register", "--memory registered" },
    { 'T', "timeout", "--timeout MS, in milliseconds" },
    { 0, "nthreads", "-t/--threads N" },
    { 0, "ngpus", "-g/--ranks N" },
    { 0, "cudagraph", "-G/--program N" },
};

static void plain(const char *name, char word[WORD_BYTES])
{
    size_t length = 0;
    for (; *name != 0 && length < WORD_BYTES - 1; name++)
        if (*name != '_' && *name != '-')
            word[length++] = (char)tolower((unsigned char)*name);
    if (length > 4 && strncmp(word + length - 4, "perf", 4) == 0)
        length -= 4;
    word[length] = 0;
}

int perf_similarity(const char *one, const char *other)
{
    char a[WORD_BYTES], b[WORD_BYTES];
    plain(one, a);
    plain(other, b);
    size_t na = strlen(a), nb = strlen(b), most = na > nb ? na : nb, least = na < nb ? na : nb;
    size_t head = 0, tail = 0;
    while (head < least && a[head] == b[head])
        head++;
    while (tail < least - head && a[na - 1 - tail] == b[nb - 1 - tail])
        tail++;
    return most == 0 ? 0 : (int)(100 * (head + tail) / most);
}

const char *perf_suggest_flag(int letter, const char *name)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (letter != 0 ? foreign[i].letter == letter : strcmp(foreign[i].name, name) == 0)
            return foreign[i].instead;
    return NULL;
}
