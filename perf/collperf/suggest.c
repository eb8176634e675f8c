/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest.c: names are compared by their common beginning and end, which one wrong, missing or added letter
 * leaves long. The flags are those of nccl-tests 2.19 and of OSU's benchmarks 7.4. */
#include "suggest.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { WORD_BYTES = 64 };

/* Names of elsewhere that no spelling leads to, as `plain` writes them. */
static const struct {
    const char *word, *name;
} elsewhere[] = {
    { "bcast", "broadcast" },
    { "reducescatterblock", "reduce_scatter" },
    { "reducescattertensor", "reduce_scatter" },
    { "allgatherintotensor", "all_gather" },
    { "alltoallsingle", "all_to_all" },
    { "i8", "int8" },
    { "int8t", "int8" },
    { "u8", "uint8" },
    { "ubyte", "uint8" },
    { "uint8t", "uint8" },
    { "i32", "int32" },
    { "intc", "int32" },
    { "int32t", "int32" },
    { "u32", "uint32" },
    { "uintc", "uint32" },
    { "uint32t", "uint32" },
    { "unsigned", "uint32" },
    { "i64", "int64" },
    { "int64t", "int64" },
    { "longlong", "int64" },
    { "u64", "uint64" },
    { "uint64t", "uint64" },
    { "ulonglong", "uint64" },
    { "unsignedlong", "uint64" },
    { "f16", "half" },
    { "fp16", "half" },
    { "f32", "float" },
    { "fp32", "float" },
    { "single", "float" },
    { "f64", "double" },
    { "fp64", "double" },
    { "e4m3", "f8e4m3" },
    { "fp8e4m3", "f8e4m3" },
    { "float8e4m3fn", "f8e4m3" },
    { "e5m2", "f8e5m2" },
    { "fp8e5m2", "f8e5m2" },
    { "product", "prod" },
    { "average", "avg" },
    { "mean", "avg" },
    { "bitand", "band" },
    { "bitor", "bor" },
    { "bitxor", "bxor" },
    { "premulsum", "mulsum" },
};

#define NO_CTAS "nothing runs in CTAs here; --algo NAME forces an algorithm"

/* A letter that means one thing in one suite and another in the other has two rows. */
static const struct {
    char letter;
    bool osu;
    const char *name, *instead;
} foreign[] = {
    { 'a', false, "average",
        "times are of the slowest rank, as nccl-tests' -a 3; --json has no other either" },
    { 'C', false, "report_cputime", "times are what passes on the clock, with -z 0 as well" },
    { 'D', false, "device_implementation", "--algo NAME forces an algorithm; kernels are not chosen" },
    { 'F', false, "output_file", "--csv --output FILE" },
    { 'I', false, "per_iter_timing", "each row has median and p99 of its calls" },
    { 'J', false, "output_file", "--json --output FILE" },
    { 'K', false, "per_iter_skip", "-w N calls go before the timed ones" },
    { 'M', false, "memory", "the first and last lines tell what a rank holds; --json has rest_kib" },
    { 'N', false, "run_cycles", "-n N is the number of calls in the timed loop" },
    { 'R', false, "local_register", "--memory registered" },
    { 'S', false, "report_timestamps",
        "the first lines have the date, as has each line of --json and --csv" },
    { 'T', false, "timeout", "--timeout MS, in milliseconds" },
    { 'V', false, "device_cta_count", NO_CTAS },
    { 'm', false, "agg_iters", "-G N binds N calls and starts them as one" },
    { 'p', false, "parallel_init", "ranks always begin at once" },
    { 'u', false, "unalign", "buffers are always aligned" },
    { 'x', false, "cta_policy", NO_CTAS },
    { 'y', false, "stream_null", "calls block, or are on a stream of their own with -z 0" },
    { 'D', true, "ddt", "-d TYPE; elements lie one behind another" },
    { 'M', true, "mem-limit", "-e SIZE bounds what is needed" },
    { 'T', true, "type", "-d TYPE" },
    { 'k', true, "root-rank", "-r RANK, or -r all" },
    { 'l', true, "in-place", "each row has the times out of place and in place" },
    { 'm', true, "message-size", "-b MIN -e MAX" },
    { 'u', true, "validation-warmup", "-w N" },
    { 'x', true, "warmup", "-w N" },
    { 0, true, "accelerator", "--memory device, or managed" },
    { 0, true, "full", "--json has all that is measured" },
    { 0, true, "iterations", "-n N" },
    { 0, true, "tail-lat", "each row has median and p99" },
    { 0, true, "validation", "-c N; one call of each row is checked without it" },
};

static bool drop_prefix(char *word, const char *prefix)
{
    size_t length = strlen(prefix);
    if (strncmp(word, prefix, length) != 0 || word[length] == 0)
        return false;
    memmove(word, word + length, strlen(word + length) + 1);
    return true;
}

static void drop_suffix(char *word, const char *suffix)
{
    size_t length = strlen(word), drop = strlen(suffix);
    if (length > drop && strcmp(word + length - drop, suffix) == 0)
        word[length - drop] = 0;
}

static void plain(const char *name, char word[WORD_BYTES])
{
    size_t length = 0;
    for (; *name != 0 && length < WORD_BYTES - 1; name++)
        if (*name != '_' && *name != '-')
            word[length++] = (char)tolower((unsigned char)*name);
    word[length] = 0;
    (void)(drop_prefix(word, "nccl") || drop_prefix(word, "mpi") || drop_prefix(word, "osu") ||
           drop_prefix(word, "tutti"));
    drop_suffix(word, "mpi");
    drop_suffix(word, "perf");
}

bool perf_names_same(const char *word, const char *name)
{
    char a[WORD_BYTES], b[WORD_BYTES];
    plain(word, a);
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (strcmp(a, elsewhere[i].word) == 0)
            return strcmp(elsewhere[i].name, name) == 0;
    plain(name, b);
    return strcmp(a, b) == 0;
}

bool perf_is_of_osu(const char *word)
{
    return strncmp(word, "osu_", 4) == 0;
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

struct perf_instead perf_suggest_flag(int letter, const char *name)
{
    struct perf_instead instead = { NULL, NULL };
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        if (letter != 0 ? foreign[i].letter != letter : strcmp(foreign[i].name, name) != 0)
            continue;
        *(foreign[i].osu ? &instead.of_osu : &instead.of_nccl) = foreign[i].instead;
    }
    return instead;
}
