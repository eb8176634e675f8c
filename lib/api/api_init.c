/* SPDX-License-Identifier: BSD-3-Clause */
/* api_init.c: the public functions that make communicators: now, on a thread of the library, or at the end of
 * a group. Splitting one is in split.c. */
#include "comm/async_init.h"
#include "base/status.h"
#include "api/group.h"
#include "bootstrap/init_progress.h"
#include "launch/launch.h"
#include "comm/lifecycle.h"
#include "run/settings.h"

static tutti_status check_size(int n, int rank)
{
    if (n < 1 || n > 65536)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "n is %d; legal: 1 to 65536 ranks", n);
    if (rank < 0 || rank >= n)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "rank is %d; legal: 0 to %d", rank, n - 1);
    return TUTTI_OK;
}

tutti_status tutti_comm_init_rank(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm)
{
    tutti_status status = check_size(n, rank);
    if (status == TUTTI_OK && (id == NULL || comm == NULL))
        status = tt_fail(TUTTI_INVALID_ARGUMENT, "init_rank: %s is NULL", id == NULL ? "id" : "comm");
    if (status == TUTTI_OK && tt_comm_nonblocking(config)) {
        status = tt_async_init_start(n, rank, id, config, comm);
        return status == TUTTI_OK || !tt_group_open() ? status : tt_group_note(status);
    }
    if (!tt_group_open())
        return status == TUTTI_OK ? tt_init_rank(n, rank, id, config, comm) : status;
    return status == TUTTI_OK ? tt_group_add_init(n, rank, id, config, comm) : tt_group_note(status);
}

tutti_status tutti_comm_init_env(const tutti_config *config, tutti_comm **comm)
{
    int n, rank;
    tutti_id id;
    struct tt_settings settings;
    if (comm == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "init_env: comm is NULL");
    if (tt_comm_nonblocking(config))
        return tt_async_init_start(0, 0, NULL, config, comm);
    tutti_status status = tt_comm_settings(config, &settings);
    if (status != TUTTI_OK)
        return tt_init_refuse(0, 0, NULL, config, status);
    tt_init_begin(config);
    status = tt_launch_find(tt_comm_init_timeout(&settings, config), &n, &rank, &id);
    if (status == TUTTI_OK)
        status = tutti_comm_init_rank(n, rank, &id, config, comm);
    tt_init_progress_end();
    return status;
}

tutti_status tutti_comm_init_all(int n, const int *devices, const tutti_config *config, tutti_comm **comms)
{
    tutti_status status = check_size(n, 0);
    if (status == TUTTI_OK && comms == NULL)
        status = tt_fail(TUTTI_INVALID_ARGUMENT, "init_all: comms is NULL");
    return status == TUTTI_OK ? tt_init_all(n, devices, config, comms) : status;
}
