/* SPDX-License-Identifier: BSD-3-Clause */
/* collperf.c: measure and check Tutti's collectives the way nccl-tests does NCCL's.
 *
 * Every rank walks through the same points in the same order: collective, algorithm, type, operation, root,
 * size. Rank 0 alone writes the report. What is asked stands in options.c, what a collective is in table.c,
 * how ranks come to be in launch.c; here is only the walk, made
 * twice: once to count the points. It uses nothing of the library but tutti.h, and device.c the table of a
 * device's runtime. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch.h"
#include "perf/info/machine.h"
#include "measure.h"
#include "operators.h"
#include "options.h"
#include "report.h"
#include "table.h"
#include "tune.h"

enum { NAMES_BYTES = 4096, ALGORITHMS_MAX = 64 };

/* Points of a moment share a measured flag: looking for it takes as long as some hundred short points. */
#define YOUNG_SECONDS 0.02

struct run {
    struct perf_session session;
    struct perf_device device; /* with memory of a device's stream */
    struct perf_report report;
    size_t *counts; /* two per rank, for the v-forms */
    struct perf_place *places; /* of all ranks */
    struct perf_tune times; /* of all algorithms, with --tune */
    struct perf_tune *tune; /* that, at rank 0 */
    FILE *rules; /* where that goes */
    int blind; /* corruptions that the check did not count exactly */
    double young_seconds; /* timed since the flag's round trip was measured; the same at all ranks */
    bool shown; /* the report appears on a terminal */
    bool counting; /* the first walk: how many points there are */
    long points, point; /* how many, and the one at work */
};

struct request {
    struct perf_options options;
    FILE *file; /* of the report */
    FILE *rules; /* with --tune */
};

/* The algorithm that serves a point when none is forced; one rank needs none. */
static const char *choice(struct run *run, const struct perf_point *p, char *text, size_t bytes)
{
    char question[96];
    snprintf(question, sizeof question, "choice %s %" PRIu64, p->collective->name, p->bytes);
    text[0] = 0;
    if (!p->collective->algorithms || p->n == 1 || tutti_query(run->session.comm, question, text, bytes) == 0)
        return "-";
    return text;
}

static void tell_progress(struct run *run, const struct perf_point *p)
{
    char doing[PERF_DOING_BYTES];
    snprintf(doing, sizeof doing, "%s %s, %" PRIu64 " bytes: point %ld of %ld", p->collective->name,
        p->type->name, p->bytes, run->point, run->points);
    perf_group_show_progress(run->session.group, doing);
}

static int measure_point(struct run *run, const struct perf_point *p, const char *algorithm)
{
    struct perf_session *s = &run->session;
    struct perf_result results[2];
    char chosen[64];
    bool forced = algorithm != NULL;
    for (int in_place = 0; in_place < 2; in_place++) {
        tell_progress(run, p);
        if (perf_measure(s, p, in_place == 1, &results[in_place]) != TUTTI_OK)
            return PERF_EXIT_FAILED;
    }
    for (int i = 0; i < 2; i++)
        run->young_seconds += results[i].seconds * (double)results[i].calls;
    if (run->young_seconds > YOUNG_SECONDS) {
        run->report.flag_after = perf_group_flag_round_trip(s->group);
        run->young_seconds = 0;
    }
    if (s->group->rank == 0) {
        if (run->shown)
            perf_group_hide_progress(s->group);
        algorithm = algorithm != NULL ? algorithm : choice(run, p, chosen, sizeof chosen);
        perf_report_row(&run->report, p, algorithm, results);
        if (run->tune != NULL && forced &&
            !perf_tune_add(run->tune, p->collective->name, algorithm, p->bytes, results[0].seconds)) {
            fprintf(stderr, "collperf: --tune: no memory for the fastest of so many sizes\n");
            return PERF_EXIT_FAILED;
        }
    } else {
        run->report.wrong += results[0].wrong + results[1].wrong;
    }
    return PERF_EXIT_OK;
}

