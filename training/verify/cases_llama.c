/* SPDX-License-Identifier: BSD-3-Clause */
/* cases_llama.c: the configurations of the Llama that verify runs: each paradigm that cuts heads, tokens or
 * hidden channels, since these are where it differs from the GPT. */
#include "training/verify/verify.h"

#define LLAMA "--model llama:nano "
#define ONE_TO_ONE LLAMA "--kv-heads 4 " /* each head of queries has keys of its own */
#define WIDE LLAMA "--channels 128 --heads 16 --kv-heads 4 --hidden 320 --context 32 "
#define MIXED "--precision bfloat16 "

static const char *const quick[] = {
    LLAMA "--micro 2",
    LLAMA "--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 3 --schedule zb-h1 --recompute full",
    LLAMA "--cp 2 --cp-map zigzag --cp-attention ring --tp 2 --micro 2 --recompute gelu",
    LLAMA "--cp 4 --cp-map striped --dp 2 --micro 2 --zero 1",
    WIDE "--tp 2 --cp 2 --sp --cp-attention ulysses --batch 4",
    MIXED LLAMA "--dp 2 --micro 2 --zero 2 --offload both --rounding stochastic",
};
static const char *const more[] = {
    LLAMA "--dp 8",
    LLAMA "--dp 4 --micro 2 --overlap --bucket 64K",
    LLAMA "--dp 4 --dp-reduce sharded --overlap",
    LLAMA "--dp 2 --zero 1",
    LLAMA "--dp 4 --zero 2 --micro 2",
    LLAMA "--dp 8 --zero 3 --zero3-prefetch 1 --zero3-persist 200",
    LLAMA "--tp 2",
    LLAMA "--tp 2 --sp --micro 2 --wgrad regather",
    ONE_TO_ONE "--tp 4 --sp",
    WIDE "--tp 4 --micro 2",
    WIDE "--tp 2 --dp 2 --sp --zero 3 --recompute selective",
    LLAMA "--pp 4 --micro 8",
    LLAMA "--pp 2 --micro 4 --schedule gpipe",
    LLAMA "--pp 2 --micro 4 --schedule zb-h1",
    LLAMA "--pp 2 --chunks 2 --micro 4 --schedule interleaved",
    LLAMA "--pp 2 --chunks 2 --micro 4 --schedule dualpipev --recompute full",
    LLAMA "--cp 2",
    LLAMA "--cp 8 --batch 4 --context 72",
    LLAMA "--cp 2 --tp 2 --sp --dp 2 --micro 2 --zero 2",
    LLAMA "--cp 4 --cp-attention ring --pp 2 --micro 4 --schedule zb-h1",
    ONE_TO_ONE "--cp 4 --cp-attention ulysses --micro 2",
    ONE_TO_ONE "--cp 2 --cp-attention ulysses --tp 2 --dp 2 --micro 2 --zero 3",
    LLAMA "--cp 2 --cp-attention ulysses --pp 2 --micro 4",
    LLAMA "--cp 4 --cp-attention ulysses+ring --dp 2 --micro 2",
    LLAMA "--cp 4 --cp-attention scores --micro 2 --recompute full",
    LLAMA "--cp 4 --cp-attention local --tp 2",
    LLAMA "--cp 4 --cp-map zigzag --micro 2",
    LLAMA "--cp 2 --cp-map zigzag --dp 2 --tp 2 --zero 3 --micro 2",
    LLAMA "--cp 4 --cp-map striped --cp-attention ring --tp 2",
    LLAMA "--cp 2 --cp-map striped --cp-attention ring --pp 2 --micro 4 --schedule gpipe",
    LLAMA "--recompute selective",
    LLAMA "--tp 2 --recompute full --recompute-comm save",
    LLAMA "--dp 2 --offload optimizer --offload-delay 1",
    LLAMA "--dp 2 --servers 1",
    LLAMA "--pp 4 --micro 4 --clip 0 --async stash",
    LLAMA "--dp 2 --tp 2 --pp 2 --micro 4 --clip 0 --async newest",
    LLAMA "--batch 5 --vocabulary 257 --tp 2 --sp",
    "--model llama:micro --dp 2 --tp 4 --sp --micro 2 --zero 1",
    MIXED LLAMA,
    MIXED LLAMA "--cp 2 --cp-attention ring --tp 2 --sp",
    MIXED LLAMA "--dp 2 --pp 2 --micro 4 --zero 3 --schedule zb-h1 --recompute full",
};

/* AdamW hides a factor, and has a bias correction and a decay, which SGD has not. */
void tr_llama_cases(struct tr_verify_case *list, int *n, enum tr_verify_extent extent)
{
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++)
        tr_verify_add(list, n, quick[i], 3, true);
    tr_verify_add(list, n, LLAMA "--dp 2 --zero 1 --micro 2 --rate-schedule cosine --rate-steps 3", 5, false);
    for (size_t i = 0; i < sizeof more / sizeof *more && extent != TR_VERIFY_QUICK; i++)
        tr_verify_add(list, n, more[i], 3, true);
    if (extent != TR_VERIFY_QUICK)
        tr_verify_add(
            list, n, LLAMA "--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 3 --schedule zb-h1", 50, false);
}
