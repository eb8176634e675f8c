/* SPDX-License-Identifier: BSD-3-Clause */
/* measure.c: warm up, time, then check one more call.
 *
 * The check stands apart from the loop: it uses fresh contributions and poisoned results, after everything
 * was called many times, and costs the loop nothing. Ranks leave a barrier of the library together and run
 * their calls back to back; the time of a point is that of the slowest rank. */
#include "measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "rewrite.h"
#include "defect.h"
#include "iterations.h"

const char *const perf_path_names[PERF_PATHS] = { "line", "mapped", "placed", "copied", "pulled" };

enum { COMPLAINTS_MAX = 10 };

/* A sample takes so long at least: then the clock, and on a stream the waking of the rank that waits, cost
 * little. */
#define BATCH_SECONDS 20e-6
#define STREAM_BATCH_SECONDS 500e-6

/* The words that each rank tells the others after a loop. */
struct record {
    double seconds, median, p99;
    uint64_t wrong;
    uint64_t path_bytes[PERF_PATHS];
    uint64_t rewritten;
};
_Static_assert(sizeof(struct record) <= PERF_RECORD_BYTES, "a record fits the shared page");
_Static_assert(sizeof(struct perf_times) <= PERF_RECORD_BYTES, "the times of a round fit the shared page");

/* The times of the slowest rank, the sums of the rest. */
static tutti_status combine(struct perf_session *s, struct record *mine)
{
    struct record *all = malloc((size_t)s->group->n * sizeof *all);
    if (all == NULL)
        return TUTTI_OUT_OF_MEMORY;
    tutti_status status = perf_group_exchange(s->group, mine, sizeof *mine, all);
    if (status == TUTTI_OK) {
        *mine = (struct record){ 0 };
        for (int i = 0; i < s->group->n; i++) {
            if (all[i].seconds > mine->seconds) {
                mine->seconds = all[i].seconds;
                mine->median = all[i].median;
                mine->p99 = all[i].p99;
            }
            mine->wrong += all[i].wrong;
            mine->rewritten += all[i].rewritten;
            for (int path = 0; path < PERF_PATHS; path++)
                mine->path_bytes[path] += all[i].path_bytes[path];
        }
    }
    free(all);
    return status;
}

/* "line=8 mapped=0 ..", counted by this rank since the communicator began. */
static void read_paths(tutti_comm *comm, uint64_t bytes[PERF_PATHS])
{
    char text[256] = "";
    tutti_query(comm, "paths", text, sizeof text);
    for (int path = 0; path < PERF_PATHS; path++) {
        const char *found = strstr(text, perf_path_names[path]);
        bytes[path] = found == NULL ? 0 : strtoull(found + strlen(perf_path_names[path]) + 1, NULL, 10);
    }
}

/* `units` back to back; *seconds is the time of all. On a stream a batch is waited for when the next
 * one is queued already, so that the stream never runs dry and never has more than two of them. */
static tutti_status make_many(struct perf_session *s, long units, double *seconds)
{
    struct perf_call_mode *mode = &s->call_mode;
    tutti_status status = TUTTI_OK;
    uint64_t end = 0;
    long queued = 0; /* of the batch before */
    perf_samples_begin(&s->samples, units, mode->streamed ? STREAM_BATCH_SECONDS : BATCH_SECONDS);
    double began = perf_clock_seconds(), before = began, now = began;
    for (long left = units; (left > 0 || queued > 0) && status == TUTTI_OK;) {
        long batch = s->samples.batch < left ? s->samples.batch : left;
        uint64_t earlier = end;
        if (batch > 0)
            status = perf_call_mode_issue(mode, batch, &end);
        if (status == TUTTI_OK && queued > 0)
            status = perf_call_mode_wait(mode, earlier);
        long done = mode->streamed ? queued : batch;
        if (done > 0) {
            now = perf_clock_seconds();
            perf_samples_add(&s->samples, done, now - before);
            before = now;
        }
        queued = mode->streamed ? batch : 0;
        left -= batch;
    }
    *seconds = now - began;
    return status;
}

/* Enqueues all calls on a device's stream back to back between two looks at the clock, and waits once. The
 * samples are of the device, from mark to mark. */
