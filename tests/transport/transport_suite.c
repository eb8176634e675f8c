/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_suite.c: what transport.h promises, asked of any transport by one thread. Numbers start just
 * below 2^32, so that every case crosses the wrap of the flags. */
#include "transport_suite.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE = 20000000, GUARD = 64, AREA = SUITE_MEMORY_BYTES / 16 };
static const uint64_t first_number = 0xfffffffdu;

bool suite_expect(struct transport_suite *s, bool right, const char *format, ...)
{
    if (right || s->wrong[0] != '\0')
        return right;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->wrong, sizeof s->wrong, format, arguments);
    va_end(arguments);
    return false;
}

struct plain {
    struct tt_layout layout;
    struct tt_message message;
    struct tt_view like;
};

static void make_plain(struct plain *p, uint64_t number, const uint8_t *from, uint64_t bytes)
{
    memset(p, 0, sizeof *p);
    tt_layout_even(&p->layout, bytes, 1, 1, 1);
    p->like = (struct tt_view){ .layout = &p->layout, .nchunks = 1 };
    p->message = (struct tt_message){
        .signature = (uint32_t)(number * 31), .number = number, .bytes = bytes, .source = p->like
    };
    p->message.source.space.base = (uintptr_t)from;
}

static void write_bytes(uint8_t *to, uint64_t key, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = suite_byte(key, i);
}

/* Lets time pass; false if that was often enough, or something is wrong already. */
static bool again(struct transport_suite *s, int *polls)
{
    if (s->advance != NULL)
        s->advance();
    return s->wrong[0] == '\0' && ++*polls < PATIENCE;
}

static bool send_soon(struct transport_suite *s, struct tt_link *link, const struct tt_message *m)
{
    for (int polls = 0; !link_send(link, m);)
        if (!again(s, &polls))
            return suite_expect(s, false, "message %llu is never taken", (unsigned long long)m->number);
    return true;
}

/* All of it, so that it can be read at once. */
static bool arrives(struct transport_suite *s, struct tt_endpoint *e, int peer, enum tt_class class,
    uint64_t number, const struct tt_view *like, struct tt_arrival *a)
{
    struct tt_link *link = tt_link_to(e, class, peer);
    for (int polls = 0; !link_arrived(link, number, like, a) || a->available < a->bytes;)
        if (!again(s, &polls))
            return suite_expect(s, false, "message %llu never arrives", (unsigned long long)number);
    return true;
}

static bool sent_soon(
    struct transport_suite *s, struct tt_endpoint *e, int peer, enum tt_class class, uint64_t number)
{
    for (int polls = 0; !link_sent(tt_link_to(e, class, peer), number);)
        if (!again(s, &polls))
            return suite_expect(s, false, "message %llu is never sent", (unsigned long long)number);
    return true;
}

bool suite_read(struct transport_suite *s, const struct tt_arrival *a, uint64_t key, uint64_t bytes)
{
    if (!suite_expect(s, a->bytes == bytes, "%llu bytes arrive instead of %llu", (unsigned long long)a->bytes,
            (unsigned long long)bytes))
        return false;
    uint8_t *whole = malloc(bytes + 2 * GUARD), *to = whole + GUARD;
    if (!suite_expect(s, whole != NULL, "no memory"))
        return false;
    memset(whole, 0xa5, bytes + 2 * GUARD);
    for (uint64_t at = 0, run; at < bytes; at += run) {
        uintptr_t address = tt_arrival_run(a, at, &run);
        memcpy(to + at, (const void *)address, run);
    }
    uint64_t same = 0, guards = 0;
    while (same < bytes && to[same] == suite_byte(key, same))
        same++;
    for (int i = 0; i < GUARD; i++)
        guards += (whole[i] != 0xa5) + (to[bytes + (uint64_t)i] != 0xa5);
    free(whole);
    suite_expect(s, guards == 0, "path %d writes beyond its %llu bytes", a->path, (unsigned long long)bytes);
    return suite_expect(s, same == bytes, "byte %llu of %llu is wrong (path %d)", (unsigned long long)same,
        (unsigned long long)bytes, a->path);
}

