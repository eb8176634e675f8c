/* SPDX-License-Identifier: BSD-3-Clause */
/* test_checkpoint.c: what goes wrong in a rank's memory is found and named: replicas that differ, and the
 * first number that is none. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/training/options_rig.h"
#include "training/run/host.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/replicas.h"
#include "training/launch.h"
#include "training/run/compute.h"
#include "training/run/find_nan.h"

/* A plan for a run: after a step, rank `rank` gets a number into what it holds of a parameter. */
struct fault {
    const char *options;
    int ranks, rank;
    const char *parameter;
    enum tr_kind kind; /* TR_KINDS: the rounding of the values */
    float number; /* 1: added to what is there; else put in its place */
    const char *words; /* what is said then; NULL: nothing is wrong */
    enum { COMPARE, STEP, LOOK } by; /* replicas; the next step; a search though nothing is wrong */
};

static void spoil(struct tr_runner *r, const struct fault *f)
{
    for (int n = 0; n < r->tape->n_states; n++) {
        const struct tr_param_state *h = &r->tape->states[n];
        if (strcmp(r->tape->placed->g->tensors[h->parameter].name, f->parameter))
            continue;
        struct tr_piece p = f->kind == TR_KINDS ? tr_piece_rounded(r, h) : tr_piece_held(r, h, f->kind);
        int64_t middle = p.first + p.count / 2;
        uint16_t half = 0;
        float x = 0;
        if (!p.count)
            continue;
        tr_fetch(r, p.value, middle, 1, p.narrow ? (void *)&half : &x);
        half ^= 1, x = f->number == 1 ? x + 1 : f->number;
        tr_store(r, p.value, middle, 1, p.narrow ? (void *)&half : &x);
    }
}

static bool judge(bool ok, const struct fault *f, struct tr_error *e)
{
    if (ok)
        return !f->words || tr_fail(e, "%s: nothing is found", f->options);
    if (f->words && strstr(e->text, f->words))
        return true;
    struct tr_error said = *e;
    return tr_fail(e, "%s: not \"%s\" but: %.600s", f->options, f->words ? f->words : "", said.text);
}

static bool run(tutti_comm *world, void *context, struct tr_error *e)
{
    const struct fault *f = context;
    struct tr_options o;
    struct tr_prepared p;
    struct tr_data data;
    struct tr_runner r;
    struct tr_replicas s;
    int rank = world ? tutti_comm_rank(world) : 0;
    if (!rig_options(&o, f->options, e) || !tr_prepare(&p, &o, e) ||
        !tr_data_open(&data, NULL, 1, p.run.graph.vocabulary, p.run.graph.context, e) ||
        !tr_runner_open(&r, &p.tapes->of[rank], tr_kernels_best(), &data, world, e) || !tr_runner_step(&r, e))
        return false;
    tr_replicas_open(&s, &r);
    if (rank == f->rank)
        spoil(&r, f);
    bool ok = f->by == STEP   ? tr_runner_step(&r, e)
              : f->by == LOOK ? tr_not_finite(&r, e)
                              : tr_replicas_check(&s, &r, world, e);
    ok = judge(ok, f, e);
    tr_replicas_close(&s);
    tr_runner_close(&r);
    tr_data_close(&data);
    tr_prepared_free(&p);
    return ok;
}

static void all(const struct fault *faults, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct fault f = faults[i];
        cr_expect(tr_launch(f.ranks, run, &f) == 0, "%s, %s of rank %d", f.options, f.parameter, f.rank);
    }
}

