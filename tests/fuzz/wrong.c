/* SPDX-License-Identifier: BSD-3-Clause */
/* wrong.c: legal calls with one thing spoiled, which must be refused, with nothing done. */
#include "tests/fuzz/fuzz.h"

#include <limits.h>
#include <string.h>

enum { TRIES = 12, WILD_BYTES = 512 };

static uint32_t below(struct fuzz_rank *me, uint32_t bound)
{
    return ranks_below(&me->random, bound);
}

/* --- What is no handle */

static bool is_alive(const struct fuzz_rank *me, const void *handle)
{
    bool found = false;
    for (int i = 0; i < FUZZ_ENDS; i++)
        found = found || me->ends[i].comm == handle;
    for (int i = 0; i < me->stream_count; i++)
        found = found || me->streams[i].handle == handle;
    return found;
}

/* A handle that is dead may be that of something new; only a rank that is alone knows that it is not. */
void *fuzz_junk(struct fuzz_rank *me)
{
    static uint64_t words[64];
    void *dead = me->dead_count > 0 ? me->dead[below(me, FUZZ_DEAD)] : NULL;
    switch (below(me, 6)) {
    case 0:
        return NULL;
    case 1:
        return (void *)(uintptr_t)8;
    case 2:
        return me->pools[0].data + below(me, 64);
    case 3:
        return (void *)UINTPTR_MAX;
    case 4:
        return words;
    default:
        return me->n == 1 && !is_alive(me, dead) ? dead : NULL;
    }
}

tutti_stream fuzz_junk_stream(struct fuzz_rank *me, uint32_t *may)
{
    static const int32_t kinds[] = { TUTTI_STREAM_CUDA, 3, -1, INT_MAX, INT_MIN };
    if (below(me, 2) == 0) {
        *may = FUZZ_ARGUMENT;
        return (tutti_stream){ fuzz_junk(me), TUTTI_STREAM_HOST, -1 };
    }
    *may = FUZZ_UNSUPPORTED;
    return (tutti_stream){ fuzz_junk(me), kinds[below(me, 5)], -1 };
}

/* --- Ways to spoil a call. Each returns what it may be refused with, or 0: no way. */

static size_t total_of(const struct fuzz_call *call, bool out)
{
    const struct fuzz_row *row = &fuzz_rows[call->what];
    size_t total = 0, n = (size_t)call->end->n;
    if (!fuzz_has(call, out))
        return 0;
    if ((out ? row->out : row->in) != FUZZ_ALL || !row->blocks)
        return (out ? row->out : row->in) == FUZZ_ALL ? call->count * n : call->count;
    for (size_t r = 0; r < n; r++)
        total += call->arrays[out ? 2 : 0][r];
    return total;
}

/* The side that is cut by arrays at this rank: 0 in, 1 out, -1 none. */
static int side_of_blocks(struct fuzz_rank *me, const struct fuzz_call *call)
{
    const struct fuzz_row *row = &fuzz_rows[call->what];
    bool in = row->blocks && row->in == FUZZ_ALL && fuzz_has(call, false);
    bool out = row->blocks && row->out == FUZZ_ALL && fuzz_has(call, true);
    return in && out ? (int)below(me, 2) : in ? 0 : out ? 1 : -1;
}

static uint32_t spoil_comm(struct fuzz_rank *me, struct fuzz_call *call)
{
    call->comm = fuzz_junk(me);
    return FUZZ_ARGUMENT;
}

static uint32_t spoil_type(struct fuzz_rank *me, struct fuzz_call *call)
{
    static const int types[] = { -1, 12, 99, 255, 256, 263, INT_MAX, INT_MIN };
    int type = types[below(me, 8)];
    memcpy(&call->type, &type, sizeof type); /* no value of the enumeration */
    return call->what == FUZZ_BARRIER ? 0 : FUZZ_ARGUMENT;
}

static uint32_t spoil_op(struct fuzz_rank *me, struct fuzz_call *call)
{
    static const tutti_op ops[] = { 5, 15, 19, 31, 255, 256, 1 << 20, UINT32_MAX };
    if (!fuzz_rows[call->what].reduced || call->created != NULL)
        return 0;
    if (call->type >= TUTTI_FLOAT16 && below(me, 2) == 0) {
        call->op = TUTTI_BIT_AND + below(me, 3);
        return FUZZ_UNSUPPORTED;
    }
    call->op = ops[below(me, 8)];
    for (int i = 0; i < call->end->op_count; i++)
        if (call->end->ops[i].id == call->op)
            return 0;
    return FUZZ_ARGUMENT;
}

