/* SPDX-License-Identifier: BSD-3-Clause */
/* test_shm_shuttles.c: buffers of the shm transport that change hands with the messages that lie in them, and
 * sources whose lines do. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/arena.h"
#include "transports/shm_segment.h"
#include "transports/shm_place.h"

enum { NOTE_BYTES = 100, MANY = 200, SHUTTLES = 2 * TT_SHM_SHUTTLES };

/* Criterion's own timers leak, which ends a run under a sanitizer. */
static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(shm_shuttles, .init = limit_time);

static uintptr_t base_of(struct tt_endpoint *e, int peer, uint64_t number)
{
    struct tt_layout layout;
    struct tt_view like = { .layout = &layout, .nchunks = 1 };
    struct tt_arrival a;
    tt_layout_even(&layout, NOTE_BYTES, 1, 1, 1);
    while (!link_arrived(tt_link_to(e, TT_CLASS_P2P, peer), number, &like, &a))
        continue;
    return a.base;
}

/* Two that send to each other use two buffers, one of each, for all messages. */
static void talk(struct shm_rank *r)
{
    uint64_t first = r->stage->params.first_number;
    uint8_t text[NOTE_BYTES];
    uintptr_t bases[2] = { 0 };
    int peer = 1 - r->me;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    for (uint64_t i = 0; i < MANY; i++) {
        suite_expect(&r->suite, shm_post(e, peer, first + i, 2 * i + (uint64_t)r->me, text, sizeof text),
            "message %d finds no room", (int)i);
        uintptr_t base = base_of(e, peer, first + i);
        suite_expect(&r->suite, i < 2 || base == bases[i % 2], "message %d lies elsewhere", (int)i);
        bases[i % 2] = base;
        shm_take(r, e, peer, first + i, 2 * i + (uint64_t)peer, sizeof text);
    }
    suite_expect(&r->suite, bases[0] != bases[1], "both lie in one buffer");
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_shuttles, answers_lie_where_questions_lay)
{
    shm_stage_run(shm_stage_new(2), talk, -1);
}

/* Bursts of one direction, which leave all shuttles with their reader, by turns. */
static void burst(struct shm_rank *r)
{
    uint64_t next[2] = { r->stage->params.first_number, r->stage->params.first_number };
    uint8_t text[NOTE_BYTES];
    int peer = 1 - r->me;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    for (int turn = 0; turn < MANY; turn++) {
        int sender = turn % 2, length = 1 + turn * 7 % (TT_SLOTS + SHUTTLES / 2);
        for (int i = 0; i < length; i++, next[sender]++) {
            bool room = sender != r->me || shm_post(e, peer, next[sender], next[sender], text, sizeof text);
            suite_expect(&r->suite, room, "message %d of %d finds no room", i, length);
        }
        for (uint64_t number = next[sender] - (uint64_t)length; number < next[sender]; number++)
            if (sender != r->me)
                shm_take(r, e, peer, number, number, sizeof text);
        shm_meet(r);
    }
    tt_shm.close(e);
}

Test(shm_shuttles, one_way_and_back)
{
    shm_stage_run(shm_stage_new(2), burst, -1);
}

/* An answer is written where the question lies, which is then not copied; what lies in a line, or in a slot,
 * which its sender keeps, is no place for it. */
