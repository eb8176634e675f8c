/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h: loads a library while the program runs: of PMIx, hwloc or a device, whatever this machine has. */
#ifndef TT_BASE_LOAD_H
#define TT_BASE_LOAD_H
#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* Loads a library for dlsym, for as long as the process lives; else returns NULL, and *why tells the reason
 * in the words of the loader, until this thread loads again. */
void *tt_load(const char *path, const char **why);

/* Finds a library of Tutti's own: beside the one that holds this code, in a folder beside that, and where
 * `make install` puts it. False if it is nowhere; then `looked` has the names of where it was looked for. */
bool tt_find_own(const char *name, char *path, size_t bytes, struct tt_text *looked);

#endif
