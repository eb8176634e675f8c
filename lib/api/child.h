/* SPDX-License-Identifier: BSD-3-Clause */
/* child.h: what a communicator that is made from another one has of that one, its parent. */
#ifndef TT_CHILD_H
#define TT_CHILD_H
#include "run/comm.h"
#include "tutti.h"

/* Sets the settings of a child: those of its parent, but for what the config says. NONBLOCKING is refused in
 * the name of `function`, which waits for other ranks. */
tutti_status tt_child_settings(const char *function, const struct tt_comm *parent, const tutti_config *config,
    struct tt_settings *settings);
/* Sets the config of a child whose settings are known to be legal: `config`, where that says something, else
 * on_wait is the parent's, and the name this one. */
void tt_child_config(
    const struct tt_comm *parent, const tutti_config *config, const char *name, tutti_config *own);
/* What a config says, of a child of `parent`, or where that is NULL of a communicator without one. */
tutti_status tt_child_settings_of(
    const struct tt_comm *parent, const tutti_config *config, struct tt_settings *settings);
/* The device that is current in this thread, if such a config asks for that; else -1 (tt_device_adopt). */
int tt_child_device_to_adopt(const struct tt_comm *parent, const tutti_config *config);
/* The number of a rank in the communicator that all was split from. */
static inline int tt_in_world(const struct tt_comm *comm, int rank)
{
    return comm->identity.world != NULL ? comm->identity.world[rank] : rank;
}

/* Has a rank of the communicator left the id at which it grows next? (regroup.c) */
bool tt_growth_finds_id(struct tt_comm *comm, tutti_id *id);

#endif