static void answer(struct shm_rank *r)
{
    enum { LINE_BYTES = 40, ROUNDS = 20 };
    uint64_t first = r->stage->params.first_number;
    uint8_t question[NOTE_BYTES];
    int peer = 1 - r->me, given = 0;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_link *link = tt_link_to(e, TT_CLASS_P2P, peer);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint32_t bytes = i % 5 == 4 ? LINE_BYTES : NOTE_BYTES;
        const uint8_t *payload;
        memset(question, (int)(2 * i) + r->me, sizeof question);
        suite_expect(&r->suite, link_post(link, first + 2 * i, 1, question, bytes), "no room");
        while (link_peek(link, first + 2 * i, 1, bytes, (const void **)&payload) != TT_PEEK_THERE)
            continue;
        struct tt_layout layout;
        struct tt_view place = { .layout = &layout, .nchunks = 1 };
        struct tt_message answer = { .signature = 1, .number = first + 2 * i + 1, .bytes = bytes };
        answer.reads = first + 2 * i + 1;
        tt_layout_even(&layout, bytes, 1, 1, 1);
        answer.source = place;
        bool replies = link_replies(link, &answer, &place);
        uint8_t *kept = replies ? (uint8_t *)place.space.base : NULL;
        suite_expect(&r->suite,
            (kept == payload) == (bytes == NOTE_BYTES) && (kept == payload || kept == NULL),
            "round %d: it lies at %p, the reply at %p", (int)i, payload, kept);
        suite_expect(&r->suite, payload[bytes - 1] == 2 * i + (uint64_t)peer, "another question");
        for (uint32_t k = 0; kept != NULL && k < bytes; k++)
            kept[k] = (uint8_t)(kept[k] + 100);
        link_release(link, first + 2 * i);
        if (kept == NULL)
            memset(question, 0x77, sizeof question);
        given += kept != NULL;
        suite_expect(
            &r->suite, link_post(link, first + 2 * i + 1, 1, replies ? NULL : question, bytes), "no room");
        while (link_peek(link, first + 2 * i + 1, 1, bytes, (const void **)&payload) != TT_PEEK_THERE)
            continue;
        suite_expect(&r->suite, payload[bytes - 1] == (kept != NULL ? 2 * i + (uint64_t)r->me + 100 : 0x77),
            "round %d: the answer is %d", (int)i, payload[bytes - 1]);
        link_release(link, first + 2 * i + 1);
    }
    suite_expect(&r->suite, given == ROUNDS / 5 * 4, "%d answers lay where the questions did", given);
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_shuttles, an_answer_is_written_where_the_question_lies)
{
    shm_stage_run(shm_stage_new(2), answer, -1);
}

/* The same as the executor has it: what is stored where the operand lies leaves as `placed`, and lies for its
 * reader where that one's operand was; what is sent in between takes other room. */
static void reply_in_place(struct shm_rank *r)
{
    enum { LINE_BYTES = 40, ROUNDS = 20, MESSAGES = 3 };
    uint64_t number = r->stage->params.first_number;
    uint8_t text[NOTE_BYTES];
    int peer = 1 - r->me;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_link *link = tt_link_to(e, TT_CLASS_P2P, peer);
    for (int i = 0; i < ROUNDS; i++, number += MESSAGES) {
        uint64_t bytes = i % 5 == 4 ? LINE_BYTES : NOTE_BYTES, count;
        struct tt_layout layout;
        struct tt_message m = { .number = number + 2, .bytes = bytes };
        struct tt_view place;
        tt_layout_even(&layout, bytes, 1, 1, 1);
        m.source = (struct tt_view){ .layout = &layout, .space = { .base = (uintptr_t)text }, .nchunks = 1 };
        suite_expect(&r->suite, shm_post(e, peer, number, 0, text, bytes), "no room");
        base_of(e, peer, number);
        suite_expect(&r->suite, !link_replies(link, &m, &place), "the reply to nothing is stored in place");
        m.reads = number + 1;
        bool stored = link_replies(link, &m, &place);
        suite_expect(
            &r->suite, stored == (bytes > LINE_BYTES), "round %d: it is stored in place: %d", i, stored);
        suite_expect(&r->suite, link_replies(link, &m, &place) == stored, "the second part goes elsewhere");
        if (stored)
            memset((void *)tt_view_run(&place, 0, &count), 100 + i, bytes);
        link_release(tt_link_to(e, TT_CLASS_P2P, peer), number);
        suite_expect(&r->suite, shm_post(e, peer, number + 1, 1, text, bytes), "no room in between");
        memset(text, 100 + i, sizeof text); /* what is not stored in place is read from here */
        m.placed = stored;
        suite_expect(&r->suite, link_send(link, &m), "no room for the answer");
        shm_take(r, e, peer, number + 1, 1, bytes);
        const uint8_t *answer = (const uint8_t *)base_of(e, peer, number + 2);
        suite_expect(&r->suite, answer[0] == 100 + i && answer[bytes - 1] == 100 + i,
            "round %d: the answer is %d", i, answer[0]);
        link_release(tt_link_to(e, TT_CLASS_P2P, peer), number + 2);
    }
    suite_expect(&r->suite, e->path_bytes[TT_PATH_PLACED] == 0, "something was placed");
    const struct tt_shuttles *s = &tt_shm_channel((struct tt_shm_endpoint *)e, TT_CLASS_P2P, peer)->shuttles;
    for (int i = 0; i < TT_SHM_SHUTTLES_OF_PAIR; i++)
        suite_expect(&r->suite, s->state[i] != TT_SHUTTLE_RESERVED && s->state[i] != TT_SHUTTLE_REPLY,
            "shuttle %d is kept for an answer that has left", i);
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_shuttles, a_reply_is_stored_in_place_while_others_are_sent)
{
    shm_stage_run(shm_stage_new(2), reply_in_place, -1);
}

