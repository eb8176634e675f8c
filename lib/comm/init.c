/* SPDX-License-Identifier: BSD-3-Clause */
/* init.c: making communicators from an id, or all in one process. The public functions, which may be in a
 * group, or return before there is a communicator, are in api_init.c.
 *
 * Each way agrees on the settings (rank 0's shared ones) and then establishes the endpoints (establish.c).
 * Only the exchange differs: a session of the bootstrap, or an all_gather of the parent (split.c). In one
 * process there is none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "device/device.h"
#include "base/handle.h"
#include "bootstrap/init_progress.h"
#include "comm/lifecycle.h"
#include "device/device.h"
#include "launch/launch.h"
#include "select/selection.h"
#include "run/settings.h"
#include "transports/registry.h"

static tutti_status exchange_by_session(
    void *context, tutti_status status, const void *mine, uint64_t bytes, void *all)
{
    if (status == TUTTI_OK)
        return tt_session_exchange(context, mine, bytes, all);
    tt_session_refuse(context, status);
    return status;
}

/* Makes the processes of this host known to the transport, which takes their descriptors. */
static tutti_status introduce(const struct tt_member *members, int n, int rank)
{
    tutti_status status = TUTTI_OK;
    for (int r = 0; r < n; r++) {
        if (r == rank || members[r].host != members[rank].host)
            continue;
        if (status == TUTTI_OK)
            status = tt_transport_memory()->introduce(members[r].fds);
        else
            for (int i = 0; i < TT_BLOB_FDS; i++)
                close(members[r].fds[i]);
    }
    return status;
}

tutti_status tt_init_refuse(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_status status)
{
    int64_t timeout_ms = tt_comm_refused_timeout(config);
    char words[TT_ERROR_TEXT];
    tutti_id found;
    snprintf(words, sizeof words, "%s", tt_last_error());
    bool known = id != NULL || tt_launch_find(timeout_ms, &n, &rank, &found) == TUTTI_OK;
    tt_set_last_error(words);
    if (known)
        tt_bootstrap_refuse(id != NULL ? id : &found, n, rank, timeout_ms, status);
    return status;
}

static tutti_status meet(int n, int rank, const tutti_id *id, struct tt_settings *settings,
    int64_t timeout_ms, int32_t *host_of, struct tt_session **session)
{
    uint8_t of_rank_0[TT_BLOB_BYTES];
    struct tt_newcomer mine = { .blob_of_0 = of_rank_0, .fds = { -1, -1 } };
    struct tt_member *members = calloc((size_t)n, sizeof *members);
    _Static_assert(sizeof *settings <= TT_BLOB_BYTES, "the settings travel in the blob");
    tutti_status status =
        members != NULL ? TUTTI_OK : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for %d members", n);
    if (status == TUTTI_OK && rank == 0)
        status = tt_selection_read(settings);
    if (status == TUTTI_OK && rank == 0)
        status = tt_device_settings(settings, n);
    memcpy(mine.blob, settings, sizeof *settings);
    mine.heartbeat_ms = settings->heartbeat_ms;
    if (status == TUTTI_OK)
        status = tt_transport_memory()->present(mine.fds);
    if (status != TUTTI_OK) {
        free(members);
        tt_bootstrap_refuse(id, n, rank, timeout_ms, status);
        return status;
    }
    status = tt_bootstrap_meet(id, n, rank, &mine, timeout_ms, members, session);
    close(mine.fds[0]);
    close(mine.fds[1]);
    if (status == TUTTI_OK) {
        struct tt_settings theirs;
        memcpy(&theirs, of_rank_0, sizeof theirs);
        tt_settings_adopt(settings, &theirs);
        for (int r = 0; r < n; r++)
            host_of[r] = members[r].host;
        status = introduce(members, n, rank);
        status = exchange_by_session(*session, status, NULL, 0, NULL);
        if (status != TUTTI_OK)
            tt_session_close(*session);
    }
    free(members);
    return status;
}

bool tt_init_begin(const tutti_config *config)
{
    tutti_config known;
    return tt_comm_config(config, &known) == TUTTI_OK && tt_init_progress_begin(known.name);
}

tutti_status tt_init_rank(int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm)
{
    struct tt_settings settings;
    tutti_status status = tt_comm_settings(config, &settings);
    return status == TUTTI_OK ? tt_init_rank_with(n, rank, id, &settings, config, comm)
                              : tt_init_refuse(n, rank, id, config, status);
}

