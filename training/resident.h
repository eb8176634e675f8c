/* SPDX-License-Identifier: BSD-3-Clause */
/* resident.h: memory of this process that the kernel has given it, by kind. */
#ifndef TRAINING_RESIDENT_H
#define TRAINING_RESIDENT_H

#include <stdint.h>

struct tr_resident {
    int64_t own, shared; /* bytes; shared: with other ranks, of which the trainer itself uses none */
};

/* From /proc/self/status; zeros where the kernel does not tell. */
struct tr_resident tr_resident_now(void);

#endif