static void make(struct transport_suite *s, int n, struct tt_endpoint **endpoints)
{
    struct tt_endpoint_params params = {
        .n = n, .slot_bytes = SUITE_SLOT_BYTES, .first_number = first_number, .map = true
    };
    s->make(&params, endpoints);
    for (int i = 0; i < n; i++)
        suite_expect(s, tt_endpoint_enter(endpoints[i]), "it has ended before it began");
}

static void close_all(struct transport_suite *s, int n, struct tt_endpoint **endpoints)
{
    for (int i = 0; i < n; i++)
        s->transport->close(endpoints[i]);
}

/* --- Cases */

static void one_way(
    struct transport_suite *s, struct tt_endpoint **e, uint64_t number, uint8_t *from, uint64_t bytes)
{
    struct plain p;
    struct tt_arrival a;
    write_bytes(from, number, bytes);
    make_plain(&p, number, from, bytes);
    suite_expect(s, !link_arrived(tt_link_to(e[1], TT_CLASS_COLLECTIVE, 0), number, &p.like, &a),
        "a message arrives before it is sent");
    if (!send_soon(s, tt_link_to(e[0], TT_CLASS_COLLECTIVE, 1), &p.message) ||
        !arrives(s, e[1], 0, TT_CLASS_COLLECTIVE, number, &p.like, &a))
        return;
    suite_expect(s, a.signature == p.message.signature, "the signature is lost");
    suite_read(s, &a, number, bytes);
    link_release(tt_link_to(e[1], TT_CLASS_COLLECTIVE, 0), number);
    sent_soon(s, e[0], 1, TT_CLASS_COLLECTIVE, number);
}

static void run_sizes(struct transport_suite *s)
{
    static const uint64_t sizes[] = { 1, 2, 3, 4, 7, 8, 9, 31, 47, 48, 49, 63, 64, 65, 1023, 1024, 1025, 4095,
        4096, 4097, 32767, 32768, 65535, 65536, 65537, SUITE_SLOT_BYTES - 1, SUITE_SLOT_BYTES };
    struct tt_endpoint *e[2];
    uint64_t number = first_number, total = 0, counted = 0;
    make(s, 2, e);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int memory = 0; memory < 2; memory++)
            for (uint64_t shift = 0; shift < 3 && s->memory[memory] != NULL; shift++) {
                one_way(s, e, number++, s->memory[memory] + shift * 21, sizes[i]);
                total += sizes[i];
            }
    for (int path = 0; path < TT_PATHS; path++) {
        uint64_t bytes = tt_endpoint_path_bytes(e[0], (enum tt_path)path);
        counted += bytes;
        suite_expect(s, s->paths == 0 || (bytes > 0) == (s->paths >> path & 1),
            "path %d was used for %llu bytes", path, (unsigned long long)bytes);
    }
    suite_expect(s, counted == total, "%llu bytes were counted, %llu were sent", (unsigned long long)counted,
        (unsigned long long)total);
    close_all(s, 2, e);
}

static void run_to_itself(struct transport_suite *s)
{
    struct tt_endpoint *e[1];
    struct plain p;
    struct tt_arrival a;
    make(s, 1, e);
    write_bytes(s->memory[0], 5, 5000);
    make_plain(&p, first_number, s->memory[0], 5000);
    if (send_soon(s, tt_link_to(e[0], TT_CLASS_P2P, 0), &p.message) &&
        arrives(s, e[0], 0, TT_CLASS_P2P, first_number, &p.like, &a))
        suite_read(s, &a, 5, 5000);
    link_release(tt_link_to(e[0], TT_CLASS_P2P, 0), first_number);
    sent_soon(s, e[0], 0, TT_CLASS_P2P, first_number);
    close_all(s, 1, e);
}

