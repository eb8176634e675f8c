/* SPDX-License-Identifier: BSD-3-Clause */
/* test_shm_whole.c: messages of the shm transport that stand for their whole chunk: all of it comes, in few
 * pieces, by either side; who does not take it gets its slice alone; and where a side may not reach the
 * other's memory, the slice is copied. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/config.h"
#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/shm_segment.h"

enum { SLICE = 64 << 10, SLICES = 48, WHOLE = SLICE * SLICES, SIGNATURE = 77, PIECES_MOST = 12 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(shm_whole, .init = limit_time);

struct end { /* of the message, at one rank */
    struct shm_rank *r;
    struct tt_endpoint *e;
    struct tt_link *link;
    uint64_t number;
    uint8_t *memory; /* WHOLE bytes */
    struct tt_layout layout;
    bool open; /* the peer may be read */
};

static struct end begin(struct shm_rank *r)
{
    struct end end = { .r = r, .number = r->stage->params.first_number };
    shm_introduce(r);
    end.e = shm_join(r);
    end.link = tt_link_to(end.e, TT_CLASS_P2P, 1 - r->me);
    end.memory = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    end.open = ((struct tt_shm_endpoint *)end.e)->peers[1 - r->me].open;
    tt_layout_even(&end.layout, WHOLE, 1, SLICES, 1);
    for (uint64_t i = 0; r->me == 0 && i < WHOLE; i++)
        end.memory[i] = suite_byte(5, i);
    tt_endpoint_enter(end.e);
    return end;
}

static void finish(struct end *end)
{
    shm_meet(end->r);
    tt_endpoint_leave(end->e);
    tt_shm.close(end->e);
}

static struct tt_view view_of(const struct end *end, uint32_t slice)
{
    return (struct tt_view){
        .layout = &end->layout, .nchunks = 1, .slice = slice, .space.base = (uintptr_t)end->memory
    };
}

static bool send_slice(struct end *end, uint32_t slice, bool helps)
{
    struct tt_message m = { .number = end->number + slice,
        .signature = SIGNATURE,
        .bytes = SLICE,
        .whole = slice == 0 ? WHOLE : 0,
        .halves = helps,
        .source = view_of(end, slice) };
    return link_send(end->link, &m);
}

static enum tt_whole give(struct end *end, bool helps)
{
    return end->link->ops->give(end->link, end->number, helps);
}

static enum tt_whole take(struct end *end, uint32_t signature, uint64_t whole)
{
    struct tt_view first = view_of(end, 0);
    return end->link->ops->take(end->link, end->number, signature, &first, whole);
}

static bool grant(struct end *end, uint64_t number)
{
    struct tt_view place = view_of(end, 0);
    return link_grant(end->link, number, SIGNATURE, &place, 0);
}

static void check(struct end *end, uint64_t bytes)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < WHOLE; i++)
        wrong += end->memory[i] != (i < bytes ? suite_byte(5, i) : 0);
    suite_expect(&end->r->suite, wrong == 0, "%d bytes are wrong", (int)wrong);
}

/* Both begin, and rank 0 offers all with the slice that rank 1 has granted. */
static struct end offer(struct shm_rank *r)
{
    struct end end = begin(r);
    if (r->me == 1)
        grant(&end, end.number);
    shm_meet(r);
    if (r->me == 0)
        send_slice(&end, 0, true);
    shm_meet(r);
    return end;
}

/* --- It is taken */

static void all_by_reader(struct shm_rank *r)
{
    struct end end = begin(r);
    int moves = 0;
    enum tt_whole now = TT_WHOLE_IDLE;
    if (r->me == 1) {
        suite_expect(&r->suite, take(&end, SIGNATURE, WHOLE) == TT_WHOLE_IDLE, "it came before it was sent");
        suite_expect(&r->suite, grant(&end, end.number) || !end.open, "no grant");
    }
    shm_meet(r);
    if (r->me == 0)
        suite_expect(&r->suite, send_slice(&end, 0, false), "no room");
    shm_meet(r);
    for (; r->me == 1 && end.open && now != TT_WHOLE_DONE && now != TT_WHOLE_NOT; moves++)
        now = take(&end, SIGNATURE, WHOLE);
    if (r->me == 1 && end.open) {
        suite_expect(&r->suite, now == TT_WHOLE_DONE, "it ended as %d", now);
        suite_expect(&r->suite, moves <= PIECES_MOST, "%d pieces", moves);
        check(&end, WHOLE);
        link_release(end.link, end.number);
    }
    shm_meet(r);
    if (r->me == 0 && end.open) {
        suite_expect(&r->suite, give(&end, true) == TT_WHOLE_DONE, "its sender does not know");
        suite_expect(&r->suite, give(&end, true) == TT_WHOLE_NOT, "it is done twice");
        suite_expect(&r->suite, end.e->path_bytes[TT_PATH_PULLED] == WHOLE, "it is not counted");
    }
    finish(&end);
}

