/* SPDX-License-Identifier: BSD-3-Clause */
/* places.h: on which host, or at which cache, each rank is. */
#ifndef SIM_PLACES_H
#define SIM_PLACES_H
#include <stdbool.h>
#include <stdint.h>

#include "machine.h"

enum { SIM_SLOTS_MAX = 100000 };

/* Fills domain[n] by a file of lines "NAME [slots=K]", or, if `cores`, by a machine as lstopo writes it in
 * XML. False, with the reason in `why`. */
bool sim_places_read(const char *path, bool cores, int32_t *domain, int n, char *why);

#endif
