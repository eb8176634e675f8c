/* SPDX-License-Identifier: BSD-3-Clause */
/* find_nan.c: find the first tensor of a step with an infinity or NaN.
 *
 * The step is run again, since a value's memory is given away after its last use. Each rank notes its first
 * instruction that writes such a number. Where that is a message or a collective, it may have come from
 * another rank; so of the ranks where it is a computation, or a parameter, the lowest one is named. */
#include "training/run/find_nan.h"

#include "training/run/host.h"

#include <math.h>
#include <stdio.h>

enum { OF_PARAMETER = -1, NOWHERE = -2 };

/* How sure a rank is that it began here: the most certain one is named. */
enum { COMPUTED, COLLECTED, NEVER };

struct finding {
    int instr, value;
    double number;
};

static bool finite_value(const struct tr_runner *r, int value, double *number)
{
    const struct tr_tape *t = r->tape;
    const struct tr_value *v = &t->values[value];
    if (v->shard < 0)
        return true;
    if (t->placed->g->tensors[t->placed->shards[v->shard].tensor].role == TR_INPUT)
        return true;
    int64_t count = r->used[value] < 0 ? tr_count(t, value) : r->used[value] / 4;
    enum { PIECE = 1024 };
    double some[PIECE];
    for (int64_t i = 0; i < count; i++) {
        if (i % PIECE == 0)
            tr_fetch_numbers(r, value, i, count - i < PIECE ? count - i : PIECE, some);
        *number = some[i % PIECE];
        if (!isfinite(*number))
            return false;
    }
    return true;
}

static void look(const struct tr_runner *r, int n, struct finding *f)
{
    const struct tr_instr *i = &r->tape->instrs[n];
    bool counts = i->code == TR_ACCUMULATE; /* it adds up in place */
    for (int x = 0; x < (counts ? i->ins : i->outs) && f->instr == NOWHERE; x++) {
        int value = counts ? i->in[x] : i->out[x];
        if (!finite_value(r, value, &f->number))
            f->instr = n, f->value = value;
    }
}

static bool run_again(struct tr_runner *r, struct finding *f, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    r->fused.on = false;
    for (int n = 0; n < t->n_states && f->instr == NOWHERE; n++)
        if (!finite_value(r, t->states[n].values, &f->number))
            f->instr = OF_PARAMETER, f->value = t->states[n].values;
    for (int n = 0; n <= t->values[t->leaves].last; n++) {
        if (!tr_runner_instr(r, n, e))
            return false;
        look(r, n, f);
    }
    return true;
}

static int32_t certainty(const struct tr_tape *t, const struct finding *f)
{
    if (f->instr == NOWHERE)
        return NEVER;
    if (f->instr == OF_PARAMETER)
        return COMPUTED;
    return t->instrs[f->instr].axes || t->instrs[f->instr].edge ? COLLECTED : COMPUTED;
}

static const char *text_of(double x, char text[32])
{
    snprintf(text, 32, "%g", isnan(x) ? (double)NAN : x); /* NaN has no sign here */
    return text;
}

static void say(const struct tr_runner *r, const struct finding *f, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    char where[200] = "the norm itself", number[32], loss[32], norm[32];
    if (f->instr != NOWHERE) {
        const char *tensor = t->placed->g->tensors[t->placed->shards[t->values[f->value].shard].tensor].name;
        const struct tr_instr *i = f->instr == OF_PARAMETER ? NULL : &t->instrs[f->instr];
        int used = snprintf(where, sizeof where, "%s, which has %s on rank %d, ", tensor,
            text_of(f->number, number), t->rank);
        if (!i)
            snprintf(where + used, sizeof where - (size_t)used, "before the step");
        else
            snprintf(where + used, sizeof where - (size_t)used, "after %s of micro-batch %d",
                tr_instr_does(i), i->micro < 0 ? 0 : i->micro);
    }
    tr_fail(e,
        "step %lld: the loss is %s and the gradient's norm %s; the first that is not finite is %s. A "
        "smaller --rate may help",
        (long long)r->step, text_of(r->result.loss, loss), text_of(r->result.norm, norm), where);
}

/* An asynchronous pipeline has updated its weights, so to run the step again would tell nothing. All ranks
 * have the same numbers, and the same words. */
static bool say_update(const struct tr_runner *r, struct tr_error *e)
{
    char loss[32], norm[32];
    int u = 0, updates = r->n_updates;
    while (isfinite(r->updates[u].loss) && isfinite(r->updates[u].norm))
        u++;
    return tr_fail(e,
        "update %lld: the loss is %s and the gradient's norm %s; weights were updated, as no stage waits for "
        "the norm. A smaller --rate may help",
        (long long)(r->step * updates + u), text_of(r->updates[u].loss, loss),
        text_of(r->updates[u].norm, norm));
}

bool tr_not_finite(struct tr_runner *r, struct tr_error *e)
{
    enum tr_norm_known known = r->tape->step.norm;
    if (known == TR_NORM_OF_EACH_UPDATE)
        return say_update(r, e);
    if (known == TR_NORM_AFTER_UPDATES) /* nothing is left to look for the place with */
        return tr_fail(e,
            "step %lld: the loss is %g and the gradient's norm %g, and the ranks have updated already, as "
            "this schedule does not wait for the norm. A smaller --rate may help",
            (long long)r->step, r->result.loss, r->result.norm);
    struct finding f = { .instr = NOWHERE };
    tutti_comm *world = r->groups.world;
    double loss = r->result.loss, norm = r->result.norm;
    if (!run_again(r, &f, e))
        return false;
    r->result.loss = loss, r->result.norm = norm;
    say(r, &f, e);
    if (!world)
        return false;
    int32_t mine = certainty(r->tape, &f) * tutti_comm_size(world) + r->tape->rank, first = mine;
    if (tutti_all_reduce(&first, &first, 1, TUTTI_INT32, TUTTI_MIN, world, tutti_no_stream()) != TUTTI_OK)
        return false;
    /* All end with the words of one. */
    tutti_broadcast(e->text, e->text, sizeof e->text, TUTTI_UINT8, first % tutti_comm_size(world), world,
        tutti_no_stream());
    return false;
}
