/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c: exercise 7-1. Somebody cuts a model by tensor parallelism, and it trains with SGD; with Adam it
 * is out of memory. Why, and what helps?
 *
 * The limit of a rank lies between what the two need, so that the first fits and the second does not. */
#include "training/commands/limits.h"
#include "training/exercise/exercise.h"

#include <inttypes.h>
#include <string.h>

static const char usage[] =
    "exercise 7-1 [--memory BYTES] [--model NAME] [OPTION]...\n"
    "\n"
    "A model that two ranks share by tensor parallelism fits their memory with SGD and not with Adam: runs\n"
    "the one, refuses the other, and runs three cures under the same limit: a cut of the optimizer's state\n"
    "(ZeRO), its place in the host's memory (offload), and activations that are computed again. --memory is\n"
    "the limit; without it, one between what the two need.";

static const char sgd[] = "tp 2, SGD", adam[] = "tp 2, Adam";
static const struct {
    const char *name, *words, *why;
} cures[] = {
    { "ZeRO 1", "--dp 2 --tp 2 --zero 1",
        "two replicas have half of the batch each, and half of the optimizer's state" },
    { "offload", "--tp 2 --offload optimizer", "m and v are in the host's memory, which updates there" },
    { "recomputation", "--tp 2 --recompute full",
        "m and v stay, and activations make room: they are computed "
        "again" },
};
enum { CURES = sizeof cures / sizeof *cures };

static void say_line(const struct tr_contender *x)
{
    const struct tr_tape *t = tr_exercise_tape(x);
    char loss[32] = "-";
    if (x->runs)
        snprintf(loss, sizeof loss, "%.6f", x->reports[x->options.steps - 1].loss);
    printf("%-14s %10" PRId64 " %9" PRId64 " %9" PRId64 " %11" PRId64 " %9" PRId64 "  %-7s %-9s %s\n",
        x->name, t->peak[TR_MEM_PARAMETER], t->peak[TR_MEM_GRADIENT], t->peak[TR_MEM_OPTIMIZER],
        t->peak[TR_MEM_ACTIVATION], t->arena, x->fits ? "fits" : "too big", loss,
        !x->runs                      ? "not run"
        : !tr_compare_as_predicted(x) ? "MEASURED MORE"
        : tr_compare_equal(x)         ? "equal to one device"
                                      : "DIFFERS");
}

static void say_why(const struct tr_comparison *c)
{
    const struct tr_tape *with = tr_exercise_tape(tr_exercise_of(c, adam)),
                         *without = tr_exercise_tape(tr_exercise_of(c, sgd));
    int64_t more = with->peak[TR_MEM_OPTIMIZER] - without->peak[TR_MEM_OPTIMIZER];
    printf("\nWhy: Adam keeps two numbers beside each parameter, m and v. That are %" PRId64
           " bytes of a rank, %.3g times its\nparameters (%" PRId64 "); SGD keeps neither%s.\n",
        more, (double)more / (double)with->peak[TR_MEM_PARAMETER], with->peak[TR_MEM_PARAMETER],
        without->peak[TR_MEM_OPTIMIZER]
            ? ", and both keep the float32 values that parameters are rounded from"
            : "");
    printf("All else is the same. With Adam the rank needs %" PRId64 ", %" PRId64
           " more than the limit. Tensor parallelism cuts\nm and v already, as it cuts the parameters.\n",
        with->arena, with->arena - c->base.shown.memory);
}

static bool say(struct tr_comparison *c, struct tr_error *e)
{
    int64_t needed = tr_exercise_tape(tr_exercise_of(c, adam))->arena;
    int helped = 0, ran = 0;
    printf("A rank may have %" PRId64
           " bytes (--memory). %ld steps; bytes of the rank that needs most, each kind "
           "at its peak,\nas the lists of the ranks say, and for those that ran as an audit measured:\n\n",
        c->base.shown.memory, c->base.steps);
    printf(
        "%-14s %10s %9s %9s %11s %9s\n", "", "parameters", "gradients", "optimizer", "activations", "needs");
    for (int i = 0; i < c->n; i++) {
        say_line(&c->all[i]);
        ran += c->all[i].runs && tr_compare_equal(&c->all[i]) && tr_compare_as_predicted(&c->all[i]);
    }
    say_why(c);
    printf("\nWhat helps:\n");
    for (int i = 0; i < CURES; i++) {
        const struct tr_contender *x = tr_exercise_of(c, cures[i].name);
        int64_t less = needed - tr_exercise_tape(x)->arena;
        helped += x->runs;
        printf("  %-28s %s: %" PRId64 " bytes less, which %s\n", cures[i].words, cures[i].why, less,
            x->fits ? "fits" : "is not enough");
    }
    printf(
        "\nAnswer: of three cures %d fit and ran, each with the loss and the bits of one device.\n", helped);
    return ran == 1 + helped ||
           tr_fail(e, "%d of those that ran differ from one device, or need more", 1 + helped - ran);
}

/* Of the rank that needs most. */
static int64_t need_of(const struct tr_comparison *c, const char *name)
{
    const struct tr_prepared *p = &tr_exercise_of(c, name)->prepared;
    int64_t most[2];
    tr_limits_needs(p, most);
    return most[0];
}

/* The question is none where the first does not fit, or both do. Places are in lines of 64 bytes. */
static bool take_limit(struct tr_comparison *c, struct tr_error *e)
{
    int64_t without = need_of(c, sgd), with = need_of(c, adam), middle = (without + with) / 2 / 64 * 64;
    if (!c->base.shown.memory)
        c->base.shown.memory = middle;
    int64_t limit = c->base.shown.memory;
    return (limit >= without && limit < with) ||
           tr_fail(e,
               "--memory %" PRId64 ": SGD needs %" PRId64 " bytes of a rank and Adam %" PRId64
               "; legal is what lies between, as %" PRId64 ", which it is without --memory",
               limit, without, with, middle);
}

int tr_exercise_memory(int argc, char **argv)
{
    struct tr_comparison c;
    struct tr_error e;
    int status;
    if (!tr_exercise_begin(&c, argc, argv, usage, 5, &status))
        return status;
    tr_exercise_add(&c, sgd, "--tp 2 --optimizer sgd");
    tr_exercise_add(&c, adam, "--tp 2 --optimizer adamw");
    for (int i = 0; i < CURES; i++)
        tr_exercise_add(&c, cures[i].name, cures[i].words);
    bool ok = tr_exercise_prepare(&c, &e);
    ok = ok && take_limit(&c, &e);
    status = ok ? tr_compare_run(&c, say) : tr_refuse(1, &e);
    tr_compare_free(&c);
    return status;
}
