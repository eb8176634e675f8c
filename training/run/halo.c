/* SPDX-License-Identifier: BSD-3-Clause */
/* halo.c: neighbours exchange the rows of cells at their common border.
 *
 *        in   of each picture:      | own rows |
 *        out  of each picture:      | row of the rank before | own rows | row of the rank behind |
 *
 * All rows of all pictures go in one group of calls, so no rank waits for a neighbour that waits for it. */
#include "training/run/halo.h"

#include "training/run/compute.h"

#include <stdio.h>

struct exchange {
    const struct tr_runner *r;
    const struct tr_instr *i;
    tutti_comm *comm;
    enum tr_element element;
    size_t rows, row; /* bytes: of the rows here of a picture, and of one */
};

static unsigned char *picture_in(const struct exchange *x, int64_t picture)
{
    return (unsigned char *)tr_at(x->r, x->i->in[0]) + (size_t)picture * x->rows;
}

static unsigned char *picture_out(const struct exchange *x, int64_t picture)
{
    return (unsigned char *)tr_at(x->r, x->i->out[0]) + (size_t)picture * (x->rows + TR_HALOS * x->row);
}

/* Of one picture, with the rank before (by -1) or behind (by 1). */
static tutti_status with_neighbour(const struct exchange *x, int64_t picture, int by)
{
    int n = tutti_comm_size(x->comm), peer = (tutti_comm_rank(x->comm) + by + n) % n;
    unsigned char *in = picture_in(x, picture), *out = picture_out(x, picture);
    const unsigned char *edge = by < 0 ? in : in + x->rows - x->row;
    unsigned char *halo = by < 0 ? out : out + x->row + x->rows;
    size_t count = (size_t)x->i->count;
    tutti_type type = tr_element_type(x->element);
    tutti_status s = tutti_send(edge, count, type, peer, x->comm, x->r->own);
    return s != TUTTI_OK ? s : tutti_recv(halo, count, type, peer, x->comm, x->r->own);
}

/* The own rows of all pictures, and +0 where there is no neighbour. */
static void copy_own(const struct exchange *x)
{
    int64_t rows = (int64_t)x->rows, row = (int64_t)x->row;
    struct tr_copy own = { { 1, 1, x->i->times }, { 0, 0, rows + TR_HALOS * row }, { 0, 0, rows }, rows };
    struct tr_context *on = x->r->x;
    on->k->copy(on, picture_out(x, 0) + row, picture_in(x, 0), &own);
    for (int64_t p = 0; p < x->i->times; p++) {
        if (!x->i->first)
            on->k->fill(on, picture_out(x, p), 0, row);
        if (!x->i->second)
            on->k->fill(on, picture_out(x, p) + row + rows, 0, row);
    }
}

static tutti_status exchange_all(const struct exchange *x)
{
    copy_own(x);
    tutti_status s = tutti_group_start(), ended;
    for (int64_t p = 0; p < x->i->times && s == TUTTI_OK; p++) {
        if (x->i->first)
            s = with_neighbour(x, p, -1);
        if (x->i->second && s == TUTTI_OK)
            s = with_neighbour(x, p, 1);
    }
    ended = tutti_group_end(); /* a call that failed, too, was in it */
    return s == TUTTI_OK ? ended : s;
}

bool tr_run_halo(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    const struct tr_value *in = &t->values[i->in[0]];
    int64_t row = i->count * tr_element_bytes(in->element);
    struct exchange x = { r, i, r->groups.of[i->axes], in->element, (size_t)(in->bytes / i->times),
        (size_t)row };
    if (exchange_all(&x) != TUTTI_OK)
        return tr_fail(e, "step %lld, rank %d: %s of %s: %s", (long long)r->step, t->rank,
            tr_codes[i->code].name, tr_instr_name(t, i), tr_why(x.comm));
    for (int64_t n = 0; n < i->times * (i->first + i->second); n++) {
        tr_ledger_count(&r->counted, t, i, TR_SEND, row);
        tr_ledger_count(&r->counted, t, i, TR_RECV, row);
    }
    return true;
}
