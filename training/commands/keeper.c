/* SPDX-License-Identifier: BSD-3-Clause */
/* keeper.c: checkpoints of a run: the one it begins with, those it writes. */
#include "training/commands/keeper.h"

#include "training/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool tr_keeper_check(const struct tr_options *o, const struct tr_run *run, struct tr_error *e)
{
    struct tr_head head;
    if (o->save_every < 0 || (o->save_every && !*o->save))
        return tr_fail(
            e, "--save-every %ld: legal are whole numbers from 0, with --save FILE", o->save_every);
    if (*o->save && !tr_checkpoint_writable(o->save, e))
        return false;
    if (!*o->load)
        return true;
    if (!tr_checkpoint_peek(&head, o->load, &run->graph, &run->plan, (uint64_t)o->seed, e))
        return false;
    return head.step < o->steps ||
           tr_fail(e, "%s is of a run after %" PRId64 " steps, and --steps counts these; legal is more",
               o->load, head.step);
}

/* What may differ and still does. */
static void say_loaded(const struct tr_keeper *k, const struct tr_head *h)
{
    const struct tr_plan *p = k->runner->tape->placed->plan;
    printf("# %s: goes on after %" PRId64 " steps", k->options->load, h->step);
    if (h->batch != p->batch)
        printf("; the batch was %" PRId64, h->batch);
    if (h->rate != p->rate)
        printf("; the rate was %g", h->rate);
    if (h->decay != p->decay)
        printf("; the decay was %g", h->decay);
    if (h->clip != p->clip)
        printf("; the clip was %g", h->clip);
    printf("\n");
}

static bool load(struct tr_keeper *k, struct tr_error *e)
{
    const struct tr_options *o = k->options;
    const struct tr_placed *p = k->runner->tape->placed;
    struct tr_head head;
    if (!tr_checkpoint_load(k->runner, o->load, k->ranks, e))
        return false;
    if (k->runner->tape->rank || o->quiet)
        return true;
    if (!tr_checkpoint_peek(&head, o->load, p->g, p->plan, (uint64_t)o->seed, e))
        return false;
    say_loaded(k, &head);
    return true;
}

bool tr_keeper_open(struct tr_keeper *k, const struct tr_options *o, struct tr_runner *r, tutti_comm *world,
    struct tr_error *e)
{
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT, .name = "keeper" };
    *k = (struct tr_keeper){ .options = o, .runner = r };
    if (world && tutti_comm_split(world, 0, tutti_comm_rank(world), &config, &k->ranks) != TUTTI_OK)
        return tr_fail(e, "group keeper: %s", tutti_get_last_error(world));
    return !*o->load || load(k, e);
}

static bool save(struct tr_keeper *k, struct tr_error *e)
{
    const struct tr_options *o = k->options;
    if (!tr_checkpoint_save(k->runner, o->save, k->ranks, e))
        return false;
    if (k->runner->tape->rank == 0 && !o->quiet) {
        printf("# saved %s after %" PRId64 " steps\n", o->save, k->runner->step);
        fflush(stdout);
    }
    return true;
}

bool tr_keeper_after(struct tr_keeper *k, bool *stop, struct tr_error *e)
{
    const struct tr_options *o = k->options;
    int64_t done = k->runner->step;
    *stop = done >= o->steps;
    bool due = *stop || (o->save_every && done % o->save_every == 0);
    return !*o->save || !due || save(k, e);
}

void tr_keeper_close(struct tr_keeper *k)
{
    if (k->ranks)
        tutti_comm_destroy(k->ranks);
}
