/* SPDX-License-Identifier: BSD-3-Clause */
/* load.c: what a rank reads of the data: its tokens, rows or cells of each sequence of a micro-batch; and
 * what it gives of the scores behind one of these tokens. */
#include "training/run/load.h"

#include "training/kernels/stripes.h"
#include "training/run/compute.h"
#include "training/run/host.h"

static int64_t tokens_of(const struct tr_runner *r, int value)
{
    return tr_shard_size(r->tape->placed, r->tape->values[value].shard, 1);
}

/* Tokens of a sequence that are here: from i->first on, or half of them, and half from i->second on. */
static int64_t tokens_here(const struct tr_runner *r, const struct tr_instr *i)
{
    return tokens_of(r, i->out[0]);
}

/* Which token of the sequence the n-th of these is. */
static int64_t token_at(const struct tr_runner *r, const struct tr_instr *i, int64_t count, int64_t n)
{
    int64_t run = i->second ? count / 2 : count, place = n < run ? i->first + n : i->second + n - run;
    return i->striped ? tr_striped_token(r->tape->placed->g->context, place) : place;
}

/* Update u of step s has the sequences of step s U + u of a run with one update in a step. */
struct drawn {
    int64_t step, sequence;
};

static struct drawn drawn(const struct tr_runner *r, const struct tr_instr *i, int s)
{
    const struct tr_tape *t = r->tape;
    return (struct drawn){ .step = r->step * t->step.updates + i->update,
        .sequence = i->place + s - (int64_t)i->update * t->step.sequences };
}

typedef void load(
    const struct tr_runner *r, const struct tr_instr *i, struct drawn d, int s, bool targets, void *to);

static void load_tokens(
    const struct tr_runner *r, const struct tr_instr *i, struct drawn d, int s, bool targets, void *all)
{
    int64_t count = tokens_here(r, i), context = r->tape->placed->g->context;
    const uint16_t *from = tr_data_sequence(r->data, d.step, d.sequence, context) + targets;
    uint16_t *to = (uint16_t *)all + s * count;
    for (int64_t n = 0; n < count; n++)
        to[n] = from[token_at(r, i, count, n)];
}

static void load_rows(
    const struct tr_runner *r, const struct tr_instr *i, struct drawn d, int s, bool targets, void *to)
{
    const struct tr_graph *g = r->tape->placed->g;
    int64_t runs = i->second ? 2 : 1, count = tokens_here(r, i) / runs;
    for (int64_t x = 0; x < runs; x++) {
        struct tr_rows rows = { count, g->inputs, g->vocabulary, x ? i->second : i->first };
        if (targets)
            tr_rows_targets(r->data, &rows, d.step, d.sequence, (uint16_t *)to + (s * runs + x) * count);
        else
            tr_rows_inputs(
                r->data, &rows, d.step, d.sequence, (float *)to + (s * runs + x) * count * rows.inputs);
    }
}

/* What dropout draws by, of this sequence. */
static void load_draws(
    const struct tr_runner *r, const struct tr_instr *i, struct drawn d, int s, bool targets, void *to)
{
    (void)i, (void)targets;
    tr_data_draws(r->data, r->tape->placed->g->dropout.part, d.step, d.sequence,
        (uint32_t *)to + (int64_t)s * TR_DRAW_WORDS);
}

/* The cells that are here, and with a halo a row more on either side. */
static void load_picture(
    const struct tr_runner *r, const struct tr_instr *i, struct drawn d, int s, bool targets, void *to)
{
    const struct tr_graph *g = r->tape->placed->g;
    const struct tr_shard *shard = &r->tape->placed->shards[r->tape->values[i->out[0]].shard];
    struct tr_cells cells = { g->grid, i->first / g->grid - shard->on[TR_CP].halo,
        tokens_here(r, i) / g->grid, g->cut.columns };
    if (targets)
        ((uint16_t *)to)[s] = tr_pictures_target(r->data, g->vocabulary, d.step, d.sequence);
    else
        tr_pictures_draw(r->data, &cells, g->vocabulary, d.step, d.sequence,
            (float *)to + s * cells.rows * g->grid * g->inputs);
}

int64_t tr_staged_bytes(const struct tr_tape *t, const struct tr_instr *i)
{
    enum { ALIGNED = 64 };
    return (t->values[i->out[0]].bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* The next place, or the first where no room is left behind it. */
static void *next_place(struct tr_staged *staged, int64_t bytes)
{
    if (staged->used + bytes > staged->bytes)
        staged->used = 0;
    void *place = staged->at + staged->used;
    staged->used += bytes;
    return place;
}

void *tr_stage_load(struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_tape *t = r->tape;
    const struct tr_graph *g = t->placed->g;
    int tensor = t->placed->shards[t->values[i->out[0]].shard].tensor;
    bool targets = tensor == g->targets, draws = g->dropout.part > 0 && tensor == g->dropout.draws;
    void *to = next_place(&r->staged, tr_staged_bytes(t, i));
    load *some = draws ? load_draws : g->grid ? load_picture : g->inputs ? load_rows : load_tokens;
    for (int s = 0; s < i->times; s++)
        some(r, i, drawn(r, i, s), s, targets, to);
    return to;
}

void tr_run_load(struct tr_runner *r, const struct tr_instr *i)
{
    void *staged = tr_stage_load(r, i);
    r->arena.b->copy_later(r->x, r->own, tr_at(r, i->out[0]), staged, r->tape->values[i->out[0]].bytes);
}

void tr_run_scores(struct tr_runner *r, const struct tr_instr *i)
{
    int64_t count = tokens_of(r, i->in[0]), columns = tr_count(r->tape, i->in[0]) / count;
    r->arena.b->sync(r->x);
    for (int64_t n = 0; n < count; n++)
        if (token_at(r, i, count, n) == r->staged.token)
            tr_fetch(r, i->in[0], n * columns, i->valid, r->staged.scores + i->place);
}
