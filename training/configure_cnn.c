/* SPDX-License-Identifier: BSD-3-Clause */
/* configure_cnn.c: the options of models that learn pictures. */
#include "training/options.h"

#include <inttypes.h>
#include <string.h>

enum { GROUPS = 8, DIGITS = 16, PLANES = 3 };

/* Of the others, each would be ignored without a word, so it is refused. */
static bool has_no_pictures(const struct tr_options *o, const char *model, struct tr_error *e)
{
    const struct tr_model_options *sizes = &o->model.sizes;
    if (o->model.norm)
        return tr_fail(e, "--norm group: legal with --model cnn:nano or cnn:micro, and %s is none", model);
    const char *foreign = sizes->groups      ? "norm-groups"
                          : sizes->grid      ? "grid"
                          : *o->files.labels ? "labels"
                          : sizes->planes    ? "planes"
                                             : NULL;
    return !foreign || tr_fail(e, "--%s: %s has no pictures; leave it out", foreign, model);
}

/* What is made up has one plane; coloured pictures and their classes are in one file. */
static bool planes_fit(const struct tr_options *o, bool given, struct tr_error *e)
{
    if (o->model.sizes.planes > 1 && o->model.sizes.planes != PLANES)
        return tr_fail(e, "--planes %" PRId64 ": legal are 1 and %d", o->model.sizes.planes, PLANES);
    if (o->model.sizes.planes == PLANES && !given)
        return tr_fail(e,
            "--planes %d: the digits that are drawn have one; legal with --data FILE, of CIFAR-10", PLANES);
    return o->model.sizes.planes != PLANES || !*o->files.labels ||
           tr_fail(e,
               "--labels %s: with --planes %d the classes are in the file of the pictures; leave it out",
               o->files.labels, PLANES);
}

/* Pictures and their classes are in files, or both are made up. */
static bool data_fits(const struct tr_options *o, const char *model, struct tr_error *e)
{
    bool given = *o->files.data && strcmp(o->files.data, "grammar") != 0;
    if (!planes_fit(o, given, e))
        return false;
    if (given && !*o->files.labels && o->model.sizes.planes != PLANES)
        return tr_fail(e,
            "--data %s: the classes of its pictures are in another file; legal with --labels FILE, both IDX "
            "files as those of MNIST, or with --planes 3 a file as those of CIFAR-10",
            o->files.data);
    if (!given && *o->files.labels)
        return tr_fail(e, "--labels %s: there are no pictures; legal with --data FILE", o->files.labels);
    return given || o->model.sizes.vocabulary <= DIGITS ||
           tr_fail(e,
               "--vocabulary %" PRId64
               ": %s draws digits, of which there are %d: legal are 2 to %d, and with --data "
               "up to 256",
               o->model.sizes.vocabulary, model, DIGITS, DIGITS);
}

bool tr_cnn_options(struct tr_model_options *to, const struct tr_options *o, const char *model, int64_t grid,
    struct tr_error *e)
{
    if (!grid)
        return has_no_pictures(o, model, e);
    if (to->groups && !o->model.norm)
        return tr_fail(e, "--norm-groups %" PRId64 ": there is no norm; legal with --norm group", to->groups);
    if (!data_fits(o, model, e))
        return false;
    to->planes = to->planes ? to->planes : 1;
    to->grid = to->grid ? to->grid : grid;
    to->groups = !o->model.norm ? 0 : to->groups ? to->groups : GROUPS;
    return true;
}