static tutti_status enqueue_many(struct perf_session *s, long units, double *seconds)
{
    enum { BATCHES = PERF_DEVICE_MARKS - 1 };
    struct perf_device *device = s->call_mode.device;
    long batch = (units + BATCHES - 1) / BATCHES;
    int marks = 0;
    uint64_t end = 0;
    double began = perf_clock_seconds();
    tutti_status status = perf_device_mark(device, 0);
    for (long left = units; left > 0 && status == TUTTI_OK; left -= batch) {
        status = perf_call_mode_issue(&s->call_mode, batch < left ? batch : left, &end);
        if (status == TUTTI_OK)
            status = perf_device_mark(device, ++marks);
    }
    if (status == TUTTI_OK)
        status = perf_call_mode_wait(&s->call_mode, end);
    *seconds = perf_clock_seconds() - began;
    perf_samples_begin(&s->samples, units, 0);
    for (int i = 0; i < marks && status == TUTTI_OK; i++) {
        double between;
        status = perf_device_between(device, i, i + 1, &between);
        perf_samples_add(&s->samples, i + 1 < marks ? batch : units - i * batch, between);
    }
    return status;
}

/* A round of units, each after this rank has rewritten its input: when they began and ended here. */
static tutti_status make_round(struct perf_session *s, int units, struct perf_times *m, struct record *r)
{
    struct perf_call_mode *mode = &s->call_mode;
    uint64_t bytes = perf_point_input(mode->point), end = 0;
    tutti_status status = perf_buffers_keep(&s->buffers, mode->at->send, bytes);
    for (int i = 0; i < units && status == TUTTI_OK; i++) {
        status = perf_buffers_rewrite(&s->buffers, mode->at->send, bytes, i);
        r->rewritten += bytes;
        m->began[i] = perf_group_clock_seconds(s->group);
        if (status == TUTTI_OK)
            status = perf_call_mode_issue(mode, 1, &end);
        if (status == TUTTI_OK)
            status = perf_call_mode_wait(mode, end);
        m->ended[i] = perf_group_clock_seconds(s->group);
    }
    return status;
}

/* Calls that are one sample together, so far. */
struct batch {
    long calls;
    double seconds;
};

static void end_batch(struct perf_session *s, struct batch *b, struct record *r)
{
    if (b->calls > 0)
        perf_samples_add(&s->samples, b->calls, b->seconds);
    r->seconds += b->seconds;
    *b = (struct batch){ 0 };
}

/* Adds the times of a round to *b, from when each call began and ended on all ranks. */
static void add_round(
    struct perf_session *s, int units, const struct perf_times *all, struct batch *b, struct record *r)
{
    struct perf_times latest = all[0];
    for (int rank = 1; rank < s->group->n; rank++)
        perf_times_latest(&latest, &all[rank], units);
    for (int i = 0; i < units; i++) {
        b->seconds += perf_times_seconds(&latest, i);
        if (++b->calls == s->samples.batch)
            end_batch(s, b, r);
    }
}

static tutti_status make_dirty(struct perf_session *s, long units, struct record *r)
{
    struct perf_times *all = malloc((size_t)s->group->n * sizeof *all), mine;
    tutti_status status = all == NULL ? TUTTI_OUT_OF_MEMORY : TUTTI_OK;
    struct batch batch = { 0 };
    int round;
    perf_samples_begin(&s->samples, units, 0);
    for (long left = units; left > 0 && status == TUTTI_OK; left -= round) {
        round = left < PERF_REWRITE_CALLS ? (int)left : PERF_REWRITE_CALLS;
        status = make_round(s, round, &mine, r);
        if (status == TUTTI_OK)
            status = perf_group_exchange(s->group, &mine, sizeof mine, all);
        if (status == TUTTI_OK)
            add_round(s, round, all, &batch, r);
    }
    end_batch(s, &batch, r);
    free(all);
    return status;
}

static tutti_status run_loop(struct perf_session *s, long units, struct record *r)
{
    uint64_t before[PERF_PATHS], after[PERF_PATHS];
    *r = (struct record){ 0 };
    tutti_status status = tutti_barrier(s->comm, tutti_no_stream());
    read_paths(s->comm, before);
    if (status == TUTTI_OK)
        status = s->options->dirty             ? make_dirty(s, units, r)
                 : s->call_mode.device != NULL ? enqueue_many(s, units, &r->seconds)
                                               : make_many(s, units, &r->seconds);
    r->median = perf_samples_percentile(&s->samples, 50);
    r->p99 = perf_samples_percentile(&s->samples, 99);
    if (status != TUTTI_OK) {
        perf_group_print_error(s->group, s->call_mode.point->collective->name, status);
        return status;
    }
    read_paths(s->comm, after);
    for (int path = 0; path < PERF_PATHS; path++)
        r->path_bytes[path] = after[path] - before[path];
    return combine(s, r);
}

