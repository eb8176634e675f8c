/* SPDX-License-Identifier: BSD-3-Clause */
/* aborter.h: a rank ends a communicator for itself, by another thread than the one that is in a call. */
#ifndef TT_TESTS_ABORTER_H
#define TT_TESTS_ABORTER_H
#include "tests/rig/ranks.h"

struct aborter {
    struct ranks_me *me;
    tutti_comm *comm;
    uint32_t delay_us;
    pthread_t thread;
};
/* It calls tutti_comm_abort_local when the delay has passed; and has, when this returns. */
void aborter_begin(struct aborter *aborter);
void aborter_end(struct aborter *aborter);

#endif
