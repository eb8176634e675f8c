/* SPDX-License-Identifier: BSD-3-Clause */
/* cases.c: the configurations that verify runs: a list that has every pair of options, and all legal
 * products. */
#include "training/commands/verify.h"

#include "training/error.h"

#include <stdio.h>
#include <string.h>

#define NANO8 "--model gpt:nano8 "
#define MLP "--model mlp:nano "
#define CNN "--model cnn:nano "

/* Those that have all paradigms run long, too: AdamW hides a factor, SGD does not. */
static const char *const long_runs[] = {
    "",
    "--dp 8",
    "--tp 4 --sp",
    "--pp 4 --micro 8",
    "--pp 2 --micro 4 --schedule zb-h1",
    "--dp 4 --zero 3 --micro 2",
    "--dp 2 --tp 2 --pp 2 --micro 4",
    "--dp 2 --tp 2 --pp 2 --micro 2 --sp --zero 1",
    "--dp 2 --tp 2 --pp 2 --micro 2 --sp --zero 2 --schedule gpipe",
    "--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 3 --schedule zb-h1",
    "--dp 2 --pp 2 --chunks 2 --micro 4 --schedule interleaved",
    NANO8 "--tp 8 --sp",
    "--cp 4 --micro 2",
    "--cp 2 --dp 2 --tp 2 --micro 2 --sp --zero 2",
    "--cp 4 --cp-attention ulysses --micro 2",
    "--cp 4 --cp-attention ring --micro 2",
    "--cp 4 --cp-map zigzag --cp-attention ring --micro 2",
    "--dp 4 --servers 2 --micro 2",
    MLP,
    MLP "--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 3 --schedule zb-h1",
    CNN,
    CNN "--dp 2 --tp 2 --pp 2 --micro 4 --zero 3 --schedule zb-h1",
};
/* Every pair of options is in some line. */
static const char *const quick[] = {
    "--micro 4",
    "--dp 2",
    "--dp 4 --micro 2",
    "--tp 2",
    "--tp 2 --sp --micro 2",
    "--pp 2 --schedule naive",
    "--pp 4 --micro 4 --schedule gpipe",
    "--pp 2 --micro 8",
    "--pp 2 --micro 4 --schedule zb-h1",
    "--pp 2 --chunks 2 --micro 4 --schedule interleaved",
    "--dp 2 --pp 2 --chunks 2 --micro 4 --schedule dualpipev --zero 1",
    "--pp 3 --micro 4 --balance auto",
    "--dp 2 --dp-reduce root",
    "--batch 24 --dp 6 --micro 2 --dp-reduce sharded --bucket 10K --overlap",
    "--dp 2 --micro 2 --bucket 64K",
    "--dp 4 --micro 2 --overlap",
    "--dp 2 --tp 2 --sp --pp 2 --micro 2 --dp-reduce sharded --bucket 100K --overlap",
    "--dp 2 --pp 2 --micro 4 --schedule zb-h1 --dp-reduce root --bucket 1M --overlap",
    "--dp 2 --micro 2 --zero 1 --overlap",
    "--dp 2 --tp 2 --micro 2 --zero 2 --overlap",
    "--dp 2 --micro 2 --zero 3 --zero3-prefetch 1 --overlap",
    "--dp 4 --servers 1",
    "--dp 2 --servers 2 --micro 2",
    "--dp 2 --zero 1",
    "--dp 2 --zero 2 --micro 2",
    "--dp 4 --zero 3 --micro 2",
    "--dp 2 --zero 3 --micro 2 --zero3-keep",
    "--dp 2 --tp 2 --zero 3 --zero3-prefetch 1 --zero3-persist 200",
    "--dp 2 --pp 2 --micro 4 --zero 3 --zero3-keep --zero3-prefetch 2 --schedule zb-h1",
    "--dp 2 --tp 2 --sp --zero 1 --micro 2",
    "--dp 2 --tp 2 --zero 2",
    "--dp 2 --tp 2 --sp --zero 3",
    "--dp 2 --pp 2 --micro 2 --zero 1 --schedule gpipe",
    "--dp 2 --pp 2 --micro 4 --zero 2 --schedule zb-h1",
    "--dp 2 --pp 2 --micro 2 --zero 3",
    "--tp 2 --pp 2 --micro 2 --schedule gpipe",
    "--tp 2 --sp --pp 2 --micro 4 --schedule zb-h1",
    "--tp 2 --pp 2 --chunks 2 --micro 2 --schedule interleaved",
    "--dp 2 --pp 2 --chunks 2 --micro 2 --schedule interleaved --zero 3",
    "--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 2",
    "--cp 2",
    "--cp 4 --micro 2",
    "--cp 8 --batch 4",
    "--cp 2 --dp 2 --micro 2 --overlap --bucket 64K",
    "--cp 2 --tp 2 --sp",
    "--cp 2 --tp 2 --dp 2 --micro 2 --zero 3 --sp",
    "--cp 2 --pp 2 --micro 4 --schedule zb-h1",
    "--cp 2 --pp 2 --chunks 2 --micro 2 --schedule interleaved",
    "--cp 2 --dp 2 --zero 1",
    "--cp 2 --dp 2 --micro 2 --zero 2",
    "--cp 4 --untied --vocabulary 257 --tp 2",
    "--cp 2 --cp-attention ring",
    "--cp 8 --cp-attention ring --batch 4",
    "--cp 4 --cp-attention ring --dp 2 --micro 2 --zero 2",
    "--cp 2 --cp-attention ring --tp 2 --sp --pp 2 --micro 2 --schedule zb-h1",
    "--cp 4 --cp-map zigzag --micro 2",
    "--cp 2 --cp-map zigzag --cp-attention ring --dp 2 --tp 2 --micro 2 --zero 2",
    "--cp 4 --cp-attention local --dp 2 --micro 2",
    "--cp 4 --cp-attention ulysses+ring --tp 2 --micro 2",
    "--cp 2 --cp-attention ulysses",
    "--cp 4 --cp-attention ulysses --dp 2 --micro 2 --zero 3",
    "--cp 2 --cp-attention ulysses --tp 2 --sp --pp 2 --micro 2 --schedule zb-h1",
    "--cp 2 --dp 2 --micro 2 --recompute selective",
    "--cp 2 --cp-attention ring --pp 2 --micro 2 --recompute full",
    "--untied --tp 2 --pp 2 --micro 2",
    "--untied --dp 2 --zero 3",
    "--vocabulary 257 --tp 4 --sp",
    "--vocabulary 257 --dp 2 --tp 2 --zero 1",
    "--vocabulary 300 --untied --tp 2 --pp 2 --micro 2 --sp",
    "--batch 12 --dp 3 --micro 2",
    "--batch 5 --tp 2",
    "--micro 2 --recompute gelu",
    "--pp 2 --micro 4 --schedule zb-h1 --recompute gelu",
    "--pp 2 --chunks 2 --micro 4 --schedule interleaved --recompute selective",
    "--dp 2 --tp 2 --sp --micro 2 --zero 2 --recompute selective",
    "--recompute full",
    "--tp 2 --recompute full --recompute-comm save",
    "--dp 2 --tp 2 --sp --micro 2 --overlap --recompute full",
    "--dp 2 --pp 2 --micro 4 --zero 3 --zero3-prefetch 1 --schedule zb-h1 --recompute full",
    "--micro 2 --offload both",
    "--dp 2 --pp 2 --micro 4 --zero 1 --schedule zb-h1 --recompute selective --offload both",
    "--dp 2 --tp 2 --sp --micro 2 --zero 3 --zero3-prefetch 1 --overlap --offload both",
    "--dp 2 --tp 2 --pp 2 --micro 2 --zero 2 --offload both --offload-delay 1",
    MLP "--micro 2",
    MLP "--dp 2 --zero 3 --micro 2",
    MLP "--tp 4 --sp --vocabulary 100",
    MLP "--layers 5 --tp 2 --dp 2 --sp",
    MLP "--tp 2 --pp 4 --micro 4",
    MLP "--cp 2 --tp 2 --sp --dp 2",
    MLP "--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 2 --schedule zb-h1",
    CNN "--micro 2",
    CNN "--dp 2 --zero 3 --micro 2",
    CNN "--tp 4 --vocabulary 16",
    CNN "--layers 3 --tp 2 --dp 2",
};
static const char *const more[] = {
    "--offload optimizer",
    "--offload activations",
    "--dp 2 --micro 2 --overlap --bucket 64K --offload both",
    "--dp 4 --zero 2 --micro 2 --offload optimizer",
    "--dp 2 --zero 3 --micro 2 --zero3-keep --zero3-persist 5000 --offload both",
    "--tp 2 --recompute full --offload activations",
    "--pp 4 --micro 8 --offload both",
    "--pp 2 --chunks 2 --micro 4 --schedule interleaved --offload both",
    "--cp 4 --cp-attention ring --micro 2 --zero 1 --dp 2 --offload both",
    "--vocabulary 257 --untied --tp 2 --pp 2 --micro 2 --recompute full --offload both",
    MLP "--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 2 --schedule zb-h1 --offload both",
    CNN "--dp 2 --zero 3 --micro 2 --offload both",
    "--offload optimizer --offload-delay 1",
    "--dp 4 --zero 3 --micro 2 --offload optimizer --offload-delay 1",
    MLP "--dp 2 --tp 2 --offload both --offload-delay 1",
    CNN "--dp 2 --zero 1 --offload optimizer --offload-delay 1",
    "--micro 2",
    "--micro 8",
    "--dp 2 --micro 2",
    "--dp 2 --micro 4",
    "--dp 4",
    "--tp 4",
    "--tp 4 --sp --micro 2",
    "--tp 2 --micro 8 --untied",
    "--pp 2 --micro 2",
    "--pp 4 --micro 4 --schedule naive",
    "--pp 4 --micro 8 --schedule zb-h1",
    "--pp 4 --micro 8",
    NANO8 "--pp 8 --micro 8",
    NANO8 "--pp 8 --micro 8 --schedule gpipe",
    NANO8 "--pp 8 --micro 8 --schedule zb-h1",
    NANO8 "--pp 4 --chunks 2 --micro 4 --schedule interleaved",
    NANO8 "--pp 2 --chunks 4 --micro 4 --schedule interleaved",
    NANO8 "--tp 8",
    NANO8 "--pp 4 --micro 8 --stage-layers 1,1,1,5",
    NANO8 "--pp 2 --chunks 2 --micro 4 --schedule dualpipev --stage-layers 1,2,3,2 --zero 1 --dp 2",
    NANO8 "--pp 2 --chunks 2 --micro 4 --schedule interleaved --stage-layers 4,1,2,1 --tp 2 --sp",
    "--vocabulary 1000 --pp 3 --micro 4 --balance auto --schedule zb-h1 --untied",
    MLP "--layers 5 --pp 3 --micro 4 --stage-layers 3,1,1 --recompute full",
    CNN "--layers 3 --pp 2 --micro 2 --balance auto --schedule gpipe",
    "--pp 2 --chunks 2 --micro 4 --schedule dualpipev",
    "--pp 2 --chunks 2 --micro 8 --schedule dualpipev --untied --recompute full",
    "--tp 2 --sp --pp 2 --chunks 2 --micro 4 --schedule dualpipev --overlap",
    "--dp 2 --pp 2 --chunks 2 --micro 4 --schedule dualpipev --zero 3 --zero3-prefetch 1",
    "--cp 2 --cp-attention ring --pp 2 --chunks 2 --micro 4 --schedule dualpipev",
    NANO8 "--pp 4 --chunks 2 --micro 8 --schedule dualpipev",
    MLP "--pp 2 --chunks 2 --micro 4 --schedule dualpipev",
    CNN "--pp 2 --chunks 2 --micro 4 --schedule dualpipev",
    NANO8 "--tp 4 --sp --pp 2 --micro 2",
    NANO8 "--tp 2 --pp 4 --micro 4 --schedule zb-h1",
    NANO8 "--dp 2 --pp 4 --micro 4 --zero 3 --schedule gpipe",
    "--dp 4 --zero 1 --micro 2",
    "--dp 8 --dp-reduce root --bucket 32K",
    "--dp 8 --dp-reduce sharded --overlap",
    "--dp 2 --tp 4 --vocabulary 257 --untied --bucket 1M --overlap",
    "--dp 2 --pp 2 --chunks 2 --micro 2 --schedule interleaved --bucket 64K --overlap",
    "--dp 4 --pp 2 --micro 2 --zero 3 --zero3-keep --overlap --schedule gpipe",
    "--dp 8 --zero 1",
    "--dp 8 --zero 2",
    "--dp 8 --zero 3",
    "--dp 4 --micro 2 --zero 3 --zero3-prefetch 4",
    "--dp 4 --tp 2 --sp --zero 3 --zero3-keep --zero3-persist 5000",
    "--dp 2 --micro 2 --zero 3 --zero3-persist 1000000",
    "--dp 2 --pp 2 --chunks 2 --micro 2 --schedule interleaved --zero 3 --zero3-keep --zero3-prefetch 1",
    "--dp 4 --tp 2 --zero 1 --sp",
    "--dp 4 --tp 2 --zero 2 --micro 2",
    "--dp 4 --tp 2 --zero 3 --sp --micro 2",
    "--dp 2 --tp 4 --sp --zero 3",
    "--dp 2 --tp 4",
    "--dp 4 --pp 2 --micro 2 --zero 1",
    "--dp 4 --pp 2 --micro 2 --zero 2 --schedule zb-h1",
    "--dp 4 --pp 2 --micro 2 --zero 3 --schedule gpipe",
    "--tp 4 --pp 2 --micro 8 --sp",
    "--tp 2 --pp 4 --micro 8 --schedule gpipe",
    "--dp 2 --tp 2 --pp 2 --micro 4 --schedule naive",
    "--dp 2 --tp 2 --pp 2 --chunks 2 --micro 2 --schedule interleaved --sp --zero 1",
    "--dp 2 --tp 2 --pp 2 --micro 2 --untied --vocabulary 257 --zero 3 --sp",
    "--cp 8 --micro 4",
    "--cp 4 --dp 2",
    "--cp 4 --tp 2 --sp --micro 2",
    "--cp 2 --tp 4 --sp",
    "--cp 4 --pp 2 --micro 2 --schedule gpipe",
    "--cp 4 --dp 2 --micro 2 --zero 3 --zero3-keep --zero3-prefetch 1",
    "--cp 2 --dp 4 --zero 1 --micro 2 --overlap",
    "--cp 2 --dp 2 --pp 2 --micro 4 --zero 2 --schedule gpipe",
    "--cp 2 --tp 2 --pp 2 --micro 2 --sp --schedule zb-h1",
    "--cp 2 --dp 2 --tp 2 --dp-reduce sharded --bucket 32K",
    "--context 72 --cp 8",
    "--cp 4 --cp-attention ring",
    "--cp 8 --cp-attention ring --context 72 --micro 2",
    "--cp 4 --cp-attention ring --tp 2 --sp --micro 2",
    "--cp 2 --cp-attention ring --tp 4 --untied",
    "--cp 4 --cp-attention ring --pp 2 --micro 4 --schedule gpipe",
    "--cp 2 --cp-attention ring --dp 2 --pp 2 --micro 4 --zero 3 --zero3-prefetch 1",
    "--cp 2 --cp-attention ring --dp 2 --zero 1 --overlap",
    "--cp 2 --cp-attention ring --pp 2 --chunks 2 --micro 2 --schedule interleaved",
    "--cp 2 --cp-attention ring --batch 5 --tp 2",
    "--cp 2 --cp-map zigzag --dp 2 --tp 2 --micro 2 --zero 3",
    "--cp 2 --cp-map zigzag --pp 2 --micro 4 --schedule zb-h1 --recompute full",
    "--cp 4 --cp-map zigzag --dp 2 --zero 1 --overlap --context 72",
    "--cp 2 --cp-map zigzag --batch 5 --untied --vocabulary 257",
    "--cp 4 --cp-map zigzag --cp-attention ring",
    "--cp 4 --cp-map zigzag --cp-attention ring --pp 2 --micro 4 --schedule gpipe",
    "--cp 2 --cp-map zigzag --cp-attention ring --pp 2 --chunks 2 --micro 2 --schedule interleaved",
    "--cp 2 --cp-map zigzag --cp-attention ring --batch 5 --tp 4 --recompute selective",
    MLP "--cp 4 --cp-map zigzag --dp 2 --micro 2",
    "--cp 8 --cp-attention local --batch 4",
    "--cp 8 --cp-attention ulysses+ring --cp-ulysses 4 --batch 4",
    "--cp 8 --cp-attention ulysses+ring --cp-ulysses 2 --micro 2 --context 72",
    "--cp 4 --cp-attention ulysses+ring --tp 2 --sp --micro 2 --untied --vocabulary 257",
    "--cp 4 --cp-attention ulysses+ring --dp 2 --micro 2 --zero 3",
    "--cp 4 --cp-attention ulysses+ring --pp 2 --micro 4 --schedule zb-h1 --recompute full",
    MLP "--cp 4 --cp-attention ulysses+ring --dp 2 --zero 1",
    "--cp 2 --cp-attention local --tp 2 --sp --pp 2 --micro 4 --schedule zb-h1 --recompute selective",
    "--cp 2 --cp-attention local --dp 2 --tp 2 --micro 2 --zero 3",
    NANO8 "--cp 8 --cp-attention ulysses",
    NANO8 "--cp 2 --tp 4 --sp --cp-attention ulysses --batch 4",
    "--cp 4 --cp-attention ulysses --micro 2",
    "--cp 2 --cp-attention ulysses --dp 2 --tp 2 --micro 2 --zero 2 --sp",
    "--cp 2 --cp-attention ulysses --dp 2 --zero 1 --overlap",
    "--cp 2 --cp-attention ulysses --pp 4 --micro 4 --schedule gpipe",
    "--cp 2 --cp-attention ulysses --pp 2 --chunks 2 --micro 2 --schedule interleaved",
    "--batch 6 --dp 3 --cp 2",
    "--batch 5 --cp 2 --tp 2 --sp",
    "--batch 24 --dp 6 --micro 2",
    "--batch 7 --pp 2 --schedule naive",
    MLP "--dp 8",
    "--dp 2 --micro 2 --zero 1 --recompute selective",
    "--dp 2 --pp 2 --micro 4 --zero 3 --schedule zb-h1 --recompute selective",
    "--tp 4 --pp 2 --micro 4 --schedule gpipe --recompute selective",
    "--tp 4 --sp --micro 2 --recompute full --recompute-comm save",
    "--dp 2 --tp 2 --sp --pp 2 --micro 2 --zero 3 --schedule zb-h1 --recompute full --recompute-comm save",
    MLP "--tp 2 --sp --recompute full --recompute-comm save",
    "--dp 4 --micro 2 --zero 1 --recompute full",
    "--dp 2 --tp 2 --zero 2 --micro 2 --recompute full",
    "--dp 2 --micro 2 --zero 3 --zero3-keep --recompute full",
    "--tp 4 --micro 2 --recompute full",
    "--tp 2 --sp --pp 2 --micro 4 --schedule zb-h1 --recompute full",
    "--pp 2 --micro 4 --schedule naive --recompute full",
    "--pp 4 --micro 4 --schedule gpipe --recompute full",
    "--pp 4 --micro 8 --recompute full",
    "--dp 2 --pp 2 --chunks 2 --micro 2 --schedule interleaved --zero 3 --recompute full",
    MLP "--tp 2 --pp 2 --micro 4 --schedule zb-h1 --recompute gelu",
    MLP "--dp 2 --tp 2 --sp --zero 3 --recompute full",
    "--dp 1 --servers 1",
    "--batch 28 --dp 7 --servers 1 --micro 2 --untied",
    "--dp 4 --servers 4 --vocabulary 257 --recompute full",
    MLP "--dp 4 --servers 2 --micro 2",
    CNN "--dp 2 --servers 1",
    MLP "--layers 5 --tp 2 --recompute full",
    MLP "--dp 2 --micro 4",
    MLP "--tp 2",
    MLP "--tp 8",
    MLP "--tp 8 --sp",
    MLP "--layers 1 --tp 4 --sp",
    MLP "--layers 3 --tp 4",
    MLP "--layers 5 --pp 5 --micro 4 --schedule naive",
    MLP "--layers 8 --pp 8 --micro 8 --schedule gpipe",
    MLP "--layers 8 --pp 4 --chunks 2 --micro 4 --schedule interleaved",
    MLP "--layers 3 --tp 2 --pp 3 --micro 4 --sp --schedule zb-h1",
    MLP "--pp 4 --micro 8 --schedule zb-h1",
    MLP "--pp 2 --micro 4",
    MLP "--cp 8",
    MLP "--cp 4 --pp 2 --micro 2",
    MLP "--cp 2 --dp 2 --zero 3 --micro 2",
    MLP "--dp 4 --zero 1 --micro 2",
    MLP "--dp 4 --zero 2 --micro 2",
    MLP "--dp 8 --zero 3",
    MLP "--dp 2 --tp 4 --sp --zero 1 --micro 2",
    MLP "--dp 4 --tp 2 --zero 2 --inputs 7",
    MLP "--dp 2 --tp 2 --sp --zero 3 --channels 128",
    MLP "--dp 2 --pp 4 --micro 2 --zero 1 --schedule gpipe",
    MLP "--dp 2 --tp 2 --pp 2 --micro 2 --zero 3",
    CNN "--dp 8",
    CNN "--dp 4 --micro 2 --overlap --bucket 64K",
    CNN "--tp 8",
    CNN "--pp 4 --micro 4",
    CNN "--dp 4 --zero 1 --micro 2",
    CNN "--dp 2 --tp 2 --pp 2 --micro 4 --zero 2 --schedule zb-h1",
    "--model cnn:micro --dp 2 --tp 2",
    "--model mlp:micro --dp 2 --tp 2 --pp 2 --micro 2 --sp --zero 1",
};

