/* SPDX-License-Identifier: BSD-3-Clause */
/* resident.c: what lies outside the arena that a tape plans: Tutti's segments and heap, and OpenBLAS's. It is
 * measured, as nobody here can foresee it. */
#include "training/resident.h"

#include <inttypes.h>
#include <stdio.h>

struct tr_resident tr_resident_now(void)
{
    struct tr_resident r = { 0, 0 };
    char line[128];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        int64_t kib;
        if (sscanf(line, "RssAnon: %" SCNd64, &kib) == 1)
            r.own = kib * 1024;
        else if (sscanf(line, "RssShmem: %" SCNd64, &kib) == 1)
            r.shared = kib * 1024;
    }
    if (status)
        fclose(status);
    return r;
}
