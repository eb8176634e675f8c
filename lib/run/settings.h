/* SPDX-License-Identifier: BSD-3-Clause */
/* settings.h: what a program says of a communicator before there is one: by a tutti_config, whose struct may
 * be that of another release, and by the environment. */
#ifndef TT_SETTINGS_H
#define TT_SETTINGS_H
#include <stdbool.h>

#include "base/config.h"
#include "tutti.h"

/* The config as this library knows it: absent fields are zero. */
tutti_status tt_comm_config(const tutti_config *config, tutti_config *known);
bool tt_comm_nonblocking(const tutti_config *config);
/* The settings of a call to init: environment, then config. Checks the config. */
tutti_status tt_comm_settings(const tutti_config *config, struct tt_settings *settings);
/* The settings of a child of the communicator that has `parent`: that one's, but for what the config sets. */
tutti_status tt_comm_settings_of_child(
    const tutti_config *config, const struct tt_settings *parent, struct tt_settings *settings);

/* Returns the length of the longest message among n ranks; apart: each is on a host of its own. */
uint64_t tt_comm_slot_bytes(const struct tt_settings *settings, int n, bool apart);

/* Returns how long this communicator waits; -1: for ever. config may be NULL. */
int64_t tt_comm_timeout(const struct tt_settings *settings, const tutti_config *config);
/* Returns how long to wait for ranks that have not come, -1: for ever. */
int64_t tt_comm_init_timeout(const struct tt_settings *settings, const tutti_config *config);
/* Returns the same for a rank whose config or settings are not legal, by what can be read of them. */
int64_t tt_comm_refused_timeout(const tutti_config *config);

#endif
