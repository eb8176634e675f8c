/* SPDX-License-Identifier: BSD-3-Clause */
/* claims.c: what introductions to parallel training say in passing, beside what a run finds. Most are near
 * the truth, and what is right about them is said. */
#include "training/exercise/exercise.h"

#include "training/page/page.h"
#include "training/tape/stages.h"

#include <inttypes.h>
#include <string.h>

static const char usage[] = "exercise claims [--model NAME] [OPTION]...\n"
                            "\n"
                            "Sentences that stand in introductions to parallel training, each beside what a "
                            "run of this model on four\n"
                            "ranks finds: what is right about it, and what is not.";

enum { FOUND = 1024 };

/* Bytes that all ranks send in a step of such a cargo, over groups of these axes. */
static int64_t sent(const struct tr_contender *x, int axes, enum tr_cargo cargo)
{
    int64_t bytes = 0;
    for (int r = 0; r < x->prepared.run.plan.mesh.n; r++) {
        struct tr_ledger l;
        tr_ledger_predict(&l, tr_tapes_like(x->prepared.tapes, r));
        bytes += tr_ledger_sum(&l, -1, axes, -1, (int)cargo).least;
    }
    return bytes;
}

static double last_loss(const struct tr_contender *x)
{
    return x->reports[x->options.steps - 1].loss;
}

static void tensor(const struct tr_comparison *c, char to[FOUND])
{
    const struct tr_contender *x = tr_exercise_of(c, "tensor");
    char activations[TR_PAGE_TEXT];
    int64_t parameters = sent(x, 1 << TR_TP, TR_OF_PARAMETERS);
    snprintf(to, FOUND,
        "They exchange activations and their gradients, %s in a step, and %" PRId64
        " bytes of parameters: each\nrank keeps its part of every matrix. What is right: it talks much, and "
        "in every "
        "layer.",
        tr_page_bytes((double)sent(x, 1 << TR_TP, TR_OF_ACTIVATIONS), activations), parameters);
}

static void sequence(const struct tr_comparison *c, char to[FOUND])
{
    const struct tr_contender *ring = tr_exercise_of(c, "ring attention"),
                              *one = tr_exercise_of(c, "one device"),
                              *local = tr_exercise_of(c, "local attention");
    snprintf(to, FOUND,
        "With ring attention the loss after %ld steps is %.6f, and that of one device %.6f: %s.\n"
        "It is another one, %.6f, where parts exchange nothing (--cp-attention local), which is what one "
        "fears.",
        c->base.steps, last_loss(ring), last_loss(one),
        tr_compare_equal(ring) ? "the same to the last bit" : "NOT the same", last_loss(local));
}

static void slices(const struct tr_comparison *c, char to[FOUND])
{
    const struct tr_contender *ring = tr_exercise_of(c, "data"), *sharded = tr_exercise_of(c, "sharded"),
                              *root = tr_exercise_of(c, "root");
    snprintf(to, FOUND,
        "All ranks send %" PRId64 " bytes in a step where slices are averaged and gathered, and %" PRId64
        " by an\nall-reduce, which is the same two halves. What is right: where one device averages all and "
        "broadcasts,\nthe busiest rank sends %" PRId64 ", and here %" PRId64 ".",
        sharded->sent_all, ring->sent_all, root->sent_most, sharded->sent_most);
}

static void pipeline(const struct tr_comparison *c, char to[FOUND])
{
    const struct tr_contender *x = tr_exercise_of(c, "1f1b"),
                              *one = tr_exercise_of(c, "one device, 8 micro-batches");
    const struct tr_tape *first = tr_tapes_of(x->prepared.tapes, 0), *alone = tr_exercise_tape(one);
    snprintf(to, FOUND,
        "Parameters of the first stage are %.0f %% of one device's, and the optimizer's state %.0f %%. But "
        "its\n"
        "activations are %.0f %%, where one device has as many micro-batches: the first stage keeps those of "
        "%d\n"
        "at a time until their gradients come back.",
        tr_exercise_percent((double)first->peak[TR_MEM_PARAMETER], (double)alone->peak[TR_MEM_PARAMETER]),
        tr_exercise_percent((double)first->peak[TR_MEM_OPTIMIZER], (double)alone->peak[TR_MEM_OPTIMIZER]),
        tr_exercise_percent((double)first->peak[TR_MEM_ACTIVATION], (double)alone->peak[TR_MEM_ACTIVATION]),
        tr_stage_in_flight(&x->prepared.run.schedule, 0));
}

static void intermediates(const struct tr_comparison *c, char to[FOUND])
{
    const struct tr_tape *x = tr_exercise_tape(tr_exercise_of(c, "tensor")),
                         *one = tr_exercise_tape(tr_exercise_of(c, "one device"));
    snprintf(to, FOUND,
        "Parameters are %.0f %% of one device's, and activations %.0f %%: those between two cut matrices are "
        "cut\n"
        "as well, and those on the residual stream are whole on every rank (--sp cuts them, too).",
        tr_exercise_percent((double)x->peak[TR_MEM_PARAMETER], (double)one->peak[TR_MEM_PARAMETER]),
        tr_exercise_percent((double)x->peak[TR_MEM_ACTIVATION], (double)one->peak[TR_MEM_ACTIVATION]));
}

