/* SPDX-License-Identifier: BSD-3-Clause */
/* fail_alloc_streams.c: calls on streams, when what they ask for is refused, and when they should ask for
 * nothing. */
#include "fail_alloc.h"

enum { FRUGAL_ROUNDS = 50 };

/* Two ranks of one thread by streams. A call that is refused is made again; a worker that is refused ends the
 * communicator. */
struct streamed {
    tutti_comm *comms[2];
    tutti_stream streams[2];
    int32_t v[2][4];
    tutti_status status; /* of the first call that was refused */
};

static bool again(struct streamed *s, tutti_status status)
{
    if (status != TUTTI_OK && s->status == TUTTI_OK)
        s->status = status;
    return status == TUTTI_OUT_OF_MEMORY;
}

static void queue_streamed(struct streamed *s)
{
    size_t counts[2] = { 1, 1 }, displs[2] = { 1, 0 };
    for (int r = 0; r < 2; r++) {
        tutti_comm *comm = s->comms[r];
        int32_t *v = s->v[r];
        while (again(s, tutti_all_reduce(v, v, 1, TUTTI_INT32, TUTTI_MAX, comm, s->streams[r])))
            continue;
        while (
            again(s, tutti_all_gather_v(v + 1, 1, v + 2, counts, displs, TUTTI_INT32, comm, s->streams[r])))
            continue;
    }
    bool refused_again = true;
    for (int k = 0; k < TRIES_AGAIN && refused_again; k++) {
        tutti_group_start();
        for (int r = 0; r < 2; r++) {
            tutti_send(&s->v[r][1], 1, TUTTI_INT32, 1 - r, s->comms[r], s->streams[0]);
            tutti_recv(&s->v[r][2], 1, TUTTI_INT32, 1 - r, s->comms[r], s->streams[1]);
        }
        refused_again = again(s, tutti_group_end());
    }
    for (int r = 0; r < 2; r++) {
        uint64_t point;
        tutti_stream_record(s->streams[1 - r], &point);
        tutti_stream_after(s->streams[r], s->streams[1 - r], point);
    }
}

static void await_streamed(struct streamed *s)
{
    for (int r = 0; r < 2; r++) {
        uint64_t point;
        tutti_stream_record(s->streams[r], &point);
        again(s, tutti_stream_wait(s->streams[r], point, -1));
    }
}

static tutti_status open_streamed(struct streamed *s)
{
    *s = (struct streamed){ .v = { { 1, 10 }, { 2, 20 } } };
    tutti_status status = tutti_comm_init_all(2, NULL, NULL, s->comms);
    for (int r = 0; r < 2 && status == TUTTI_OK; r++) {
        status = tutti_stream_create(&s->streams[r]);
        if (status == TUTTI_OK)
            continue;
        for (int k = 0; k < 2; k++)
            tutti_comm_destroy(s->comms[k]);
        for (int k = 0; k < r; k++)
            tutti_stream_destroy(s->streams[k]);
    }
    return status;
}

static void close_streamed(struct streamed *s)
{
    for (int r = 0; r < 2; r++) {
        tutti_stream_destroy(s->streams[r]);
        tutti_comm_destroy(s->comms[r]);
    }
}

tutti_status try_streams(long refusal)
{
    struct streamed s;
    atomic_store(&countdown, refusal);
    tutti_status status = open_streamed(&s);
    if (status != TUTTI_OK) {
        atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
        return status;
    }
    queue_streamed(&s);
    await_streamed(&s);
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    bool right = s.v[0][0] == 2 && s.v[1][0] == 2 && s.v[0][2] == 20 && s.v[1][2] == 10 && s.v[1][3] == 10;
    if (!right && tutti_comm_state(s.comms[0]) == TUTTI_OK)
        fail("streams gave %d, %d, %d, %d and %d", s.v[0][0], s.v[1][0], s.v[0][2], s.v[1][2], s.v[1][3]);
    close_streamed(&s);
    return s.status;
}

