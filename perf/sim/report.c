/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c: what tutti-sim says: all algorithms, the choice, the bound, and what the one in question does. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "base/layout.h"
#include "base/ready.h"
#include "executor.h"
#include "request.h"

enum { TIMES_BEST = 20 /* what takes longer is told as such, and not simulated */ };

static const char *const part_names[TT_COST_PARTS] = { "messages", "bytes", "folds", "copies", "switches" };

static double us(uint64_t femtoseconds)
{
    return 1e-9 * (double)femtoseconds;
}

static const char *subjects_of(const struct tt_prediction *p)
{
    return p->representative ? "some for all" : "all ranks";
}

/* Nothing takes as long as nothing. */
static double times(uint64_t time, uint64_t unit)
{
    return unit > 0 ? (double)time / (double)unit : 1;
}

static const char *why_none(const struct tt_prediction *p)
{
    return p->slices > 0 ? "takes more than five hours, up to which times are told"
                         : "has messages that are longer than a slice (--slice)";
}

static tutti_status put_row(
    const struct sim_request *r, int algorithm, int chosen, uint64_t best, uint64_t *total)
{
    const char *name = tt_algorithms[algorithm].name;
    const char *refused = tt_algorithm_refuse(&tt_algorithms[algorithm], r->query.requirements);
    struct tt_cost_query q = r->query;
    struct tt_prediction p;
    *total = UINT64_MAX;
    if (refused != NULL) {
        printf("  %-26s cannot serve: %s\n", name, refused);
        return TUTTI_OK;
    }
    q.limit = best > UINT64_MAX / TIMES_BEST ? 0 : TIMES_BEST * best;
    tutti_status status = tt_cost_predict(&q, algorithm, &p);
    if (status != TUTTI_OK)
        return status;
    *total = p.total;
    if (p.total == UINT64_MAX)
        printf("  %-26s %s\n", name,
            best < UINT64_MAX ? "more than 20 times the best, or its messages are longer than a slice"
                              : why_none(&p));
    else
        printf("  %-26s %12.3f us %9.2f   %s%s\n", name, us(p.total), times(p.total, best), subjects_of(&p),
            algorithm == chosen ? "   <- chosen" : "");
    return TUTTI_OK;
}

static tutti_status put_algorithms(const struct sim_request *r, int chosen, uint64_t time, uint64_t *least)
{
    printf("\n  %-26s %15s %9s   %s\n", "algorithm", "time", "of chosen", "simulated");
    *least = time;
    for (int a = 0; a < tt_algorithm_count; a++) {
        uint64_t total;
        if (tt_algorithms[a].collective != (uint8_t)r->query.collective)
            continue;
        tutti_status status = put_row(r, a, chosen, time, &total);
        if (status != TUTTI_OK)
            return status;
        *least = total < *least ? total : *least;
        fflush(stdout);
    }
    return TUTTI_OK;
}

/* --- The rank that ends last */

