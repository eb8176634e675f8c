/* SPDX-License-Identifier: BSD-3-Clause */
/* test_trace.c: traces of several ranks: every line is an event, slices of a track never cut each other,
 * every step lies in its operation, and every message that was sent was received, once. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/rig/json.h"
#include "tests/rig/ranks.h"

TestSuite(trace, .timeout = 120);

enum { RANKS = 3, EVENTS_MAX = 200000, KINDS = 5, LINE_BYTES = 48, BUFFER = 32768 };
static const char *const verbs[KINDS] = { "send", "recv", "recv_reduce", "reduce", "copy" };

struct event {
    int rank, track;
    double began, ended;
    bool step;
    int verb; /* -1: an operation */
    int peer;
    uint64_t bytes, message;
};

struct arrow {
    char id[24];
    int rank;
    bool sent;
    double at;
};

static struct event *events;
static struct arrow *arrows;
static int nevents, narrows, noperations;

/* The bytes that each rank sent by each path: by its own count, and by its trace. */
static const char *const paths[] = { "line", "mapped", "copied", "placed" };
enum { PATHS = sizeof paths / sizeof paths[0] };
static struct {
    unsigned long long counted[RANKS][PATHS], traced[RANKS][PATHS];
} * sent_by; /* shared with the ranks */

static void count_paths(struct ranks_me *me, const tutti_comm *comm)
{
    struct ranks_paths p = ranks_paths(me, comm);
    unsigned long long each[] = { p.line, p.mapped, p.copied, p.placed };
    for (int i = 0; i < PATHS; i++)
        sent_by->counted[me->rank][i] += each[i];
}

static void expect_paths(void)
{
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < PATHS; i++)
            cr_expect_eq(sent_by->traced[rank][i], sent_by->counted[rank][i],
                "rank %d sent %llu bytes by the path %s, and the trace has %llu", rank,
                sent_by->counted[rank][i], paths[i], sent_by->traced[rank][i]);
    cr_expect(sent_by->counted[1][0] > 0 && sent_by->counted[1][1] > 0 && sent_by->counted[1][3] > 0,
        "hardly any paths were taken");
}

static void text_of(const char *event, const char *name, char *value, size_t bytes)
{
    value[0] = '\0';
    json_member(event, name, value, bytes);
}

static double real_of(const char *event, const char *name)
{
    char value[64];
    text_of(event, name, value, sizeof value);
    return atof(value);
}

static void take_slice(const char *line, int rank)
{
    char name[64], label[64], cat[32], args[512];
    text_of(line, "name", name, sizeof name);
    text_of(line, "cat", cat, sizeof cat);
    text_of(line, "args", args, sizeof args);
    struct event *e = &events[nevents++];
    *e = (struct event){ .rank = rank, .track = (int)json_number(line, "tid"), .verb = -1 };
    e->began = real_of(line, "ts");
    e->ended = e->began + real_of(line, "dur");
    e->step = strcmp(cat, "\"step\"") == 0;
    e->bytes = (uint64_t)json_number(args, "bytes");
    e->peer = (int)json_number(args, "peer");
    e->message = (uint64_t)json_number(args, "message");
    for (int v = 0; v < KINDS && e->step; v++) {
        snprintf(label, sizeof label,
            v > 2    ? "\"%s\""
            : v == 0 ? "\"%s to %d\""
                     : "\"%s from %d\"",
            verbs[v], e->peer);
        if (strcmp(name, label) == 0)
            e->verb = v;
    }
    noperations += !e->step;
    if (e->step && e->verb == 0) { /* at most so many bytes are in the line that tells of them */
        int path = 0;
        text_of(args, "path", name, sizeof name);
        name[strcspn(name + 1, "\"") + 1] = '\0'; /* it stands in quotes */
        while (path < PATHS && strcmp(name + 1, paths[path]) != 0)
            path++;
        cr_assert_lt(path, PATHS, "no such path: %s", line);
        sent_by->traced[rank][path] += e->bytes;
        cr_expect_eq(path == 0, e->bytes <= LINE_BYTES, "%s", line);
    }
    cr_assert(e->step ? e->verb >= 0 : strcmp(cat, "\"operation\"") == 0, "%s", line);
    cr_assert(e->ended >= e->began && json_number(line, "pid") > 0, "%s", line);
}

static void read_trace(const char *directory, int rank)
{
    char path[256], line[2048], kind[16];
    snprintf(path, sizeof path, "%s/%d.json", directory, rank);
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL && fgets(line, sizeof line, file) && strcmp(line, "[\n") == 0, "%s", path);
    while (fgets(line, sizeof line, file) && line[0] == '{') {
        line[strcspn(line, "\n")] = '\0';
        if (line[strlen(line) - 1] == ',')
            line[strlen(line) - 1] = '\0';
        cr_assert(json_is_one(line), "%s", line);
        text_of(line, "ph", kind, sizeof kind);
        if (kind[1] == 'X')
            take_slice(line, rank);
        if (kind[1] != 's' && kind[1] != 'f')
            continue;
        struct arrow *a = &arrows[narrows++];
        text_of(line, "id", a->id, sizeof a->id);
        a->rank = rank;
        a->sent = kind[1] == 's';
        a->at = real_of(line, "ts");
    }
    fclose(file);
    unlink(path);
}