/* A sum may be stored in parts, and its place be granted in between: all of it is stored in place. */
static void reply_in_parts(struct shm_rank *r)
{
    uint64_t number = r->stage->params.first_number;
    uint8_t text[2 * TT_SHM_COPY_BYTES], *wanted = NULL;
    int peer = 1 - r->me;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_link *link = tt_link_to(e, TT_CLASS_P2P, peer);
    struct tt_layout layout;
    struct tt_view place, source = { .layout = &layout, .nchunks = 1 };
    tt_layout_even(&layout, sizeof text, 1, 1, 1);
    suite_expect(&r->suite, tt_arena_alloc(sizeof text, (void **)&wanted) == TUTTI_OK, "no memory");
    suite_expect(&r->suite, shm_post(e, peer, number, 0, text, sizeof text), "no room");
    base_of(e, peer, number);
    struct tt_message m = { .number = number + 1, .reads = number + 1 };
    m.bytes = sizeof text;
    m.source = source;
    suite_expect(&r->suite, link_replies(link, &m, &place), "it is not stored in place");
    shm_meet(r);
    source.space.base = (uintptr_t)wanted;
    suite_expect(&r->suite, link_grant(tt_link_to(e, TT_CLASS_P2P, peer), number + 1, 0, &source, 0),
        "it cannot be granted");
    shm_meet(r);
    suite_expect(&r->suite, !link_granted(link, &m, 0, &place), "the rest is stored elsewhere");
    suite_expect(&r->suite, link_replies(link, &m, &place), "the second part goes elsewhere");
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_shuttles, a_reply_in_place_is_not_placed_in_the_end)
{
    shm_stage_run(shm_stage_new(2), reply_in_parts, -1);
}

/* What an answer that is shorter than its question leaves of that one's lines, its sender writes to; else who
 * asked would write lines again that both have read. A question as long as the answer leaves none. */
static void answer_briefly(struct shm_rank *r)
{
    enum { LONG = 1000, SHORT = 100, BYTE = 0x55, ROUNDS = 4 };
    uint64_t first = r->stage->params.first_number;
    uint8_t text[LONG];
    int peer = 1 - r->me;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_link *link = tt_link_to(e, TT_CLASS_P2P, peer);
    memset(text, BYTE, sizeof text);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        const uint8_t *payload;
        uint32_t asked = i % 2 == 0 ? LONG : SHORT;
        suite_expect(&r->suite, link_post(link, first + 2 * i, 1, text, asked), "no room");
        while (link_peek(link, first + 2 * i, 1, asked, (const void **)&payload) != TT_PEEK_THERE)
            continue;
        const uint8_t *question = payload;
        link_release(link, first + 2 * i);
        shm_meet(r); /* the lines are looked at while nobody writes them */
        suite_expect(&r->suite, link_post(link, first + 2 * i + 1, 1, text, SHORT), "no room");
        int written = 0;
        for (uint32_t at = 0; at < LONG; at++)
            written += at < asked && question[at] != BYTE;
        suite_expect(&r->suite, written == (int)(asked - SHORT + 63) / 64, "round %d: %d bytes are written",
            (int)i, written);
        shm_meet(r);
        while (link_peek(link, first + 2 * i + 1, 1, SHORT, (const void **)&payload) != TT_PEEK_THERE)
            continue;
        suite_expect(&r->suite, payload[0] == BYTE && payload[SHORT - 1] == BYTE, "another answer");
        link_release(link, first + 2 * i + 1);
    }
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_shuttles, what_a_short_answer_leaves_is_written)
{
    shm_stage_run(shm_stage_new(2), answer_briefly, -1);
}

