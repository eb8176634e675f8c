/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpointing.c: checkpoints of a run, the one it begins with and those it writes; and its end before
 * the last step, for which the ranks are asked at different times and so must agree. */
#include "training/commands/checkpointing.h"

#include "training/checkpoint/checkpoint.h"
#include "training/launch.h"
#include "training/weights/gradients.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replicas are compared every so many steps if nothing is said. */
enum { UNASKED = 100 };

bool tr_checkpointing_check(const struct tr_options *o, const struct tr_run *run, struct tr_error *e)
{
    struct tr_head head;
    if (o->files.save_every && !*o->files.save)
        return tr_fail(
            e, "--save-every %ld: legal are whole numbers from 0, with --save FILE", o->files.save_every);
    if (*o->files.save && !tr_checkpoint_writable(o->files.save, e))
        return false;
    if (*o->files.save_gradients && !o->steps)
        return tr_fail(e, "--save-gradients with --steps 0: no step has any; legal is --steps 1 and more");
    if (*o->files.save_gradients &&
        !(tr_gradients_last(&run->plan, e) && tr_checkpoint_writable(o->files.save_gradients, e)))
        return false;
    if (!*o->files.load)
        return true;
    if (!tr_checkpoint_peek(&head, o->files.load, &run->graph, &run->plan, (uint64_t)o->seed, e))
        return false;
    return head.step < o->steps ||
           tr_fail(e, "%s is of a run after %" PRId64 " steps, and --steps counts these; legal is more",
               o->files.load, head.step);
}

/* JSON is for programs, so what is told to people stands beside it. */
static FILE *people(const struct tr_checkpointing *k)
{
    return k->options->shown.json ? stderr : stdout;
}

/* What was learned, where the file says it and it is not what is learned now. */
static void say_other_data(
    FILE *to, const struct tr_head *h, const struct tr_graph *g, const struct tr_data *d)
{
    char name[sizeof h->data.name];
    tr_data_short_name(d, name, sizeof name);
    if (!*h->data.name || h->data.hash == d->hash)
        return;
    fprintf(to, "; the data was %s", h->data.name);
    if (h->data.count)
        fprintf(to, ", %" PRId64 " %s", h->data.count, g->grid ? "pictures" : "tokens");
    if (!strcmp(h->data.name, name) && h->data.count == d->count)
        fprintf(to, ", and they are others now");
}

/* How the rate changed, as the options that say it, where they are others now. */
static void say_other_rates(FILE *to, const struct tr_head *h, const struct tr_optimizer *o)
{
    bool known = h->course.curve >= 0 && h->course.curve < TR_CURVES;
    bool same = h->course.curve == o->curve && h->course.warmup == o->warmup && h->course.until == o->until;
    if (!known || (same && h->course.least == o->least))
        return;
    fprintf(to, "; the rate went by --rate-schedule %s --warmup %" PRId64, tr_curve_names[h->course.curve],
        h->course.warmup);
    if (h->course.curve != TR_CURVE_CONSTANT)
        fprintf(to, " --rate-steps %" PRId64 " --rate-min %g", h->course.until, h->course.least);
}

/* What may differ and still does. */
static void say_loaded(const struct tr_checkpointing *k, const struct tr_head *h)
{
    const struct tr_plan *p = k->runner->tape->placed->plan;
    const struct tr_graph *g = k->runner->tape->placed->g;
    FILE *to = people(k);
    bool all = h->version > 2; /* an older file has not the rest */
    fprintf(to, "# %s: goes on after %" PRId64 " steps", k->options->files.load, h->step);
    if (h->batch != p->batch)
        fprintf(to, "; the batch was %" PRId64, h->batch);
    if (h->rate != p->optimizer.rate)
        fprintf(to, "; the rate was %g", h->rate);
    if (h->version > 3)
        say_other_rates(to, h, &p->optimizer);
    if (h->decay != p->optimizer.decay)
        fprintf(to, "; the decay was %g", h->decay);
    if (h->clip != p->optimizer.clip)
        fprintf(to, "; the clip was %g", h->clip);
    if (all && h->capacity != g->capacity)
        fprintf(to, "; the capacity factor was %g", h->capacity);
    if (all && h->balance != g->balance)
        fprintf(to, "; the auxiliary loss was %g", h->balance);
    if (all && h->bfloat16 != p->numbers.bfloat16)
        fprintf(to, "; the precision was %s", h->bfloat16 ? "bfloat16" : "float32");
    if (all && h->bfloat16 && p->numbers.bfloat16 && h->stochastic != p->numbers.stochastic)
        fprintf(to, "; the rounding was %s", h->stochastic ? "stochastic" : "nearest");
    if (h->version > 4 && h->dropout != g->dropout.part)
        fprintf(to, "; the dropout was %g", h->dropout);
    say_other_data(to, h, g, k->runner->data);
    fprintf(to, "\n");
}

