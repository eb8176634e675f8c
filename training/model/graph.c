/* SPDX-License-Identifier: BSD-3-Clause */
/* graph.c: tensors and nodes, in the order in which they were added. */
#include "training/model/graph.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tr_add_tensor(struct tr_graph *g, enum tr_role role, int unit, const char *letters, const int64_t *size,
    const char *format, ...)
{
    g->tensors = tr_grow(g->tensors, g->n_tensors, &g->room_tensors, sizeof *g->tensors);
    struct tr_tensor *t = &g->tensors[g->n_tensors];
    *t = (struct tr_tensor){
        .role = role, .unit = unit, .dims = (int)strlen(letters), .of = -1, .counts = -1
    };
    va_list args;
    va_start(args, format);
    vsnprintf(t->name, sizeof t->name, format, args);
    va_end(args);
    memcpy(t->letter, letters, (size_t)t->dims);
    for (int i = 0; i < t->dims; i++) {
        t->size[i] = size[i];
        if (letters[i] == 'r') {
            t->rows = size[i];
            t->size[i] = (size[i] + TR_PAD - 1) / TR_PAD * TR_PAD;
        }
    }
    t->values_of = g->n_tensors;
    return g->n_tensors++;
}

struct tr_node *tr_add_node(struct tr_graph *g, int op, enum tr_phase phase, int unit, const int *in, int ins,
    const int *out, int outs)
{
    assert(ins <= TR_INS && outs <= TR_OUTS);
    g->nodes = tr_grow(g->nodes, g->n_nodes, &g->room_nodes, sizeof *g->nodes);
    struct tr_node *n = &g->nodes[g->n_nodes++];
    *n = (struct tr_node){ .op = op, .phase = phase, .unit = unit, .ins = ins, .outs = outs };
    memcpy(n->in, in, (size_t)ins * sizeof *in);
    memcpy(n->out, out, (size_t)outs * sizeof *out);
    return n;
}

int64_t tr_targets(const struct tr_graph *g)
{
    return g->tensors[g->targets].size[1];
}

void tr_graph_free(struct tr_graph *g)
{
    free(g->tensors);
    free(g->nodes);
    *g = (struct tr_graph){ 0 };
}
