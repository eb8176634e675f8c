/* SPDX-License-Identifier: BSD-3-Clause */
/* cases_dropout.c: the configurations with dropout that verify runs: each paradigm that cuts sequences or
 * tokens, that computes a result again, or in which a rank has several updates, since these are what may draw
 * otherwise than one rank does. */
#include "training/verify/verify.h"

#define DROPOUT "--dropout 0.1 "
#define MIXED "--precision bfloat16 "
#define LLAMA "--model llama:nano " DROPOUT
#define MOE "--model moe:nano " DROPOUT

static const char *const quick[] = {
    DROPOUT "--micro 2",
    DROPOUT "--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 3 --schedule zb-h1 --recompute full",
    DROPOUT "--cp 2 --cp-map zigzag --cp-attention ring --tp 2 --micro 2",
    DROPOUT "--cp 4 --cp-map striped --dp 2 --micro 2 --zero 1",
    DROPOUT "--dp 2 --pp 2 --micro 4 --clip 0 --untied --async stash",
    LLAMA "--dp 2 --tp 2 --sp --cp 2 --cp-attention ring --micro 2 --zero 2",
    MOE "--dp 4 --ep 2 --tp 2 --micro 2 --capacity-factor 1 --recompute full",
    MIXED DROPOUT "--dp 2 --micro 2 --zero 2 --offload both --recompute full",
};
static const char *const more[] = {
    DROPOUT,
    "--dropout 0.75 --dp 8",
    "--dropout 0.5 --tp 4 --sp",
    DROPOUT "--dp 4 --micro 2 --overlap --bucket 64K",
    DROPOUT "--dp 4 --dp-reduce sharded --overlap",
    DROPOUT "--dp 2 --zero 1",
    DROPOUT "--dp 4 --zero 2 --micro 2",
    DROPOUT "--dp 8 --zero 3 --zero3-prefetch 1 --zero3-persist 200",
    DROPOUT "--tp 2",
    DROPOUT "--tp 2 --sp --micro 2 --wgrad regather",
    "--model gpt:nano8 " DROPOUT "--tp 8 --sp",
    DROPOUT "--pp 4 --micro 8",
    DROPOUT "--pp 2 --micro 4 --schedule gpipe",
    DROPOUT "--pp 2 --micro 4 --schedule zb-h1",
    DROPOUT "--pp 2 --chunks 2 --micro 4 --schedule interleaved",
    DROPOUT "--pp 2 --chunks 2 --micro 4 --schedule dualpipev --recompute full",
    DROPOUT "--cp 2",
    DROPOUT "--cp 8 --batch 4 --context 72",
    DROPOUT "--cp 2 --tp 2 --sp --dp 2 --micro 2 --zero 2",
    DROPOUT "--cp 4 --cp-attention ulysses --micro 2",
    DROPOUT "--cp 4 --cp-attention ulysses+ring --dp 2 --micro 2",
    DROPOUT "--cp 4 --cp-attention scores --micro 2 --recompute full",
    DROPOUT "--cp 4 --cp-attention local --tp 2",
    DROPOUT "--cp 4 --cp-map zigzag --micro 2",
    DROPOUT "--cp 2 --cp-map striped --cp-attention ring --pp 2 --micro 4 --schedule gpipe",
    DROPOUT "--recompute selective",
    DROPOUT "--tp 2 --recompute full --recompute-comm save",
    DROPOUT "--dp 2 --offload optimizer --offload-delay 1",
    DROPOUT "--dp 2 --servers 1",
    DROPOUT "--pp 2 --micro 4 --clip 0 --untied --async two",
    DROPOUT "--dp 2 --pp 4 --micro 4 --clip 0 --untied --async newest",
    DROPOUT "--batch 12 --dp 2 --micro 3",
    DROPOUT "--batch 5 --vocabulary 257 --tp 2 --sp",
    MIXED DROPOUT,
    MIXED DROPOUT "--cp 2 --cp-attention ring --tp 2 --sp",
    LLAMA,
    LLAMA "--tp 2 --pp 2 --micro 4 --schedule zb-h1",
    LLAMA "--cp 2 --cp-attention ulysses --recompute selective",
    LLAMA "--cp 4 --cp-map striped --dp 2 --zero 1",
    LLAMA "--dp 2 --pp 2 --micro 4 --clip 0 --async two",
    MIXED LLAMA "--tp 2 --sp --micro 2",
    MOE,
    MOE "--ep 4 --dp 4 --aux-loss 0.1 --zero 1",
    MOE "--cp 2 --cp-attention ulysses --micro 2",
    MIXED MOE "--tp 2 --pp 2 --micro 2",
};

void tr_dropout_cases(struct tr_verify_case *list, int *n, enum tr_verify_extent extent)
{
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++)
        tr_verify_add(list, n, quick[i], 3, true);
    for (size_t i = 0; i < sizeof more / sizeof *more && extent != TR_VERIFY_QUICK; i++)
        tr_verify_add(list, n, more[i], 3, true);
}