static int copies; /* into lines that are here */

static void copy_and_count(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
    copies++;
}

/* What is copied into a shuttle finds its lines here, and what is copied into a slot does not. */
static void copy_by_the_lines(struct shm_rank *r)
{
    enum { MESSAGES = 6 };
    uint64_t first = r->stage->params.first_number;
    uint8_t text[NOTE_BYTES];
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    for (uint64_t i = 0; i < MESSAGES && r->me == 0; i++)
        suite_expect(&r->suite, shm_post(e, 1, first + i, i, text, sizeof text), "no room");
    for (uint64_t i = 0; i < MESSAGES && r->me == 1; i++)
        shm_take(r, e, 0, first + i, i, sizeof text);
    if (r->me == 1)
        suite_expect(&r->suite, shm_post(e, 0, first, MESSAGES, text, sizeof text), "no room");
    else
        shm_take(r, e, 1, first, MESSAGES, sizeof text);
    suite_expect(&r->suite, copies == (r->me == 0 ? TT_SHM_SHUTTLES : 1), "%d copies into shuttles", copies);
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_shuttles, copies_know_where_the_lines_are)
{
    struct shm_stage *stage = shm_stage_new(2);
    stage->params.copy = copy_and_count;
    shm_stage_run(stage, copy_by_the_lines, -1);
}

enum { SOURCE_LINES = 64, LINE = 64, SOURCE_BYTES = SOURCE_LINES * LINE, SOURCE_BYTE = 0x55 };

/* The source lies in the middle of `memory`; `lines` of it have been written since it was filled. */
static void expect_spoilt(struct shm_rank *r, const uint8_t *memory, int lines)
{
    int written = 0, outside = 0;
    for (int at = 0; at < 3 * SOURCE_BYTES; at++) {
        bool changed = memory[at] != SOURCE_BYTE;
        written += changed;
        outside += changed && (at / SOURCE_BYTES != 1 || at % LINE != 0);
    }
    suite_expect(&r->suite, written == lines && outside == 0, "%d bytes and not %d are written, %d elsewhere",
        written, lines, outside);
}

static void post_source(
    struct shm_rank *r, struct tt_endpoint *e, uint64_t number, uint8_t *memory, bool once, bool packed)
{
    struct tt_layout layout;
    struct tt_message m = { .number = number, .single_reader = once };
    m.bytes = SOURCE_BYTES;
    m.source = (struct tt_view){ .layout = &layout, .nchunks = packed ? 1 : 2 };
    m.source.space.base = (uintptr_t)memory + SOURCE_BYTES;
    m.source.space.stride = packed ? 0 : SOURCE_BYTES;
    tt_layout_even(&layout, SOURCE_BYTES, m.source.nchunks, 1, 1);
    memset(memory, SOURCE_BYTE, 3 * SOURCE_BYTES);
    suite_expect(&r->suite, link_send(tt_link_to(e, TT_CLASS_P2P, 1), &m), "no room");
}

static void send_source(
    struct shm_rank *r, struct tt_endpoint *e, uint64_t number, uint8_t *memory, bool once, bool packed)
{
    post_source(r, e, number, memory, once, packed);
    while (!link_sent(tt_link_to(e, TT_CLASS_P2P, 1), number))
        continue;
    expect_spoilt(r, memory, once && packed ? SOURCE_LINES : 0);
}