static uint32_t spoil_root(struct fuzz_rank *me, struct fuzz_call *call)
{
    const int roots[] = { -1, call->end->n, INT_MAX, INT_MIN, call->end->n + 256, 65536 };
    if (!fuzz_rows[call->what].rooted)
        return 0;
    call->root = roots[below(me, 6)];
    return FUZZ_ARGUMENT;
}

static uint32_t spoil_self(struct fuzz_rank *me, struct fuzz_call *call)
{
    (void)me;
    call->root = call->end->rank;
    return call->what >= FUZZ_COLLECTIVES ? FUZZ_USAGE : 0;
}

static uint32_t spoil_count(struct fuzz_rank *me, struct fuzz_call *call)
{
    const size_t bytes = tutti_type_bytes(call->type), most = ((size_t)1 << 43) / bytes;
    const size_t counts[] = { SIZE_MAX, SIZE_MAX / bytes, SIZE_MAX / 2 + 1, most + 1, (size_t)1 << 63 };
    bool taken = call->what != FUZZ_REDUCE_SCATTER_V && call->what != FUZZ_ALL_TO_ALL_V;
    call->count = counts[below(me, 5)];
    return taken && call->what != FUZZ_BARRIER ? FUZZ_ARGUMENT : 0;
}

static uint32_t spoil_pointer(struct fuzz_rank *me, struct fuzz_call *call)
{
    bool out = below(me, 2) == 1;
    if (total_of(call, out) == 0)
        return 0;
    if (out)
        call->recv = NULL;
    else
        call->send = NULL;
    return FUZZ_ARGUMENT;
}

static uint32_t spoil_alignment(struct fuzz_rank *me, struct fuzz_call *call)
{
    size_t bytes = tutti_type_bytes(call->type);
    bool out = below(me, 2) == 1;
    if (!fuzz_rows[call->what].reduced || bytes == 1 || total_of(call, out) == 0)
        return 0;
    if (out)
        call->recv += 1 + below(me, (uint32_t)bytes - 1);
    else
        call->send += 1 + below(me, (uint32_t)bytes - 1);
    return FUZZ_ARGUMENT;
}

static uint32_t spoil_overlap(struct fuzz_rank *me, struct fuzz_call *call)
{
    const struct fuzz_row *row = &fuzz_rows[call->what];
    size_t bytes = tutti_type_bytes(call->type), step = row->reduced || bytes == 1 ? bytes : 1;
    size_t n = (size_t)call->end->n, other = ((size_t)call->end->rank + 1) % n * call->count * bytes;
    (void)me;
    if (row->blocks || total_of(call, false) == 0 || total_of(call, true) == 0)
        return 0;
    if (row->in == row->out && total_of(call, true) * bytes > step) {
        call->recv = (uint8_t *)call->send + step;
        return FUZZ_ARGUMENT;
    }
    if (row->in == row->out || n == 1)
        return 0;
    if (row->in == FUZZ_OWN)
        call->send = call->recv + other;
    else
        call->recv = (uint8_t *)call->send + other;
    return FUZZ_ARGUMENT;
}

static uint32_t spoil_array(struct fuzz_rank *me, struct fuzz_call *call)
{
    static const size_t counts[] = { SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 62, ((size_t)1 << 43) + 1 };
    int side = side_of_blocks(me, call);
    if (side < 0)
        return 0;
    if (below(me, 2) == 0)
        *(side == 1 ? &call->recv_counts : &call->send_counts) = NULL;
    else
        call->arrays[2 * side][below(me, (uint32_t)call->end->n)] = counts[below(me, 4)];
    return FUZZ_ARGUMENT;
}

static uint32_t spoil_own_count(struct fuzz_rank *me, struct fuzz_call *call)
{
    int side = side_of_blocks(me, call);
    if (side < 0 || call->what == FUZZ_REDUCE_SCATTER_V)
        return 0;
    call->arrays[2 * side][call->end->rank] += 1 + below(me, 3);
    return call->created == NULL ? FUZZ_ARGUMENT : 0;
}