static int test_check(struct run *run, const struct perf_point *p)
{
    int missed;
    if (p->count == 0 || perf_self_test(&run->session, p, &missed) != TUTTI_OK)
        return PERF_EXIT_FAILED;
    run->blind += missed;
    return PERF_EXIT_OK;
}

static int walk_sizes(struct run *run, struct perf_point *p, const char *algorithm)
{
    const struct perf_options *o = run->session.options;
    bool first = true;
    uint64_t last = 0;
    for (int64_t bytes = o->min_bytes; bytes >= 0; bytes = perf_options_next(o, bytes)) {
        perf_point_shape(p, (uint64_t)bytes, run->counts);
        if (!first && p->bytes == last)
            continue; /* rounded to the size before: n ranks need at least an element each */
        first = false;
        last = p->bytes;
        if (run->counting) {
            run->points++;
            continue;
        }
        run->point++;
        int code = o->self_test ? test_check(run, p) : measure_point(run, p, algorithm);
        if (code != PERF_EXIT_OK)
            return code;
    }
    return PERF_EXIT_OK;
}

static int walk_roots(struct run *run, struct perf_point *p, const char *algorithm)
{
    int64_t root = run->session.options->root;
    int first = root == PERF_ALL ? 0 : (int)root, last = root == PERF_ALL ? p->n - 1 : (int)root;
    if (!p->collective->rooted)
        first = last = -1;
    int code = PERF_EXIT_OK;
    for (p->root = first; p->root <= last && code == PERF_EXIT_OK; p->root++) {
        struct perf_point point = *p;
        code = walk_sizes(run, &point, algorithm);
    }
    return code;
}

/* Measures an operation's points, with the operation made if that is needed. */
static int walk_op(struct run *run, struct perf_point *p, const char *algorithm)
{
    struct perf_session *s = &run->session;
    if (p->op == NULL || run->counting)
        return walk_roots(run, p, algorithm);
    tutti_status status = perf_operator_make(p->op, p->type, s->comm, &p->code);
    if (status != TUTTI_OK) {
        perf_group_print_error(s->group, p->op->name, status);
        return PERF_EXIT_FAILED;
    }
    int code = walk_roots(run, p, algorithm);
    perf_operator_drop(p->op, s->comm, p->code);
    return code;
}

static int walk_types(struct run *run, const struct perf_collective *collective, const char *algorithm)
{
    const struct perf_options *o = run->session.options;
    struct perf_rank_group *group = run->session.group;
    int code = PERF_EXIT_OK;
    for (int t = 0; t < PERF_TYPES; t++) {
        const struct perf_type *type = o->type != NULL ? o->type : &perf_types[t];
        for (int i = 0; i < PERF_OPS && code == PERF_EXIT_OK; i++) {
            const struct perf_op *op = o->op != NULL ? o->op : &perf_ops[i];
            struct perf_point p = { .collective = collective,
                .type = type,
                .stream = run->session.call_mode.stream,
                .n = group->n,
                .rank = group->rank };
            p.op = collective->reduces ? op : NULL;
            if (p.op == NULL || perf_op_fits(op, type))
                code = walk_op(run, &p, algorithm);
            if (o->op != NULL || !collective->reduces)
                break;
        }
        if (o->type != NULL || !collective->moves || code != PERF_EXIT_OK)
            break;
    }
    return code;
}

/* One table: with the rank group's communicator, or with one that has the algorithm forced. */
static int run_table(struct run *run, const struct perf_collective *collective, const char *algorithm)
{
    struct perf_session *s = &run->session;
    char options[192];
    s->comm = s->group->comm;
    if (run->counting)
        return walk_types(run, collective, algorithm);
    if (algorithm != NULL) {
        int length = snprintf(options, sizeof options, "algo=%s:%s", collective->name, algorithm);
        if (s->call_mode.device != NULL && length < (int)sizeof options)
            snprintf(options + length, sizeof options - (size_t)length, ";device=%d", run->device.number);
        tutti_config config = {
            .size = sizeof config,
            .flags = s->options->exact ? TUTTI_COMM_EXACT : 0,
            .timeout_ms = s->options->timeout_ms,
            .name = "collperf",
            .options = options,
        };
        tutti_status status = tutti_comm_split(s->group->comm, 0, s->group->rank, &config, &s->comm);
        if (status != TUTTI_OK) {
            perf_group_print_error(s->group, options, status);
            return PERF_EXIT_FAILED;
        }
    }
    if (s->group->rank == 0 && !s->options->self_test)
        perf_report_table(&run->report, collective, algorithm);
    int code = walk_types(run, collective, algorithm);
    if (s->comm != s->group->comm && code != PERF_EXIT_FAILED)
        tutti_comm_finalize(s->comm);
    if (s->comm != s->group->comm)
        tutti_comm_destroy(s->comm);
    return code;
}