static void run_kinds(struct transport_suite *s)
{
    struct tt_endpoint *e[2];
    make(s, 2, e);
    for (uint64_t i = 0; i < 400; i++) {
        struct suite_spec spec;
        struct tt_arrival a;
        suite_spec_make(&spec, i, s->memory[1] != NULL);
        if (spec.bytes == 0)
            continue;
        suite_spec_fill(&spec, s->memory[spec.memory]);
        struct tt_message m = { .number = first_number + i, .bytes = spec.bytes, .source = spec.source };
        if (send_soon(s, tt_link_to(e[1], TT_CLASS_P2P, 0), &m) &&
            arrives(s, e[0], 1, TT_CLASS_P2P, m.number, &spec.like, &a) &&
            !suite_read(s, &a, spec.key, spec.bytes))
            break;
        link_release(tt_link_to(e[0], TT_CLASS_P2P, 1), m.number);
        sent_soon(s, e[1], 0, TT_CLASS_P2P, m.number);
    }
    close_all(s, 2, e);
}

/* More runs than a system call takes. */
static void run_many_runs(struct transport_suite *s)
{
    enum { CHUNKS = 64, TAKEN = 50, COUNT = 200000 / 4 };
    struct tt_endpoint *e[2];
    struct tt_layout layout;
    make(s, 2, e);
    tt_layout_even(&layout, COUNT, CHUNKS, 2, 4);
    for (uint64_t i = 0; i < 4; i++) {
        struct tt_view view = { .layout = &layout, .chunk = 9, .nchunks = TAKEN, .slice = (uint32_t)i % 2 };
        struct tt_message m = { .number = first_number + i, .source = view };
        struct tt_arrival a;
        m.bytes = tt_view_count(&view) * layout.element_bytes;
        m.source.space.base = (uintptr_t)s->memory[s->memory[1] != NULL && i > 1];
        for (uint64_t at = 0, count; at * 4 < m.bytes; at += count) {
            uint8_t *to = (uint8_t *)tt_view_run(&m.source, at, &count);
            for (uint64_t j = 0; j < count * 4; j++)
                to[j] = suite_byte(i, at * 4 + j);
        }
        if (send_soon(s, tt_link_to(e[0], TT_CLASS_COLLECTIVE, 1), &m) &&
            arrives(s, e[1], 0, TT_CLASS_COLLECTIVE, m.number, &view, &a))
            suite_read(s, &a, i, m.bytes);
        link_release(tt_link_to(e[1], TT_CLASS_COLLECTIVE, 0), m.number);
        sent_soon(s, e[0], 1, TT_CLASS_COLLECTIVE, m.number);
    }
    close_all(s, 2, e);
}

/* Where the bytes of a message stand until it is read. */
static uint8_t *area_of(struct transport_suite *s, enum tt_class class, uint64_t number)
{
    return s->memory[0] + (number % 16) * AREA + (class == TT_CLASS_P2P ? AREA / 2 : 0);
}

static bool offer(
    struct transport_suite *s, struct tt_endpoint *e, enum tt_class class, uint64_t number, uint64_t bytes)
{
    struct plain p;
    make_plain(&p, number, area_of(s, class, number), bytes);
    return link_send(tt_link_to(e, class, 1), &p.message);
}

static void take(
    struct transport_suite *s, struct tt_endpoint *e, enum tt_class class, uint64_t number, uint64_t bytes)
{
    struct plain p;
    struct tt_arrival a;
    make_plain(&p, number, NULL, bytes);
    if (arrives(s, e, 0, class, number, &p.like, &a)) {
        suite_expect(s, a.signature == (uint32_t)(number * 31), "another message arrives as %llu",
            (unsigned long long)number);
        suite_read(s, &a, number, bytes);
    }
    link_release(tt_link_to(e, class, 0), number);
}

static bool post(
    struct transport_suite *s, struct tt_endpoint *e, enum tt_class class, uint64_t number, uint64_t bytes)
{
    write_bytes(area_of(s, class, number), number, bytes);
    for (int polls = 0; !offer(s, e, class, number, bytes);)
        if (!again(s, &polls))
            return suite_expect(s, false, "the slot of %llu never comes free", (unsigned long long)number);
    return true;
}