static struct shm_stage *stage_of_pulls(void)
{
    struct shm_stage *stage = shm_stage_new(2);
    stage->params.pull = TT_PULL_ALWAYS;
    return stage;
}

Test(shm_whole, its_receiver_reads_all)
{
    shm_stage_run(stage_of_pulls(), all_by_reader, -1);
}

/* The receiver reads one piece, half of it, and the sender writes the rest. */
static void both_work(struct shm_rank *r)
{
    struct end end = offer(r);
    if (r->me == 0 && end.open)
        suite_expect(&r->suite, give(&end, true) == TT_WHOLE_IDLE, "it was written before it was accepted");
    shm_meet(r);
    if (r->me == 1 && end.open)
        suite_expect(&r->suite, take(&end, SIGNATURE, WHOLE) == TT_WHOLE_MOVED, "nothing was read");
    shm_meet(r);
    if (r->me == 0 && end.open) {
        suite_expect(&r->suite, give(&end, false) == TT_WHOLE_IDLE, "it has no time, and helps");
        while (give(&end, true) == TT_WHOLE_MOVED)
            continue;
    }
    shm_meet(r);
    if (r->me == 1 && end.open) {
        suite_expect(&r->suite, take(&end, SIGNATURE, WHOLE) == TT_WHOLE_DONE, "some of it is missing");
        check(&end, WHOLE);
        link_release(end.link, end.number);
    }
    shm_meet(r);
    if (r->me == 0 && end.open) {
        suite_expect(&r->suite, give(&end, true) == TT_WHOLE_DONE, "its sender does not know");
        uint64_t pulled = end.e->path_bytes[TT_PATH_PULLED], placed = end.e->path_bytes[TT_PATH_PLACED];
        suite_expect(&r->suite, placed == WHOLE / 2 && pulled == WHOLE / 2, "%d read, %d written",
            (int)pulled, (int)placed);
    }
    finish(&end);
}

Test(shm_whole, its_sender_writes_what_is_left)
{
    shm_stage_run(stage_of_pulls(), both_work, -1);
}

/* --- It is not */

/* Who asks for the slice alone, or for another message, gets that, and the next slice is one of its own. */
static void by_slices(struct shm_rank *r)
{
    struct end end = offer(r);
    struct tt_view first = view_of(&end, 0), second = view_of(&end, 1);
    struct tt_arrival a;
    if (r->me == 1) {
        suite_expect(&r->suite, take(&end, SIGNATURE + 1, WHOLE) == TT_WHOLE_NOT, "of another call");
        suite_expect(&r->suite, take(&end, SIGNATURE, WHOLE - SLICE) == TT_WHOLE_NOT, "of another length");
        bool came = link_arrived(end.link, end.number, &first, &a);
        suite_expect(
            &r->suite, (came && a.path == TT_PATH_PLACED && a.bytes == SLICE) || !end.open, "no slice");
        suite_expect(&r->suite, take(&end, SIGNATURE, WHOLE) == TT_WHOLE_NOT, "taken after all");
    }
    shm_meet(r);
    if (r->me == 1 && end.open) {
        check(&end, SLICE);
        link_release(end.link, end.number);
    }
    shm_meet(r);
    if (r->me == 0)
        suite_expect(&r->suite, give(&end, true) == TT_WHOLE_NOT, "its sender takes all for sent, or waits");
    if (r->me == 0 && end.open)
        suite_expect(
            &r->suite, link_sent(end.link, end.number) && send_slice(&end, 1, false), "no next slice");
    shm_meet(r);
    if (r->me == 1 && end.open)
        suite_expect(&r->suite,
            link_arrived(end.link, end.number + 1, &second, &a) && a.path == TT_PATH_COPIED &&
                memcmp((const void *)a.base, end.memory, 0) == 0,
            "the next slice is not there");
    finish(&end);
}