static uint32_t spoil_displs(struct fuzz_rank *me, struct fuzz_call *call)
{
    static const size_t far[] = { SIZE_MAX, SIZE_MAX - 1, (size_t)1 << 63, ((size_t)1 << 43) + 1 };
    int side = side_of_blocks(me, call), first = -1, second = -1;
    if (side < 0 || call->what == FUZZ_REDUCE_SCATTER_V)
        return 0;
    for (int r = 0; r < call->end->n; r++)
        if (call->arrays[2 * side][r] > 0) {
            second = first;
            first = r;
        }
    if ((side == 1 ? call->recv_displs : call->send_displs) == NULL || first < 0)
        return 0;
    size_t *displs = call->arrays[2 * side + 1];
    if (side == 1 && second >= 0 && below(me, 2) == 0)
        displs[first] = displs[second] + below(me, (uint32_t)call->arrays[2 * side][second]);
    else
        displs[first] = far[below(me, 4)];
    return FUZZ_ARGUMENT;
}

static uint32_t spoil_stream(struct fuzz_rank *me, struct fuzz_call *call)
{
    uint32_t may;
    call->stream = fuzz_junk_stream(me, &may);
    return may;
}

uint32_t fuzz_spoil(struct fuzz_rank *me, struct fuzz_call *call)
{
    static uint32_t (*const ways[])(struct fuzz_rank *, struct fuzz_call *) = { spoil_comm, spoil_type,
        spoil_op, spoil_root, spoil_self, spoil_count, spoil_pointer, spoil_alignment, spoil_overlap,
        spoil_array, spoil_own_count, spoil_displs, spoil_stream };
    return ways[below(me, sizeof ways / sizeof ways[0])](me, call);
}

/* --- Refused calls */

static void draw_any(struct fuzz_rank *me, const struct fuzz_end *end, struct fuzz_call *call)
{
    int peer = (int)below(me, (uint32_t)end->n);
    size_t limit = me->pools[0].room / 16;
    uint64_t drawn = ranks_random(&me->random);
    if (below(me, 4) == 0 && peer != end->rank)
        fuzz_draw_message(me, end, drawn, limit, below(me, 2) == 1, peer, call);
    else
        fuzz_draw(me, end, drawn, limit, call);
    if (me->stream_count > 0 && below(me, 4) == 0)
        call->stream = me->streams[below(me, (uint32_t)me->stream_count)];
}

/* Draws until a way to spoil was found; memory is drawn from the pools, but nothing is put there. */
static uint32_t draw_spoiled(struct fuzz_rank *me, const struct fuzz_end *end, struct fuzz_call *call)
{
    uint32_t may = 0;
    size_t used[FUZZ_POOLS] = { me->pools[0].used, me->pools[1].used };
    for (int i = 0; i < TRIES && may == 0; i++) {
        for (int p = 0; p < FUZZ_POOLS; p++)
            me->pools[p].used = used[p];
        draw_any(me, end, call);
        may = fuzz_spoil(me, call);
    }
    return may;
}

/* Nothing of a group with one wrong call is started, so its legal ones need no partner. */
static void refuse_in_group(struct fuzz_rank *me, const struct fuzz_end *end)
{
    struct fuzz_call calls[3];
    int wrong = (int)below(me, 3), depth = 1 + (int)below(me, 2);
    uint32_t may = 0;
    tutti_status first = TUTTI_OK;
    for (int i = 0; i < depth; i++)
        fuzz_expect(me, "group_start", tutti_group_start(), FUZZ_OK);
    for (int i = 0; i < 3; i++) {
        uint32_t mine = 0;
        if (i == wrong)
            mine = draw_spoiled(me, end, &calls[i]);
        else
            draw_any(me, end, &calls[i]);
        if (i == wrong && (mine == 0 || mine == FUZZ_USAGE)) /* to oneself is legal here */
            mine = spoil_comm(me, &calls[i]);
        fuzz_describe(me, &calls[i], i == wrong ? "in a group, spoiled: " : "in a group: ");
        tutti_status status = fuzz_expect(me, fuzz_rows[calls[i].what].name, fuzz_make(me, &calls[i]),
            i == wrong  ? mine
            : i < wrong ? FUZZ_OK
                        : FUZZ_OK | may);
        if (i == wrong) {
            first = status;
            may = mine;
        }
    }
    for (int i = 1; i < depth; i++)
        fuzz_expect(me, "group_end", tutti_group_end(), FUZZ_OK | may);
    fuzz_expect(me, "group_end", tutti_group_end(), FUZZ_MAY(first));
}

