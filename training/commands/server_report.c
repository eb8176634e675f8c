/* SPDX-License-Identifier: BSD-3-Clause */
/* server_report.c: a run with asynchronous parameter servers: workers make their steps, each for itself;
 * servers take pushes, and server 0 tells of its own. */
#include "training/commands/server_report.h"

#include "training/checkpoint/pieces.h"
#include "training/launch.h"
#include "training/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what was asked for ---- */

/* "RANK:FACTOR" */
static bool parse_slow(
    const char *text, const struct tr_plan *p, int *rank, double *factor, struct tr_error *e)
{
    char *end, *last;
    errno = 0;
    long r = strtol(text, &end, 10);
    double f = *end == ':' ? strtod(end + 1, &last) : 0;
    int workers = p->mesh.n - p->mesh.servers;
    if (end == text || *end != ':' || last == end + 1 || *last || errno || r < 0 || r >= workers ||
        !(f >= 1 && f <= 1000))
        return tr_fail(e,
            "--slow %s: legal are RANK:FACTOR of ranks 0 to %d and factors of 1 to 1000, with "
            "--servers",
            text, workers - 1);
    *rank = (int)r, *factor = f;
    return true;
}

bool tr_slow_down(struct tr_runner *r, const struct tr_options *o, struct tr_error *e)
{
    int rank;
    double factor;
    if (!*o->plan.servers.slow)
        return true;
    if (!parse_slow(o->plan.servers.slow, r->tape->placed->plan, &rank, &factor, e))
        return false;
    r->slow = rank == r->tape->rank ? factor : 0;
    return true;
}

/* The log of a server, if there is to be one. */
static bool open_log(
    FILE **log, const char *mode, const struct tr_options *o, int server, int servers, struct tr_error *e)
{
    char name[600];
    *log = NULL;
    if (!*o->plan.servers.arrivals_log)
        return true;
    tr_push_order_name(name, sizeof name, o->plan.servers.arrivals_log, server, servers);
    return (*log = fopen(name, mode)) || tr_fail(e, "--arrivals-log %s: %s", name, strerror(errno));
}

/* Servers open their logs when all ranks are there, which is late to learn that they cannot. What is in a log
 * stays until then. */
static bool logs_writable(const struct tr_options *o, const struct tr_plan *p, struct tr_error *e)
{
    bool ok = true;
    for (int s = 0; s < p->mesh.servers && ok; s++) {
        FILE *log;
        ok = open_log(&log, "a", o, s, p->mesh.servers, e);
        if (log)
            fclose(log);
    }
    return ok;
}

bool tr_server_report_check(const struct tr_options *o, const struct tr_plan *p, struct tr_error *e)
{
    struct tr_push_order a;
    int rank;
    double factor;
    if (*o->plan.servers.slow && !p->mesh.servers)
        return tr_fail(e, "--slow %s: it is a worker of parameter servers that is slow; legal with --servers",
            o->plan.servers.slow);
    if (*o->plan.servers.slow && !parse_slow(o->plan.servers.slow, p, &rank, &factor, e))
        return false;
    if (!p->servers.async && (*o->plan.servers.arrivals_log || strcmp(o->plan.servers.arrivals, "live")))
        return tr_fail(e, "--%s: pushes are taken in the order of workers; legal with --server-mode async",
            *o->plan.servers.arrivals_log ? "arrivals-log" : "arrivals");
    if (!p->servers.async)
        return true;
    if (o->files.check_replicas > 0)
        return tr_fail(e,
            "--check-replicas %ld: asynchronous workers have the values of different updates, and no two "
            "servers the same part, so no two ranks have the same; legal with --server-mode sync",
            o->files.check_replicas);
    static const char *const foreign[] = { "save", "save-every", "load", "trace", "gantt", "stage-memory" };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (tr_options_given(o, foreign[i]))
            return tr_fail(e,
                "--%s: asynchronous workers have no step in common; legal with --server-mode sync",
                foreign[i]);
    if (!strcmp(o->plan.servers.arrivals,
            o->plan.servers.arrivals_log)) /* a server would write what another one still reads */
        return tr_fail(e, "--arrivals-log %s: --arrivals reads that file; legal is another one",
            o->plan.servers.arrivals_log);
    if (!tr_push_order_make(&a, o->plan.servers.arrivals, &p->mesh, p->servers.staleness, o->steps, e))
        return false;
    tr_push_order_free(&a);
    return logs_writable(o, p, e);
}

/* ---- what is said ---- */

void tr_say_push(FILE *to, const struct tr_options *o, const struct tr_push *p)
{
    if (o->shown.json) {
        fprintf(to,
            "{\"event\": \"push\", \"number\": %ld, \"worker\": %d, \"step\": %ld, \"behind\": %ld, "
            "\"ahead\": %ld",
            p->number, p->worker, p->clock, p->behind, p->ahead);
        tr_json_number(to, "loss", p->loss);
        tr_json_number(to, "norm", p->norm);
        fprintf(to, "}\n");
    } else if (o->shown.hex) {
        fprintf(to, "push %ld worker %d step %ld behind %ld ahead %ld loss %.6f %a norm %.6f %a\n", p->number,
            p->worker, p->clock, p->behind, p->ahead, p->loss, p->loss, p->norm, p->norm);
    } else {
        fprintf(to, "%6ld %7d %6ld %7ld %6ld %10.6f %10.6f\n", p->number, p->worker, p->clock, p->behind,
            p->ahead, p->loss, p->norm);
    }
    fflush(to);
}

