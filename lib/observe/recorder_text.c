/* SPDX-License-Identifier: BSD-3-Clause */
/* recorder_text.c: the recorder's memory as text and as JSON.
 *
 * The memory may be another process's, and may change while it is read. An entry is taken over word by word
 * and counts only if its first word was the same before and after; numbers that name nothing are printed as
 * numbers. */
#include <stdio.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "base/collective.h"
#include "base/log.h"
#include "call/call.h"
#include "observe/recorder_file.h"

enum { TRIES = 8, TEXT_BYTES = 160 };

struct view { /* of one communicator, taken over */
    const struct tt_recorder_header *header;
    struct tt_moment now;
    uint64_t calls, id, init_began;
    int32_t n, rank, status;
    bool failed;
    char name[64], error[480], wait[8 * TT_RECORDER_WAIT_WORDS];
};

struct record { /* of one call, taken over */
    uint64_t words[TT_ENTRY_WORDS];
    enum tt_entry_state state;
    uint64_t number; /* 0: it had none */
};

bool tt_recorder_check(const void *file, uint64_t bytes, const char **why)
{
    const struct tt_recorder_header *h = file;
    if (bytes < TT_RECORDER_HEADER_BYTES || h->magic != TT_RECORDER_MAGIC)
        *why = "it is not a recorder of Tutti";
    else if (h->version != TT_RECORDER_VERSION || h->header_bytes != TT_RECORDER_HEADER_BYTES ||
             h->part_bytes != TT_RECORDER_PART_BYTES)
        *why = "it is of another release; ask with the tutti-info of that one";
    else
        return true;
    return false;
}

/* --- Taking over */

static bool take_record(const struct tt_entry *e, struct record *r)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = atomic_load_explicit(&e->words[TT_ENTRY_STATE], memory_order_acquire);
        for (int w = 0; w < TT_ENTRY_WORDS; w++)
            r->words[w] = atomic_load_explicit(&e->words[w], memory_order_acquire);
        if (atomic_load_explicit(&e->words[TT_ENTRY_STATE], memory_order_relaxed) != before)
            continue;
        r->state = (enum tt_entry_state)(before & 0xff);
        r->number = before >> 8;
        return r->state > TT_ENTRY_NONE && r->state <= TT_ENTRY_FAILED;
    }
    return false;
}