/* The names in the first column of the library's list, which is written over; returns how many. */
static int list_algorithms(
    struct run *run, const struct perf_collective *collective, char *text, char **names)
{
    char question[64], *rest = NULL;
    int count = 0;
    if (!collective->algorithms)
        return 0;
    snprintf(question, sizeof question, "algorithms %s", collective->name);
    size_t length = tutti_query(run->session.group->comm, question, text, NAMES_BYTES);
    if (length == 0 || length >= NAMES_BYTES)
        return 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        line[strcspn(line, " \t")] = 0;
        if (*line != 0 && count < ALGORITHMS_MAX)
            names[count++] = line;
    }
    return count;
}

/* The algorithm that was asked for by name: run it where there is one, refuse if nothing has it. */
static int run_named(struct run *run, const struct perf_collective *collective, char **names, int count)
{
    const struct perf_options *o = run->session.options;
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], o->algorithm) == 0)
            return run_table(run, collective, o->algorithm);
    if (run->session.group->rank != 0)
        return o->collective == NULL ? PERF_EXIT_OK : PERF_EXIT_USAGE;
    if (o->collective == NULL && run->counting)
        return PERF_EXIT_OK;
    if (o->collective == NULL) {
        perf_report_note(&run->report, "%s has no algorithm %s here", collective->name, o->algorithm);
        return PERF_EXIT_OK;
    }
    fprintf(stderr, "collperf: --algo %s: not an algorithm for %s here; legal are all", o->algorithm,
        collective->name);
    for (int i = 0; i < count; i++)
        fprintf(stderr, " %s", names[i]);
    fprintf(stderr, "\n");
    return PERF_EXIT_USAGE;
}

static int run_collective(struct run *run, const struct perf_collective *collective)
{
    const char *asked = run->session.options->tune != NULL ? "all" : run->session.options->algorithm;
    char text[NAMES_BYTES], *names[ALGORITHMS_MAX];
    if (asked == NULL)
        return run_table(run, collective, NULL);
    int count = list_algorithms(run, collective, text, names);
    if (strcmp(asked, "all") != 0)
        return run_named(run, collective, names, count);
    int code = count == 0 ? run_table(run, collective, NULL) : PERF_EXIT_OK;
    for (int i = 0; i < count && code == PERF_EXIT_OK; i++)
        code = run_table(run, collective, names[i]);
    return code;
}

/* Too few ranks: among all collectives a note, alone an error. */
static int skip_collective(struct run *run, const struct perf_collective *collective)
{
    bool alone = run->session.options->collective != NULL;
    if (run->session.group->rank == 0 && alone)
        fprintf(stderr, "collperf: -g/--ranks %d: %s needs at least %d ranks\n", run->report.n,
            collective->name, collective->least_ranks);
    if (run->session.group->rank == 0 && !alone && !run->counting)
        perf_report_note(
            &run->report, "%s needs at least %d ranks", collective->name, collective->least_ranks);
    return alone ? PERF_EXIT_USAGE : PERF_EXIT_OK;
}

static int run_all(struct run *run)
{
    const struct perf_options *o = run->session.options;
    int code = PERF_EXIT_OK;
    for (int i = 0; i < PERF_COLLECTIVES + PERF_COMPOSED && code == PERF_EXIT_OK; i++) {
        bool all = o->collective == NULL && i < PERF_COLLECTIVES;
        bool asked = all || o->collective == &perf_collectives[i];
        if (asked && run->report.n < perf_collectives[i].least_ranks)
            code = skip_collective(run, &perf_collectives[i]);
        else if (asked && (!o->self_test || perf_collectives[i].moves))
            code = run_collective(run, &perf_collectives[i]);
    }
    return code;
}

