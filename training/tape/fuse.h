/* SPDX-License-Identifier: BSD-3-Clause */
/* fuse.h: chains of operations in a list, which the set of kernels does at once (ops/fused.h). */
#ifndef TRAINING_TAPE_FUSE_H
#define TRAINING_TAPE_FUSE_H

#include "training/ops/fused.h"
#include "training/tape/waits.h"

struct tr_fusion {
    const struct tr_fused *row;
    int at[TR_CHAIN]; /* its instructions; all is done where the first one stands */
};

struct tr_fusions {
    bool on; /* else each instruction does what it says: who looks at each wants that */
    int n;
    struct tr_fusion *list;
    int *of; /* of each instruction: which it belongs to; -1 */
};

/* waits: of copies between the memories, which run beside the list; NULL: there are none. */
void tr_fusions_find(
    struct tr_fusions *f, const struct tr_tape *t, const struct tr_kernels *k, const struct tr_waits *waits);
void tr_fusions_free(struct tr_fusions *f);

#endif
