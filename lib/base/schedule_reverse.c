/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule_reverse.c: a reduction from what spreads values.
 *
 * A broadcast or an all_gather brings each chunk from one rank, its origin, to every other once, along a
 * tree. Backwards the same tree reduces: each send becomes a recv_reduce, each recv a send, the last step
 * comes first. So an algorithm that spreads well is written, drawn and proven once, and reduces as well.
 *
 *     broadcast, rank 1: recv 0 out 0     reduce, rank 1: recv_reduce 3 tmp 0 = in 0 + incoming
 *                        send 3 out 0                     send 0 tmp 0
 *
 * Sums grow in TMP, and the last operand brings them to OUT at their origin; what was not touched yet is
 * still IN. Operands are combined in the order in which the tree brings them, which is not that of the
 * ranks. */
#include <stdlib.h>

#include "base/schedule.h"
#include "base/status.h"

struct chunk { /* of the reduction, at this rank */
    uint8_t sum; /* enum tt_buffer: where its sum lies by now */
    bool origin; /* it never arrives here while spreading: its result does */
    uint32_t operands; /* incoming ones to come */
};

/* The sums of a range lie in one buffer: what is still IN joins those in TMP. */
static struct tt_cells gather_sums(
    struct tt_schedule *s, struct chunk *chunks, uint32_t first, uint32_t count)
{
    uint32_t end = first + count, still = 0;
    for (uint32_t c = first; c < end; c++)
        still += chunks[c].sum == TT_IN;
    uint32_t c = first;
    while (c < end && still < count) {
        uint32_t run = 0;
        for (; c + run < end && chunks[c + run].sum == TT_IN; run++)
            chunks[c + run].sum = TT_TMP;
        if (run > 0)
            tt_copy(s, tt_range(TT_TMP, c, run), tt_range(TT_IN, c, run));
        c += run > 0 ? run : 1;
    }
    return tt_range((enum tt_buffer)chunks[first].sum, first, count);
}

static void reverse_send(struct tt_schedule *s, struct chunk *chunks, const struct tt_step *step)
{
    uint32_t first = step->src_chunk, end = first + step->nchunks;
    struct tt_cells src = gather_sums(s, chunks, first, step->nchunks);
    bool complete = true; /* all of them, and all are for this rank */
    for (uint32_t c = first; c < end; c++)
        complete = --chunks[c].operands == 0 && chunks[c].origin && complete;
    for (uint32_t c = first; c < end; c++)
        chunks[c].sum = complete ? TT_OUT : TT_TMP;
    tt_final(s, complete);
    tt_recv_reduce(s, step->peer, tt_range(complete ? TT_OUT : TT_TMP, first, step->nchunks), src, false);
    tt_final(s, false);
}

static void reverse_steps(struct tt_schedule *s, struct chunk *chunks, const struct tt_schedule *spread)
{
    for (uint32_t c = 0; c < spread->chunks; c++)
        chunks[c] = (struct chunk){ .sum = TT_IN, .origin = true };
    for (uint32_t i = 0; i < spread->nsteps; i++) {
        const struct tt_step *step = &spread->steps[i];
        for (uint32_t k = 0; k < step->nchunks; k++)
            if (step->verb == TT_VERB_RECV)
                chunks[step->dst_chunk + k].origin = false;
            else if (step->verb == TT_VERB_SEND)
                chunks[step->src_chunk + k].operands++;
    }
    for (uint32_t i = spread->nsteps; i-- > 0;) {
        const struct tt_step *step = &spread->steps[i];
        if (step->verb == TT_VERB_SEND)
            reverse_send(s, chunks, step);
        else if (step->verb == TT_VERB_RECV)
            tt_send(s, step->peer, gather_sums(s, chunks, step->dst_chunk, step->nchunks));
    }
    for (uint32_t c = 0; c < spread->chunks; c++)
        if (chunks[c].origin && chunks[c].sum == TT_IN) /* a rank alone */
            tt_copy(s, tt_out(c), tt_in(c));
        else if (chunks[c].origin && chunks[c].sum == TT_TMP)
            tt_spoil(s, TUTTI_INTERNAL_ERROR, "a result that is completed together with what is none");
}

void tt_reverse(struct tt_schedule *s, const struct tt_team *team, int root, enum tt_collective spreads,
    tt_generator generate)
{
    struct tt_key key = s->key;
    struct tt_schedule spread;
    key.collective = (uint8_t)spreads;
    key.in_place = false; /* there a copy is a step, and this rank's own chunks show as sent, not received */
    tutti_status status = tt_schedule_begin(&spread, &key, s->algorithm);
    if (status == TUTTI_OK) {
        generate(&spread, team, root);
        status = tt_schedule_end(&spread);
    }
    if (status != TUTTI_OK) {
        tt_spoil(s, status, "what it reverses cannot be built");
        return;
    }
    struct chunk *chunks = calloc(spread.chunks, sizeof *chunks);
    tt_chunks(s, spread.chunks);
    tt_max_chunks(s, spread.max_chunks);
    if (chunks != NULL)
        reverse_steps(s, chunks, &spread);
    else
        tt_spoil(s, TUTTI_OUT_OF_MEMORY, "no memory");
    free(chunks);
    tt_schedule_free(&spread);
}