static int by_track(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    if (x->track != y->track)
        return x->track - y->track;
    if (x->began != y->began)
        return x->began < y->began ? -1 : 1;
    return x->ended > y->ended ? -1 : x->ended < y->ended;
}

/* On a track, a slice that begins within another ends within it. */
static void expect_nesting(void)
{
    qsort(events, (size_t)nevents, sizeof *events, by_track);
    struct event open[64];
    int depth = 0;
    for (int i = 0; i < nevents; i++) {
        const struct event *e = &events[i];
        if (i > 0 && (events[i - 1].rank != e->rank || events[i - 1].track != e->track))
            depth = 0;
        while (depth > 0 && open[depth - 1].ended <= e->began + 1e-4)
            depth--;
        cr_assert(depth == 0 || e->ended <= open[depth - 1].ended + 2e-3,
            "rank %d, track %d: a slice from %.3f to %.3f cuts one that ends at %.3f", e->rank, e->track,
            e->began, e->ended, open[depth - 1].ended);
        cr_assert_lt(depth, 64);
        open[depth++] = *e;
    }
}

/* Every step has an operation of its rank around it. */
static void expect_operations(void)
{
    for (int i = 0; i < nevents; i++) {
        bool found = !events[i].step;
        for (int k = 0; k < nevents && !found; k++)
            found = !events[k].step && events[k].rank == events[i].rank &&
                    events[k].began <= events[i].began && events[i].ended <= events[k].ended + 2e-3;
        cr_assert(found, "rank %d: a step (%s) at %.3f of no operation", events[i].rank,
            verbs[events[i].verb], events[i].began);
    }
}

static void expect_messages(void)
{
    uint64_t sent[RANKS][RANKS] = { { 0 } }, received[RANKS][RANKS] = { { 0 } };
    uint64_t sent_bytes[RANKS][RANKS] = { { 0 } }, received_bytes[RANKS][RANKS] = { { 0 } };
    for (int i = 0; i < nevents; i++) {
        const struct event *e = &events[i];
        if (!e->step || e->verb > 2)
            continue;
        cr_assert(e->peer >= 0 && e->peer < RANKS);
        if (e->verb == 0) {
            sent[e->rank][e->peer]++;
            sent_bytes[e->rank][e->peer] += e->bytes;
        } else {
            received[e->peer][e->rank]++;
            received_bytes[e->peer][e->rank] += e->bytes;
        }
    }
    for (int a = 0; a < RANKS; a++)
        for (int b = 0; b < RANKS; b++) {
            cr_expect_eq(sent[a][b], received[a][b], "rank %d to %d: %llu sent, %llu received", a, b,
                (unsigned long long)sent[a][b], (unsigned long long)received[a][b]);
            cr_expect_eq(sent_bytes[a][b], received_bytes[a][b], "bytes from %d to %d", a, b);
            cr_expect(a == b || sent[a][b] > 0, "nothing from %d to %d", a, b);
        }
    for (int i = 0; i < narrows; i++) {
        int partners = 0, same = 0;
        for (int k = 0; k < narrows; k++) {
            if (strcmp(arrows[i].id, arrows[k].id) != 0)
                continue;
            same++;
            partners += arrows[k].sent != arrows[i].sent && arrows[k].rank != arrows[i].rank;
            cr_assert(!arrows[i].sent || arrows[k].sent || arrows[i].at <= arrows[k].at,
                "message %s was received before it was sent", arrows[i].id);
        }
        cr_assert(same == 2 && partners == 1, "message %s has %d ends", arrows[i].id, same);
    }
}

/* Calls of which each goes by other paths than those below: memory that all see, and large messages. */
static void take_other_paths(struct ranks_me *me, tutti_comm *comm)
{
    enum { WORDS = 200000 };
    static int32_t own[WORDS];
    int32_t *seen[2] = { NULL, NULL };
    tutti_stream none = tutti_no_stream();
    for (int i = 0; i < 2; i++)
        if (!ranks_ok(me, tutti_mem_alloc(sizeof own, TUTTI_MEM_HOST, (void **)&seen[i]), "mem_alloc"))
            return;
    ranks_ok(me, tutti_broadcast(own, own, WORDS, TUTTI_INT32, 1, comm, none), "broadcast");
    ranks_ok(me, tutti_broadcast(seen[0], seen[0], WORDS, TUTTI_INT32, 1, comm, none), "broadcast");
    ranks_ok(me, tutti_all_reduce(seen[0], seen[1], WORDS, TUTTI_INT32, TUTTI_SUM, comm, none), "all_reduce");
    for (int i = 0; i < 2; i++)
        ranks_ok(me, tutti_mem_free(seen[i]), "mem_free");
}

