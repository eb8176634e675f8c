/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.h: a machine as text: what it charges, and where those figures come from.
 *
 *     # 8 GPUs in each host, a network card for each
 *     ranks_per_host 8
 *     latency_away   1500 ns    # UCX tag, 8 bytes
 *     byte_away      47 GB/s
 *
 * A line is a cost of lib/base/costs.h in the unit in which tutti-sim tells it, or ranks_per_host. What a
 * text does not say is as on the host with two cores that the library takes for granted. */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H
#include "base/costs.h"

struct sim_machine {
    struct tt_costs costs;
    int ranks_per_host; /* 0: the text does not say */
    const char *omits; /* of a preset */
};

struct sim_preset {
    const char *name, *about, *text;
    const char *omits; /* what its prices leave out, for the report; NULL: nothing that is known */
};
extern const struct sim_preset sim_presets[];
extern const int sim_preset_count;

enum { SIM_WHY_BYTES = 256 };
/* Reads a preset by its name, or a file by its path. False, with the reason in `why`: a line is not legal, or
 * there is no such machine. */
bool sim_machine_read(const char *name, struct sim_machine *machine, char *why);

#endif
