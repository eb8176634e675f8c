/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_exchange.c: messages of every kind, made from a key, and an exchange of them in which nobody
 * is patient: senders spoil what they sent at the first moment they may, receivers look late and release
 * in any order. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transport_suite.h"

static uint64_t mix(uint64_t x)
{
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* --- Messages */

static uint64_t choose_bytes(uint64_t x)
{
    static const uint64_t most[] = { 8, 48, 200, 3000, 3000, 40000, 100000, SUITE_SLOT_BYTES };
    return 1 + (x >> 8) % most[x % 8];
}

static void make_run(struct suite_spec *spec, uint64_t x)
{
    tt_layout_even(&spec->layout, spec->bytes, 1, 1, 1);
    spec->source = (struct tt_view){ .layout = &spec->layout, .nchunks = 1 };
    spec->source.space.base = 1 + x % 15; /* from the start of the memory, until it is filled */
}

/* Three chunks of seven in two slices, so the message is three runs. */
static void make_runs(struct suite_spec *spec, uint64_t x)
{
    static const uint32_t elements[] = { 1, 2, 4, 8 };
    uint32_t element = elements[x % 4], chunk = (uint32_t)(x >> 2) % 5;
    uint64_t count = spec->bytes * 7 * 2 / 3 / element;
    tt_layout_even(&spec->layout, count > 14 ? count : 14, 7, 2, element);
    spec->source = (struct tt_view){
        .layout = &spec->layout, .chunk = chunk, .nchunks = 3, .slice = (uint32_t)(x >> 5) % 2
    };
    switch (x >> 6 & 3) {
    case 0: /* a space that begins before the memory */
        spec->source.space.base = 0 - element * (uintptr_t)tt_layout_chunk(&spec->layout, chunk).first;
        break;
    case 1:
        spec->source.space.stride = (tt_layout_part_max(&spec->layout) + 3) * element;
        break;
    case 2: /* chunks in another order */
        for (uint32_t c = 0; c < 7; c++)
            spec->displs[c] = (6 - c) * (spec->layout.quotient + 2);
        spec->source.space.displs = spec->displs;
        break;
    default:
        spec->source.space.base = element;
    }
    spec->bytes = tt_view_count(&spec->source) * element;
}

void suite_spec_make(struct suite_spec *spec, uint64_t key, bool mapped_memory)
{
    uint64_t x = mix(key), y = mix(x);
    memset(spec, 0, sizeof *spec);
    spec->key = key;
    spec->bytes = choose_bytes(x);
    spec->memory = mapped_memory && (y & 2);
    if (y & 4)
        make_run(spec, y >> 8);
    else
        make_runs(spec, y >> 8);
    if (spec->bytes > SUITE_SLOT_BYTES || (y >> 3 & 15) == 0)
        spec->bytes = 0;
    spec->like = spec->source;
    spec->like.space = (struct tt_space){ .base = 0 };
}

static void for_each_run(
    const struct suite_spec *spec, void (*run)(uint8_t *to, uint64_t key, uint64_t at, uint64_t bytes))
{
    uint64_t element = spec->layout.element_bytes, count;
    for (uint64_t at = 0; at * element < spec->bytes; at += count) {
        uint8_t *to = (uint8_t *)tt_view_run(&spec->source, at, &count);
        run(to, spec->key, at * element, count * element);
    }
}

static void fill(uint8_t *to, uint64_t key, uint64_t at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = suite_byte(key, at + i);
}

static void spoil(uint8_t *to, uint64_t key, uint64_t at, uint64_t bytes)
{
    memset(to, (int)((key ^ at) & 255), bytes);
}

void suite_spec_fill(struct suite_spec *spec, uint8_t *memory)
{
    spec->source.space.base += (uintptr_t)memory;
    for_each_run(spec, fill);
}

void suite_spec_spoil(const struct suite_spec *spec)
{
    for_each_run(spec, spoil);
}

/* --- The exchange */

enum { STREAMS = 2 * TT_CLASSES, PATIENCE_MS = 200000 };
enum message_state { WAITING, POSTED, DONE };

struct message {
    struct suite_spec spec;
    enum message_state state;
    struct tt_arrival arrival;
    unsigned late; /* looks before it is read, and again before it is released */
    bool placed; /* by the sender */
    bool grants; /* the receiver wants to, ... */
    struct tt_view place; /* ... here */
};

/* All messages of one class to, or from, one peer; a batch of TT_SLOTS at a time. */
struct stream {
    struct transport_suite *suite;
    struct tt_endpoint *e;
    int peer;
    bool sends;
    enum tt_class class;
    uint64_t first, key; /* number and key of the first message of this batch */
    int left; /* batches, this one included */
    struct message messages[TT_SLOTS];
    uint8_t order[TT_SLOTS];
    uint8_t *memory[2]; /* TT_SLOTS times SUITE_MEMORY_BYTES: to send from, or to receive into */
};

static void begin_batch(struct stream *t)
{
    uint64_t x = mix(t->key ^ (t->sends ? 0x1234567 : 0));
    for (unsigned i = 0; i < TT_SLOTS; i++)
        t->order[i] = (uint8_t)i;
    for (unsigned i = TT_SLOTS - 1; i > 0; i--, x = mix(x)) {
        unsigned j = (unsigned)(x % (i + 1));
        uint8_t swapped = t->order[i];
        t->order[i] = t->order[j];
        t->order[j] = swapped;
    }
    for (unsigned i = 0; i < TT_SLOTS; i++, x = mix(x)) {
        struct message *m = &t->messages[i];
        suite_spec_make(&m->spec, t->key + i, t->suite->memory[1] != NULL);
        m->state = m->spec.bytes == 0 ? DONE : WAITING;
        m->late = x % 5 == 0 ? (unsigned)(x >> 8) % 40 : 0;
        m->placed = false;
        uint8_t *memory = t->memory[m->spec.memory] + i * (size_t)SUITE_MEMORY_BYTES;
        if (t->sends && m->spec.bytes > 0)
            suite_spec_fill(&m->spec, memory);
        m->grants = !t->sends && x >> 20 & 1;
        m->place = m->spec.source;
        m->place.space.base += (uintptr_t)memory;
    }
}

static bool advance_sending(struct stream *t, struct message *m, uint64_t number)
{
    struct tt_link *link = tt_link_to(t->e, t->class, t->peer);
    if (m->state == WAITING) {
        struct tt_message message = { .signature = (uint32_t)m->spec.key,
            .number = number,
            .bytes = m->spec.bytes,
            .source = m->spec.source };
        struct tt_view place;
        bool in_place = m->spec.key % 3 == 0;
        if (!m->placed && link_granted(link, &message, in_place ? TT_UNLESS_READABLE : 0, &place)) {
            suite_place(&message, &place);
            m->placed = true;
        }
        message.placed = m->placed;
        if (!link_send(link, &message))
            return false;
        m->state = POSTED;
    }
    if (!link_sent(link, number))
        return false;
    suite_spec_spoil(&m->spec);
    m->state = DONE;
    return true;
}

static bool advance_receiving(struct stream *t, struct message *m, uint64_t number)
{
    struct tt_link *link = tt_link_to(t->e, t->class, t->peer);
    if (m->state == WAITING) {
        if (m->grants && link_grant(link, number, (uint32_t)m->spec.key, &m->place, 0))
            m->grants = false;
        if (!link_arrived(link, number, &m->spec.like, &m->arrival))
            return false;
        m->state = POSTED;
        return true;
    }
    if (m->late > 0) {
        m->late--;
        return true;
    }
    suite_expect(t->suite, m->arrival.signature == (uint32_t)m->spec.key, "another message arrives");
    if (m->arrival.path == TT_PATH_PLACED) {
        m->arrival.packed = false;
        m->arrival.view = m->place;
    }
    suite_read(t->suite, &m->arrival, m->spec.key, m->spec.bytes);
    link_release(link, number);
    m->state = DONE;
    return true;
}

/* True if anything moved. */
static bool advance(struct stream *t)
{
    bool moved = false;
    int done = 0;
    if (t->left == 0)
        return false;
    for (int i = 0; i < TT_SLOTS; i++) {
        struct message *m = &t->messages[t->order[i]];
        uint64_t number = t->first + t->order[i];
        if (m->state != DONE)
            moved |= t->sends ? advance_sending(t, m, number) : advance_receiving(t, m, number);
        done += m->state == DONE;
    }
    if (done < TT_SLOTS)
        return moved;
    t->first += TT_SLOTS;
    t->key += TT_SLOTS;
    if (--t->left > 0)
        begin_batch(t);
    return true;
}

static void begin_stream(struct stream *t, int index, uint64_t seed, int batches)
{
    int n = t->e->n, me = t->e->me;
    t->sends = index % 2 == 0;
    t->class = index / 2 == 0 ? TT_CLASS_COLLECTIVE : TT_CLASS_P2P;
    t->peer = t->sends ? (me + 1) % n : (me + n - 1) % n;
    int from = t->sends ? me : t->peer;
    t->key = (mix(seed) << 16) + ((uint64_t)from << 48) + ((uint64_t)t->class << 40);
    t->left = batches;
    begin_batch(t);
}

/* Nothing moved: wait, but not for ever, and not for ranks that failed. */
static void idle(struct transport_suite *s, struct tt_endpoint *e, struct tt_wait *wait, int64_t deadline)
{
    struct tt_cause cause;
    if (!tt_wait_idle(wait))
        return;
    if (e->control->cause(e, &cause))
        suite_expect(s, false, "%s", cause.text);
    suite_expect(s, tt_now_ns() < deadline, "rank %d waits for ever", e->me);
}

void suite_exchange(
    struct transport_suite *s, struct tt_endpoint *e, uint64_t first_number, int batches, uint64_t seed)
{
    struct stream *streams = calloc(STREAMS, sizeof *streams);
    struct tt_wait wait;
    if (!suite_expect(s, streams != NULL, "no memory"))
        return;
    for (int i = 0; i < STREAMS; i++) {
        size_t offset = (size_t)i * TT_SLOTS * SUITE_MEMORY_BYTES;
        struct stream *t = &streams[i];
        t->suite = s;
        t->e = e;
        t->first = first_number;
        for (int memory = 0; memory < 2; memory++)
            t->memory[memory] = s->memory[memory] != NULL ? s->memory[memory] + offset : NULL;
        begin_stream(t, i, seed, batches);
    }
    suite_expect(s, tt_endpoint_enter(e), "it has ended before it began");
    tt_wait_begin(&wait, tt_wait_policy_for(e->n), &e->doorbell, 1);
    tt_wait_park_by(&wait, e->park, e);
    int64_t deadline = tt_deadline_ns(PATIENCE_MS);
    for (int left = STREAMS; left > 0 && s->wrong[0] == '\0';) {
        bool moved = false;
        left = 0;
        for (int i = 0; i < STREAMS; i++) {
            moved |= advance(&streams[i]);
            left += streams[i].left > 0;
        }
        if (moved)
            tt_wait_awake(&wait);
        else
            idle(s, e, &wait, deadline);
    }
    struct tt_cause cause = { .status = TUTTI_INTERNAL_ERROR, .rank = e->me };
    memcpy(cause.text, s->wrong, sizeof s->wrong);
    if (s->wrong[0] != '\0')
        e->control->abort(e, &cause);
    tt_wait_awake(&wait);
    tt_endpoint_leave(e);
    free(streams);
}
