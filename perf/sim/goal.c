/* SPDX-License-Identifier: BSD-3-Clause */
/* goal.c: the schedules of all ranks in GOAL, which LogGOPSim simulates: T. Hoefler, T. Schneider, A.
 * Lumsdaine: LogGOPSim, simulating large-scale applications in the LogGOPS model. LSAP 2010.
 *
 * A step is a label; what waits for it "requires" it. A message is whole, not in slices, and its tag is its
 * number between its two ranks. Folds and copies are `calc`, in ns, at the price of the machine. One rank is
 * built at a time, so that there may be any number. */
#include "request.h"

#include "base/layout.h"

static uint64_t bytes_of(const struct tt_layout *l, uint32_t chunk, uint32_t nchunks)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < nchunks; i++)
        count += tt_layout_chunk(l, (chunk + i) % l->chunks).count;
    return count * l->element_bytes;
}

/* Labels: i + 1 is step i; where it computes after a message, nsteps + i + 1 is that. */
static void put_step(FILE *file, const struct tt_costs *costs, const struct tt_schedule *s,
    const struct tt_layout *l, uint32_t i)
{
    const struct tt_step *step = &s->steps[i];
    bool sends = step->verb == TT_VERB_SEND;
    uint64_t bytes = bytes_of(l, sends ? step->src_chunk : step->dst_chunk, step->nchunks);
    if (sends)
        fprintf(file, "l%u: send %llub to %d tag %u\n", i + 1, (unsigned long long)bytes, step->peer,
            step->ordinal);
    else if (step->peer != TT_NONE)
        fprintf(file, "l%u: recv %llub from %d tag %u\n", i + 1, (unsigned long long)bytes, step->peer,
            step->ordinal);
    uint64_t fold = tt_costs_fold(costs, step->verb == TT_VERB_REDUCE ? 2 : 1, bytes);
    if (step->verb == TT_VERB_RECV_REDUCE)
        fprintf(file, "l%u: calc %llu\nl%u requires l%u\n", s->nsteps + i + 1,
            (unsigned long long)(fold / 1000000), s->nsteps + i + 1, i + 1);
    else if (step->peer == TT_NONE)
        fprintf(file, "l%u: calc %llu\n", i + 1,
            (unsigned long long)((step->verb == TT_VERB_REDUCE ? fold : costs->copy * bytes) / 1000000));
}

/* What is done when this step is. The first step of a fold has the dependencies of all. */
static uint32_t end_of(const struct tt_schedule *s, uint32_t i)
{
    return s->steps[i].verb == TT_VERB_RECV_REDUCE ? s->nsteps + i + 1 : i + 1;
}

static void put_dependencies(FILE *file, const struct tt_schedule *s, uint32_t i)
{
    const struct tt_step *step = &s->steps[i], *first = step - step->fold_index;
    for (uint32_t d = 0; d < first->dep_count; d++) {
        uint32_t before = s->deps[first->dep_first + d];
        for (uint32_t k = before; k < before + s->steps[before].fold_count && k < s->nsteps; k++)
            fprintf(file, "l%u requires l%u\n", i + 1, end_of(s, k));
    }
}

tutti_status sim_goal(FILE *file, const struct sim_request *request, int algorithm)
{
    const struct tt_cost_query *q = &request->query;
    uint64_t n = (uint64_t)q->requirements.n;
    uint64_t count = (q->bytes + q->element_bytes - 1) / q->element_bytes;
    if (tt_collectives[q->collective].blocks)
        count = (count + n - 1) / n * n;
    fprintf(file, "num_ranks %d\n", q->requirements.n);
    for (int r = 0; r < q->requirements.n; r++) {
        struct tt_schedule s;
        struct tt_layout layout;
        tutti_status status = tt_cost_build(q, algorithm, r, NULL, &s);
        if (status != TUTTI_OK)
            return status;
        tt_layout_even(&layout, count, s.chunks, 1, q->element_bytes);
        fprintf(file, "\nrank %d {\n", r);
        for (uint32_t i = 0; i < s.nsteps; i++)
            put_step(file, q->costs, &s, &layout, i);
        for (uint32_t i = 0; i < s.nsteps; i++)
            put_dependencies(file, &s, i);
        fprintf(file, "}\n");
        tt_schedule_free(&s);
    }
    return TUTTI_OK;
}
