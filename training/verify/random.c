/* SPDX-License-Identifier: BSD-3-Clause */
/* random.c: option sets that nobody chose, legal and illegal, from a seed.
 *
 * The list of cases.c has what its authors thought of. Here each option is drawn by itself, so that sets come
 * up that make no sense together: each must be refused with a reason, or be equal. A set that the checks of
 * the tapes refuse is neither: then lowering wrote what it must not. */
#include "training/verify/verify.h"

#include "training/data/data.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a hundred sets so many have the option; its values stand with blanks between, "" for a flag. */
static const struct drawn {
    const char *name;
    int percent;
    const char *values;
} drawn[] = {
    { "model", 35, "gpt:nano8 mlp:nano cnn:nano moe:nano llama:nano llama:nano" },
    { "layers", 8, "1 2 3 5" },
    { "channels", 3, "128 100" },
    { "heads", 4, "1 2 8 3" },
    { "kv-heads", 4, "1 2 4 3" },
    { "hidden", 3, "64 320 100" },
    { "context", 5, "8 16 32 20" },
    { "inputs", 2, "7 32" },
    { "experts", 2, "1 4 6 16" },
    { "top-k", 2, "1 3 8" },
    { "capacity-factor", 8, "0.5 1 1 2" },
    { "aux-loss", 6, "0.01 0.1" },
    { "vocabulary", 8, "10 65 256 257" },
    { "untied", 5, "" },
    { "dropout", 8, "0.1 0.1 0.5 1" },
    { "batch", 15, "4 8 8 16 7" },
    { "optimizer", 50, "sgd" },
    { "rate-schedule", 6, "linear cosine" },
    { "warmup", 6, "1 2 5" },
    { "clip", 15, "0.01 100 0" },
    { "dp", 55, "2 2 2 2 4 4 8 6" },
    { "ep", 12, "2 2 2 4 8 3" },
    { "dp-reduce", 10, "root sharded ring" },
    { "bucket", 10, "10K 64K 1M" },
    { "overlap", 25, "" },
    { "tp", 35, "2 2 2 4 4 8 3" },
    { "sp", 20, "" },
    { "cp", 25, "2 2 2 4 4 8 3" },
    { "cp-attention", 15, "gather ulysses ring ring ulysses+ring scores local" },
    { "cp-map", 12, "zigzag striped" },
    { "cnn-cut", 10, "rows columns" },
    { "conv-split", 15, "filters channels" },
    { "norm", 20, "group" },
    { "norm-groups", 6, "1 4 16 24" },
    { "grid", 3, "16 12" },
    { "pp", 35, "2 2 2 2 4 4 8 3" },
    { "chunks", 4, "2 3" },
    { "micro", 50, "1 2 2 2 4 4 8 3" },
    { "schedule", 30, "naive gpipe 1f1b interleaved zb-h1 zb-h2 dualpipev" },
    { "async", 6, "stash two newest" },
    { "zero", 35, "1 1 2 2 3 3 3 4" },
    { "zero3-keep", 4, "" },
    { "zero3-prefetch", 4, "1 2 7" },
    { "zero3-persist", 4, "200 5000" },
    { "recompute", 25, "gelu selective full" },
    { "wgrad", 8, "hold regather regather" },
    { "offload", 20, "optimizer activations both" },
    { "offload-delay", 8, "1 1 2" },
    { "recompute-comm", 4, "save redo" },
    { "precision", 15, "bfloat16" },
    { "rounding", 4, "stochastic" },
    { "servers", 8, "1 1 2 2 3" },
};

static void pick(char *to, size_t room, const char *values, uint64_t *state)
{
    int n = 1;
    for (const char *p = values; *p; p++)
        n += *p == ' ';
    for (n = (int)(tr_next(state) % (uint64_t)n); n > 0; values++)
        n -= *values == ' ';
    snprintf(to, room, "%.*s", (int)strcspn(values, " "), values);
}

void tr_verify_draw(struct tr_verify_case *c, uint64_t *state)
{
    size_t used = 0;
    *c = (struct tr_verify_case){ .steps = 3 };
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
        char value[32];
        if (tr_next(state) % 100 >= (uint64_t)drawn[i].percent)
            continue;
        pick(value, sizeof value, drawn[i].values, state);
        int length = snprintf(c->options + used, sizeof c->options - used, "%s--%s%s%s", used ? " " : "",
            drawn[i].name, *value ? " " : "", value);
        if (used + (size_t)length >= sizeof c->options) {
            c->options[used] = 0; /* full; what is there is a set, too */
            return;
        }
        used += (size_t)length;
    }
}
