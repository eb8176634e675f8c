/* SPDX-License-Identifier: BSD-3-Clause */
/* attention.c: attention in the form that a plan asks for: all keys at once, in parts, or within windows. */
#include "training/model/build.h"

#include <stdio.h>

/* For each part of the keys what a query gets of it: a value for each channel, and of each head the largest
 * score and a sum. */
static void in_parts(struct tr_builder *b, const int *in, int ins, const int *out)
{
    int part[TR_INS] = { 0 };
    for (int j = 0; j < b->g->attention.parts; j++) {
        char name[24];
        snprintf(name, sizeof name, "part%d", j);
        part[j] = tr_build_activation(b, name, b->g->channels + 2 * b->g->heads, false);
        int made[] = { part[j], -1 };
        if (b->g->attention.scores) {
            snprintf(name, sizeof name, "scores%d", j);
            made[1] =
                tr_build_activation(b, name, b->g->heads * (b->g->context / b->g->attention.parts), false);
        }
        tr_add_node(b->g, b->g->attention.scores ? TR_ATTEND_SCORES : TR_ATTEND_PART, TR_FORWARD, b->unit, in,
            ins, made, b->g->attention.scores ? 2 : 1)
            ->shift = j;
    }
    tr_build_node(b, TR_ATTEND_MERGE, part, b->g->attention.parts, out, 2);
}

int tr_build_attention(struct tr_builder *b, int qkv, const struct tr_model_options *o)
{
    int64_t c = b->g->channels, size[] = { 1, b->g->heads, b->g->context };
    int in[3] = { qkv }, ins = 1, out[2];
    bool separate_kv = o->separate_kv || o->parts;
    if (separate_kv) {
        in[0] = tr_build_activation(b, "q", c, false);
        in[1] = tr_build_activation(b, "kv", 2 * c, false);
        tr_build_node(b, TR_SPLIT, &qkv, 1, in, 2);
        ins = 2;
    }
    if (tr_build_drops(b))
        in[ins++] = b->g->dropout.draws;
    out[0] = tr_build_activation(b, "attention", c, false);
    out[1] = tr_add_tensor(b->g, TR_ACTIVATION, b->unit, "bct", size, "%slse", b->prefix);
    if (o->parts)
        in_parts(b, in, ins, out);
    else
        tr_build_node(b,
            separate_kv  ? TR_ATTEND
            : o->windows ? TR_ATTEND_WINDOW
                         : TR_ATTENTION,
            in, ins, out, 2);
    return out[0];
}