/* Slot by slot, whatever the order, and never one too early. Seven numbers of each second lap are skipped. */
static void run_window(struct transport_suite *s)
{
    static const uint64_t order[] = { 3, 0, 7, 5, 1, 6, 2, 4 }, sizes[] = { 3000, 20, 60000, 1 };
    const enum tt_class class = TT_CLASS_COLLECTIVE;
    struct tt_endpoint *e[2];
    make(s, 2, e);
    for (uint64_t lap = 0; lap < 8; lap++) {
        uint64_t first = first_number + 2 * lap * s->lines, bytes = sizes[lap % 4];
        for (int i = 0; i < TT_SLOTS; i++)
            post(s, e[0], class, first + order[i], bytes);
        for (int i = 0; i < TT_SLOTS; i++)
            suite_expect(s, !offer(s, e[0], class, first + s->lines + i, 9), "slot %d comes too early", i);
        take(s, e[1], class, first + 5, bytes);
        post(s, e[0], class, first + s->lines + 5, 9);
        for (uint64_t i = 0; i < TT_SLOTS; i++)
            suite_expect(s, i == 5 || !offer(s, e[0], class, first + s->lines + i, 9),
                "slot %d is granted by another one's release", (int)i);
        for (int i = 0; i < TT_SLOTS; i++)
            if (order[i] != 5)
                take(s, e[1], class, first + order[i], bytes);
        take(s, e[1], class, first + s->lines + 5, 9);
        for (uint64_t i = 0; i < TT_SLOTS; i++)
            sent_soon(s, e[0], 1, class, first + i);
    }
    close_all(s, 2, e);
}

/* A number that is never used matches nothing, neither before the first one nor after laps of silence. */
static void run_skips(struct transport_suite *s)
{
    static const uint64_t steps[] = { 1, 8, 16, 3, 800, 8000, 5, 64, 128 };
    const enum tt_class class = TT_CLASS_P2P;
    struct tt_endpoint *e[2];
    uint64_t number = first_number;
    struct plain p;
    struct tt_arrival a;
    make(s, 2, e);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        for (uint64_t next = number; next < number + 20; next++) {
            make_plain(&p, next, NULL, 100);
            suite_expect(s, !link_arrived(tt_link_to(e[1], class, 0), next, &p.like, &a),
                "message %llu arrives, which was never sent", (unsigned long long)next);
        }
        post(s, e[0], class, number, 100);
        take(s, e[1], class, number, 100);
        sent_soon(s, e[0], 1, class, number);
        number += steps[i];
    }
    close_all(s, 2, e);
}

static void run_classes(struct transport_suite *s)
{
    struct tt_endpoint *e[2];
    make(s, 2, e);
    for (uint64_t i = 0; i < s->lines; i++)
        post(s, e[0], TT_CLASS_P2P, first_number + i, i < TT_SLOTS ? 100 : 9);
    suite_expect(s, !offer(s, e[0], TT_CLASS_P2P, first_number + s->lines, 100), "there is a line too many");
    for (uint64_t i = 0; i < 4 * TT_SLOTS; i++) {
        post(s, e[0], TT_CLASS_COLLECTIVE, first_number + i, 200);
        take(s, e[1], TT_CLASS_COLLECTIVE, first_number + i, 200);
    }
    for (uint64_t i = 0; i < s->lines; i++)
        take(s, e[1], TT_CLASS_P2P, first_number + i, i < TT_SLOTS ? 100 : 9);
    close_all(s, 2, e);
}

/* Complete at once where the source was copied, and not before the release where it is read. */
static void run_sent(struct transport_suite *s)
{
    static const uint64_t sizes[] = { 8, 48, 500, 5000, 100000 };
    const enum tt_class class = TT_CLASS_COLLECTIVE;
    struct tt_endpoint *e[2];
    uint64_t number = first_number;
    make(s, 2, e);
    for (int i = 0; i < 40; i++, number++) {
        struct plain p;
        struct tt_arrival a;
        uint8_t *from = s->memory[i % 2] != NULL ? s->memory[i % 2] : s->memory[0];
        uint64_t bytes = sizes[i % 5];
        write_bytes(from, number, bytes);
        make_plain(&p, number, from, bytes);
        if (!send_soon(s, tt_link_to(e[0], class, 1), &p.message))
            break;
        bool at_once = link_sent(tt_link_to(e[0], class, 1), number);
        if (at_once)
            memset(from, 0x11, bytes);
        if (!arrives(s, e[1], 0, class, number, &p.like, &a))
            break;
        suite_expect(s, s->carried || at_once != (a.path == TT_PATH_MAPPED), "path %d is sent %s", a.path,
            at_once ? "before it is read" : "late");
        suite_read(s, &a, number, bytes);
        suite_expect(s, s->carried || at_once || !link_sent(tt_link_to(e[0], class, 1), number),
            "sent before the release");
        link_release(tt_link_to(e[1], class, 0), number);
        sent_soon(s, e[0], 1, class, number);
    }
    close_all(s, 2, e);
}