/* Takes over the text that says what an initialisation waits for; nothing, if it changes all the time. */
static void take_wait(const struct tt_recorder_part *part, char *text)
{
    uint64_t words[TT_RECORDER_WAIT_WORDS];
    text[0] = '\0';
    for (int tries = 0; tries < TRIES; tries++) {
        uint64_t before = atomic_load_explicit(&part->wait_number, memory_order_acquire);
        for (int i = 0; i < TT_RECORDER_WAIT_WORDS; i++)
            words[i] = atomic_load_explicit(&part->wait[i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (before % 2 == 1 || atomic_load_explicit(&part->wait_number, memory_order_relaxed) != before)
            continue;
        snprintf(text, sizeof words, "%.*s", (int)sizeof words - 1, (const char *)words);
        return;
    }
}

static bool take_view(
    const struct tt_recorder_header *header, const struct tt_recorder_part *part, struct view *v)
{
    uint64_t life = atomic_load_explicit(&part->life, memory_order_acquire);
    *v = (struct view){ .header = header, .now = tt_moment_now(), .id = part->id, .n = part->n };
    v->rank = part->rank;
    v->calls = atomic_load_explicit(&part->calls, memory_order_relaxed);
    v->init_began = atomic_load_explicit(&part->init_began, memory_order_relaxed);
    take_wait(part, v->wait);
    v->failed = atomic_load_explicit(&part->failed, memory_order_acquire) != 0;
    snprintf(v->name, sizeof v->name, "%.*s", (int)sizeof part->name, part->name);
    if (v->failed) {
        v->status = part->status;
        snprintf(v->error, sizeof v->error, "%.*s", (int)sizeof part->error, part->error);
    }
    atomic_thread_fence(memory_order_acquire);
    return life % 2 == 1 && atomic_load_explicit(&part->life, memory_order_relaxed) == life;
}

/* --- Names and times */

/* Returns a character of a foreign text, or a blank in place of one that a terminal might act on. */
static char clean(char c)
{
    return c >= 32 && c < 127 ? c : ' ';
}

static void put_clean(struct tt_text *t, const char *text)
{
    for (; *text != '\0'; text++)
        tt_put(t, "%c", clean(*text));
}

/* Returns the number of the collective in this build, found by its name in the file; TT_COLLECTIVES if
 * there is none of that name. */
static enum tt_collective collective_of(const struct view *v, const struct record *r)
{
    char name[TT_RECORDER_NAME_BYTES + 1] = "";
    unsigned number = tt_entry_collective(r->words[TT_ENTRY_WHAT]);
    if (number < TT_RECORDER_COLLECTIVES)
        snprintf(name, sizeof name, "%.*s", TT_RECORDER_NAME_BYTES, v->header->collectives[number]);
    return tt_collective_find(name);
}

static void name_algorithm(const struct view *v, const struct record *r, char *name, size_t bytes)
{
    unsigned number = tt_entry_algorithm(r->words[TT_ENTRY_WHAT]);
    if (r->state == TT_ENTRY_QUEUED || number >= TT_RECORDER_ALGORITHMS)
        snprintf(name, bytes, "-");
    else
        snprintf(name, bytes, "%.*s", TT_RECORDER_NAME_BYTES, v->header->algorithms[number]);
    for (; *name != '\0'; name++)
        *name = clean(*name);
}

static int64_t ns_of(const struct view *v, const struct record *r, enum tt_entry_word word)
{
    return tt_ticks_to_ns(v->header->begun, v->now, r->words[word]);
}

static void put_span(struct tt_text *t, int64_t ns)
{
    double us = ns > 0 ? 1e-3 * (double)ns : 0;
    if (us < 1e3)
        tt_put(t, "%.1f us", us);
    else if (us < 1e6)
        tt_put(t, "%.1f ms", 1e-3 * us);
    else
        tt_put(t, "%.1f s", 1e-6 * us);
}

/* --- One call */

static tutti_op op_of(const struct record *r)
{
    return (tutti_op)(r->words[TT_ENTRY_WHO] >> 32);
}

/* Returns the operator by the number that all ranks use for it. */
static uint32_t shared_op_of(const struct record *r)
{
    return op_of(r) < TT_CREATED_OPS ? op_of(r) : (uint32_t)r->words[TT_ENTRY_OPERATOR];
}

static void describe(const struct view *v, const struct record *r, char *text, size_t bytes)
{
    struct tt_call_record call = { .count = r->words[TT_ENTRY_COUNT],
        .op = shared_op_of(r),
        .root = (int32_t)(uint32_t)r->words[TT_ENTRY_WHO],
        .collective = (uint8_t)collective_of(v, r),
        .type = (uint8_t)tt_entry_type(r->words[TT_ENTRY_WHAT]) };
    tt_record_describe_own(&call, op_of(r), text, bytes);
}

static uint64_t bytes_of(const struct record *r)
{
    uint64_t what = r->words[TT_ENTRY_WHAT];
    return tt_entry_total(what) * tutti_type_bytes((tutti_type)tt_entry_type(what));
}

static bool has_waited(const struct record *r)
{
    return r->state == TT_ENTRY_RUNNING && r->words[TT_ENTRY_LOOKED] >= r->words[TT_ENTRY_STARTED];
}

/* Returns how long nothing has moved: up to the last look around, and since. */
static int64_t stalled_ns(const struct view *v, const struct record *r)
{
    uint64_t ms = r->words[TT_ENTRY_STALLED] % (UINT64_C(1) << 40);
    return (int64_t)ms * 1000000 + v->now.ns - ns_of(v, r, TT_ENTRY_LOOKED);
}

/* Returns the peer that the call waits for; -1: none was seen. */
static int64_t waits_for(const struct view *v, const struct record *r)
{
    uint64_t peer = r->words[TT_ENTRY_WAITS_FOR] - 1;
    return has_waited(r) && v->n > 0 && peer < (uint64_t)v->n ? (int64_t)peer : -1;
}

static void put_progress(struct tt_text *t, const struct view *v, const struct record *r)
{
    int64_t called = ns_of(v, r, TT_ENTRY_CALLED), started = ns_of(v, r, TT_ENTRY_STARTED);
    int64_t ended = ns_of(v, r, TT_ENTRY_ENDED);
    switch (r->state) {
    case TT_ENTRY_QUEUED:
        tt_put(t, "queued for ");
        put_span(t, v->now.ns - called);
        return;
    case TT_ENTRY_RUNNING:
        tt_put(t, "running for ");
        put_span(t, v->now.ns - started);
        if (!has_waited(r))
            return;
        tt_put(t, "; nothing moved for ");
        put_span(t, stalled_ns(v, r));
        if (waits_for(v, r) >= 0)
            tt_put(t, ", waits for rank %lld", (long long)waits_for(v, r));
        return;
    default:
        if (r->words[TT_ENTRY_ENDED] == 0) {
            tt_put(t, "done at once");
            ended = started;
        } else {
            tt_put(t, r->state == TT_ENTRY_DONE ? "done in " : "failed after ");
            put_span(t, ended - started);
        }
        tt_put(t, ", ");
        put_span(t, v->now.ns - ended);
        tt_put(t, " ago");
    }
}

/* ", by a leader's kernel (W)"; nothing of a call without a CUDA stream. */
static void put_served(struct tt_text *t, const struct record *r)
{
    static const char *const words[TT_SERVED] = { [TT_SERVED_HOST] = "the host",
        [TT_SERVED_LOCAL] = "one kernel or copy",
        [TT_SERVED_LED] = "a leader's kernel",
        [TT_SERVED_DIRECT] = "kernels of all devices" };
    unsigned served = tt_entry_served_by(r->words[TT_ENTRY_WHAT]);
    if (served > TT_SERVED_UNKNOWN && served < TT_SERVED)
        tt_put(t, ", by %s (%c)", words[served], tt_served_letter((enum tt_served)served));
}

static void put_text(struct tt_text *t, const struct view *v, const struct record *r)
{
    char what[TEXT_BYTES], number[32] = "", algorithm[TT_RECORDER_NAME_BYTES + 1];
    enum tt_collective c = collective_of(v, r);
    bool p2p = c < TT_COLLECTIVES && tt_collectives[c].p2p;
    describe(v, r, what, sizeof what);
    name_algorithm(v, r, algorithm, sizeof algorithm);
    if (r->state != TT_ENTRY_QUEUED)
        snprintf(number, sizeof number, "%llu", (unsigned long long)r->words[TT_ENTRY_SEQUENCE]);
    tt_put(t, "%-9s %8s  %-40s %10llu bytes  %-13s ", p2p ? "message" : "operation", number, what,
        (unsigned long long)bytes_of(r), algorithm);
    put_progress(t, v, r);
    put_served(t, r);
}

static void put_number(struct tt_text *t, const char *name, bool known, uint64_t value)
{
    if (known)
        tt_put(t, ", \"%s\": %llu", name, (unsigned long long)value);
    else
        tt_put(t, ", \"%s\": null", name);
}

static void put_time(struct tt_text *t, const char *name, bool known, int64_t ns)
{
    if (known)
        tt_put(t, ", \"%s\": %lld", name, (long long)ns);
    else
        tt_put(t, ", \"%s\": null", name);
}

static void put_json(struct tt_text *t, const struct view *v, const struct record *r)
{
    static const char *const states[] = { "none", "queued", "running", "done", "failed" };
    enum tt_collective c = collective_of(v, r);
    const struct tt_collective_row *row = c < TT_COLLECTIVES ? &tt_collectives[c] : NULL;
    char algorithm[TT_RECORDER_NAME_BYTES + 1], op[64] = "none";
    bool started = r->state != TT_ENTRY_QUEUED, over = r->state >= TT_ENTRY_DONE;
    bool reduces = row != NULL && row->result == TT_RESULT_REDUCED;
    uint32_t who = (uint32_t)r->words[TT_ENTRY_WHO];
    tutti_type type = (tutti_type)tt_entry_type(r->words[TT_ENTRY_WHAT]);
    unsigned served = tt_entry_served_by(r->words[TT_ENTRY_WHAT]);
    name_algorithm(v, r, algorithm, sizeof algorithm);
    if (reduces)
        tt_operator_describe(shared_op_of(r), op_of(r), op, sizeof op);
    tt_put(t, "{\"collective\": ");
    tt_put_json(t, row != NULL ? row->name : "unknown");
    put_number(t, "call", r->number > 0, r->number - 1);
    put_number(t, "sequence", started, r->words[TT_ENTRY_SEQUENCE]);
    put_number(t, "count", true, r->words[TT_ENTRY_COUNT]);
    tt_put(t, ", \"type\": \"%s\", \"op\": ", tt_type_name(type));
    tt_put_json(t, op);
    put_number(t, "root", row != NULL && row->rooted, who);
    put_number(t, "peer", row != NULL && row->p2p, who);
    put_number(t, "bytes", true, bytes_of(r));
    tt_put(t, ", \"algorithm\": ");
    tt_put_json(t, algorithm);
    if (served > TT_SERVED_UNKNOWN && served < TT_SERVED)
        tt_put(t, ", \"executor\": \"%c\"", tt_served_letter((enum tt_served)served));
    else
        tt_put(t, ", \"executor\": null");
    tt_put(t, ", \"state\": \"%s\"", states[r->state]);
    put_time(t, "called_ns", true, ns_of(v, r, TT_ENTRY_CALLED));
    put_time(t, "started_ns", started, ns_of(v, r, TT_ENTRY_STARTED));
    put_time(t, "ended_ns", over && r->words[TT_ENTRY_ENDED] != 0, ns_of(v, r, TT_ENTRY_ENDED));
    put_time(t, "stalled_ns", has_waited(r), stalled_ns(v, r));
    put_number(t, "waits_for", waits_for(v, r) >= 0, (uint64_t)waits_for(v, r));
    tt_put(t, "}");
}

/* --- One communicator, and all of them */

/* A walk over the entries of the last calls, from the oldest to the youngest, then the spare one. */
struct walk {
    const struct tt_recorder_part *part;
    uint64_t first;
    int at, last;
};

static struct walk walk_over(const struct view *v, const struct tt_recorder_part *part, int last)
{
    uint64_t most = v->calls < (uint64_t)last ? v->calls : (uint64_t)last;
    return (struct walk){ part, v->calls - most, 0, (int)most };
}

static bool record_at(const struct walk *w, int i, struct record *r)
{
    uint64_t place = i < w->last ? (w->first + (uint64_t)i) % TT_RECORDER_RING : TT_RECORDER_RING;
    return take_record(&w->part->ring[place], r);
}

static bool next(struct walk *w, struct record *r)
{
    while (w->at <= w->last)
        if (record_at(w, w->at++, r))
            return true;
    return false;
}

static int64_t init_ns(const struct view *v)
{
    return v->now.ns - tt_ticks_to_ns(v->header->begun, v->now, v->init_began);
}

static void put_init_text(struct tt_text *t, const struct view *v)
{
    put_clean(t, v->name);
    if (v->n > 0)
        tt_put(t, ", rank %d of %d", v->rank, v->n);
    tt_put(t, ": is being made for ");
    put_span(t, init_ns(v));
    tt_put(t, v->wait[0] != '\0' ? "; " : "");
    put_clean(t, v->wait);
    tt_put(t, "\n");
}

static void put_part_text(struct tt_text *t, const struct view *v, const struct tt_recorder_part *part)
{
    struct walk walk = walk_over(v, part, TT_RECORDER_RING);
    struct record r;
    put_clean(t, v->name);
    tt_put(t, ", rank %d of %d: %llu call%s; ", v->rank, v->n, (unsigned long long)v->calls,
        v->calls == 1 ? "" : "s");
    if (v->failed)
        put_clean(t, v->error);
    else
        tt_put(t, "no error");
    tt_put(t, "\n");
    while (next(&walk, &r)) {
        tt_put(t, "  ");
        put_text(t, v, &r);
        tt_put(t, "\n");
    }
}

static void put_part_json(struct tt_text *t, const struct view *v, const struct tt_recorder_part *part)
{
    struct walk walk = walk_over(v, part, TT_RECORDER_RING);
    struct record r;
    tt_put(t, "{\"process\": %lld, \"communicator\": ", (long long)v->header->pid);
    tt_put_json(t, v->name);
    tt_put(t, ", \"id\": \"%016llx\", \"rank\": %d, \"ranks\": %d, \"calls\": %llu, \"now_ns\": %lld",
        (unsigned long long)v->id, v->rank, v->n, (unsigned long long)v->calls, (long long)v->now.ns);
    tt_put(t, ", \"status\": %d, \"error\": ", v->init_began != 0 ? TUTTI_IN_PROGRESS : v->status);
    if (v->failed)
        tt_put_json(t, v->error);
    else
        tt_put(t, "null");
    if (v->init_began != 0) {
        put_time(t, "joining_ns", true, init_ns(v));
        tt_put(t, ", \"waits\": ");
        tt_put_json(t, v->wait);
    }
    tt_put(t, ", \"operations\": [");
    for (int i = 0; next(&walk, &r); i++) {
        tt_put(t, i > 0 ? ", " : "");
        put_json(t, v, &r);
    }
    tt_put(t, "]}\n");
}

bool tt_recorder_put_part(struct tt_text *t, const struct tt_recorder_header *header,
    const struct tt_recorder_part *part, enum tt_recorder_form form)
{
    struct view v;
    if (!take_view(header, part, &v))
        return false;
    if (form == TT_RECORDER_JSON)
        put_part_json(t, &v, part);
    else if (v.init_began != 0)
        put_init_text(t, &v);
    else
        put_part_text(t, &v, part);
    return true;
}

int tt_recorder_put_file(struct tt_text *t, const void *file, uint64_t bytes, enum tt_recorder_form form)
{
    const uint8_t *at = (const uint8_t *)file + TT_RECORDER_HEADER_BYTES;
    uint64_t parts = (bytes - TT_RECORDER_HEADER_BYTES) / TT_RECORDER_PART_BYTES;
    int alive = 0;
    for (uint64_t i = 0; i < parts; i++, at += TT_RECORDER_PART_BYTES)
        alive += tt_recorder_put_part(t, file, (const struct tt_recorder_part *)(const void *)at, form);
    return alive;
}

static void log_record(enum tt_log_level level, const struct view *v, const struct record *r)
{
    char line[2 * TEXT_BYTES];
    put_text(&(struct tt_text){ line, sizeof line, 0 }, v, r);
    tt_log(level, "  %s", line);
}

/* Writes calls that did not end first: a reader wants to see these. */
void tt_recorder_log(enum tt_log_level level, const struct tt_recorder_header *header,
    const struct tt_recorder_part *part, int last)
{
    struct view v;
    struct record r;
    if (!take_view(header, part, &v))
        return;
    tt_log(level, "%s, rank %d of %d: %llu call%s; what runs, and then the last ones, backwards:", v.name,
        v.rank, v.n, (unsigned long long)v.calls, v.calls == 1 ? "" : "s");
    struct walk walk = walk_over(&v, part, last);
    for (int running = 1; running >= 0; running--)
        for (int i = walk.last; i >= 0; i--)
            if (record_at(&walk, i, &r) && (r.state == TT_ENTRY_RUNNING) == running)
                log_record(level, &v, &r);
}
