/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h: loads a library while the program runs: of PMIx, hwloc or a device, whatever this machine has. */
#ifndef TT_BASE_LOAD_H
#define TT_BASE_LOAD_H

/* For dlsym, and for as long as the process lives; else NULL, and *why tells the reason in the words of the
 * loader, until this thread loads again. */
void *tt_load(const char *path, const char **why);

#endif