static void run_calls(struct transport_suite *s)
{
    struct tt_endpoint *e[3];
    struct tt_call_record record = { 0 }, seen;
    make(s, 3, e);
    suite_expect(s, !e[1]->control->call_of(e[1], 0, first_number, &seen), "a call before the first");
    suite_expect(s, !e[1]->control->call_of(e[1], 0, 0, &seen), "a call with number 0");
    for (uint64_t q = first_number; q < first_number + 40; q++) {
        record.count = q * 3;
        record.root = (int32_t)(q % 3);
        record.signature = (uint32_t)(q * 7);
        e[0]->control->publish(e[0], &record, q);
        bool there = false;
        for (int polls = 0; !there && again(s, &polls);)
            there = e[2]->control->call_of(e[2], 0, q, &seen);
        suite_expect(s,
            there && seen.count == q * 3 && seen.root == (int32_t)(q % 3) &&
                seen.signature == (uint32_t)(q * 7),
            "a call is not seen as it was made");
        suite_expect(s, !e[2]->control->call_of(e[2], 0, q + 1, &seen), "a call is seen before it is made");
        suite_expect(s, !e[2]->control->call_of(e[2], 0, q - TT_CALLS_KEPT, &seen), "an old call stays");
        suite_expect(s, q == first_number || e[1]->control->call_of(e[1], 0, q - 1, &seen), "no history");
        e[0]->control->publish(e[0], NULL, q);
        for (int polls = 0; e[1]->control->completed_by(e[1], 0) <= q && again(s, &polls);)
            continue;
        suite_expect(s, e[1]->control->completed_by(e[1], 0) == q + 1, "completion is not seen");
    }
    close_all(s, 3, e);
}

static void run_abort(struct transport_suite *s)
{
    struct tt_endpoint *e[3];
    struct tt_cause cause = { .status = TUTTI_TIMEOUT, .peer = 1, .sequence = 77, .operation = "broadcast" },
                    seen;
    make(s, 3, e);
    for (int i = 0; i < 3; i++)
        suite_expect(s, !e[i]->control->cause(e[i], &seen), "a cause before any");
    for (int i = 2; i >= 0; i--) {
        cause.rank = i;
        snprintf(cause.text, sizeof cause.text, "found by %d", i);
        suite_expect(s, e[i]->control->abort(e[i], &cause) == (i == 2), "not the first cause wins");
    }
    for (int i = 0; i < 3; i++) {
        for (int polls = 0; !e[i]->control->cause(e[i], &seen) && again(s, &polls);)
            continue;
        suite_expect(s, e[i]->control->cause(e[i], &seen), "rank %d sees no cause", i);
        suite_expect(s,
            seen.rank == 2 && seen.status == TUTTI_TIMEOUT && seen.sequence == 77 && seen.peer == 1 &&
                strcmp(seen.text, "found by 2") == 0 && strcmp(seen.operation, "broadcast") == 0,
            "rank %d sees another cause", i);
    }
    struct tt_note note = { .about = 7, .bytes = "here" }, found = { 0 };
    if (e[0]->control->note != NULL) { /* notes are read after the end, too */
        suite_expect(s, !e[2]->control->note_of(e[2], 0, &found), "a note before any");
        e[0]->control->note(e[0], &note);
        for (int polls = 0; !e[2]->control->note_of(e[2], 0, &found) && again(s, &polls);)
            continue;
        suite_expect(s, memcmp(&note, &found, sizeof note) == 0, "a note is not read as it was left");
    }
    close_all(s, 3, e);
}