static void add(struct tr_verify_case **list, int *n, const char *options, int steps, bool sgd)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp((*list)[i].options, options) && (*list)[i].steps == steps && (*list)[i].sgd == sgd)
            return;
    struct tr_verify_case *c = &(*list)[(*n)++];
    snprintf(c->options, sizeof c->options, "%s", options);
    c->steps = steps, c->sgd = sgd;
}

/* Those of dp x tp x pp ranks with every ZeRO, schedule and sequence parallelism that fit beside cp. */
static void mesh_products(struct tr_verify_case **list, int *n, int dp, int cp, int tp, int pp)
{
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1" };
    int micro = 8 / dp < pp ? 8 / dp : pp;
    for (int variant = 0; variant < 4 * 2 * 3; variant++) {
        int zero = variant % 4, sp = variant / 4 % 2, schedule = variant / 8;
        char text[160], context[24] = "";
        if ((dp == 1 && zero) || (tp == 1 && sp) || (pp == 1 && schedule))
            continue;
        if (cp > 1)
            snprintf(context, sizeof context, "--cp %d ", cp);
        snprintf(text, sizeof text, "%s--dp %d --tp %d --pp %d --micro %d --schedule %s --zero %d%s", context,
            dp, tp, pp, micro, schedules[schedule], zero, sp ? " --sp" : "");
        add(list, n, text, 2, true);
    }
}

/* Products of at most 8 ranks; some were run above already. */
static void products(struct tr_verify_case **list, int *n)
{
    for (int dp = 1; dp <= 8; dp *= 2)
        for (int tp = 1; tp <= 4; tp *= 2)
            for (int pp = 1; pp <= 4; pp *= 2)
                for (int cp = 1; dp * tp * pp * cp <= 8; cp *= 2)
                    mesh_products(list, n, dp, cp, tp, pp);
}

struct tr_verify_case *tr_verify_cases(enum tr_verify_extent extent, int *n)
{
    struct tr_verify_case *list = tr_new(2048, sizeof *list);
    *n = 0;
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++)
        add(&list, n, quick[i], 3, true);
    if (extent == TR_VERIFY_QUICK) {
        add(&list, n, "--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 3 --schedule zb-h1", 10, false);
        return list;
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        add(&list, n, more[i], 3, true);
    for (size_t i = 0; i < sizeof long_runs / sizeof *long_runs; i++) {
        add(&list, n, long_runs[i], 50, false);
        add(&list, n, long_runs[i], 10, true);
    }
    if (extent == TR_VERIFY_ALL)
        products(&list, n);
    return list;
}
