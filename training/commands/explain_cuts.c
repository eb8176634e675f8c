/* SPDX-License-Identifier: BSD-3-Clause */
/* explain_cuts.c: the ways to cut a convolutional network over so many ranks, side by side: what each rank
 * has of weights and of activations, and what it sends. All are lowered and checked, and none is run. */
#include "training/commands/explain.h"

#include "training/commands/prepare.h"
#include "training/account/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void say(const struct tr_options *o, const char *name)
{
    struct tr_prepared p;
    struct tr_error e;
    char how[128];
    tr_options_how(how, sizeof how, o);
    if (!tr_prepare(&p, o, &e)) {
        printf("  %-21s %-36s refused: %s\n", name, how, e.text);
        return;
    }
    const struct tr_tape *t = tr_tapes_of(p.tapes, 0);
    struct tr_ledger l;
    tr_ledger_predict(&l, t);
    int64_t gradients = tr_ledger_sum(&l, -1, -1, -1, TR_OF_GRADIENTS).least +
                        tr_ledger_sum(&l, -1, -1, -1, TR_OF_LEAVES).least;
    printf("  %-21s %-36s %8" PRId64 " %11" PRId64 " %13" PRId64 " %10" PRId64 "\n", name, how,
        t->peak[TR_MEM_PARAMETER], t->peak[TR_MEM_ACTIVATION],
        tr_ledger_sum(&l, -1, -1, -1, TR_OF_ACTIVATIONS).least, gradients);
    tr_prepared_free(&p);
}

void tr_explain_cuts(const struct tr_options *asked)
{
    long n = asked->plan.sizes.tp * asked->plan.sizes.cp;
    struct tr_options o = *asked;
    o.tests.inject[0] = 0;
    o.plan.pictures.columns = false; /* rows, beside another cut; by columns bytes are the same */
    printf(
        "\ncuts of convolutions over %ld ranks; bytes of rank 0: its weights, the peak of its activations, "
        "and what it\nsends in a step at least of activations and of gradients\n\n"
        "  %-21s %-36s %8s %11s %13s %10s\n",
        n, "cut", "options", "weights", "activations", "sent of these", "gradients");
    for (long tp = n; tp > 1; tp--)
        for (int split = 0; n % tp == 0 && split < TR_CONV_SPLITS; split++) {
            char name[32];
            o.plan.sizes.tp = tp, o.plan.sizes.cp = n / tp;
            o.plan.pictures.split = (enum tr_conv_split)split;
            snprintf(name, sizeof name, "by %s%s", tr_conv_split_names[split],
                o.plan.sizes.cp > 1 ? " and space" : "");
            say(&o, name);
        }
    o.plan.sizes.tp = 1, o.plan.sizes.cp = n;
    o.plan.pictures.split = asked->plan.pictures.split;
    say(&o, "by space, rows");
    o.plan.pictures.columns = true;
    say(&o, "by space, columns");
}