/* Of a source that only one reads, and its sender writes again, the reader has written a byte of each line
 * that lies in the message, and of no other; of another source it writes nothing, also not of one that is
 * lent by the line that told of the first. */
static void spoil(struct shm_rank *r)
{
    enum { ROUNDS = 6 };
    uint64_t first = r->stage->params.first_number, last = first + TT_SHM_LINES;
    const void *payload;
    uint8_t *memory;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_link *link = tt_link_to(e, TT_CLASS_P2P, 1 - r->me);
    suite_expect(&r->suite, tt_arena_alloc(3 * SOURCE_BYTES, (void **)&memory) == TUTTI_OK, "no memory");
    tt_endpoint_enter(e);
    for (uint64_t i = 0; i < ROUNDS; i++)
        if (r->me == 0) {
            send_source(r, e, first + i, memory, i % 2 == 0, i < 4);
        } else {
            base_of(e, 0, first + i);
            link_release(tt_link_to(e, TT_CLASS_P2P, 0), first + i);
        }
    if (r->me == 0) {
        memset(memory, SOURCE_BYTE, 3 * SOURCE_BYTES);
        struct tt_layout layout;
        struct tt_message m = { .signature = 1, .number = last, .bytes = SOURCE_BYTES };
        tt_layout_even(&layout, SOURCE_BYTES, 1, 1, 1);
        m.source = (struct tt_view){ .layout = &layout, .nchunks = 1 };
        m.source.space.base = (uintptr_t)memory + SOURCE_BYTES;
        suite_expect(&r->suite, link_send(link, &m), "no room");
        while (!link_sent(tt_link_to(e, TT_CLASS_P2P, 1), last))
            continue;
        expect_spoilt(r, memory, 0);
        suite_expect(&r->suite, e->path_bytes[TT_PATH_MAPPED] == (ROUNDS + 1) * SOURCE_BYTES,
            "%d bytes are read in place", (int)e->path_bytes[TT_PATH_MAPPED]);
    } else {
        while (link_peek(link, last, 1, SOURCE_BYTES, &payload) != TT_PEEK_THERE)
            continue;
        link_release(link, last);
    }
    tt_endpoint_leave(e);
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_shuttles, lines_of_a_source_go_to_its_only_reader)
{
    shm_stage_run(shm_stage_new(2), spoil, -1);
}

/* Whose sender has given up, and may have the memory for something else, is spoilt no more. */
static void give_up(struct shm_rank *r)
{
    uint64_t number = r->stage->params.first_number;
    uint8_t *memory;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    suite_expect(&r->suite, tt_arena_alloc(3 * SOURCE_BYTES, (void **)&memory) == TUTTI_OK, "no memory");
    tt_endpoint_enter(e);
    if (r->me == 0)
        post_source(r, e, number, memory, true, true);
    else
        base_of(e, 0, number);
    shm_meet(r);
    if (r->me == 0)
        e->control->quiet(e, false);
    shm_meet(r);
    if (r->me == 1)
        link_release(tt_link_to(e, TT_CLASS_P2P, 0), number);
    shm_meet(r);
    if (r->me == 0)
        expect_spoilt(r, memory, 0);
    tt_endpoint_leave(e);
    tt_shm.close(e);
}

Test(shm_shuttles, lines_of_who_gave_up_are_left_alone)
{
    shm_stage_run(shm_stage_new(2), give_up, -1);
}