/* What one rank sends, by level, and to how many. */
static tutti_status put_rank(const struct sim_request *r, int algorithm, int rank)
{
    struct tt_schedule s;
    struct tt_layout l;
    uint64_t messages[TT_LEVELS] = { 0 }, bytes[TT_LEVELS] = { 0 }, peers[TT_LEVELS] = { 0 };
    tutti_status status = tt_cost_build(&r->query, algorithm, rank, NULL, &s);
    if (status != TUTTI_OK)
        return status;
    tt_layout_even(&l, r->bytes / r->query.element_bytes, s.chunks, 1, r->query.element_bytes);
    for (uint32_t i = 0; i < s.nsteps; i++) {
        const struct tt_step *step = &s.steps[i];
        if (step->verb != TT_VERB_SEND)
            continue;
        enum tt_level level = tt_cost_level(&r->query, rank, step->peer);
        messages[level]++;
        for (uint32_t c = 0; c < step->nchunks; c++)
            bytes[level] += tt_layout_chunk(&l, (step->src_chunk + c) % l.chunks).count * l.element_bytes;
    }
    for (int peer = 0; peer < r->n; peer++)
        if (s.sends[peer] + s.recvs[peer] > 0)
            peers[tt_cost_level(&r->query, rank, peer)]++;
    uint64_t chunk = r->bytes / s.chunks + r->query.element_bytes;
    uint64_t scratch = (chunk < r->slice_bytes ? chunk : r->slice_bytes) * s.tmp_cells * TT_WINDOW;
    static const char *const names[2][2] = { { "sends inside its host", "sends to other hosts" },
        { "sends inside its domain", "sends to other domains" } };
    printf("\n  rank %d, which ends last:\n", rank);
    for (int level = 0; level < TT_LEVELS; level++)
        if (peers[level] > 0)
            printf("  %-26s %llu messages a slice, %llu bytes in all, %llu peers\n",
                names[r->cores != NULL][level != TT_NEAR], (unsigned long long)messages[level],
                (unsigned long long)bytes[level], (unsigned long long)peers[level]);
    printf("  %-26s schedule of %u steps, %llu bytes; scratch %llu bytes\n", "keeps", s.nsteps,
        (unsigned long long)(s.nsteps * sizeof *s.steps + 2 * s.ndeps * sizeof *s.deps +
                             2 * (uint64_t)r->n * sizeof *s.sends),
        (unsigned long long)scratch);
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

static void put_critical_path(
    const struct tt_simulation_log *log, const struct tt_prediction *p, const bool *critical)
{
    uint64_t parts[TT_COST_PARTS] = { 0 }, flight = 0, flights = 0;
    for (size_t i = 0; i < log->count; i++) {
        const struct tt_work *w = &log->work[i];
        if (!critical[i])
            continue;
        parts[w->part] += w->to - w->from;
        uint64_t before = w->cause >= 0 ? log->work[w->cause].to : 0;
        flight += w->from > before ? w->from - before : 0;
        flights += w->from > before;
    }
    printf("\n  critical path: ");
    if (p->simulated < p->slices)
        printf("(of the first %u of %u slices) ", p->simulated, p->slices);
    printf("%llu messages in flight %.3f us", (unsigned long long)flights, us(flight));
    for (int i = 0; i < TT_COST_PARTS; i++)
        if (parts[i] > 0)
            printf(", %s %.3f", part_names[i], us(parts[i]));
    printf("\n");
}

static tutti_status write_files(const struct sim_request *r, int algorithm,
    const struct tt_simulation_log *log, const bool *critical, const char *title)
{
    tutti_status status = TUTTI_OK;
    FILE *svg = r->svg != NULL ? fopen(r->svg, "w") : NULL;
    FILE *goal = r->goal != NULL ? fopen(r->goal, "w") : NULL;
    bool good = (r->svg == NULL || svg != NULL) && (r->goal == NULL || goal != NULL);
    if (svg != NULL)
        sim_gantt(svg, log, critical, title);
    if (goal != NULL)
        status = sim_goal(goal, r, algorithm);
    good = (svg == NULL || fclose(svg) == 0) && good;
    good = (goal == NULL || fclose(goal) == 0) && good;
    if (!good) {
        fprintf(
            stderr, "tutti-sim: %s could not be written\n", svg == NULL && r->svg != NULL ? r->svg : r->goal);
        return TUTTI_SYSTEM_ERROR;
    }
    return status;
}

static tutti_status put_details(const struct sim_request *r, int algorithm, const char *title)
{
    struct tt_simulation_log log = { 0 };
    struct tt_cost_query q = r->query;
    struct tt_prediction p;
    q.log = &log;
    tutti_status status = tt_cost_predict(&q, algorithm, &p);
    bool *critical = calloc(log.count + 1, sizeof *critical);
    if (status == TUTTI_OK && critical != NULL && p.total != UINT64_MAX) {
        sim_critical_path(&log, p.rank, critical);
        status = put_rank(r, algorithm, p.rank);
        put_critical_path(&log, &p, critical);
        if (status == TUTTI_OK)
            status = write_files(r, algorithm, &log, critical, title);
    }
    free(critical);
    free(log.work);
    return status;
}

static tutti_status execute(const struct sim_request *r, int algorithm)
{
    struct tt_cost_query q = r->query;
    struct tt_prediction p;
    struct sim_execution execution;
    tutti_status status = tt_cost_predict(&q, algorithm, &p);
    if (status != TUTTI_OK || p.total == UINT64_MAX)
        return status;
    const char *failure = sim_execute(&q, algorithm, p.slices, &execution);
    if (failure != NULL) {
        fprintf(stderr, "tutti-sim: the executor: %s\n", failure);
        return TUTTI_INTERNAL_ERROR;
    }
    printf("\n  by the real executor: %.3f us (%.4f of the prediction), %llu messages, %llu bytes%s\n",
        us(execution.time), times(execution.time, p.total), (unsigned long long)execution.messages,
        (unsigned long long)execution.bytes, execution.full_slots > 0 ? "; some waited for a slot" : "");
    return TUTTI_OK;
}

tutti_status sim_report(struct sim_request *r)
{
    char title[256];
    struct tt_prediction p;
    uint64_t least, bound = sim_bound(r);
    int chosen;
    snprintf(title, sizeof title, "%s of %llu bytes, %d ranks on %d %s, machine %s", r->collective,
        (unsigned long long)r->bytes, r->n, r->topology.domains, r->cores != NULL ? "cache domains" : "hosts",
        r->machine_name);
    printf("# tutti-sim: %s\n", title);
    if (r->machine.omits != NULL)
        printf("# %s\n", r->machine.omits);
    if (r->n == 1 && r->query.collective != TT_BARRIER)
        printf("# one rank sends nothing: it copies its vector, at the price of copy_byte\n");
    tutti_status status = tt_cost_choose(&r->query, &chosen);
    if (status == TUTTI_OK)
        status = tt_cost_predict(&r->query, chosen, &p);
    if (status == TUTTI_OK && r->algorithm == NULL)
        status = put_algorithms(r, chosen, p.total, &least);
    int algorithm = r->algorithm != NULL ? tt_algorithm_find(r->query.collective, r->algorithm) : chosen;
    if (status == TUTTI_OK && r->algorithm != NULL)
        status = tt_cost_predict(&r->query, algorithm, &p);
    if (status != TUTTI_OK)
        return status;
    if (p.total == UINT64_MAX) {
        fprintf(stderr, "tutti-sim: %s %s\n", tt_algorithms[algorithm].name, why_none(&p));
        return TUTTI_INVALID_ARGUMENT;
    }
    printf("\n  %-26s %12.3f us\n  %-26s %12.3f us; %.2f times that\n", tt_algorithms[algorithm].name,
        us(p.total), "LogGP bound", us(bound), times(p.total, bound));
    status = put_details(r, algorithm, title);
    if (status == TUTTI_OK && r->execute)
        status = execute(r, algorithm);
    return status;
}