static void record(struct ranks_me *me)
{
    enum { WORDS = 20000 };
    static int32_t in[RANKS * WORDS], out[RANKS * WORDS];
    char pattern[200];
    snprintf(pattern, sizeof pattern, "%s/%%r.json", (const char *)me->context);
    setenv("TUTTI_TRACE", pattern, 1);
    tutti_config rings = {
        .size = sizeof rings, .options = "algo=all_reduce:ring;slice=8K", .name = "a \"ring\""
    };
    tutti_comm *comm = ranks_join(me, &rings), *other = ranks_join(me, NULL), *child = NULL;
    tutti_stream none = tutti_no_stream();
    int next = (me->rank + 1) % RANKS, before = (me->rank + RANKS - 1) % RANKS;
    for (int i = 0; i < 3; i++) {
        ranks_ok(me, tutti_all_reduce(in, out, WORDS, TUTTI_INT32, TUTTI_SUM, comm, none), "all_reduce");
        ranks_ok(me, tutti_all_reduce(in, out, 2, TUTTI_INT32, TUTTI_SUM, other, none), "all_reduce");
        ranks_ok(me, tutti_broadcast(out, out, 15, TUTTI_INT32, 1, comm, none), "broadcast");
        ranks_ok(
            me, tutti_reduce_scatter(in, out, 100, TUTTI_INT32, TUTTI_MAX, other, none), "reduce_scatter");
        ranks_ok(me, tutti_all_reduce(in, out, 1, TUTTI_INT32, TUTTI_SUM, comm, none), "one element");
        tutti_group_start();
        tutti_send(in, 10000, TUTTI_INT32, next, comm, none);
        tutti_send(in, 3, TUTTI_INT32, next, comm, none);
        tutti_recv(out, 10000, TUTTI_INT32, before, comm, none);
        tutti_recv(out + 10000, 3, TUTTI_INT32, before, comm, none);
        tutti_barrier(other, none);
        ranks_ok(me, tutti_group_end(), "a ring of messages");
    }
    take_other_paths(me, other);
    ranks_ok(me, tutti_comm_split(comm, 0, -me->rank, NULL, &child), "split");
    ranks_ok(me, tutti_barrier(child, none), "barrier");
    count_paths(me, child);
    count_paths(me, other);
    count_paths(me, comm);
    ranks_part(me, child);
    ranks_part(me, other);
    ranks_part(me, comm);
}

/* Operations of many slices, until the buffer has been full several times. */
static void fill(struct ranks_me *me)
{
    enum { WORDS = 1 << 20, CALLS = 40 };
    static int32_t words[WORDS];
    char pattern[200], log[200], text[2048];
    snprintf(pattern, sizeof pattern, "%s/%%r.json", (const char *)me->context);
    snprintf(log, sizeof log, "%s/log.%d", (const char *)me->context, me->rank);
    setenv("TUTTI_TRACE", pattern, 1);
    setenv("TUTTI_DEBUG_FILE", log, 1);
    setenv("TUTTI_DEBUG", "warn", 1);
    tutti_config config = { .size = sizeof config, .options = "algo=all_reduce:ring;slice=8K;fused=off" };
    tutti_comm *comm = ranks_join(me, &config);
    for (int i = 0; i < CALLS; i++)
        ranks_ok(me, tutti_all_reduce(words, words, WORDS, TUTTI_INT32, TUTTI_MAX, comm, tutti_no_stream()),
            "all_reduce");
    ranks_part(me, comm);
    FILE *file = fopen(log, "r");
    size_t length = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = '\0';
    ranks_expect(me, file != NULL && strstr(text, "the trace lacks") == NULL, "%s", text);
    if (file != NULL)
        fclose(file);
    unlink(log);
    snprintf(pattern, sizeof pattern, "%s/%d.json", (const char *)me->context, me->rank);
    long lines = 0;
    file = fopen(pattern, "r");
    for (int c; file != NULL && (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    if (file != NULL)
        fclose(file);
    unlink(pattern);
    ranks_expect(me, lines > 2 * BUFFER, "%ld lines do not fill the buffer twice", lines);
}

Test(trace, loses_nothing_when_the_buffer_is_full)
{
    char directory[] = "/tmp/tutti_test_XXXXXX";
    cr_assert(mkdtemp(directory));
    ranks_run(&(struct ranks_plan){ .n = 2, .run = fill, .context = directory });
    cr_expect_eq(rmdir(directory), 0);
}

Test(trace, events_fit_together)
{
    char directory[] = "/tmp/tutti_test_XXXXXX";
    cr_assert(mkdtemp(directory));
    events = calloc(EVENTS_MAX, sizeof *events);
    arrows = calloc(EVENTS_MAX, sizeof *arrows);
    sent_by = mmap(NULL, sizeof *sent_by, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(sent_by != MAP_FAILED);
    ranks_run(&(struct ranks_plan){ .n = RANKS, .run = record, .context = directory });
    for (int r = 0; r < RANKS; r++)
        read_trace(directory, r);
    cr_expect_geq(noperations, RANKS * (3 * 10 + 4), "only %d operations", noperations);
    cr_expect_gt(narrows, 500);
    expect_operations();
    expect_nesting();
    expect_messages();
    expect_paths();
    cr_expect_eq(rmdir(directory), 0);
}
