/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.c: a row for each paradigm. Their order is that in which options are said. */
#include "training/parallel/registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void cut_layers(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room)
{
    snprintf(to, room,
        "the list of %" PRId64 " layers: %d ranks have some each, the first also the embedding", g->layers,
        p->mesh.size[TR_PP]);
}

static void cut_batch(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room)
{
    (void)g;
    snprintf(to, room, "the batch: %d of its %d sequences on each rank, and the whole model",
        p->batch / p->mesh.size[TR_DP], p->batch);
}

static void cut_experts(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room)
{
    snprintf(to, room,
        "the experts: %" PRId64 " of the %" PRId64
        " of a layer on each rank, and the rest of the model; and the batch: %d of its %d sequences",
        g->experts / p->mesh.size[TR_EP], g->experts, p->batch / tr_data_ranks(p), p->batch);
}

static void cut_matrices(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room)
{
    (void)g;
    snprintf(to, room, "each layer: one part in %d of every matrix on each rank, and all sequences",
        p->mesh.size[TR_TP]);
}

static void cut_tokens(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room)
{
    snprintf(to, room,
        "each sequence: %" PRId64 " of its %" PRId64 " tokens on each rank, and the whole model",
        g->context / p->mesh.size[TR_CP], g->context);
}

static const struct tr_registered registry[] = {
    { .word = "mp",
        .name = "model parallel",
        .axis = TR_PP,
        .alone = "--pp N --schedule naive",
        .options = { "pp" },
        .cuts = cut_layers,
        .when = "the model fits no rank, a layer does, and links are slow" },
    { .word = "dp",
        .name = "data parallel",
        .axis = TR_DP,
        .alone = "--dp N",
        .options = { "dp", "dp-reduce" },
        .cuts = cut_batch,
        .when = "the model fits a rank, and the batch is large" },
    { .word = "ep",
        .name = "expert parallel",
        .axis = TR_EP,
        .alone = "--dp N --ep N",
        .options = { "ep" },
        .cuts = cut_experts,
        .when = "experts are most of the model, and tokens spread evenly over them" },
    { .name = "parameter servers",
        .axis = TR_AXES,
        .with = "servers",
        .options = { "servers", "server-mode", "arrivals" } },
    { .word = "tp",
        .name = "tensor parallel",
        .axis = TR_TP,
        .alone = "--tp N",
        .with = "tp",
        .options = { "tp", "conv-split" },
        .cuts = cut_matrices,
        .when = "a layer is too large for a rank, and links are fast" },
    { .word = "cp",
        .name = "context parallel",
        .axis = TR_CP,
        .alone = "--cp N",
        .with = "cp",
        .options = { "cp", "cp-attention", "cp-ulysses", "cp-map", "cnn-cut" },
        .cuts = cut_tokens,
        .when = "sequences are long: activations, not the model, fill a rank" },
    { .name = "micro-batches", .axis = TR_AXES, .options = { "micro" } },
    { .name = "pipeline", .axis = TR_AXES, .with = "pp", .options = { "chunks", "schedule", "async" } },
    { .name = "ZeRO",
        .axis = TR_AXES,
        .with = "zero",
        .options = { "zero", "zero3-prefetch", "zero3-persist", "zero3-keep" } },
    { .name = "offload", .axis = TR_AXES, .with = "offload", .options = { "offload", "offload-delay" } },
    { .name = "sequence parallel", .axis = TR_AXES, .with = "tp", .options = { "sp" } },
};

const struct tr_registered *tr_registered_at(int i)
{
    return i < (int)(sizeof registry / sizeof *registry) ? &registry[i] : NULL;
}

const struct tr_registered *tr_registered_word(const char *word)
{
    const struct tr_registered *x;
    for (int i = 0; (x = tr_registered_at(i)); i++)
        if (x->word && !strcmp(x->word, word))
            return x;
    return NULL;
}

bool tr_registered_cuts(const struct tr_registered *x, const struct tr_plan *p)
{
    return x->cuts && p->mesh.size[x->axis] > 1;
}