static tutti_status time_point(struct perf_session *s, struct perf_result *result)
{
    struct perf_iterations it;
    struct record record;
    tutti_status status = TUTTI_OK;
    perf_iterations_begin(&it, (long)s->options->warmups, (long)s->options->iterations, !s->settled);
    s->settled = true;
    while (it.warming && status == TUTTI_OK) {
        status = run_loop(s, it.calls, &record);
        if (status == TUTTI_OK)
            perf_iterations_next(&it, record.seconds);
    }
    if (status == TUTTI_OK)
        status = run_loop(s, it.calls, &record);
    if (status != TUTTI_OK)
        return status;
    long calls = s->options->program > 0 ? (long)s->options->program : 1; /* in a unit */
    result->measured = true;
    result->calls = it.calls * calls;
    result->seconds = record.seconds / (double)result->calls;
    result->median = record.median / (double)calls;
    result->p99 = record.p99 / (double)calls;
    memcpy(result->path_bytes, record.path_bytes, sizeof result->path_bytes);
    result->rewritten = record.rewritten;
    return TUTTI_OK;
}

/* Sets what the next calls are, with what was prepared at these pointers. */
static tutti_status aim(struct perf_session *s, const struct perf_point *p, const struct perf_pointers *at)
{
    s->called = perf_buffers_called(&s->buffers, at);
    s->call_mode.point = p;
    s->call_mode.at = &s->called;
    s->call_mode.comm = s->comm;
    return perf_buffers_put(&s->buffers, p);
}

/* Binds the next calls. On a device this captures them, and what another thread of the process does meanwhile
 * could break the capture: so all ranks do it at once. */
static tutti_status bind(struct perf_session *s, long calls)
{
    bool at_once = calls > 0 && s->call_mode.device != NULL && s->options->threads > 1;
    if (at_once)
        perf_group_barrier(s->group);
    tutti_status status = perf_call_mode_bind(&s->call_mode, calls);
    if (at_once)
        perf_group_barrier(s->group);
    return status;
}

static struct perf_values values_of(struct perf_session *s, const struct perf_point *p)
{
    return (struct perf_values){ p->type, p->op, s->seed, p->n, s->options->exact };
}

static void complain(
    struct perf_session *s, const struct perf_point *p, bool in_place, uint64_t wrong, const char *text)
{
    if (wrong == 0 || s->complaints++ >= COMPLAINTS_MAX)
        return;
    fprintf(stderr, "collperf: rank %d: %s %s%s%s, %" PRIu64 " elements, %s: %" PRIu64 " wrong: %s\n",
        p->rank, p->collective->name, p->type->name, p->op ? " " : "", p->op ? p->op->name : "", p->count,
        in_place ? "in place" : "out of place", wrong, text);
}

/* Checks one call on fresh data, which `defect` damages before the check; NULL: nothing is damaged here. */
static tutti_status check_once(struct perf_session *s, const struct perf_point *p, bool in_place,
    const struct perf_defect *defect, struct record *record, char *text, size_t text_bytes)
{
    s->seed++;
    struct perf_values v = values_of(s, p);
    struct perf_pointers at = perf_buffers_place(&s->buffers, p, in_place);
    perf_check_prepare(&s->buffers, p, &v, &at);
    uint64_t end = 0;
    tutti_status status = aim(s, p, &at);
    if (status == TUTTI_OK)
        status = bind(s, s->options->program > 0 ? 1 : 0);
    if (status == TUTTI_OK)
        status = perf_call_mode_issue(&s->call_mode, 1, &end);
    if (status == TUTTI_OK)
        status = perf_call_mode_wait(&s->call_mode, end);
    if (status == TUTTI_OK)
        status = perf_buffers_fetch(&s->buffers, p);
    perf_call_mode_unbind(&s->call_mode);
    if (status != TUTTI_OK) {
        perf_group_print_error(s->group, p->collective->name, status);
        return status;
    }
    if (defect != NULL)
        perf_defect_make(defect, &s->buffers, p, &at);
    *record = (struct record){ .wrong = perf_check_count(&s->buffers, p, &v, &at, text, text_bytes) };
    return TUTTI_OK;
}