Test(shm_whole, its_receiver_takes_a_slice)
{
    shm_stage_run(stage_of_pulls(), by_slices, -1);
}

/* What one side may not reach, the other copies. `victim`: whose memory has a hole, where the second piece
 * lies. The third, which the receiver reads, is well. */
static void out_of_reach(struct shm_rank *r, int victim)
{
    struct end end = offer(r);
    struct tt_view first = view_of(&end, 0);
    struct tt_arrival a = { 0 };
    if (r->me == victim)
        mprotect(end.memory + WHOLE / 2, WHOLE / 4, PROT_NONE);
    shm_meet(r);
    enum tt_whole now = TT_WHOLE_MOVED;
    if (r->me == 1 && victim == 1)
        take(&end, SIGNATURE, WHOLE);
    shm_meet(r);
    for (int i = 0; r->me == 0 && victim == 1 && i < PIECES_MOST; i++)
        give(&end, true);
    shm_meet(r);
    while (r->me == 1 && now == TT_WHOLE_MOVED)
        now = take(&end, SIGNATURE, WHOLE);
    suite_expect(&r->suite, r->me == 0 || now == TT_WHOLE_NOT, "it ended as %d", now);
    if (r->me == 1)
        suite_expect(&r->suite, !link_arrived(end.link, end.number, &first, &a), "it is not copied yet");
    shm_meet(r);
    if (r->me == 0) {
        suite_expect(&r->suite, give(&end, true) == TT_WHOLE_NOT, "its sender waits for more");
        suite_expect(&r->suite, link_sent(end.link, end.number), "it is not copied");
    }
    shm_meet(r);
    if (r->me == 1) {
        suite_expect(&r->suite,
            link_arrived(end.link, end.number, &first, &a) && a.path == TT_PATH_COPIED && a.bytes == SLICE,
            "the copy does not come");
        for (uint64_t i = 0; i < a.bytes; i++)
            suite_expect(&r->suite, ((const uint8_t *)a.base)[i] == suite_byte(5, i), "byte %d", (int)i);
        link_release(end.link, end.number);
    }
    finish(&end);
}

static void source_out_of_reach(struct shm_rank *r)
{
    out_of_reach(r, 0);
}

static void place_out_of_reach(struct shm_rank *r)
{
    out_of_reach(r, 1);
}

Test(shm_whole, what_is_out_of_reach_is_copied)
{
    shm_stage_run(stage_of_pulls(), source_out_of_reach, -1);
    shm_stage_run(stage_of_pulls(), place_out_of_reach, -1);
}

/* A message that was granted, and is part of one that came whole, leaves nothing behind: neither a grant, nor
 * a word that takes the place of what was said of the message before in its line. */
static void never_comes(struct shm_rank *r)
{
    struct end end = begin(r);
    struct tt_view second = view_of(&end, 1);
    struct tt_arrival a;
    uint64_t before = end.number + 1, never = before + TT_SHM_LINES, next = never + TT_SHM_LINES;
    if (r->me == 0)
        suite_expect(&r->suite, send_slice(&end, 1, false), "no slot");
    shm_meet(r);
    if (r->me == 1) {
        suite_expect(&r->suite, link_arrived(end.link, before, &second, &a), "nothing comes");
        link_release(end.link, before);
    }
    if (r->me == 1 && end.open) {
        suite_expect(&r->suite, grant(&end, never), "no grant");
        link_release(end.link, never);
        suite_expect(&r->suite, grant(&end, never + TT_SLOTS), "the grant before has not ended");
        link_release(end.link, never + TT_SLOTS);
        suite_expect(&r->suite, ((struct tt_shm_endpoint *)end.e)->awaited == 0, "something is awaited");
    }
    shm_meet(r);
    end.number = next - 1;
    if (r->me == 0)
        suite_expect(&r->suite, send_slice(&end, 1, false), "its line is not free");
    shm_meet(r);
    if (r->me == 1)
        suite_expect(&r->suite, link_arrived(end.link, next, &second, &a), "the next of its line is lost");
    finish(&end);
}

Test(shm_whole, a_grant_of_what_never_comes_ends)
{
    shm_stage_run(stage_of_pulls(), never_comes, -1);
}
