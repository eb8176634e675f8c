/* SPDX-License-Identifier: BSD-3-Clause */
/* test_shm_refusals.c: what the shm transport refuses: addresses, segments and lines that are not what
 * they should be. A peer may be another release, may have left, or may have lost its mind; none of that
 * may crash this process. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "shm_ranks.h"
#include "transports/arena.h"
#include "transports/shm_segment.h"

/* Criterion's own timers leak, which ends a run under a sanitizer. */
static void limit_time(void)
{
    alarm(120);
}

TestSuite(shm_refusals, .init = limit_time);

static uint64_t resident(void)
{
    const struct tt_arena *own;
    struct stat file;
    tt_arena_get(&own);
    fstat(own->fd, &file);
    return (uint64_t)file.st_blocks * 512;
}

static struct tt_endpoint *open_one(int n, int me, uint64_t slot_bytes, uint8_t *address)
{
    struct tt_endpoint_params params = { .n = n, .me = me, .slot_bytes = slot_bytes, .map = true };
    struct tt_endpoint *e = NULL;
    cr_assert_eq(tt_shm.open(&params, address, &e), TUTTI_OK);
    return e;
}

Test(shm_refusals, parameters)
{
    struct tt_endpoint *e = NULL;
    uint8_t address[TT_ADDRESS_BYTES];
    static const struct tt_endpoint_params wrong[] = {
        { .n = 0, .slot_bytes = 64 },
        { .n = 2, .me = 2, .slot_bytes = 64 },
        { .n = 2, .me = -1, .slot_bytes = 64 },
        { .n = 2, .slot_bytes = 0 },
        { .n = 2, .slot_bytes = (uint64_t)1 << 32 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect_lt(tt_shm.open(&wrong[i], address, &e), 0);
    struct tt_endpoint_params huge = { .n = 10000, .slot_bytes = 1 << 30 };
    cr_expect_eq(tt_shm.open(&huge, address, &e), TUTTI_OUT_OF_MEMORY);
    cr_expect_null(e);
    cr_expect_leq(resident(), 4096);
}

/* Connects rank 0 of two with the other's address after one byte of it was changed. True if it has a link to
 * that rank: an address of another process is one that it does not reach. */
static bool connects_changed(int at, int by)
{
    uint8_t addresses[2][TT_ADDRESS_BYTES];
    struct tt_endpoint *e[2];
    for (int i = 0; i < 2; i++)
        e[i] = open_one(2, i, 5000, addresses[i]);
    addresses[1][at] = (uint8_t)(addresses[1][at] + by);
    bool reached =
        tt_shm.connect(e[0], addresses[0]) == TUTTI_OK && tt_link_to(e[0], TT_CLASS_P2P, 1) != NULL;
    tt_shm.close(e[0]);
    tt_shm.close(e[1]);
    return reached;
}

Test(shm_refusals, addresses)
{
    cr_expect(connects_changed(0, 0));
    int refused = 0, meaningful = 72;
    for (int at = 0; at < meaningful; at++)
        refused += !connects_changed(at, 1 + at % 100);
    cr_expect_geq(refused, meaningful - 20, "only %d", refused); /* the probe and the pid may be anything */
    /* a look at a wrong place costs a page, no more */
    cr_expect_leq(resident(), 10 * 4096, "failed connects leave %d bytes", (int)resident());
}

Test(shm_refusals, another_shape)
{
    uint8_t addresses[2][TT_ADDRESS_BYTES];
    struct tt_endpoint *a = open_one(2, 0, 5000, addresses[0]), *b = open_one(2, 1, 50000, addresses[1]);
    cr_expect_eq(tt_shm.connect(a, addresses[0]), TUTTI_INTERNAL_ERROR);
    cr_expect_eq(tt_shm.connect(b, addresses[0]), TUTTI_INTERNAL_ERROR);
    tt_shm.close(a);
    tt_shm.close(b);
    a = open_one(2, 0, 5000, addresses[0]);
    b = open_one(2, 0, 5000, addresses[1]);
    cr_expect_lt(tt_shm.connect(a, addresses[0]), 0, "the same rank twice");
    tt_shm.close(a);
    tt_shm.close(b);
    cr_expect_leq(resident(), 4096);
}

/* Nobody has connected, so its segment is freed at once: that is no segment of another shape. */
Test(shm_refusals, who_left_before_anybody_connected)
{
    uint8_t addresses[2][TT_ADDRESS_BYTES];
    struct tt_endpoint *a = open_one(2, 0, 5000, addresses[0]), *b = open_one(2, 1, 5000, addresses[1]);
    tt_shm.close(b);
    cr_expect_eq(tt_shm.connect(a, addresses[0]), TUTTI_PEER_LOST);
    cr_expect_str_eq(tt_last_error(), "rank 1 left before rank 0 was connected");
    tt_shm.close(a);
}

Test(shm_refusals, who_left_before)
{
    uint8_t addresses[3][TT_ADDRESS_BYTES];
    struct tt_endpoint *e[3];
    for (int i = 0; i < 3; i++)
        e[i] = open_one(3, i, 5000, addresses[i]);
    cr_expect_eq(tt_shm.connect(e[0], addresses[0]), TUTTI_OK);
    tt_shm.close(e[2]); /* rank 0 holds it still, rank 1 comes too late */
    cr_expect_eq(peer_state(e[0], 2), TT_PEER_LEFT);
    cr_expect_eq(tt_shm.connect(e[1], addresses[0]), TUTTI_PEER_LOST);
    tt_shm.close(e[0]);
    tt_shm.close(e[1]);
    cr_expect_leq(resident(), 4096);
}

Test(shm_refusals, abort_before_connect)
{
    uint8_t address[TT_ADDRESS_BYTES];
    struct tt_cause cause = { .status = TUTTI_ABORTED };
    struct tt_endpoint *e = open_one(2, 1, 5000, address);
    cr_expect_not(e->control->abort(e, &cause));
    cr_expect_not(e->control->cause(e, &cause));
    tt_shm.close(e);
}

/* --- Lines written by a peer out of its mind: rank 1 writes into rank 0's segment what rank 0 never sent. */

static uint64_t chance(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 16 ^ *seed << 30;
}

static void write_line(struct tt_shm_line *line, const struct tt_arena *arena, uint64_t *seed)
{
    static const uint64_t lengths[] = { 0, 1, 48, 49, 4096, 70000, SUITE_SLOT_BYTES, SUITE_SLOT_BYTES + 1,
        UINT32_MAX };
    uint64_t places[] = { 0, 4096, arena->bytes - 4096, arena->bytes - 1, arena->bytes, UINT64_MAX - 4096,
        chance(seed) % arena->bytes, chance(seed) };
    uint64_t strides[] = { 0, 1, 64, 100000, arena->bytes, arena->bytes - 1, UINT64_MAX, chance(seed) };
    uint32_t chunks[] = { 0, 1, 4, 5, 7, 1000, UINT32_MAX, (uint32_t)chance(seed) };
    line->bytes = (uint32_t)lengths[chance(seed) % 9];
    line->path = (uint8_t)(chance(seed) % 6);
    line->packed = chance(seed) & 1;
    line->source.at = places[chance(seed) % 8];
    if (line->path == TT_PATH_COPIED)
        line->shuttle = (uint32_t)(chance(seed) % 8);
    line->source.stride = strides[chance(seed) % 8];
    line->source.chunk = chunks[chance(seed) % 8];
}

/* The first and the last byte of each run. */
static uint64_t touch(const struct tt_arrival *a)
{
    uint64_t sum = 0;
    for (uint64_t at = 0, run; at < a->bytes; at += run) {
        const volatile uint8_t *address = (const uint8_t *)tt_arrival_run(a, at, &run);
        sum += address[0] + address[run - 1] + 1u;
    }
    return sum;
}

/* Seven chunks of their own lengths, in arrays that end where memory ends. */
static void make_v_layout(struct tt_layout *layout)
{
    enum { CHUNKS = 7, PAGE = 4096 };
    uint8_t *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(pages, MAP_FAILED);
    mprotect(pages + PAGE, PAGE, PROT_NONE);
    mprotect(pages + 3 * PAGE, PAGE, PROT_NONE);
    size_t *counts = (size_t *)(pages + PAGE) - CHUNKS;
    uint64_t *starts = (uint64_t *)(pages + 3 * PAGE) - CHUNKS;
    for (size_t c = 0; c < CHUNKS; c++)
        counts[c] = 1000 + 100 * c;
    tt_layout_v(layout, counts, starts, CHUNKS, 1, 1);
}

/* Grants are as little believed as lines. The place must be in rank 0's arena: it would be written. */
static void write_grant(struct tt_shm_grant *grant, const struct tt_arena *arena, uint64_t *seed)
{
    struct tt_shm_line line;
    write_line(&line, arena, seed);
    grant->place = line.source;
    grant->packed = line.packed;
    grant->bytes = line.bytes;
    grant->signature = (uint32_t)(chance(seed) % 8 == 0);
}

static bool inside(const struct tt_arena *arena, const struct tt_view *place)
{
    uint64_t count, element = place->layout->element_bytes, at;
    for (uint64_t i = 0; i < tt_view_count(place); i += count) {
        uintptr_t address = tt_view_run(place, i, &count);
        if (!tt_arena_offset(arena, address, count * element, &at))
            return false;
    }
    return true;
}

/* Where a message of one run may be put; NULL: nowhere. */
static void *find_target(struct tt_endpoint *e, uint64_t number, uint32_t bytes)
{
    struct tt_layout layout;
    struct tt_view place;
    uint64_t count;
    struct tt_message m = { .number = number, .bytes = bytes };
    tt_layout_even(&layout, bytes, 1, 1, 1);
    m.source = (struct tt_view){ .layout = &layout, .nchunks = 1 };
    bool granted = link_granted(tt_link_to(e, TT_CLASS_P2P, 0), &m, 0, &place);
    return granted ? (void *)tt_view_run(&place, 0, &count) : NULL;
}

/* The same, where a message of one run looks for it. */
static bool find_run(struct shm_rank *r, struct tt_endpoint *e, const struct tt_shm_grant *grant,
    uint64_t number, uint32_t bytes)
{
    const struct tt_arena *arena = ((struct tt_shm_endpoint *)e)->peers[0].arena;
    uint64_t at;
    void *place = find_target(e, number, bytes);
    if (place == NULL)
        return false;
    suite_expect(&r->suite, grant->bytes == bytes && grant->signature == 0, "another message's grant");
    suite_expect(&r->suite, tt_arena_offset(arena, (uintptr_t)place, bytes, &at),
        "a run of what is not the peer's is believed");
    tt_endpoint_leave(e);
    suite_expect(&r->suite, find_target(e, number, bytes) == NULL, "it is given to who is outside");
    tt_endpoint_enter(e);
    return true;
}

static void find_nonsense(struct shm_rank *r)
{
    enum { ROUNDS = 300000 };
    uint64_t seed = 7, number = r->stage->params.first_number, accepted = 0, refused = 0, runs = 0;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_shm_endpoint *shm = (struct tt_shm_endpoint *)e;
    const struct tt_arena *arena = shm->peers[0].arena;
    struct tt_shm_grant *grant =
        (struct tt_shm_grant *)&tt_shm_channel(shm, TT_CLASS_P2P, 0)->grants_in[number & (TT_SLOTS - 1)];
    struct tt_layout layouts[3];
    tt_layout_even(&layouts[0], 70000 * 7 * 2 / 3, 7, 2, 1);
    tt_layout_even(&layouts[1], 4096, 1, 1, 1);
    make_v_layout(&layouts[2]);
    tt_endpoint_enter(e);
    for (int i = 0; r->me == 1 && i < ROUNDS; i++) {
        struct tt_message m = { .number = number };
        struct tt_view place;
        m.source = (struct tt_view){ .layout = &layouts[i % 3], .nchunks = i % 3 == 1 ? 1 : 3 };
        m.source.chunk = i % 3 == 1 ? 0 : (uint32_t)chance(&seed) % 9;
        m.bytes = tt_view_count(&m.source) * m.source.layout->element_bytes;
        write_grant(grant, arena, &seed);
        if (i % 2 == 0)
            grant->bytes = (uint32_t)m.bytes;
        atomic_store_explicit(&grant->number, number + 1, memory_order_release);
        runs += find_run(r, e, grant, number, (uint32_t)m.bytes);
        if (!link_granted(tt_link_to(e, TT_CLASS_P2P, 0), &m, 0, &place)) {
            refused++;
            continue;
        }
        suite_expect(&r->suite, grant->bytes == m.bytes && grant->signature == 0, "another message's grant");
        suite_expect(&r->suite, inside(arena, &place), "a grant of what is not the peer's is believed");
        accepted++;
    }
    suite_expect(&r->suite,
        r->me == 0 || (accepted > ROUNDS / 100 && refused > ROUNDS / 100 && runs > ROUNDS / 100),
        "%d accepted, %d of one run, %d refused", (int)accepted, (int)runs, (int)refused);
    tt_endpoint_leave(e);
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_refusals, grants)
{
    shm_stage_run(shm_stage_new(2), find_nonsense, -1);
}

/* What was lent is read where it is said to lie, so that must be in the arena. */
static void peek_nonsense(
    struct shm_rank *r, struct tt_endpoint *e, const struct tt_shm_line *line, uint64_t number)
{
    const struct tt_shm_peer *peer = &((struct tt_shm_endpoint *)e)->peers[0];
    const void *payload = NULL;
    uint64_t at;
    struct tt_link *link = tt_link_to(e, TT_CLASS_P2P, 0);
    enum tt_peek found = link_peek(link, number, line->signature, line->bytes, &payload);
    suite_expect(&r->suite, found != TT_PEEK_PLACED, "what was not granted is there");
    if (found == TT_PEEK_THERE && line->path == TT_PATH_MAPPED)
        suite_expect(&r->suite, tt_arena_offset(peer->arena, (uintptr_t)payload, line->bytes, &at),
            "a loan of what is not the peer's is believed");
}

static void read_nonsense(struct shm_rank *r)
{
    enum { ROUNDS = 300000 };
    uint64_t seed = 3, number = r->stage->params.first_number, accepted = 0, refused = 0;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_shm_endpoint *shm = (struct tt_shm_endpoint *)e;
    struct tt_shm_line *line =
        (struct tt_shm_line *)&tt_shm_channel(shm, TT_CLASS_P2P, 0)->in[tt_shm_line_of(number)];
    struct tt_layout layouts[3];
    tt_layout_even(&layouts[0], 70000 * 7 * 2 / 3, 7, 2, 1);
    tt_layout_even(&layouts[1], 4096, 1, 1, 1);
    make_v_layout(&layouts[2]);
    tt_endpoint_enter(e);
    for (int i = 0; r->me == 1 && i < ROUNDS; i++) {
        struct tt_view like = { .layout = &layouts[i % 3], .nchunks = i % 3 == 1 ? 1 : 3 };
        struct tt_arrival a;
        write_line(line, shm->peers[0].arena, &seed);
        if (i % 2 == 0)
            line->bytes = (uint32_t)(tt_view_count(&like) * like.layout->element_bytes);
        atomic_store_explicit(&line->single_reader, 1, memory_order_relaxed); /* copied, if this rank asked */
        atomic_store_explicit(&line->flag, tt_shm_flag(number), memory_order_release);
        peek_nonsense(r, e, line, number);
        if (!link_arrived(tt_link_to(e, TT_CLASS_P2P, 0), number, &like, &a))
            suite_expect(&r->suite, line->path == TT_PATH_PULLED, "the line is not found");
        else if (a.bytes == 0)
            refused++;
        else
            accepted += touch(&a) > 0;
    }
    suite_expect(&r->suite, r->me == 0 || (accepted > ROUNDS / 100 && refused > ROUNDS / 100),
        "%d accepted, %d refused", (int)accepted, (int)refused);
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_refusals, lines)
{
    shm_stage_run(shm_stage_new(2), read_nonsense, -1);
}

/* A slot that was read is marked in each line of the message and nowhere else, however long it may claim
 * to be. */
static void take_slots(struct shm_rank *r)
{
    uint64_t number = r->stage->params.first_number;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_shm_endpoint *shm = (struct tt_shm_endpoint *)e;
    struct tt_shm_channel *c = tt_shm_channel(shm, TT_CLASS_P2P, 0);
    struct tt_shm_line *line = &c->in[tt_shm_line_of(number)];
    uint64_t stride = shm->slot_stride, slot = number & (TT_SLOTS - 1);
    const uint32_t lengths[] = { 1, 64, 65, (uint32_t)e->slot_bytes, UINT32_MAX };
    for (size_t i = 0; r->me == 1 && i < sizeof lengths / sizeof lengths[0]; i++) {
        uint64_t most = lengths[i] < e->slot_bytes ? lengths[i] : e->slot_bytes;
        memset(c->payload_in, 0x5a, TT_SLOTS * stride);
        line->path = TT_PATH_COPIED;
        line->shuttle = 0;
        line->bytes = lengths[i];
        link_release(tt_link_to(e, TT_CLASS_P2P, 0), number);
        for (uint64_t at = 0; at < TT_SLOTS * stride; at++) {
            uint64_t inside = at - slot * stride;
            bool marked = inside < most && inside % 64 == 0;
            if (!suite_expect(&r->suite, c->payload_in[at] == (marked ? 0 : 0x5a),
                    "%u bytes: byte %llu of the slots is %d", lengths[i], (unsigned long long)at,
                    c->payload_in[at]))
                break;
        }
    }
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_refusals, slots_are_taken)
{
    shm_stage_run(shm_stage_new(2), take_slots, -1);
}

/* What came by a shuttle lies in one of those that there are; behind their addresses are numbers. */
static void reply_to_nonsense(struct shm_rank *r)
{
    enum { BYTES = 100, SHUTTLES = TT_SHM_SHUTTLES_OF_PAIR };
    static const uint32_t none[] = { SHUTTLES + 1, SHUTTLES + 2, UINT32_MAX };
    uint64_t number = r->stage->params.first_number;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_shm_channel *c = tt_shm_channel((struct tt_shm_endpoint *)e, TT_CLASS_P2P, 0);
    struct tt_shm_line *line = &c->in[tt_shm_line_of(number)];
    struct tt_layout layout;
    tt_layout_even(&layout, BYTES, 1, 1, 1);
    struct tt_view like = { .layout = &layout, .nchunks = 1 };
    for (size_t i = 0; r->me == 1 && i < sizeof none / sizeof none[0]; i++) {
        struct tt_arrival a;
        for (int k = 0; k < SHUTTLES; k++)
            c->shuttles.read_bytes[k] = 4096;
        line->path = TT_PATH_COPIED;
        line->packed = 1;
        line->bytes = BYTES;
        line->shuttle = none[i];
        atomic_store(&line->flag, tt_shm_flag(number));
        bool there = link_arrived(tt_link_to(e, TT_CLASS_P2P, 0), number, &like, &a);
        suite_expect(&r->suite, there && a.bytes == 0, "a message by shuttle %u is believed", none[i]);
    }
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_refusals, shuttles_that_there_are_none_of)
{
    shm_stage_run(shm_stage_new(2), reply_to_nonsense, -1);
}

/* What is said to lie in the line is no longer than a line; and what was lent is for who is inside. */
static void outgrow_and_lend(struct shm_rank *r)
{
    uint64_t number = r->stage->params.first_number;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_shm_line *line =
        &tt_shm_channel((struct tt_shm_endpoint *)e, TT_CLASS_P2P, 0)->in[tt_shm_line_of(number)];
    struct tt_link *link = tt_link_to(e, TT_CLASS_P2P, 0);
    struct tt_layout layout;
    tt_layout_even(&layout, TT_SHM_INLINE_BYTES + 1, 1, 1, 1);
    struct tt_view like = { .layout = &layout, .nchunks = 1 };
    struct tt_arrival a;
    const void *payload = NULL;
    if (r->me == 1) {
        line->path = TT_PATH_INLINE;
        line->packed = 1;
        line->signature = 7;
        line->bytes = TT_SHM_INLINE_BYTES + 1;
        atomic_store(&line->flag, tt_shm_flag(number));
        bool there = link_arrived(tt_link_to(e, TT_CLASS_P2P, 0), number, &like, &a);
        suite_expect(&r->suite, there && a.bytes == 0, "a line holds more than a line");
        line->path = TT_PATH_MAPPED;
        line->source.at = 0;
        suite_expect(&r->suite, link_peek(link, number, 7, line->bytes, &payload) == TT_PEEK_ODD,
            "a loan is given to who is outside");
        tt_endpoint_enter(e);
        suite_expect(&r->suite, link_peek(link, number, 7, line->bytes, &payload) == TT_PEEK_THERE,
            "a loan is not given to who is inside");
        tt_endpoint_leave(e);
    }
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_refusals, long_lines_and_loans)
{
    shm_stage_run(shm_stage_new(2), outgrow_and_lend, -1);
}
