/* SPDX-License-Identifier: BSD-3-Clause */
/* call.c: one call of a collective, or a message, as data: what it means, how it is made and told. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>

const struct fuzz_row fuzz_rows[FUZZ_CALLS] = {
    [FUZZ_BARRIER] = { .name = "barrier" },
    [FUZZ_ALL_REDUCE] = { "all_reduce", FUZZ_VECTOR, FUZZ_VECTOR, .reduced = true, .in_place = true },
    [FUZZ_REDUCE] = { "reduce", FUZZ_VECTOR, FUZZ_VECTOR, .out_at_root = true, .reduced = true,
        .rooted = true, .in_place = true },
    [FUZZ_BROADCAST] = { "broadcast", FUZZ_VECTOR, FUZZ_VECTOR, .in_at_root = true, .rooted = true,
        .in_place = true },
    [FUZZ_REDUCE_SCATTER] = { "reduce_scatter", FUZZ_ALL, FUZZ_OWN, .reduced = true, .in_place = true },
    [FUZZ_ALL_GATHER] = { "all_gather", FUZZ_OWN, FUZZ_ALL, .in_place = true },
    [FUZZ_ALL_TO_ALL] = { "all_to_all", FUZZ_ALL, FUZZ_ALL, .in_place = true },
    [FUZZ_GATHER] = { "gather", FUZZ_OWN, FUZZ_ALL, .out_at_root = true, .rooted = true, .in_place = true },
    [FUZZ_SCATTER] = { "scatter", FUZZ_ALL, FUZZ_OWN, .in_at_root = true, .rooted = true, .in_place = true },
    [FUZZ_REDUCE_SCATTER_V] = { "reduce_scatter_v", FUZZ_ALL, FUZZ_OWN, .reduced = true, .blocks = true,
        .in_place = true },
    [FUZZ_ALL_GATHER_V] = { "all_gather_v", FUZZ_OWN, FUZZ_ALL, .blocks = true, .in_place = true },
    [FUZZ_ALL_TO_ALL_V] = { "all_to_all_v", FUZZ_ALL, FUZZ_ALL, .blocks = true },
    [FUZZ_GATHER_V] = { "gather_v", FUZZ_OWN, FUZZ_ALL, .out_at_root = true, .rooted = true, .blocks = true,
        .in_place = true },
    [FUZZ_SCATTER_V] = { "scatter_v", FUZZ_ALL, FUZZ_OWN, .in_at_root = true, .rooted = true, .blocks = true,
        .in_place = true },
    [FUZZ_SEND] = { "send", FUZZ_VECTOR, FUZZ_NONE, .rooted = true },
    [FUZZ_RECV] = { "recv", FUZZ_NONE, FUZZ_VECTOR, .rooted = true },
};

bool fuzz_has(const struct fuzz_call *call, bool out)
{
    const struct fuzz_row *row = &fuzz_rows[call->what];
    if ((out ? row->out : row->in) == FUZZ_NONE)
        return false;
    return (out ? !row->out_at_root : !row->in_at_root) || call->end->rank == call->root;
}

static tutti_status make_even(const struct fuzz_call *c)
{
    switch (c->what) {
    case FUZZ_BARRIER:
        return tutti_barrier(c->comm, c->stream);
    case FUZZ_ALL_REDUCE:
        return tutti_all_reduce(c->send, c->recv, c->count, c->type, c->op, c->comm, c->stream);
    case FUZZ_REDUCE:
        return tutti_reduce(c->send, c->recv, c->count, c->type, c->op, c->root, c->comm, c->stream);
    case FUZZ_BROADCAST:
        return tutti_broadcast(c->send, c->recv, c->count, c->type, c->root, c->comm, c->stream);
    case FUZZ_REDUCE_SCATTER:
        return tutti_reduce_scatter(c->send, c->recv, c->count, c->type, c->op, c->comm, c->stream);
    case FUZZ_ALL_GATHER:
        return tutti_all_gather(c->send, c->recv, c->count, c->type, c->comm, c->stream);
    case FUZZ_ALL_TO_ALL:
        return tutti_all_to_all(c->send, c->recv, c->count, c->type, c->comm, c->stream);
    case FUZZ_GATHER:
        return tutti_gather(c->send, c->recv, c->count, c->type, c->root, c->comm, c->stream);
    case FUZZ_SCATTER:
        return tutti_scatter(c->send, c->recv, c->count, c->type, c->root, c->comm, c->stream);
    case FUZZ_SEND:
        return tutti_send(c->send, c->count, c->type, c->root, c->comm, c->stream);
    default:
        return tutti_recv(c->recv, c->count, c->type, c->root, c->comm, c->stream);
    }
}

tutti_status fuzz_make(struct fuzz_rank *me, const struct fuzz_call *c)
{
    (void)me;
    switch (c->what) {
    case FUZZ_REDUCE_SCATTER_V:
        return tutti_reduce_scatter_v(c->send, c->send_counts, c->recv, c->type, c->op, c->comm, c->stream);
    case FUZZ_ALL_GATHER_V:
        return tutti_all_gather_v(
            c->send, c->count, c->recv, c->recv_counts, c->recv_displs, c->type, c->comm, c->stream);
    case FUZZ_ALL_TO_ALL_V:
        return tutti_all_to_all_v(c->send, c->send_counts, c->send_displs, c->recv, c->recv_counts,
            c->recv_displs, c->type, c->comm, c->stream);
    case FUZZ_GATHER_V:
        return tutti_gather_v(
            c->send, c->count, c->recv, c->recv_counts, c->recv_displs, c->type, c->root, c->comm, c->stream);
    case FUZZ_SCATTER_V:
        return tutti_scatter_v(
            c->send, c->send_counts, c->send_displs, c->recv, c->count, c->type, c->root, c->comm, c->stream);
    default:
        return make_even(c);
    }
}

static int tell_array(char *text, size_t bytes, const char *name, const size_t *array, int n)
{
    int length = snprintf(text, bytes, ", %s ", name);
    if (array == NULL)
        return length + snprintf(text + length, bytes - (size_t)length, "NULL");
    for (int r = 0; r < n; r++)
        length += snprintf(text + length, bytes - (size_t)length, "%s%zu", r > 0 ? " " : "", array[r]);
    return length;
}

void fuzz_describe(struct fuzz_rank *me, const struct fuzz_call *c, const char *where)
{
    char arrays[400] = "";
    int length = 0, n = c->end->n;
    if (fuzz_rows[c->what].blocks) {
        const char *const names[] = { "send_counts", "send_displs", "recv_counts", "recv_displs" };
        const size_t *const values[] = { c->send_counts, c->send_displs, c->recv_counts, c->recv_displs };
        for (int i = 0; i < 4; i++)
            length += tell_array(arrays + length, sizeof arrays - (size_t)length, names[i], values[i], n);
    }
    fuzz_at(me,
        "%s%s: comm %p, rank %d of %d, send %p, recv %p, count %zu, type %d, op %u, root %d, stream %d "
        "%p%s",
        where, fuzz_rows[c->what].name, (void *)c->comm, c->end->rank, n, (const void *)c->send,
        (void *)c->recv, c->count, (int)c->type, c->op, c->root, c->stream.kind, c->stream.handle, arrays);
}