/* Who destroyed its end has left; what it sent before can still be read. */
static void run_left(struct transport_suite *s)
{
    struct tt_endpoint *e[3];
    make(s, 3, e);
    for (uint64_t i = 0; i < TT_SLOTS; i++)
        post(s, e[0], TT_CLASS_COLLECTIVE, first_number + i, i % 2 == 0 ? 40 : 900);
    suite_expect(s, peer_state(e[1], 0) == TT_PEER_ALIVE, "a peer that is there is not alive");
    for (uint64_t i = 0; i < TT_SLOTS; i++)
        if (link_sent(tt_link_to(e[0], TT_CLASS_COLLECTIVE, 1), first_number + i))
            memset(area_of(s, TT_CLASS_COLLECTIVE, first_number + i), 0x22, AREA / 2);
    s->transport->close(e[0]);
    for (int polls = 0; peer_state(e[1], 0) == TT_PEER_ALIVE && again(s, &polls);)
        continue;
    suite_expect(s, peer_state(e[1], 0) == TT_PEER_LEFT, "a peer that left is not seen to");
    suite_expect(s, peer_state(e[1], 2) == TT_PEER_ALIVE, "another one seems to have left");
    for (uint64_t i = 0; i < TT_SLOTS; i++)
        take(s, e[1], TT_CLASS_COLLECTIVE, first_number + i, i % 2 == 0 ? 40 : 900);
    close_all(s, 2, e + 1);
}

/* --- Grants */

void suite_place(const struct tt_message *m, const struct tt_view *place)
{
    uint64_t element = m->source.layout->element_bytes, count = m->bytes / element, run, room;
    for (uint64_t at = 0; at < count; at += run) {
        const void *from = (const void *)tt_view_run(&m->source, at, &run);
        void *to = (void *)tt_view_run(place, at, &room);
        run = room < run ? room : run;
        memcpy(to, from, run * element);
    }
}

/* Whoever is not meant finds nothing: another class, number, length or signature. */
static void try_others(struct transport_suite *s, struct tt_endpoint *e, const struct tt_message *right)
{
    struct tt_message others[] = { *right, *right, *right, *right };
    struct tt_view place;
    others[0].number += TT_SLOTS;
    others[1].number += (uint64_t)1 << 32;
    others[2].bytes--;
    others[3].signature++;
    suite_expect(
        s, !link_granted(tt_link_to(e, TT_CLASS_P2P, 1), right, 0, &place), "another class finds a grant");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        suite_expect(s, !link_granted(tt_link_to(e, TT_CLASS_COLLECTIVE, 1), &others[i], 0, &place),
            "change %d finds a grant", (int)i);
}

/* One message from e[0] to e[1], granted; place it only if `use`. */
static void one_granted(
    struct transport_suite *s, struct tt_endpoint **e, uint64_t number, uint64_t bytes, int memory, bool use)
{
    const enum tt_class class = TT_CLASS_COLLECTIVE;
    struct tt_link *out = tt_link_to(e[0], class, 1), *in = tt_link_to(e[1], class, 0);
    uint8_t *from = s->memory[0], *to = s->memory[memory] + SUITE_MEMORY_BYTES / 2;
    struct plain p, other;
    struct tt_arrival a;
    struct tt_view place;
    write_bytes(from, number, bytes);
    memset(to, 0x33, bytes + GUARD);
    make_plain(&p, number, from, bytes);
    make_plain(&other, number, to, bytes);
    bool granted = link_grant(in, number, p.message.signature, &other.message.source, 0);
    suite_expect(s,
        s->grants == SUITE_GRANTS_BY_CHANCE || granted == (s->grants == SUITE_GRANTS && bytes > 1024),
        "%llu bytes: a grant is %s", (unsigned long long)bytes, granted ? "taken" : "refused");
    bool another =
        granted && link_grant(in, number + TT_SLOTS, p.message.signature, &other.message.source, 0);
    suite_expect(s, !another, "a grant is taken while that of its slot stands");
    try_others(s, e[0], &p.message);
    bool found = link_granted(out, &p.message, 0, &place);
    suite_expect(s, found == granted || s->grants == SUITE_GRANTS_BY_CHANCE, "the grant is not found");
    p.message.placed = found && use;
    if (p.message.placed)
        suite_place(&p.message, &place);
    if (!send_soon(s, out, &p.message))
        return;
    suite_expect(s, link_sent(out, number) || !p.message.placed, "what is placed is not sent at once");
    if (!arrives(s, e[1], 0, class, number, &p.like, &a))
        return;
    /* Where there are no targets, the receiver's own transport may place what comes. */
    bool itself = granted && out->ops->target == NULL && a.path == TT_PATH_PLACED;
    suite_expect(
        s, itself || (a.path == TT_PATH_PLACED) == p.message.placed, "a placed message has path %d", a.path);
    if (p.message.placed || itself) {
        a.packed = true;
        a.base = (uintptr_t)to;
    }
    suite_read(s, &a, number, bytes);
    suite_expect(s, to[bytes] == 0x33, "placed beyond its %llu bytes", (unsigned long long)bytes);
    link_release(tt_link_to(e[1], class, 0), number);
    sent_soon(s, e[0], 1, class, number);
    suite_expect(s,
        s->grants == SUITE_GRANTS_BY_CHANCE ||
            !link_grant(in, number, p.message.signature, &other.message.source, 0),
        "a grant is taken for a message that has been released");
}

