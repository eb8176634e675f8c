/* SPDX-License-Identifier: BSD-3-Clause */
/* list_rig.h: a list of calls of which each takes what the one before has left (cuda_direct.h), emulated. */
#ifndef TESTS_CUDA_LIST_RIG_H
#define TESTS_CUDA_LIST_RIG_H
#include <stdbool.h>
#include <stdint.h>

#include "kernels/cuda/cuda_emulate.h"

/* Two ranks have some calls in one kernel, of so many threads each; NULL: the one that serves the list. The
 * operand of a call lies in the result of the one before, but not as far from a multiple of 16, so threads
 * read what others have stored. True: the sums are right, as soon as a word says that the list is over. */
bool list_rig_chain(const void *function, uint32_t threads, enum tt_emulation way, uint32_t order);

#endif