void fuzz_refusal(struct fuzz_rank *me, const struct fuzz_end *end)
{
    struct fuzz_call call;
    fuzz_settle(me); /* so that there is room, and what a refused call writes is seen as its own */
    if (below(me, 4) == 0) {
        refuse_in_group(me, end);
    } else {
        uint32_t may = draw_spoiled(me, end, &call);
        if (may == 0)
            return;
        fuzz_describe(me, &call, "spoiled: ");
        fuzz_expect(me, fuzz_rows[call.what].name, fuzz_make(me, &call), may);
    }
    fuzz_compare(me);
    if (end->comm != NULL)
        fuzz_right(me, "comm_state", tutti_comm_state(end->comm) == TUTTI_OK);
}

/* --- Anything */

static void draw_wild(struct fuzz_rank *me, struct fuzz_call *call)
{
    static const int roots[] = { 0, 0, 0, 1, -1, INT_MAX };
    static const size_t counts[] = { 0, 1, 2, 3, 5, 6, 8, SIZE_MAX };
    static const int types[] = { -1, 12, 300 };
    uint8_t *memory = fuzz_place(me, &me->pools[below(me, 2)], 4 * WILD_BYTES, 64);
    int type = below(me, 8) == 0 ? types[below(me, 3)] : (int)below(me, 12);
    *call = (struct fuzz_call){ .what = (enum fuzz_what)below(me, FUZZ_CALLS),
        .end = &me->ends[0],
        .comm = below(me, 8) == 0 ? fuzz_junk(me) : me->ends[0].comm,
        .op = below(me, 4) == 0 ? below(me, 300) : below(me, 5),
        .root = roots[below(me, 6)],
        .count = counts[below(me, 8)],
        .send = below(me, 4) == 0 ? NULL : memory,
        .recv = below(me, 4) == 0   ? NULL
                : below(me, 4) == 0 ? memory + below(me, 40)
                                    : memory + 2 * WILD_BYTES,
        .stream = tutti_no_stream() };
    memcpy(&call->type, &type, sizeof type);
    for (int i = 0; i < 4; i++)
        for (int r = 0; r < FUZZ_RANKS; r++)
            call->arrays[i][r] = counts[below(me, 8)];
    call->send_counts = below(me, 4) == 0 ? NULL : call->arrays[0];
    call->send_displs = below(me, 2) == 0 ? NULL : call->arrays[1];
    call->recv_counts = below(me, 4) == 0 ? NULL : call->arrays[below(me, 2) == 0 ? 0 : 2];
    call->recv_displs = below(me, 2) == 0 ? NULL : call->arrays[3];
    if (below(me, 4) == 0 && me->stream_count > 0)
        call->stream = me->streams[0];
    else if (below(me, 8) == 0)
        call->stream.kind = (int32_t)below(me, 5) - 1;
}

void fuzz_wild(struct fuzz_rank *me)
{
    struct fuzz_call call;
    fuzz_settle(me);
    draw_wild(me, &call);
    fuzz_describe(me, &call, "anything: ");
    tutti_status status = fuzz_expect(me, fuzz_rows[call.what].name, fuzz_make(me, &call),
        FUZZ_OK | FUZZ_ARGUMENT | FUZZ_USAGE | FUZZ_UNSUPPORTED);
    for (int i = 0; i < me->stream_count; i++) {
        uint64_t point = 0;
        tutti_stream_record(me->streams[i], &point);
        tutti_stream_wait(me->streams[i], point, -1);
    }
    if (status == TUTTI_OK && call.recv != NULL) /* it may have written there, and nowhere else */
        memcpy(fuzz_shadow(me, call.recv), call.recv, WILD_BYTES);
    fuzz_compare(me);
}