void tr_say_values(FILE *to, const struct tr_options *o, uint64_t sum)
{
    fprintf(to,
        o->shown.json ? "{\"event\": \"end\", \"values\": \"%016" PRIx64 "\"}\n" : "values %016" PRIx64 "\n",
        sum);
    fflush(to);
}

static void say_header(const struct tr_options *o)
{
    if (o->shown.json || o->shown.hex || o->shown.quiet)
        return;
    printf("# behind: updates since the worker was given its values; ahead: steps before the slowest worker\n"
           "# loss: the mean over the worker's sequences; norm: of its own gradient\n%6s %7s %6s %7s %6s "
           "%10s %10s\n",
        "push", "worker", "step", "behind", "ahead", "loss", "norm");
}

enum { BINS = 32 };
struct histogram {
    int64_t behind[BINS], ahead[BINS]; /* the last one: so many, and more */
};

static void say_bins(const char *what, const int64_t *bins)
{
    printf("# %s:", what);
    for (int i = 0; i < BINS; i++)
        if (bins[i])
            printf(" %d%s: %" PRId64, i, i + 1 == BINS ? " and more" : "", bins[i]);
    printf("\n");
}

/* ---- ranks ---- */

static bool work(const struct tr_options *o, struct tr_runner *r, struct tr_error *e)
{
    for (long n = 0; n < o->steps; n++) {
        r->audited = n == 0;
        if (!tr_runner_step(r, e))
            return false;
    }
    return true;
}

static void count(int64_t *bins, long x)
{
    bins[x < BINS ? x : BINS - 1]++;
}

static bool take_all(
    const struct tr_options *o, struct tr_server *s, FILE *log, struct histogram *h, struct tr_error *e)
{
    const struct tr_tape *t = s->r->tape;
    struct tr_push p;
    if (t->server == 0)
        say_header(o);
    for (long n = 0; n < s->workers * o->steps; n++) {
        if (tr_asked() || !tr_server_next(s, &p, e))
            return false;
        count(h->behind, p.behind), count(h->ahead, p.ahead);
        if (t->server == 0)
            tr_say_push(stdout, o, &p);
        if (log)
            fprintf(log, "%d step %ld behind %ld ahead %ld\n", p.worker, p.clock, p.behind, p.ahead);
    }
    return tr_server_end(s, e);
}

static bool serve(const struct tr_options *o, struct tr_runner *r, struct histogram *h, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    struct tr_push_order a;
    struct tr_server s;
    FILE *log;
    if (!tr_push_order_make(&a, o->plan.servers.arrivals, t->mesh, t->step.staleness, o->steps, e))
        return false;
    bool ok = open_log(&log, "w", o, t->server, t->mesh->servers, e) &&
              tr_server_open(&s, r, a.order ? a.order[t->server] : NULL, o->steps, e) &&
              take_all(o, &s, log, h, e);
    if (ok)
        tr_server_close(&s);
    if (log && fclose(log) && ok)
        ok = tr_fail(e, "--arrivals-log %s: the file cannot be written", o->plan.servers.arrivals_log);
    tr_push_order_free(&a);
    return ok;
}

/* Each server knows the checksum of its parts. */
static uint64_t checksum(const struct tr_runner *r)
{
    uint64_t sum = 0;
    for (int n = 0; n < r->tape->n_states; n++) {
        struct tr_piece piece = tr_piece_owned(r, &r->tape->states[n], TR_VALUES);
        sum += tr_piece_sum(&piece);
    }
    return sum;
}

bool tr_server_report_run(const struct tr_options *o, const struct tr_prepared *p, struct tr_runner *r,
    tutti_comm *world, struct tr_error *e)
{
    struct histogram h = { .behind = { 0 } };
    fflush(stdout); /* what rank 0 says comes before what server 0 says */
    if (tutti_barrier(world, tutti_no_stream()) != TUTTI_OK)
        return tr_fail(e, "%s", tr_why(world));
    if (!(r->tape->server < 0 ? work(o, r, e) : serve(o, r, &h, e)))
        return tr_asked() && tr_fail(e, "ended by a signal before all pushes were applied; nothing is saved");
    uint64_t sum = checksum(r);
    if (tutti_all_reduce(&sum, &sum, 1, TUTTI_UINT64, TUTTI_SUM, world, tutti_no_stream()) != TUTTI_OK ||
        tutti_all_reduce(&h, &h, 2 * BINS, TUTTI_INT64, TUTTI_SUM, world, tutti_no_stream()) != TUTTI_OK)
        return tr_fail(e, "%s", tr_why(world));
    if (r->tape->server != 0)
        return true;
    if (!o->shown.json && !o->shown.quiet) {
        say_bins("pushes by updates behind", h.behind);
        say_bins("pushes by steps ahead", h.ahead);
        if (p->run.plan.servers.staleness >= 0)
            printf("# the bound of steps ahead is %ld\n", p->run.plan.servers.staleness);
    }
    tr_say_values(stdout, o, sum);
    return true;
}
