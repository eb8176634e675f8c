/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.h: a machine as text: what it charges a library, and where those figures come from.
 *
 *     # 8 GPUs in each host, a network card for each
 *     library        NCCL
 *     ranks_per_host 8
 *     proxy          20000 ns   # of a call that goes to other hosts
 *     algorithms     all_reduce ring away tree    # those after `away` only where there are several hosts
 *     protocol       LL
 *     launch         6800 ns    # of each call
 *     latency_near   500 ns
 *     byte_near      141 GB/s
 *     protocol       Simple
 *     byte_near      370 GB/s
 *
 * A line is one of these, or a cost of lib/base/costs.h in the unit in which tutti-sim tells it. A protocol
 * has the costs that stand before the first one, and then its own; whoever calls takes what is fastest. What
 * a text does not say is as on the host with two cores that the library takes for granted. */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H
#include "base/collective.h"
#include "base/costs.h"

enum { SIM_PROTOCOLS = 4, SIM_NAME_BYTES = 16, SIM_ALGORITHMS = 128 };

struct sim_protocol {
    char name[SIM_NAME_BYTES]; /* "": the machine has one way only */
    struct tt_costs costs;
    uint64_t launch; /* femtoseconds of each call, before its first message and after the last */
};

struct sim_machine {
    char library[SIM_NAME_BYTES]; /* whose calls cost so; "": the text does not say */
    struct sim_protocol protocols[SIM_PROTOCOLS];
    int protocols_count; /* at least 1 */
    uint64_t proxy; /* femtoseconds of a call that goes to other hosts */
    uint64_t staging; /* femtoseconds per byte of the vector, which goes to the host's memory and back */
    int meets; /* so many ranks of one host have kernels that meet (lib/spin), or less than 2 */
    int ranks_per_host; /* 0: the text does not say */
    bool limited[TT_COLLECTIVES]; /* of these it has the algorithms below, else all */
    enum sim_where { SIM_NOWHERE, SIM_EVERYWHERE, SIM_BETWEEN_HOSTS } has[SIM_ALGORITHMS];
};

struct sim_preset {
    const char *name, *about, *text;
    const char *omits; /* what its prices leave out, for the report; NULL: nothing that is known */
};
extern const struct sim_preset sim_presets[];
extern const int sim_preset_count;
/* Returns the preset of this name; NULL: there is none. */
const struct sim_preset *sim_preset_find(const char *name);

enum { SIM_WHY_BYTES = 256 };
/* Reads a preset by its name, or a file by its path. False, with the reason in `why`: a line is not legal, or
 * there is no such machine. */
bool sim_machine_read(const char *name, struct sim_machine *machine, char *why);
/* Writes the machine as a text that can be read again. */
void sim_machine_tell(const struct sim_machine *machine, struct tt_text *text);

#endif