/* A line may name a shuttle that its sender can have, and no other. */
static void lie(struct shm_rank *r)
{
    uint64_t number = r->stage->params.first_number;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_shm_channel *c = tt_shm_channel((struct tt_shm_endpoint *)e, TT_CLASS_P2P, 1 - r->me);
    struct tt_shm_line *line = (struct tt_shm_line *)&c->in[tt_shm_line_of(number)];
    struct tt_layout layout;
    struct tt_view like = { .layout = &layout, .nchunks = 1 };
    tt_layout_even(&layout, NOTE_BYTES, 1, 1, 1);
    for (uint32_t shuttle = 0; r->me == 1 && shuttle <= SHUTTLES + 1; shuttle++) {
        struct tt_arrival a = { .bytes = 1 };
        bool here = shuttle > TT_SHM_SHUTTLES; /* the second rank begins with the second half */
        const void *payload;
        line->path = TT_PATH_COPIED;
        line->bytes = NOTE_BYTES;
        line->packed = 1;
        line->shuttle = shuttle == SHUTTLES + 1 ? UINT32_MAX : shuttle;
        atomic_store_explicit(&line->flag, tt_shm_flag(number), memory_order_release);
        struct tt_link *link = tt_link_to(e, TT_CLASS_P2P, 0);
        enum tt_peek peek = link_peek(link, number, line->signature, NOTE_BYTES, &payload);
        suite_expect(&r->suite, peek == (here ? TT_PEEK_ODD : TT_PEEK_THERE), "a look finds %d in shuttle %u",
            peek, shuttle);
        link_arrived(tt_link_to(e, TT_CLASS_P2P, 0), number, &like, &a);
        suite_expect(&r->suite, a.bytes == (here ? 0 : NOTE_BYTES), "%d bytes arrive by shuttle %u",
            (int)a.bytes, shuttle);
    }
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm_shuttles, who_has_it_cannot_get_it)
{
    shm_stage_run(shm_stage_new(2), lie, -1);
}

/* Who has aborted its end alone waits until a peer that stays inside has looked since all that it could read
 * in place went: the first look was before that. Then it finds nothing there. */
static void abort_alone(struct shm_rank *r)
{
    uint64_t number = r->stage->params.first_number;
    const struct tt_cause why = { .status = TUTTI_ABORTED, .text = "alone" };
    const void *payload = NULL;
    struct tt_cause cause;
    uint8_t *memory;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_link *link = tt_link_to(e, TT_CLASS_P2P, 1 - r->me);
    suite_expect(&r->suite, tt_arena_alloc(3 * SOURCE_BYTES, (void **)&memory) == TUTTI_OK, "no memory");
    suite_expect(&r->suite, tt_endpoint_enter(e) && tt_endpoint_look(e), "it has ended before it began");
    shm_meet(r);
    if (r->me == 0) {
        post_source(r, e, number, memory, true, true);
        suite_expect(&r->suite, e->control->abort_local(e, &why), "it had ended before");
        suite_expect(&r->suite, !e->control->abort_local(e, &why) && !e->control->abort(e, &why), "again");
        suite_expect(&r->suite, !tt_endpoint_look(e) && !tt_endpoint_is_calm(e), "it does not see its own");
    }
    shm_meet(r);
    bool read = r->me == 0 || (!tt_endpoint_is_calm(e) && tt_endpoint_look(e) && tt_endpoint_is_calm(e) &&
                                  link_peek(link, number, 0, SOURCE_BYTES, &payload) == TT_PEEK_THERE);
    suite_expect(&r->suite, read, "who goes on cannot read what is still there");
    suite_expect(&r->suite, e->control->cause(e, &cause) == (r->me == 0), "it has ended for whom?");
    suite_expect(&r->suite, r->me == 0 || peer_state(e, 0) == TT_PEER_ABORTED, "rank 0 has not aborted");
    shm_meet(r);
    suite_expect(&r->suite, r->me == 1 || !e->control->quiet(e, true), "who reads is not waited for");
    shm_meet(r);
    bool gone = r->me == 0 || (tt_endpoint_look(e) &&
                                  link_peek(link, number, 0, SOURCE_BYTES, &payload) == TT_PEEK_NOTHING);
    suite_expect(&r->suite, gone, "what is gone is read");
    shm_meet(r);
    suite_expect(&r->suite, r->me == 1 || e->control->quiet(e, true), "who has looked is waited for");
    shm_meet(r);
    tt_endpoint_leave(e);
    suite_expect(&r->suite, tt_endpoint_enter(e) == (r->me == 1), "who may go on?");
    tt_endpoint_leave(e);
    tt_shm.close(e);
}

Test(shm_shuttles, what_is_lent_goes_with_who_aborts_alone)
{
    shm_stage_run(shm_stage_new(2), abort_alone, -1);
}
