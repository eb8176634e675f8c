/* SPDX-License-Identifier: BSD-3-Clause */
/* prepare.c: every rank makes and checks the tapes of all, so that all refuse alike, before a message was
 * sent. */
#include "training/commands/prepare.h"

#include "training/data/corpus.h"
#include "training/errors/inject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tr_refuse(int status, const struct tr_error *e)
{
    fprintf(stderr, "tutti-train: %s\n", e->text);
    return status;
}

bool tr_begin(struct tr_options *o, int argc, char **argv, const char *usage, bool list, int *status)
{
    tr_options_default(o);
    return tr_begin_with(o, argc, argv, usage, list, status);
}

/* A usage begins with the command, which is in brackets where it may be left out. */
static bool is_usage_of(const char *command, const char *usage)
{
    return !strncmp(usage + (*usage == '['), command, strlen(command));
}

/* Options of one command, which another would ignore. */
static bool refuse_foreign(const struct tr_options *o, const char *usage, struct tr_error *e)
{
    static const char *const foreign[][2] = { { "tape", "explain" }, { "markdown", "compare" },
        { "html", "compare" }, { "machine", "plan" }, { "measure", "plan" }, { "all", "verify" },
        { "quick", "verify" }, { "random", "verify" }, { "ranks-as", "train" }, { "tune", "train" },
        { "eval-every", "train" }, { "log", "train" }, { "prompt", "sample" }, { "tokens", "sample" },
        { "temperature", "sample" }, { "tokenizer", "sample" } };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (tr_options_given(o, foreign[i][0]) && !is_usage_of(foreign[i][1], usage))
            return tr_fail(
                e, "--%s is an option of %s, and this is another command", foreign[i][0], foreign[i][1]);
    static const char *const on_devices[] = { "train", "explain", "verify", "compare", "sample" };
    for (size_t i = 0; i < sizeof on_devices / sizeof *on_devices; i++)
        if (is_usage_of(on_devices[i], usage))
            return true;
    return !o->device ||
           tr_fail(e, "--device cuda is for train, explain, verify, compare and sample; legal is here "
                      "--device host");
}

bool tr_begin_with(struct tr_options *o, int argc, char **argv, const char *usage, bool list, int *status)
{
    struct tr_error e;
    *status = 0;
    if (!tr_options_parse(o, argc - 1, argv + 1, &e) || (!o->help && !refuse_foreign(o, usage, &e))) {
        *status = tr_refuse(2, &e);
        return false;
    }
    if (!o->help)
        return true;
    printf("usage: tutti-train %s\n", usage);
    if (list)
        tr_options_help(stdout);
    return false;
}

bool tr_same_options(const struct tr_options *o, tutti_comm *world, struct tr_error *e)
{
    int n = world ? tutti_comm_size(world) : 1;
    char first[TR_OPTION_TEXT], other[TR_OPTION_TEXT];
    struct tr_options *all = tr_new((size_t)n, sizeof *all);
    bool ok = n == 1 ||
              tutti_all_gather(o, all, sizeof *o, TUTTI_UINT8, world, tutti_no_stream()) == TUTTI_OK ||
              tr_fail(e, "the options of all ranks: %s", tr_why(world));
    for (int r = 1; ok && r < n; r++)
        ok = tr_options_same(&all[0], &all[r], first, other) ||
             tr_fail(e, "rank 0 has %s, and rank %d %s; legal are the same options on all ranks", first, r,
                 other);
    free(all);
    return ok;
}

bool tr_prepare(struct tr_prepared *p, const struct tr_options *o, struct tr_error *e)
{
    *p = (struct tr_prepared){ .found_by = -1 };
    if (!tr_run_make(&p->run, o, e))
        return false;
    bool planted = *o->tests.inject, by_types = false;
    p->tapes = tr_new(1, sizeof *p->tapes);
    const struct tr_kernels *kernels = tr_options_planned(o, e);
    bool ok = kernels && tr_place(&p->placed, &p->run.graph, &p->run.plan, kernels, e) &&
              tr_tapes_make(p->tapes, &p->placed, &p->run.schedule, planted, e) &&
              (!planted || tr_inject(p->tapes->of, p->tapes->n, o->tests.inject, e));
    if (ok && tr_tapes_check(p->tapes, &by_types, e))
        return true;
    tr_prepared_free(p);
    p->found_by = !ok ? -1 : by_types ? TR_BY_TYPES : TR_BY_ORDER;
    return false;
}

void tr_prepared_free(struct tr_prepared *p)
{
    if (p->tapes)
        tr_tapes_free(p->tapes);
    free(p->tapes);
    tr_placed_free(&p->placed);
    tr_run_free(&p->run);
}

static bool open_data(
    struct tr_data *d, const struct tr_options *o, const struct tr_graph *g, struct tr_error *e)
{
    uint64_t seed = (uint64_t)o->seed;
    const struct tr_picture_files pictures = { o->files.data, o->files.labels };
    if (g->grid && o->model.sizes.planes > 1)
        return tr_cifar_open(d, o->files.data, seed, g->grid, g->vocabulary, e);
    if (*o->files.labels)
        return tr_idx_open(d, &pictures, seed, g->grid, g->vocabulary, e);
    if (g->inputs) {
        (g->grid ? tr_pictures_open : tr_rows_open)(d, seed);
        return true;
    }
    if (!strcmp(o->files.data, "recall"))
        return tr_recall_open(d, seed, g->vocabulary, g->context, e);
    if (!*o->files.data)
        return tr_data_open_default(d, seed, g->vocabulary, g->context, e);
    return tr_data_open(
        d, strcmp(o->files.data, "grammar") ? o->files.data : NULL, seed, g->vocabulary, g->context, e);
}

bool tr_open_data(struct tr_data *d, const struct tr_options *o, const struct tr_graph *g, struct tr_error *e)
{
    if (!open_data(d, o, g, e))
        return false;
    if (!o->held_out.every || tr_data_hold_out(d, g->context, e))
        return true;
    tr_data_close(d);
    return false;
}