Test(checkpoint, replicas_that_differ_are_named)
{
    static const struct fault faults[] = {
        { "--dp 2", 2, 1, "layer0.ln1.weight", TR_VALUES, 1,
            "after step 0: values of layer0.ln1.weight: rank 1 and rank 0", COMPARE },
        { "--dp 2", 2, 0, "wte", TR_V, 1, "v of wte: rank 1 and rank 0", COMPARE },
        { "--dp 2 --zero 1", 2, 1, "layer3.fc2.weight", TR_VALUES, 1,
            "values of layer3.fc2.weight: rank 1 and rank 0", COMPARE },
        { "--dp 2 --tp 2", 4, 0, "layer1.qkv.weight", TR_M, 1, "m of layer1.qkv.weight: rank 2 and rank 0",
            COMPARE },
        { "--dp 2 --tp 2", 4, 3, "layer1.proj.bias", TR_VALUES, 1, "proj.bias: rank 3 and rank 0", COMPARE },
        { "--dp 2 --tp 2", 4, 0, "layer1.proj.bias", TR_M, 1, "proj.bias: ranks 1, 2, 3 and rank 0",
            COMPARE },
        { "--dp 2 --tp 2 --zero 3", 4, 2, "lnf.bias", TR_VALUES, 1, "lnf.bias: rank 3 and rank 2", COMPARE },
        { "--pp 2", 2, 1, "head.weight", TR_VALUES, 1, "values of wte: rank 1 and rank 0", COMPARE },
        { "--dp 2 --servers 1", 3, 1, "wte", TR_VALUES, 1, "values of wte: rank 1 and rank 0", COMPARE },
        { "--dp 2 --servers 1", 3, 2, "wte", TR_VALUES, 1, "values of wte: rank 2 and rank 0", COMPARE },
        { "--dp 2 --servers 2", 4, 1, "wte", TR_VALUES, 1, "values of wte: rank 1 and rank 0", COMPARE },
        { "--dp 2 --servers 2 --precision bfloat16", 4, 1, "nothing", TR_VALUES, 1, NULL, COMPARE },
        { "--dp 2 --precision bfloat16", 2, 1, "wte", TR_VALUES, 1, "values of wte: rank 1 and rank 0",
            COMPARE },
        { "--dp 2 --zero 1 --precision bfloat16", 2, 1, "wpe", TR_KINDS, 1,
            "rounded values of wpe: rank 1 and rank 0", COMPARE },
        { "--dp 2 --servers 2 --precision bfloat16", 4, 0, "wpe", TR_KINDS, 1,
            "rounded values of wpe: rank 1 and rank 0", COMPARE },
        { "--dp 2 --precision bfloat16 --offload both --offload-delay 1", 2, 1, "wpe", TR_WAITING, 1,
            "the waiting gradient of wpe: rank 1 and rank 0", COMPARE },
        { "--dp 2 --pp 2 --micro 2 --async stash --untied --clip 0", 4, 1, "wte", TR_VALUES, 1,
            "values of wte: rank 1 and rank 0", COMPARE },
        { "--dp 2 --pp 2 --micro 2 --async two --untied --clip 0", 4, 2, "lnf.bias", TR_M, 1,
            "m of lnf.bias: rank 3 and rank 2", COMPARE },
        /* Only one rank has it, so there is nothing to compare. */
        { "--dp 2 --zero 3", 2, 1, "wte", TR_VALUES, 1, NULL, COMPARE },
        { "--dp 2 --zero 1", 2, 1, "wte", TR_M, 1, NULL, COMPARE },
        { "--dp 2 --tp 2 --pp 2 --micro 2 --sp --zero 2", 8, 0, "nothing", TR_VALUES, 1, NULL, COMPARE },
    };
    all(faults, sizeof faults / sizeof *faults);
}

Test(checkpoint, the_first_number_that_is_none_is_named)
{
    static const struct fault faults[] = {
        { "--micro 2", 1, 0, "layer2.fc1.weight", TR_VALUES, NAN,
            "step 1: the loss is nan and the gradient's norm nan; the first that is not finite is "
            "layer2.fc1.weight, which has nan on rank 0, before the step",
            STEP },
        { "--dp 2", 2, 1, "layer2.fc1.weight", TR_VALUES, NAN, "layer2.fc1.weight, which has nan on rank 1",
            STEP },
        { "--tp 2 --sp", 2, 1, "layer0.ln1.bias", TR_VALUES, INFINITY,
            "layer0.ln1.bias, which has inf on rank 1", STEP },
        { "--pp 2 --micro 2", 2, 1, "layer3.qkv.bias", TR_VALUES, -INFINITY,
            "layer3.qkv.bias, which has -inf on rank 1", STEP },
        { "--dp 2 --zero 3 --micro 2", 2, 1, "lnf.weight", TR_VALUES, NAN,
            "lnf.weight, which has nan on rank 1", STEP },
    };
    all(faults, sizeof faults / sizeof *faults);
}

/* Of a sound step nothing is said, whatever lies unused in the memory; so what is named is the cause. */
static bool sound(tutti_comm *world, void *context, struct tr_error *e)
{
    const char *options = context;
    struct fault f = { options, 0, -1, "", TR_VALUES, 0, "not finite is the norm itself", LOOK };
    return run(world, &f, e);
}

Test(checkpoint, a_sound_step_has_no_such_number)
{
    cr_expect(tr_launch(4, sound, "--vocabulary 257 --tp 4 --sp") == 0);
    cr_expect(tr_launch(4, sound, "--dp 2 --pp 2 --micro 2 --zero 3") == 0);
}