static void run_grants(struct transport_suite *s)
{
    static const uint64_t sizes[] = { 8, 1024, 1025, 4096, 65537, SUITE_SLOT_BYTES };
    struct tt_endpoint *e[2];
    uint64_t number = first_number;
    make(s, 2, e);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int memory = 0; memory < 2; memory++)
            for (int use = 0; use < 3 && s->memory[memory] != NULL; use++, number += use == 2 ? 1 : TT_SLOTS)
                one_granted(s, e, number, sizes[i], memory, use > 0);
    if (s->grants != SUITE_GRANTS_BY_CHANCE)
        suite_expect(s, (tt_endpoint_path_bytes(e[0], TT_PATH_PLACED) > 0) == (s->grants == SUITE_GRANTS),
            "%llu bytes were placed", (unsigned long long)tt_endpoint_path_bytes(e[0], TT_PATH_PLACED));
    close_all(s, 2, e);
}

/* A place that is still to be read from: nothing is stored there before, but by who reads it. */
static void run_grants_after(struct transport_suite *s)
{
    enum { BYTES = 4096 };
    struct tt_endpoint *e[2];
    struct plain there, back;
    struct tt_arrival a;
    struct tt_view place;
    if (s->grants != SUITE_GRANTS || s->memory[1] == NULL)
        return;
    make(s, 2, e);
    struct tt_link *out = tt_link_to(e[0], TT_CLASS_P2P, 1), *in = tt_link_to(e[1], TT_CLASS_P2P, 0);
    uint64_t number = first_number;
    write_bytes(s->memory[1], number, BYTES);
    make_plain(&there, number, s->memory[0], BYTES);
    make_plain(&back, number, s->memory[1], BYTES);
    suite_expect(
        s, link_grant(in, number, there.message.signature, &back.message.source, number + 1), "refused");
    suite_expect(s, !link_granted(out, &there.message, 0, &place), "granted before it is sent");
    bool arrived =
        send_soon(s, in, &back.message) && arrives(s, e[0], 1, TT_CLASS_P2P, number, &back.like, &a);
    suite_expect(s, arrived && !link_granted(out, &there.message, 0, &place), "granted unread");
    there.message.reads = number + 2;
    suite_expect(s, !link_granted(out, &there.message, 0, &place), "granted to another reader");
    there.message.reads = number + 1;
    suite_expect(s, link_granted(out, &there.message, 0, &place), "not granted to its reader");
    there.message.reads = 0;
    link_release(out, number);
    suite_expect(s, link_granted(out, &there.message, 0, &place), "not granted once it is read");
    close_all(s, 2, e);
}

const struct transport_case transport_cases[] = {
    { "sizes", run_sizes },
    { "to itself", run_to_itself },
    { "kinds", run_kinds },
    { "many runs", run_many_runs },
    { "window", run_window },
    { "skips", run_skips },
    { "classes", run_classes },
    { "sent", run_sent },
    { "calls", run_calls },
    { "abort", run_abort },
    { "left", run_left },
    { "grants", run_grants },
    { "grants after", run_grants_after },
};
const int transport_case_count = sizeof transport_cases / sizeof transport_cases[0];