/* Checks the number of ranks, which only the communicator tells under a launcher. */
static int check_ranks(const struct perf_rank_group *group, const struct perf_options *o)
{
    if (group->n > PERF_RANKS_MAX || o->root >= group->n) {
        if (group->rank == 0)
            fprintf(stderr, "collperf: -r/--root %" PRId64 ": there are %d ranks (at most %d)\n", o->root,
                group->n, PERF_RANKS_MAX);
        return PERF_EXIT_USAGE;
    }
    return PERF_EXIT_OK;
}

/* A graph cannot have one of several ranks that a process has on one device. */
static int check_devices(struct perf_rank_group *group, const struct perf_options *o, int devices)
{
    if (o->program == 0 || o->threads <= devices)
        return PERF_EXIT_OK;
    if (group->rank == 0)
        fprintf(stderr,
            "collperf: -G/--program %d: on a device it is a graph, and ranks that are threads need a device "
            "each; legal: at most %d of them here (-t/--threads)\n",
            (int)o->program, devices);
    perf_group_barrier(group); /* who returns first ends the others of its process */
    return PERF_EXIT_USAGE;
}

static int connect(
    struct perf_rank_group *group, const struct perf_options *o, const struct perf_device *device)
{
    char options[32];
    snprintf(options, sizeof options, "device=%d", device->number);
    tutti_config config = {
        .size = sizeof config,
        .flags = o->exact ? TUTTI_COMM_EXACT : 0,
        .timeout_ms = o->timeout_ms,
        .name = "collperf",
        .options = device->stream != NULL ? options : NULL,
    };
    if (perf_group_connect(group, &config) != TUTTI_OK)
        return PERF_EXIT_FAILED;
    return check_ranks(group, o);
}

/* Rules of an earlier run make place now, when there are new ones. What finds no place in the file goes to
 * stderr: it took long to measure. */
static int write_rules(struct run *run)
{
    struct stat status;
    bool regular = fstat(fileno(run->rules), &status) == 0 && S_ISREG(status.st_mode);
    if ((!regular || ftruncate(fileno(run->rules), 0) == 0) &&
        perf_tune_write(run->tune, run->rules, run->report.n))
        return PERF_EXIT_OK;
    fprintf(stderr, "collperf: --tune %s: %s; the rules are:\n", run->session.options->tune, strerror(errno));
    perf_tune_write(run->tune, stderr, run->report.n);
    return PERF_EXIT_FAILED;
}

/* Ends the report of rank 0 when all is measured. A report that cannot be written concerns nobody else. */
static int close_report(struct run *run)
{
    const struct perf_options *o = run->session.options;
    char origin[320];
    if (!perf_report_end(&run->report)) {
        fprintf(stderr, "collperf: the report could not be written: %s\n", strerror(errno));
        return PERF_EXIT_FAILED;
    }
    perf_report_origin(&run->report, origin, sizeof origin);
    int code = run->tune != NULL ? write_rules(run) : PERF_EXIT_OK;
    if (o->plot != NULL && !perf_plot_draw(&run->report.plot, o, run->report.n, origin))
        code = PERF_EXIT_FAILED;
    return code;
}

/* Ends a run of which all points were good or wrong, which all ranks know, and returns its exit code. */
static int conclude(struct run *run)
{
    struct perf_session *s = &run->session;
    int code = PERF_EXIT_OK;
    if (s->options->self_test) {
        code = run->blind > 0 ? PERF_EXIT_BLIND : PERF_EXIT_WRONG;
        if (s->group->rank == 0)
            fprintf(stderr, "collperf: --self-test: %s\n",
                run->blind > 0 ? "FAILED: the check did not count exactly what was corrupted"
                               : "all that was corrupted was found, so this exits as wrong results do");
    } else if (s->group->rank == 0) {
        code = close_report(run);
    }
    return code == PERF_EXIT_OK && run->report.wrong > 0 ? PERF_EXIT_WRONG : code;
}

