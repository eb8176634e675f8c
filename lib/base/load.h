/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h: loads a library while the program runs: of PMIx, hwloc or a device, whatever this machine has. */
#ifndef TT_BASE_LOAD_H
#define TT_BASE_LOAD_H

/* Loads a library for dlsym, for as long as the process lives; else returns NULL, and *why tells the reason
 * in the words of the loader, until this thread loads again. */
void *tt_load(const char *path, const char **why);

#endif
