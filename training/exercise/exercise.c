/* SPDX-License-Identifier: BSD-3-Clause */
/* exercise.c: the command `tutti-train exercise`, and what its exercises share: a few configurations that run
 * side by side as compare runs them, so that each is held against one device. */
#include "training/exercise/exercise.h"

#include "training/commands/commands.h"
#include "training/commands/one_rank.h"

#include <string.h>

static const struct {
    const char *name, *what;
    int (*run)(int argc, char **argv);
} exercises[] = {
    { "7-1", "tensor parallelism fits with SGD and not with Adam: why, and what helps", tr_exercise_memory },
    { "7-2", "data parallelism on processors: ranks, or threads of one rank, and when it pays",
        tr_exercise_processors },
    { "claims", "what introductions say of parallel training, and what a run finds", tr_exercise_claims },
};
enum { EXERCISES = sizeof exercises / sizeof *exercises };

static void list(FILE *to)
{
    fprintf(to, "usage: tutti-train exercise NAME [OPTION]...\n\n");
    for (int i = 0; i < EXERCISES; i++)
        fprintf(to, "  %-8s %s\n", exercises[i].name, exercises[i].what);
    fprintf(to, "\n7-1 and 7-2 are those of chapter 7 of Sebastian Raschka's Machine Learning Q and AI.\n"
                "tutti-train exercise NAME --help tells the options.\n");
}

int tr_command_exercise(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (int i = 0; i < EXERCISES; i++)
        if (!strcmp(name, exercises[i].name))
            return exercises[i].run(argc - 1, argv + 1);
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        list(stdout);
        return 0;
    }
    fprintf(stderr, "tutti-train exercise: %.60s%s; legal are:\n", name,
        *name ? " is not known" : "which exercise is not said");
    list(stderr);
    return 2;
}

/* ---- what they share ---- */

static bool refuse(const struct tr_options *o, struct tr_error *e)
{
    struct tr_options alone;
    char given[TR_OPTION_TEXT], other[TR_OPTION_TEXT];
    tr_one_rank_options(&alone, o);
    alone.plan.sizes.dp = 0;
    alone.shown.memory = o->shown.memory;
    if (!tr_options_same(o, &alone, given, other))
        return tr_fail(e,
            "%s is no option of exercise, which chooses paradigms itself; legal are the options of the model "
            "and of what is learned, and --memory",
            given);
    return o->steps >= 3 || tr_fail(e, "--steps %ld: legal are 3 and more", o->steps);
}

bool tr_exercise_begin(
    struct tr_comparison *c, int argc, char **argv, const char *usage, long steps, int *status)
{
    struct tr_error e;
    *c = (struct tr_comparison){ .form = TR_COMPARE_ALL };
    tr_options_default(&c->base);
    c->base.steps = steps;
    if (!tr_begin_with(&c->base, argc, argv, usage, true, status))
        return false;
    if (!refuse(&c->base, &e)) {
        *status = tr_refuse(1, &e);
        return false;
    }
    if (!*c->base.files.data)
        strcpy(c->base.files.data, "grammar");
    tr_compare_begin(c);
    return true;
}

void tr_exercise_add(struct tr_comparison *c, const char *name, const char *words)
{
    struct tr_options o = c->base;
    struct tr_error ignored;
    char text[128], *rest = text, *argv[16];
    int n = 0;
    snprintf(text, sizeof text, "%s", words);
    while (n < 16 && (argv[n] = strtok_r(rest, " ", &rest)) != NULL)
        n++;
    o.plan.sizes.dp = 1;
    tr_options_parse(&o, n, argv, &ignored);
    tr_compare_add(c, name, &o, false);
}

bool tr_exercise_prepare(struct tr_comparison *c, struct tr_error *e)
{
    if (c->n_left_out)
        return tr_fail(e, "%s cannot be: %s", c->left_out[0].name, c->left_out[0].why);
    c->base.ranks = 2; /* which take turns, where one alone would do */
    for (int i = 0; i < c->n; i++)
        if (c->all[i].options.ranks > c->base.ranks)
            c->base.ranks = c->all[i].options.ranks;
    return tr_compare_prepare(c, e);
}

const struct tr_contender *tr_exercise_of(const struct tr_comparison *c, const char *name)
{
    int i = 0;
    while (strcmp(c->all[i].name, name))
        i++;
    return &c->all[i];
}

const struct tr_tape *tr_exercise_tape(const struct tr_contender *x)
{
    return tr_tapes_of(x->prepared.tapes, x->largest);
}

double tr_exercise_percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}