/* Returns what the greediest rank adds to its process while nothing is to do, in bytes; *mean is what all
 * hold together, by their number. Negative where that is unknown, or the ranks cannot tell each other. */
static double rest_of(struct perf_rank_group *group, const struct perf_options *o, int64_t bare, double *mean)
{
    int threads = (int)o->threads;
    double worst = -1, sum = 0, *all = calloc((size_t)group->n, sizeof *all);
    *mean = -1;
    if (all == NULL)
        return -1;
    tutti_status status = tutti_barrier(group->comm, tutti_no_stream());
    double mine = bare < 0 ? -1 : (double)(perf_machine_held() - bare) / threads;
    if (status == TUTTI_OK)
        status = perf_group_exchange(group, &mine, sizeof mine, all);
    for (int rank = 0; rank < group->n && status == TUTTI_OK; rank++) {
        worst = all[rank] > worst ? all[rank] : worst;
        sum += all[rank];
    }
    if (worst >= 0)
        *mean = sum / group->n;
    free(all);
    return worst;
}

/* Seconds from when the last rank came until the last rank had its communicator. */
static double startup_of(struct perf_rank_group *group)
{
    struct times {
        double began, ended;
    } last = { group->began, group->ended }, *all = calloc((size_t)group->n, sizeof *all);
    bool known = all != NULL && perf_group_exchange(group, &last, sizeof last, all) == TUTTI_OK;
    for (int rank = 0; known && rank < group->n; rank++) {
        last.began = all[rank].began > last.began ? all[rank].began : last.began;
        last.ended = all[rank].ended > last.ended ? all[rank].ended : last.ended;
    }
    free(all);
    return known ? last.ended - last.began : -1;
}

/* Finds out what the report says of the ranks before anything is measured. */
static tutti_status look_around(struct run *run, int64_t bare)
{
    struct perf_report *r = &run->report;
    struct perf_rank_group *group = run->session.group;
    struct perf_place mine = { 0 };
    if (run->places == NULL)
        return TUTTI_OUT_OF_MEMORY;
    perf_origin_read(&r->origin);
    perf_place_read(&mine);
    tutti_query(group->comm, "executor", r->executor, sizeof r->executor);
    tutti_query(group->comm, "network", r->network, sizeof r->network);
    r->startup = startup_of(group);
    r->rest_before = rest_of(group, r->options, bare, &r->rest_mean);
    r->flag_before = r->flag_after = perf_group_flag_round_trip(group);
    r->places = run->places;
    tutti_status status = perf_link_measure(group, &run->session.limits.link);
    r->link = run->session.limits.link;
    return status == TUTTI_OK ? perf_group_exchange(group, &mine, sizeof mine, run->places) : status;
}

/* With --tune: what messages between ranks cost, and the ways of a device's collectives. */
static int find_prices(struct run *run)
{
    struct perf_rank_group *group = run->session.group;
    struct perf_prices prices;
    struct perf_ways ways;
    if (perf_price(group, &prices) != TUTTI_OK ||
        perf_ways_measure(group, &run->device, run->session.options->timeout_ms, &ways) != TUTTI_OK)
        return PERF_EXIT_FAILED;
    const struct perf_link *link = &run->session.limits.link;
    prices.link_gb_s = link->hosts > 1 ? 1e-9 * link->bytes_s : 0;
    if (run->tune != NULL) {
        run->tune->prices = prices;
        run->tune->ways = ways;
    }
    return PERF_EXIT_OK;
}

