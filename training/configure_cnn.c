/* SPDX-License-Identifier: BSD-3-Clause */
/* configure_cnn.c: the options of models that learn pictures. */
#include "training/options.h"

#include <string.h>

enum { GROUPS = 8, DIGITS = 16, PLANES = 3 };

/* Of the others, each would be ignored without a word, so it is refused. */
static bool has_no_pictures(const struct tr_options *o, const char *model, struct tr_error *e)
{
    if (strcmp(o->cnn_cut, "rows"))
        return tr_fail(e, "--cnn-cut %s: %s has no pictures; leave it out", o->cnn_cut, model);
    if (strcmp(o->conv_split, "pairs"))
        return tr_fail(e, "--conv-split %s: %s has no convolutions; leave it out", o->conv_split, model);
    if (strcmp(o->norm, "none"))
        return tr_fail(
            e, "--norm %s: legal with --model cnn:nano or cnn:micro, and %s is none", o->norm, model);
    const char *foreign = o->norm_groups ? "norm-groups"
                          : o->grid      ? "grid"
                          : *o->labels   ? "labels"
                          : o->planes    ? "planes"
                                         : NULL;
    return !foreign || tr_fail(e, "--%s: %s has no pictures; leave it out", foreign, model);
}

/* What is made up has one plane; coloured pictures and their classes are in one file. */
static bool planes_fit(const struct tr_options *o, bool given, struct tr_error *e)
{
    if (o->planes > 1 && o->planes != PLANES)
        return tr_fail(e, "--planes %ld: legal are 1 and %d", o->planes, PLANES);
    if (o->planes == PLANES && !given)
        return tr_fail(e,
            "--planes %d: the digits that are drawn have one; legal with --data FILE, of CIFAR-10", PLANES);
    return o->planes != PLANES || !*o->labels ||
           tr_fail(e,
               "--labels %s: with --planes %d the classes are in the file of the pictures; leave it out",
               o->labels, PLANES);
}

/* Pictures and their classes are in files, or both are made up. */
static bool data_fits(const struct tr_options *o, const char *model, struct tr_error *e)
{
    bool given = *o->data && strcmp(o->data, "grammar") != 0;
    if (!planes_fit(o, given, e))
        return false;
    if (given && !*o->labels && o->planes != PLANES)
        return tr_fail(e,
            "--data %s: the classes of its pictures are in another file; legal with --labels FILE, both IDX "
            "files as those of MNIST, or with --planes 3 a file as those of CIFAR-10",
            o->data);
    if (!given && *o->labels)
        return tr_fail(e, "--labels %s: there are no pictures; legal with --data FILE", o->labels);
    return given || o->vocabulary <= DIGITS ||
           tr_fail(e,
               "--vocabulary %ld: %s draws digits, of which there are %d: legal are 2 to %d, and with --data "
               "up to 256",
               o->vocabulary, model, DIGITS, DIGITS);
}

bool tr_cnn_options(struct tr_model_options *to, const struct tr_options *o, const char *model, int64_t grid,
    struct tr_error *e)
{
    bool columns = !strcmp(o->cnn_cut, "columns"), group = !strcmp(o->norm, "group");
    if (!columns && strcmp(o->cnn_cut, "rows"))
        return tr_fail(e, "--cnn-cut %s: legal are rows and columns", o->cnn_cut);
    if (!group && strcmp(o->norm, "none"))
        return tr_fail(e, "--norm %s: legal are none and group", o->norm);
    if (!grid)
        return has_no_pictures(o, model, e);
    if (o->norm_groups && !group)
        return tr_fail(e, "--norm-groups %ld: there is no norm; legal with --norm group", o->norm_groups);
    if (!data_fits(o, model, e))
        return false;
    to->columns = columns;
    to->planes = o->planes ? o->planes : 1;
    while (strcmp(o->conv_split, tr_conv_split_names[to->split])) /* which the plan has found legal */
        to->split++;
    to->grid = o->grid ? o->grid : grid;
    to->groups = !group ? 0 : o->norm_groups ? o->norm_groups : GROUPS;
    return true;
}
