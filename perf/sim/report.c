/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c: what tutti-sim finds out: all ways, the choice, the bound, and what the one in question does. How
 * it is said is text.c's and json.c's. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "base/layout.h"
#include "base/ready.h"
#include "request.h"

enum { TIMES_BEST = 20 /* what takes longer is told as such, and not simulated */ };
static const char KERNELS[] = "kernels that meet";

struct report {
    struct sim_request *request;
    const struct sim_format *format;
    struct sim_choice choice;
    uint64_t kernels; /* UINT64_MAX: they do not do this call */
    int rows;
};

static double times(uint64_t time, uint64_t unit)
{
    return unit > 0 ? (double)time / (double)unit : 1;
}

static const char *why_none(const struct tt_prediction *p)
{
    return p->slices > 0 ? "takes more than five hours, up to which times are told"
                         : "has messages that are longer than a slice (--slice)";
}

/* Who is chosen is the kernels, where they do the call, or the way of the choice. */
static uint64_t best_of(const struct report *report)
{
    return report->kernels < UINT64_MAX ? report->kernels : report->choice.total;
}

static void put_row(struct report *report, struct sim_row row)
{
    row.of_chosen = row.total < UINT64_MAX ? times(row.total, best_of(report)) : 0;
    report->format->row(&row, report->rows++);
}

static tutti_status put_way(struct report *report, int algorithm, int protocol)
{
    struct sim_request *r = report->request;
    uint64_t best = report->choice.total;
    struct tt_prediction p;
    uint64_t limit = best > UINT64_MAX / TIMES_BEST ? 0 : TIMES_BEST * best;
    tutti_status status = sim_predict(r, algorithm, protocol, limit, NULL, &p);
    if (status != TUTTI_OK)
        return status;
    put_row(report,
        (struct sim_row){ .algorithm = tt_algorithms[algorithm].name,
            .protocol = r->machine.protocols[protocol].name,
            .total = p.total,
            .none = best < UINT64_MAX ? "more than 20 times the best, or its messages are longer than a slice"
                                      : why_none(&p),
            .representative = p.representative,
            .chosen = report->kernels == UINT64_MAX && algorithm == report->choice.algorithm &&
                      protocol == report->choice.protocol });
    return TUTTI_OK;
}

static tutti_status put_ways(struct report *report)
{
    const struct sim_request *r = report->request;
    if (report->kernels < UINT64_MAX)
        put_row(report, (struct sim_row){ .algorithm = KERNELS,
                            .protocol = "",
                            .total = report->kernels,
                            .kernels = true,
                            .chosen = true });
    for (int a = 0; a < tt_algorithm_count; a++) {
        if (tt_algorithms[a].collective != (uint8_t)r->query.collective)
            continue;
        const char *refused = sim_refuse(r, a);
        if (refused != NULL)
            put_row(report, (struct sim_row){ .algorithm = tt_algorithms[a].name,
                                .protocol = "",
                                .total = UINT64_MAX,
                                .none = refused,
                                .refused = true });
        for (int p = 0; p < r->machine.protocols_count && refused == NULL; p++) {
            tutti_status status = put_way(report, a, p);
            if (status != TUTTI_OK)
                return status;
        }
    }
    return TUTTI_OK;
}

/* --- The rank that ends last */

/* What one rank sends, by level, and to how many. */
static tutti_status find_rank(const struct report *report, struct sim_facts *f)
{
    const struct sim_request *r = report->request;
    struct tt_cost_query q = sim_query(r, report->choice.protocol);
    struct tt_schedule s;
    struct tt_layout l;
    tutti_status status = tt_cost_build(&q, report->choice.algorithm, f->rank, NULL, &s);
    if (status != TUTTI_OK)
        return status;
    tt_layout_even(&l, r->bytes / q.element_bytes, s.chunks, 1, q.element_bytes);
    l = q.blocks != NULL ? *q.blocks : l;
    for (uint32_t i = 0; i < s.nsteps; i++) {
        const struct tt_step *step = &s.steps[i];
        if (step->verb != TT_VERB_SEND)
            continue;
        enum tt_level level = tt_cost_level(&q, f->rank, step->peer);
        f->messages[level]++;
        bool own = q.blocks != NULL && q.collective == TT_ALL_TO_ALL_V; /* as long as who sends says */
        uint32_t chunk = own ? (uint32_t)f->rank : step->src_chunk;
        for (uint32_t c = 0; c < step->nchunks; c++)
            f->bytes[level] += tt_layout_chunk(&l, (chunk + c) % l.chunks).count * l.element_bytes;
    }
    for (int peer = 0; peer < r->n; peer++)
        if (s.sends[peer] + s.recvs[peer] > 0)
            f->peers[tt_cost_level(&q, f->rank, peer)]++;
    uint64_t chunk = r->bytes / s.chunks + q.element_bytes;
    f->scratch_bytes = (chunk < r->slice_bytes ? chunk : r->slice_bytes) * s.tmp_cells * TT_WINDOW;
    f->steps = s.nsteps;
    f->keeps_bytes =
        s.nsteps * sizeof *s.steps + 2 * s.ndeps * sizeof *s.deps + 2 * (uint64_t)r->n * sizeof *s.sends;
    tt_schedule_free(&s);
    return TUTTI_OK;
}

void sim_critical_path(const struct tt_simulation_log *log, int rank, bool *critical)
{
    int64_t last = -1;
    for (size_t i = 0; i < log->count; i++)
        if (log->work[i].rank == rank && (last < 0 || log->work[i].to >= log->work[last].to))
            last = (int64_t)i;
    for (; last >= 0; last = log->work[last].cause)
        critical[last] = true;
}