/* A group of both ranks, kept; on no stream, on one, or on two. */
static tutti_status keep_program(struct streamed *s, int streams, tutti_program **program)
{
    size_t counts[2] = { 1, 1 }, displs[2] = { 1, 0 };
    const tutti_stream none = tutti_no_stream();
    const tutti_stream first = streams > 0 ? s->streams[0] : none,
                       second = streams > 1 ? s->streams[1] : first;
    tutti_group_start();
    for (int r = 0; r < 2; r++) {
        int32_t *v = s->v[r];
        tutti_all_reduce(v, v, 1, TUTTI_INT32, TUTTI_MAX, s->comms[r], first);
        tutti_send(v + 1, 1, TUTTI_INT32, 1 - r, s->comms[r], second);
        tutti_recv(v + 2, 1, TUTTI_INT32, 1 - r, s->comms[r], first);
        tutti_all_gather_v(v + 1, 1, v + 2, counts, displs, TUTTI_INT32, s->comms[r], second);
    }
    return tutti_group_keep(program);
}

tutti_status try_program(long refusal)
{
    struct streamed s;
    tutti_program *program = NULL;
    tutti_status status = open_streamed(&s), start = TUTTI_OK;
    if (status != TUTTI_OK)
        return status;
    atomic_store(&countdown, refusal);
    status = keep_program(&s, 2, &program);
    if (status != TUTTI_OK && program != NULL)
        fail("a failed group_keep has set its output");
    if (status != TUTTI_OK)
        start = keep_program(&s, 2, &program);
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    for (int i = 0; i < 3 && start == TUTTI_OK; i++)
        start = tutti_program_start(program);
    if (start != TUTTI_OK || tutti_program_destroy(program) != TUTTI_OK)
        fail("a program fails after it was refused: %s", tutti_get_last_error(NULL));
    else if (s.v[0][0] != 2 || s.v[1][0] != 2 || s.v[0][2] != 20 || s.v[1][3] != 10)
        fail("a program gave %d, %d, %d and %d", s.v[0][0], s.v[1][0], s.v[0][2], s.v[1][3]);
    close_streamed(&s);
    return status;
}

/* A start asks for nothing, the first neither. */
static bool is_program_frugal(int streams)
{
    struct streamed s;
    tutti_program *program;
    tutti_status status = open_streamed(&s);
    if (status == TUTTI_OK)
        status = keep_program(&s, streams, &program);
    long before = atomic_load(&requests);
    for (int i = 0; i < 10 && status == TUTTI_OK; i++) {
        status = tutti_program_start(program);
        await_streamed(&s);
    }
    long asked = atomic_load(&requests) - before;
    if (status != TUTTI_OK || tutti_program_destroy(program) != TUTTI_OK)
        return fail("a program on %d streams: %s", streams, tutti_get_last_error(NULL));
    close_streamed(&s);
    return asked == 0 ||
           fail("10 starts of a program on %d streams ask the system %ld times", streams, asked);
}

/* The same calls over and over: what is pooled grows to its size, then they ask the system for nothing. */
bool is_frugal(void)
{
    struct streamed s;
    long before = 0, asked = 1;
    if (open_streamed(&s) != TUTTI_OK)
        return fail("%s", tutti_get_last_error(NULL));
    for (int round = 0; round < FRUGAL_ROUNDS && asked > 0; round++) {
        before = atomic_load(&requests);
        for (int i = 0; i < 100; i++) {
            queue_streamed(&s);
            await_streamed(&s);
        }
        asked = atomic_load(&requests) - before;
    }
    close_streamed(&s);
    if (s.status != TUTTI_OK)
        return fail("streams: %s", tutti_get_last_error(NULL));
    if (asked != 0)
        return fail("100 rounds of calls on streams still ask the system %ld times", asked);
    return is_program_frugal(0) && is_program_frugal(1) && is_program_frugal(2);
}
