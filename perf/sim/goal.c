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

/* Labels: i + 1 is step i; nsteps + i + 1 is the fold that begins with step i, whose messages it follows.
 * What has no bytes is there, for those who wait for it, and takes no time. */
static void put_step(FILE *file, const struct tt_costs *costs, const struct tt_schedule *s,
    const struct tt_layout *l, uint32_t i)
{
    const struct tt_step *step = &s->steps[i];
    bool sends = step->verb == TT_VERB_SEND;
    bool own = sends && s->key.collective == TT_ALL_TO_ALL_V && l->counts != NULL; /* as who sends says */
    uint32_t chunk = own ? (uint32_t)s->key.me : sends ? step->src_chunk : step->dst_chunk;
    uint64_t bytes = bytes_of(l, chunk, step->nchunks), price = 0;
    if (step->verb == TT_VERB_REDUCE)
        price = tt_costs_fold(costs, 2, bytes);
    else if (step->peer == TT_NONE)
        price = tt_costs_product(costs->copy, bytes);
    if (step->peer == TT_NONE || bytes == 0)
        fprintf(file, "l%u: calc %llu\n", i + 1, (unsigned long long)(price / 1000000));
    else
        fprintf(file, "l%u: %s %llub %s %d tag %u\n", i + 1, sends ? "send" : "recv",
            (unsigned long long)bytes, sends ? "to" : "from", step->peer, step->ordinal);
    const struct tt_step *first = step - step->fold_index;
    if (step->verb != TT_VERB_RECV_REDUCE || step->fold_index + 1 < first->fold_count)
        return;
    uint32_t begins = i - step->fold_index, fold = s->nsteps + begins + 1;
    price = tt_costs_fold(costs, first->fold_count + 1U, bytes);
    fprintf(file, "l%u: calc %llu\n", fold, (unsigned long long)(price / 1000000));
    for (uint32_t k = begins; k <= i; k++)
        fprintf(file, "l%u requires l%u\n", fold, k + 1);
}

/* What must be done before step i, of which the first one of a fold has the dependencies of all. */
static void put_dependencies(FILE *file, const struct tt_schedule *s, uint32_t i)
{
    const struct tt_step *first = &s->steps[i] - s->steps[i].fold_index;
    for (uint32_t d = 0; d < first->dep_count; d++) {
        uint32_t before = s->deps[first->dep_first + d];
        bool folds = s->steps[before].verb == TT_VERB_RECV_REDUCE;
        fprintf(file, "l%u requires l%u\n", i + 1, before + 1 + (folds ? s->nsteps : 0));
        for (uint32_t k = before + 1; !folds && k < before + s->steps[before].fold_count; k++)
            fprintf(file, "l%u requires l%u\n", i + 1, k + 1);
    }
}

tutti_status sim_goal(FILE *file, const struct sim_request *request, const struct sim_choice *choice)
{
    const struct tt_cost_query query = sim_query(request, choice->protocol), *q = &query;
    uint64_t n = (uint64_t)q->requirements.n;
    uint64_t count = (q->bytes + q->element_bytes - 1) / q->element_bytes;
    if (tt_collectives[q->collective].blocks)
        count = (count + n - 1) / n * n;
    fprintf(file, "num_ranks %d\n", q->requirements.n);
    for (int r = 0; r < q->requirements.n; r++) {
        struct tt_schedule s;
        struct tt_layout layout;
        tutti_status status = tt_cost_build(q, choice->algorithm, r, NULL, &s);
        if (status != TUTTI_OK)
            return status;
        tt_layout_even(&layout, count, s.chunks, 1, q->element_bytes);
        layout = q->blocks != NULL ? *q->blocks : layout;
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