static void find_critical_path(const struct tt_simulation_log *log, const bool *critical, struct sim_facts *f)
{
    for (size_t i = 0; i < log->count; i++) {
        const struct tt_work *w = &log->work[i];
        if (!critical[i])
            continue;
        f->parts[w->part] += w->to - w->from;
        uint64_t before = w->cause >= 0 ? log->work[w->cause].to : 0;
        f->flight_time += w->from > before ? w->from - before : 0;
        f->flights += w->from > before;
    }
}

static tutti_status write_files(
    const struct report *report, const struct tt_simulation_log *log, const bool *critical, const char *title)
{
    const struct sim_request *r = report->request;
    tutti_status status = TUTTI_OK;
    FILE *svg = r->svg != NULL ? fopen(r->svg, "w") : NULL;
    FILE *goal = r->goal != NULL ? fopen(r->goal, "w") : NULL;
    bool good = (r->svg == NULL || svg != NULL) && (r->goal == NULL || goal != NULL);
    if (svg != NULL)
        sim_gantt(svg, log, critical, title);
    if (goal != NULL)
        status = sim_goal(goal, r, &report->choice);
    good = (svg == NULL || fclose(svg) == 0) && good;
    good = (goal == NULL || fclose(goal) == 0) && good;
    if (!good) {
        fprintf(
            stderr, "tutti-sim: %s could not be written\n", svg == NULL && r->svg != NULL ? r->svg : r->goal);
        return TUTTI_SYSTEM_ERROR;
    }
    return status;
}

static tutti_status find_details(const struct report *report, const char *title, struct sim_facts *f)
{
    const struct sim_choice *choice = &report->choice;
    struct tt_simulation_log log = { 0 };
    struct tt_prediction p;
    tutti_status status = sim_predict(report->request, choice->algorithm, choice->protocol, 0, &log, &p);
    bool *critical = calloc(log.count + 1, sizeof *critical);
    if (status == TUTTI_OK && critical != NULL) {
        f->rank = p.rank;
        f->simulated = p.simulated;
        f->slices = p.slices;
        sim_critical_path(&log, p.rank, critical);
        find_critical_path(&log, critical, f);
        status = find_rank(report, f);
    }
    if (status == TUTTI_OK && critical != NULL)
        status = write_files(report, &log, critical, title);
    free(critical);
    free(log.work);
    return status;
}

static tutti_status execute(const struct report *report, struct sim_facts *f)
{
    struct tt_cost_query q = sim_query(report->request, report->choice.protocol);
    const char *failure = sim_execute(&q, report->choice.algorithm, f->slices, &f->execution);
    if (failure != NULL) {
        fprintf(stderr, "tutti-sim: the executor: %s\n", failure);
        return TUTTI_INTERNAL_ERROR;
    }
    f->execution.time = tt_costs_sum(f->execution.time, f->call);
    f->executed = true;
    return TUTTI_OK;
}

static tutti_status put_facts(const struct report *report, const char *title)
{
    const struct sim_request *r = report->request;
    const struct sim_choice *choice = &report->choice;
    struct sim_facts facts = {
        .algorithm = KERNELS, .protocol = "", .total = report->kernels, .kernels = true
    };
    tutti_status status = TUTTI_OK;
    if (report->kernels == UINT64_MAX) {
        facts = (struct sim_facts){ .algorithm = tt_algorithms[choice->algorithm].name,
            .protocol = r->machine.protocols[choice->protocol].name,
            .total = choice->total,
            .call = sim_call_time(r, choice->protocol),
            .bound = sim_bound(r, choice->protocol) };
        status = find_details(report, title, &facts);
        if (status == TUTTI_OK && r->execute)
            status = execute(report, &facts);
    }
    if (status == TUTTI_OK)
        report->format->end(r, &facts);
    return status;
}

/* Of a way that takes too long there is nothing to say but that. */
static tutti_status refuse(const struct report *report)
{
    struct tt_prediction p;
    int algorithm = report->choice.algorithm;
    tutti_status status = sim_predict(report->request, algorithm, report->choice.protocol, 0, NULL, &p);
    if (status != TUTTI_OK)
        return status;
    fprintf(stderr, "tutti-sim: %s %s\n", tt_algorithms[algorithm].name, why_none(&p));
    return TUTTI_INVALID_ARGUMENT;
}

tutti_status sim_report(struct sim_request *r)
{
    char title[256], library[2 * SIM_NAME_BYTES] = "";
    struct report report = {
        .request = r, .format = r->json ? &sim_json : &sim_text, .kernels = sim_kernels_time(r)
    };
    if (r->machine.library[0] != '\0')
        snprintf(library, sizeof library, ", costs of %s", r->machine.library);
    snprintf(title, sizeof title, "%s of %llu bytes, %d ranks on %d %s, machine %s%s", r->collective,
        (unsigned long long)r->bytes, r->n, r->topology.domains, r->cores != NULL ? "cache domains" : "hosts",
        r->machine_name, library);
    tutti_status status = sim_choose(r, &report.choice);
    if (status == TUTTI_OK && report.choice.total == UINT64_MAX)
        return refuse(&report);
    if (status == TUTTI_OK)
        report.format->begin(r, title);
    if (status == TUTTI_OK && r->algorithm == NULL)
        status = put_ways(&report);
    return status == TUTTI_OK ? put_facts(&report, title) : status;
}