static void zero(const struct tr_comparison *c, char to[FOUND])
{
    const struct tr_contender *x = tr_exercise_of(c, "ZeRO 3"), *dp = tr_exercise_of(c, "data");
    double mine = tr_tape_flops(tr_tapes_of(x->prepared.tapes, 0)),
           other = tr_tape_flops(tr_tapes_of(dp->prepared.tapes, 0));
    snprintf(to, FOUND,
        "A rank computes %.0f operations in a step, and in data parallelism %.0f: every layer, for its part\n"
        "of the batch. What is cut is where parameters lie between two uses: %.0f %% of them on a rank.",
        mine, other,
        tr_exercise_percent((double)tr_exercise_tape(x)->peak[TR_MEM_PARAMETER],
            (double)tr_exercise_tape(dp)->peak[TR_MEM_PARAMETER]));
}

/* Parameters of a preset, in elements. */
static double parameters_of(const char *model)
{
    struct tr_options o;
    struct tr_run run;
    struct tr_error ignored;
    double n = 0;
    tr_options_default(&o);
    snprintf(o.model.name, sizeof o.model.name, "%s", model);
    o.ranks = 1;
    if (!tr_run_make(&run, &o, &ignored))
        return 0;
    for (int t = 0; t < run.graph.n_tensors; t++) {
        const struct tr_tensor *w = &run.graph.tensors[t];
        if (w->role == TR_PARAMETER && w->values_of == t)
            n += (double)w->rows * (w->dims > 1 ? (double)w->size[1] : 1);
    }
    tr_run_free(&run);
    return n;
}

static void gpt3(const struct tr_comparison *c, char to[FOUND])
{
    double trillion = parameters_of("gpt:1T") / 1e9, gpt = parameters_of("gpt3:175B") / 1e9;
    (void)c;
    snprintf(to, FOUND,
        "That mesh of 3,072 GPUs is the one of Narayanan et al. 2021 for a GPT of a trillion parameters: "
        "gpt:1T\n"
        "has %.0f billion, and GPT-3 (gpt3:175B) %.0f. Of 64 x 8 parts each has %.2f billion, or %.2f: the "
        "smaller\n"
        "model needs fewer parts. What is right: pipeline across hosts, tensor inside one, replicas of both.",
        trillion, gpt, trillion / 512, gpt / 512);
}

static const struct {
    const char *said;
    void (*found)(const struct tr_comparison *c, char to[FOUND]);
} claims[] = {
    { "Tensor parallelism is slow as ranks synchronise their parameters.", tensor },
    { "A sequence that is split over devices may cost accuracy.", sequence },
    { "Where each device averages a slice, more goes over the network.", slices },
    { "A pipeline of n stages has an n-th of everything on each, intermediates, too.", pipeline },
    { "Model parallelism does not make intermediates smaller.", intermediates },
    { "ZeRO-3 is a mixture of model and data parallelism.", zero },
    { "GPT-3 is trained on 64 stages x 6 replicas x 8 GPUs.", gpt3 },
};
enum { CLAIMS = sizeof claims / sizeof *claims };

static bool say(struct tr_comparison *c, struct tr_error *e)
{
    int other = 0;
    for (int i = 0; i < CLAIMS; i++) {
        char text[FOUND];
        claims[i].found(c, text);
        printf("%s\"%s\"\n%s\n", i ? "\n" : "", claims[i].said, text);
    }
    for (int i = 0; i < c->n; i++)
        other += !tr_compare_equal(&c->all[i]) || !tr_compare_as_predicted(&c->all[i]);
    return !other ||
           tr_fail(e, "%d of %d configurations differ from what they are compared with", other, c->n);
}

/* Claims are of attention, too. */
static bool take_options(struct tr_comparison *c, struct tr_error *e)
{
    if (c->base.shown.memory)
        return tr_fail(e, "--memory has no use in exercise claims; legal with 7-1");
    if (strncmp(c->base.model.name, "gpt:", 4) != 0)
        return tr_fail(e, "--model %s: claims are of a model with attention; legal are gpt:nano and its like",
            c->base.model.name);
    tr_exercise_add(c, "one device", "");
    tr_exercise_add(c, "one device, 8 micro-batches", "--micro 8");
    tr_exercise_add(c, "data", "--dp 4");
    tr_exercise_add(c, "sharded", "--dp 4 --dp-reduce sharded");
    tr_exercise_add(c, "root", "--dp 4 --dp-reduce root");
    tr_exercise_add(c, "tensor", "--tp 4");
    tr_exercise_add(c, "ring attention", "--cp 4 --cp-attention ring");
    tr_exercise_add(c, "local attention", "--cp 4 --cp-attention local");
    tr_exercise_add(c, "1f1b", "--pp 4 --micro 8");
    tr_exercise_add(c, "ZeRO 3", "--dp 4 --zero 3");
    return tr_exercise_prepare(c, e);
}

int tr_exercise_claims(int argc, char **argv)
{
    struct tr_comparison c;
    struct tr_error e;
    int status;
    if (!tr_exercise_begin(&c, argc, argv, usage, 5, &status))
        return status;
    status = take_options(&c, &e) ? tr_compare_run(&c, say) : tr_refuse(1, &e);
    tr_compare_free(&c);
    return status;
}
