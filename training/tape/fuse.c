/* SPDX-License-Identifier: BSD-3-Clause */
/* fuse.c: find the chains of a list that may be done at once, where the first of their instructions stands.
 *
 * The list is what it was, and so are places and lifetimes, which were planned for one instruction after the
 * other. So the later ones of a chain may come early if what they read is there by then, and if nothing that
 * the instructions between touch, or the chain reads itself, lies where they write. */
#include "training/tape/fuse.h"

#include <stdlib.h>

/* ---- what an instruction touches ---- */

static bool has(const int *values, int n, int value)
{
    for (int i = 0; i < n; i++)
        if (values[i] == value)
            return true;
    return false;
}

static bool reads(const struct tr_instr *i, int value)
{
    return has(i->in, i->ins, value);
}

static bool touches(const struct tr_instr *i, int value)
{
    return reads(i, value) || has(i->out, i->outs, value);
}

static bool overlap(const struct tr_tape *t, int a, int b)
{
    const struct tr_value *x = &t->values[a], *y = &t->values[b];
    return x->host == y->host && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

/* Whether the instruction has something where `value` lies, other than what may lie there: in place. */
static bool is_in_the_way(
    const struct tr_tape *t, const struct tr_instr *i, int value, const int *legal, int n)
{
    const struct tr_param_state *h =
        i->code == TR_ACCUMULATE ? tr_param_state_of((struct tr_tape *)t, i->parameter) : NULL;
    for (int level = 0; h && level < 32 && h->level[level] >= 0; level++)
        if (overlap(t, h->level[level], value))
            return true;
    for (int x = 0; x <= i->ins + i->outs; x++) {
        int other = x < i->ins ? i->in[x] : x < i->ins + i->outs ? i->out[x - i->ins] : i->scratch;
        bool fits = other >= 0 && has(legal, n, other) && t->values[other].offset == t->values[value].offset;
        if (other >= 0 && !fits && overlap(t, other, value))
            return true;
    }
    return false;
}

/* ---- a chain ---- */

/* The next instruction that reads the value, if that is this operation and takes it as the chain does. */
static int next_of(const struct tr_tape *t, int from, int value, int op)
{
    int n = from + 1;
    while (n < t->n_instrs && !touches(&t->instrs[n], value))
        n++;
    const struct tr_instr *i = n < t->n_instrs ? &t->instrs[n] : NULL;
    bool fits = i && i->code == TR_COMPUTE && i->op == op &&
                (i->in[0] == value || (op == TR_ADD && i->in[1] == value));
    return fits ? n : -1;
}

static bool is_float32(const struct tr_tape *t, const struct tr_instr *i)
{
    for (int x = 0; x < i->ins + i->outs; x++)
        if (t->values[x < i->ins ? i->in[x] : i->out[x - i->ins]].element != TR_FLOAT32)
            return false;
    return true;
}

/* Whether an input of instruction m has come when the first of the chain runs, or is of the chain. Between
 * them it may be read by computations alone: what waits for it, or makes it, comes before it can be read. */
static bool is_there(const struct tr_tape *t, const struct tr_fusion *f, int m, int value)
{
    int first = f->at[0];
    for (int k = 0; f->at[k] != m; k++)
        if (value == t->instrs[f->at[k]].out[0])
            return true;
    if (!t->values[value].lasts && t->values[value].first >= first)
        return false;
    for (int n = first; n < m; n++) {
        const struct tr_instr *i = &t->instrs[n];
        if (has(i->out, i->outs, value) || (i->code != TR_COMPUTE && reads(i, value)))
            return false;
    }
    return true;
}

/* Whether instruction m, the one behind `before` of the chain, may run where the chain begins. */
static bool may_come_early(const struct tr_tape *t, const struct tr_fusion *f, int before, int m)
{
    const struct tr_instr *i = &t->instrs[m];
    int legal[1 + TR_CHAIN + TR_INS], n = 0; /* what its first result may lie upon, if it works in place */
    if (tr_op(t->instrs[f->at[0]].op)->in_place)
        legal[n++] = t->instrs[f->at[0]].in[0];
    for (int k = 0; k <= before; k++)
        legal[n++] = t->instrs[f->at[k]].out[0];
    for (int x = 0; x < i->ins; x++)
        legal[n++] = i->in[x];
    for (int x = 0; x < i->ins; x++)
        if (!is_there(t, f, m, i->in[x]))
            return false;
    for (int x = 0; x < i->outs; x++)
        for (int between = f->at[0]; between < m; between++)
            if (is_in_the_way(
                    t, &t->instrs[between], i->out[x], legal, x == 0 && tr_op(i->op)->in_place ? n : 0))
                return false;
    return true;
}

static bool follow(const struct tr_tape *t, const struct tr_fused *row, const struct tr_waits *waits, int n,
    struct tr_fusion *f)
{
    *f = (struct tr_fusion){ .row = row, .at = { n, -1, -1 } };
    for (int k = 0; k + 1 < row->length; k++) {
        int value = t->instrs[f->at[k]].out[0], m = next_of(t, f->at[k], value, row->op[k + 1]);
        if (m < 0 || (!row->keeps[k] && t->values[value].last != m) || !is_float32(t, &t->instrs[m]) ||
            (waits && waits->copy[m] >= 0))
            return false;
        f->at[k + 1] = m;
        if (!may_come_early(t, f, k, m))
            return false;
    }
    return true;
}

void tr_fusions_find(
    struct tr_fusions *f, const struct tr_tape *t, const struct tr_kernels *k, const struct tr_waits *waits)
{
    *f = (struct tr_fusions){ .on = true };
    f->of = tr_new((size_t)t->n_instrs, sizeof *f->of);
    f->list = tr_new((size_t)t->n_instrs, sizeof *f->list);
    for (int n = 0; n < t->n_instrs; n++)
        f->of[n] = -1;
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        for (int x = 0; x < tr_fused_rows && f->of[n] < 0 && i->code == TR_COMPUTE; x++) {
            const struct tr_fused *row = &tr_fused[x];
            struct tr_fusion *found = &f->list[f->n];
            if (row->op[0] != i->op || !row->served(k) || !is_float32(t, i) ||
                !follow(t, row, waits, n, found))
                continue;
            for (int m = 0; m < row->length; m++)
                f->of[found->at[m]] = f->n;
            f->n++;
        }
    }
}

void tr_fusions_free(struct tr_fusions *f)
{
    free(f->list);
    free(f->of);
    *f = (struct tr_fusions){ .on = false };
}
