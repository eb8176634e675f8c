/* SPDX-License-Identifier: BSD-3-Clause */
/* dualpipe.c: DualPipeV, the schedule of DeepSeek (github.com/deepseek-ai/DualPipe, dualpipev.py), which is
 * DualPipe "cut in half" (Qi et al. 2025).
 *
 * The stages lie in a V: rank r has stage r on the way there (arm 0) and stage 2p - 1 - r on the way back
 * (arm 1). The last rank turns round without a message, and the first has both ends of the model. So the
 * backward parts of the second arm begin on rank 0, and each rank has forward parts of one arm to put beside
 * backward parts of the other. */
#include "training/schedule/walk.h"

/* A rank's list while it is written. W's wait in the order of their I's. */
struct writer {
    struct tr_schedule *s;
    int rank;
    int forward[2], backward[2]; /* micro-batches that each arm has had */
    int split, weights; /* the slot after the last I whose W is written, and how many W's wait */
};

static int stage_of(const struct writer *w, int arm)
{
    return arm ? 2 * w->s->ranks - 1 - w->rank : w->rank;
}

static void add(struct writer *w, int part, int stage, int micro)
{
    w->s->slots[w->rank][w->s->count[w->rank]++] = (struct tr_slot){ part, stage, micro };
}

static void forward(struct writer *w, int arm)
{
    add(w, TR_F, stage_of(w, arm), w->forward[arm]++);
}

static void backward(struct writer *w, int arm, bool split)
{
    add(w, split ? TR_I : TR_B, stage_of(w, arm), w->backward[arm]++);
    w->weights += split;
}

/* The W of the first I that has none. */
static void weight(struct writer *w)
{
    const struct tr_slot *slots = w->s->slots[w->rank];
    while (slots[w->split].part != TR_I)
        w->split++;
    add(w, TR_W, slots[w->split].stage, slots[w->split].micro);
    w->split++, w->weights--;
}

/* The last backward parts, which are split from the middle on. */
static void drain(struct writer *w)
{
    int rank = w->rank, middle = (rank + 1) / 2;
    for (int i = 0; i <= rank; i++) {
        backward(w, 1, i > middle || (i == middle && rank % 2 == 1));
        backward(w, 0, i >= middle);
    }
}

void tr_fill_dualpipev(struct tr_schedule *s, int rank)
{
    struct writer w = { .s = s, .rank = rank };
    int behind = s->ranks - rank - 1, main = s->micros - 2 * s->ranks + rank + 1;
    for (int i = 0; i < 2 * behind; i++)
        forward(&w, 0);
    for (int i = 0; i <= rank; i++)
        forward(&w, 0), forward(&w, 1);
    for (int i = 0; i < behind; i++)
        backward(&w, 1, true), weight(&w), forward(&w, 1);
    for (int i = 0; i < main; i++)
        forward(&w, 0), backward(&w, 1, false), forward(&w, 1), backward(&w, 0, false);
    for (int i = 0; i < behind; i++)
        backward(&w, 1, false), forward(&w, 1), backward(&w, 0, false);
    drain(&w);
    for (int i = 0; i < behind; i++)
        weight(&w), backward(&w, 0, true);
    while (w.weights)
        weight(&w);
}