static int rank_main(struct perf_rank_group *group, void *context)
{
    struct request *request = context;
    const struct perf_options *o = &request->options;
    struct perf_device device = { 0 };
    if (o->bind && !perf_machine_bind(group->rank)) {
        fprintf(stderr, "collperf: rank %d: --bind: %s\n", group->rank, strerror(errno));
        return PERF_EXIT_FAILED;
    }
    bool on_stream = perf_memory_on_stream(o->memory);
    if (on_stream && perf_device_open(&device, group->rank, o->device) != TUTTI_OK)
        return PERF_EXIT_FAILED;
    int64_t bare = perf_machine_held();
    int code = on_stream ? check_devices(group, o, device.count) : PERF_EXIT_OK;
    if (code == PERF_EXIT_OK)
        code = connect(group, o, &device);
    if (code != PERF_EXIT_OK)
        return code;
    struct run run = {
        .device = device,
        .session = { .options = o, .group = group },
        .report = { .file = request->file, .options = o, .n = group->n, .device = &run.device },
        .counts = calloc(2 * (size_t)group->n, sizeof(size_t)),
        .places = calloc((size_t)group->n, sizeof(struct perf_place)),
        .shown = isatty(fileno(request->file)) == 1,
        .tune = o->tune != NULL && group->rank == 0 ? &run.times : NULL,
        .rules = request->rules,
    };
    tutti_status status = look_around(&run, bare);
    /* an element for each rank is the least that some collectives can do */
    uint64_t bytes = (uint64_t)o->max_bytes + 8 * (uint64_t)group->n;
    if (status == TUTTI_OK)
        status = perf_buffers_alloc(&run.session.buffers, bytes, o->memory, on_stream ? &run.device : NULL);
    if (status != TUTTI_OK || run.counts == NULL) {
        perf_group_print_error(
            group, "memory for the buffers", status != TUTTI_OK ? status : TUTTI_OUT_OF_MEMORY);
        return PERF_EXIT_FAILED;
    }
    if (on_stream)
        perf_call_mode_open_device(&run.session.call_mode, &run.device);
    else
        status = perf_call_mode_open(&run.session.call_mode, o->blocking == 1);
    if (status != TUTTI_OK) {
        perf_group_print_error(group, "a host stream", status);
        return PERF_EXIT_FAILED;
    }
    run.counting = true;
    code = run_all(&run); /* what cannot be is refused here, before anything is measured */
    run.counting = false;
    if (code == PERF_EXIT_OK && group->rank == 0 && !o->self_test)
        perf_report_begin(&run.report);
    if (code == PERF_EXIT_OK)
        code = run_all(&run);
    perf_call_mode_close(&run.session.call_mode);
    perf_buffers_free(&run.session.buffers);
    free(run.counts);
    free(run.places);
    if (code == PERF_EXIT_OK) {
        run.report.rest_after = rest_of(group, o, bare, &run.report.rest_mean);
        run.report.flag_after = perf_group_flag_round_trip(group);
    }
    if (code == PERF_EXIT_OK && o->tune != NULL)
        code = find_prices(&run);
    if (code != PERF_EXIT_FAILED)
        tutti_comm_finalize(group->comm);
    tutti_comm_destroy(group->comm);
    code = code == PERF_EXIT_OK ? conclude(&run) : code;
    perf_device_close(&run.device);
    free(run.times.points);
    return code;
}

/* Opens what a flag names before anything is measured. */
static bool open_file(const char *flag, const char *path, const char *mode, FILE **file)
{
    *file = path != NULL ? fopen(path, mode) : *file;
    if (*file != NULL || path == NULL)
        return true;
    fprintf(
        stderr, "collperf: %s %s: %s; legal is a file that can be written\n", flag, path, strerror(errno));
    return false;
}

int main(int argc, char **argv)
{
    struct request request = { .file = stdout };
    int code = perf_options_parse(argc, argv, perf_launcher(), &request.options);
    if (code >= 0)
        return code;
    const struct perf_options *o = &request.options;
    if (!open_file("--output", o->output, "we", &request.file) ||
        !open_file("--tune", o->tune, "ae", &request.rules) ||
        (o->plot != NULL && !perf_plot_possible(o->plot)))
        return PERF_EXIT_USAGE;
    int processes = o->launcher != NULL ? 0 : (int)o->processes;
    code = perf_launch(processes, (int)o->threads, rank_main, &request);
    if (o->output != NULL)
        fclose(request.file);
    if (o->tune != NULL)
        fclose(request.rules);
    return code;
}