/* Checks as many calls as were asked for, each on data of its own. */
static tutti_status check_many(
    struct perf_session *s, const struct perf_point *p, bool in_place, struct perf_result *result)
{
    tutti_status status = TUTTI_OK;
    for (int64_t i = 0; i < s->options->check && status == TUTTI_OK; i++) {
        struct record record;
        char text[256];
        status = check_once(s, p, in_place, NULL, &record, text, sizeof text);
        if (status != TUTTI_OK)
            return status;
        complain(s, p, in_place, record.wrong, text);
        status = combine(s, &record);
        result->wrong += record.wrong;
    }
    result->checked = true;
    return status;
}

tutti_status perf_measure(
    struct perf_session *s, const struct perf_point *p, bool in_place, struct perf_result *result)
{
    *result = (struct perf_result){ .rated = !in_place || p->n > 1 };
    if (in_place && p->collective->in_place == PERF_IN_PLACE_NEVER)
        return TUTTI_OK;
    struct perf_pointers at = perf_buffers_place(&s->buffers, p, in_place);
    struct perf_values v = values_of(s, p);
    perf_check_prepare(&s->buffers, p, &v, &at);
    tutti_status status = aim(s, p, &at);
    if (status == TUTTI_OK)
        status = bind(s, (long)s->options->program);
    if (status == TUTTI_OK)
        status = time_point(s, result);
    else
        perf_group_print_error(s->group, p->collective->name, status);
    perf_call_mode_unbind(&s->call_mode);
    if (status == TUTTI_OK)
        status = perf_limits_bytes(&s->limits, s->group, &s->buffers, p, in_place, &result->bytes_seconds);
    if (status != TUTTI_OK || s->options->check == 0 || !p->collective->moves)
        return status;
    return check_many(s, p, in_place, result);
}

/* Chooses the rank that does the damage: the last one with the most to damage. Not every rank has a
 * result, and a v-form may leave the root without. *count is what the check must find; 0: there is nothing
 * to damage. */
static tutti_status choose_victim(struct perf_session *s, const struct perf_defect *defect,
    const struct perf_point *p, int *victim, uint64_t *count)
{
    uint64_t mine = perf_defect_count(defect, p), *all = malloc((size_t)p->n * sizeof *all);
    if (all == NULL)
        return TUTTI_OUT_OF_MEMORY;
    tutti_status status = perf_group_exchange(s->group, &mine, sizeof mine, all);
    *count = 0;
    for (int rank = 0; status == TUTTI_OK && rank < p->n; rank++) {
        if (all[rank] == 0 || all[rank] < *count)
            continue;
        *victim = rank;
        *count = all[rank];
    }
    free(all);
    return status;
}

/* *missed becomes true if the check counts another number of wrong values than were made. */
static tutti_status test_defect(
    struct perf_session *s, const struct perf_point *p, const struct perf_defect *defect, bool *missed)
{
    struct record record;
    char text[256];
    int victim = 0;
    uint64_t count;
    tutti_status status = choose_victim(s, defect, p, &victim, &count);
    if (status != TUTTI_OK || count == 0)
        return status;
    status =
        check_once(s, p, defect->in_place, p->rank == victim ? defect : NULL, &record, text, sizeof text);
    if (status == TUTTI_OK)
        status = combine(s, &record);
    if (status != TUTTI_OK)
        return status;
    *missed = record.wrong != count;
    if (s->group->rank == 0)
        fprintf(stderr,
            "collperf: --self-test: %s, %s: %s was corrupted at rank %d: %s (%" PRIu64 " wrong of %" PRIu64
            ")\n",
            p->collective->name, defect->in_place ? "in place" : "out of place", defect->name, victim,
            record.wrong == count  ? "found"
            : record.wrong < count ? "NOT FOUND"
                                   : "found, but more is wrong",
            record.wrong, count);
    return TUTTI_OK;
}

tutti_status perf_self_test(struct perf_session *s, const struct perf_point *p, int *missed)
{
    tutti_status status = TUTTI_OK;
    *missed = 0;
    for (int i = 0; i < PERF_DEFECTS && status == TUTTI_OK; i++) {
        bool blind = false;
        status = test_defect(s, p, &perf_defects[i], &blind);
        *missed += blind;
    }
    return status;
}
