/* SPDX-License-Identifier: BSD-3-Clause */
/* cases_device.c: the cut that verify --device cuda --quick runs: small models, each paradigm and many of
 * their products, so that it is done within minutes where devices are emulated. Of three steps the second is
 * a graph where it can be one, and the last is audited. */
#include "training/verify/verify.h"

#include "training/error.h"

#include <stdio.h>

#define GPT "--layers 2 --heads 2 --context 8 --vocabulary 64 --batch 2 "
#define FLAT "--layers 1 --heads 2 --context 8 --vocabulary 64 --batch 2 "
#define MORE "--layers 2 --heads 2 --context 8 --vocabulary 64 --batch 4 "
#define DEEP "--layers 4 --heads 2 --context 8 --vocabulary 64 --batch 4 "
#define LLAMA "--model llama:nano --hidden 64 --context 8 --vocabulary 64 --batch 2 "
#define MOE "--model moe:nano --layers 1 --heads 2 --context 8 --vocabulary 64 --batch 2 "
#define CNN "--model cnn:nano --batch 2 "
#define MLP "--model mlp:nano --inputs 8 --batch 4 "

static const char *const cases[] = {
    GPT,
    FLAT "--micro 2",
    FLAT "--dp 2",
    MORE "--dp 2 --micro 2 --zero 1",
    MORE "--dp 2 --micro 2 --zero 2",
    MORE "--dp 2 --micro 2 --zero 3",
    FLAT "--tp 2",
    FLAT "--tp 2 --sp --micro 2",
    GPT "--pp 2 --micro 2",
    MORE "--pp 2 --micro 4 --schedule zb-h1",
    DEEP "--pp 2 --chunks 2 --micro 4 --schedule interleaved",
    FLAT "--cp 2",
    FLAT "--cp 2 --cp-attention ulysses",
    FLAT "--cp 2 --cp-attention ring",
    FLAT "--dp 2 --tp 2 --sp --zero 2",
    GPT "--recompute full",
    FLAT "--dp 2 --offload optimizer",
    GPT "--offload activations",
    FLAT "--precision bfloat16",
    FLAT "--dropout 0.1 --micro 2",
    FLAT "--dropout 0.1 --cp 2 --precision bfloat16",
    FLAT "--dropout 0.1 --tp 2 --sp --recompute full",
    LLAMA "--layers 1",
    LLAMA "--layers 1 --dp 2 --tp 2 --sp --zero 3",
    LLAMA "--layers 1 --cp 2 --cp-map zigzag --cp-attention ring --recompute full",
    LLAMA "--layers 2 --pp 2 --micro 2 --precision bfloat16",
    MLP,
    MLP "--dp 4",
    MLP "--dp 4 --zero 1",
    MLP "--dp 2 --zero 2 --overlap",
    MLP "--dp 2 --zero 3 --zero3-prefetch 1 --overlap",
    MLP "--dp 2 --micro 2 --bucket 10K --overlap",
    MLP "--dp 2 --dp-reduce root",
    MLP "--tp 4",
    MLP "--tp 2 --sp",
    MLP "--pp 4 --micro 4",
    MLP "--pp 2 --micro 4 --schedule zb-h1",
    MLP "--dp 2 --pp 2 --micro 2 --zero 1",
    MLP "--dp 2 --tp 2 --micro 2 --zero 3",
    MLP "--dp 2 --tp 2 --pp 2 --micro 2 --sp --zero 3 --schedule zb-h1",
    MLP "--dp 2 --servers 1",
    MLP "--dp 2 --precision bfloat16 --zero 1",
    MLP "--pp 2 --micro 2 --offload optimizer",
    MOE,
    MOE "--dp 2 --ep 2",
    CNN "--dp 2",
};

struct tr_verify_case *tr_verify_device_cases(int *n)
{
    *n = sizeof cases / sizeof *cases;
    struct tr_verify_case *list = tr_new((size_t)*n, sizeof *list);
    for (int i = 0; i < *n; i++) {
        list[i] = (struct tr_verify_case){ .steps = 3, .sgd = i % 2 };
        snprintf(list[i].options, sizeof list[i].options, "%s", cases[i]);
    }
    return list;
}