tutti_status tt_init_rank_with(int n, int rank, const tutti_id *id, const struct tt_settings *own,
    const tutti_config *config, tutti_comm **comm)
{
    struct tt_settings settings = *own;
    struct tt_session *session;
    tutti_status status = TUTTI_OK;
    int64_t timeout_ms = tt_comm_init_timeout(&settings, config);
    void *room = tt_comm_room(n);
    int32_t *host_of = room != NULL ? malloc((size_t)n * sizeof *host_of) : NULL;
    if (host_of == NULL) {
        free(room);
        status = tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a communicator of %d ranks", n);
        tt_bootstrap_refuse(id, n, rank, timeout_ms, status);
        return status;
    }
    bool outermost = tt_init_begin(config);
    tt_init_progress_know(n, rank);
    status = meet(n, rank, id, &settings, timeout_ms, host_of, &session);
    if (status == TUTTI_OK) {
        status = tt_comm_establish(
            n, rank, &settings, config, NULL, host_of, exchange_by_session, session, room, comm);
        tt_session_close(session);
    }
    tt_transport_memory()->settle();
    free(room);
    free(host_of);
    if (outermost)
        tt_init_progress_end();
    return status;
}

static void destroy_all(struct tt_comm **made, int n)
{
    for (int r = 0; r < n; r++)
        if (made[r] != NULL)
            tt_comm_destroy(made[r]);
}

static tutti_status set_device(struct tt_settings *settings, int rank, int device)
{
    if (device < -1)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "init_all: devices[%d] is %d; legal: -1 (host memory only), or the number of a device", rank,
            device);
    settings->device = device < 0 ? TT_DEVICE_NONE : TT_DEVICE_FIRST + (uint64_t)device;
    return TUTTI_OK;
}

static tutti_status make_all(int n, const int *devices, const struct tt_settings *settings,
    const tutti_config *config, struct tt_comm **made)
{
    struct tt_settings own = *settings;
    size_t address_bytes = tt_transport_for(true)->address_bytes;
    uint8_t *addresses = calloc((size_t)n, address_bytes);
    int32_t *domain_of = calloc((size_t)n, sizeof *domain_of);
    struct tt_device_info *infos = calloc((size_t)n, sizeof *infos);
    tutti_status status = TUTTI_OK;
    if (addresses == NULL || domain_of == NULL || infos == NULL)
        status = tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the addresses of %d ranks", n);
    for (int r = 0; r < n && status == TUTTI_OK; r++)
        status = tt_comm_domain(settings, n, r, &domain_of[r]);
    for (int r = 0; r < n && status == TUTTI_OK; r++) {
        if (devices != NULL)
            status = set_device(&own, r, devices[r]);
        if (status == TUTTI_OK)
            status = tt_comm_open(n, r, &own, config, NULL, addresses + (size_t)r * address_bytes, &made[r]);
        if (status == TUTTI_OK)
            status = tt_comm_tell_device(made[r], &infos[r]);
    }
    uint32_t number = tt_comm_next_number();
    for (int r = 0; r < n && status == TUTTI_OK; r++)
        status = tt_comm_check_devices(made[r], infos, sizeof *infos);
    for (int r = 0; r < n && status == TUTTI_OK; r++) {
        tt_comm_number(made[r], number);
        status = tt_comm_connect(made[r], addresses, domain_of);
    }
    for (int r = 0; r < n && status == TUTTI_OK; r++)
        status = tt_comm_connect_devices(made[r], infos, sizeof *infos);
    if (status == TUTTI_OK)
        tt_comm_open_devices(made, n);
    free(addresses);
    free(domain_of);
    free(infos);
    return status;
}

tutti_status tt_init_all(int n, const int *devices, const tutti_config *config, tutti_comm **comms)
{
    struct tt_settings settings;
    tutti_status status = tt_comm_settings(config, &settings);
    for (int r = n - 1; r >= 0 && status == TUTTI_OK && devices != NULL; r--)
        status = set_device(&settings, r, devices[r]);
    if (status == TUTTI_OK)
        status = tt_selection_read(&settings);
    if (status == TUTTI_OK)
        status = tt_device_settings(&settings, n);
    if (status != TUTTI_OK)
        return status;
    struct tt_comm **made = calloc((size_t)n, sizeof *made);
    tutti_comm **handles = calloc((size_t)n, sizeof *handles);
    status = made == NULL || handles == NULL
                 ? tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for %d communicators", n)
                 : make_all(n, devices, &settings, config, made);
    int named = 0;
    for (; status == TUTTI_OK && named < n; named++)
        status = tt_comm_handle_create(made[named], &handles[named]);
    if (status == TUTTI_OK) {
        memcpy(comms, handles, (size_t)n * sizeof *handles);
    } else if (made != NULL && handles != NULL) {
        for (int r = 0; r < n && handles[r] != NULL; r++)
            tt_comm_take(handles[r]);
        destroy_all(made, n);
    }
    free(made);
    free(handles);
    return status;
}