static bool load(struct tr_checkpointing *k, struct tr_error *e)
{
    const struct tr_options *o = k->options;
    const struct tr_placed *p = k->runner->tape->placed;
    struct tr_head head;
    if (!tr_checkpoint_load(k->runner, o->files.load, k->ranks, e))
        return false;
    if (k->runner->tape->rank || o->shown.quiet)
        return true;
    if (!tr_checkpoint_peek(&head, o->files.load, p->g, p->plan, (uint64_t)o->seed, e))
        return false;
    say_loaded(k, &head);
    return true;
}

/* A mesh may have nothing alike, and then nothing is found. */
static bool say_compared(struct tr_checkpointing *k, struct tr_error *e)
{
    const struct tr_options *o = k->options;
    int64_t several = 0;
    if (k->ranks && !tr_replicas_count(&k->replicas, k->runner, k->ranks, &several, e))
        return false;
    if (k->runner->tape->rank == 0 && !o->shown.quiet && !o->shown.json)
        printf("# replicas: %" PRId64 " arrays are on several ranks, and compared every %ld steps\n", several,
            o->files.check_replicas);
    return true;
}

bool tr_checkpointing_open(struct tr_checkpointing *k, const struct tr_options *o, struct tr_runner *r,
    tutti_comm *world, struct tr_error *e)
{
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT, .name = "keeper" };
    *k = (struct tr_checkpointing){ .options = o, .runner = r };
    if (world && tutti_comm_split(world, 0, tutti_comm_rank(world), &config, &k->ranks) != TUTTI_OK)
        return tr_fail(e, "group keeper: %s", tr_why(world));
    if (world)
        tr_replicas_open(&k->replicas, r);
    if (o->files.check_replicas > 0 && !say_compared(k, e))
        return false;
    return !*o->files.load || load(k, e);
}

bool tr_checkpointing_save(struct tr_checkpointing *k, struct tr_error *e)
{
    const struct tr_options *o = k->options;
    if (!tr_checkpoint_save(k->runner, o->files.save, k->ranks, e))
        return false;
    if (k->runner->tape->rank == 0 && !o->shown.quiet) {
        fprintf(people(k), "# saved %s after %" PRId64 " steps\n", o->files.save, k->runner->step);
        fflush(people(k));
    }
    return true;
}

/* The signal that some rank has seen, or 0: all ranks say the same. */
static bool agree(const struct tr_checkpointing *k, int32_t *asked, struct tr_error *e)
{
    *asked = tr_asked();
    return !k->ranks ||
           tutti_all_reduce(asked, asked, 1, TUTTI_INT32, TUTTI_MAX, k->ranks, tutti_no_stream()) ==
               TUTTI_OK ||
           tr_fail(e, "after step %" PRId64 ": %s", k->runner->step - 1, tr_why(k->ranks));
}

static void say_ended(const struct tr_checkpointing *k, int32_t asked)
{
    const struct tr_options *o = k->options;
    tr_ended_by(asked);
    if (k->runner->tape->rank)
        return;
    fprintf(stderr, "tutti-train: ended by %s after %" PRId64 " of %ld steps; ",
        asked == SIGINT ? "^C" : "SIGTERM", k->runner->step, o->steps);
    if (*o->files.save)
        fprintf(stderr, "--load %s goes on\n", o->files.save);
    else
        fprintf(stderr, "nothing is saved, as there was no --save\n");
}

bool tr_checkpointing_after(struct tr_checkpointing *k, bool *stop, struct tr_error *e)
{
    const struct tr_options *o = k->options;
    int64_t done = k->runner->step;
    int32_t asked = 0;
    long every = o->files.check_replicas < 0 ? UNASKED : o->files.check_replicas;
    if (k->ranks && every && done % every == 0 && !tr_replicas_check(&k->replicas, k->runner, k->ranks, e))
        return false;
    if (done < o->steps && !agree(k, &asked, e))
        return false;
    *stop = asked || done >= o->steps;
    bool due = *stop || (o->files.save_every && done % o->files.save_every == 0);
    if (*o->files.save && due && !tr_checkpointing_save(k, e))
        return false;
    if (*o->files.save_gradients && *stop &&
        !tr_gradients_write(k->runner, o->files.save_gradients, k->ranks, e))
        return false;
    if (asked)
        say_ended(k, asked);
    return true;
}

void tr_checkpointing_close(struct tr_checkpointing *k)
{
    tr_replicas_close(&k->replicas);
    if (k->ranks)
        tutti_comm_destroy(k->ranks);
}
