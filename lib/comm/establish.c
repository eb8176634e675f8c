/* SPDX-License-Identifier: BSD-3-Clause */
/* establish.c: from settings to a connected communicator, by any exchange.
 *
 * A rank opens an endpoint, exchanges addresses, connects, and exchanges once more, so that nobody begins
 * before all are connected. Where there are several hosts it has measured the network by then (probe.h). A
 * rank that fails says so in the next exchange, and its failure is everybody's. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "base/cache_domain.h"
#include "run/comm.h"
#include "base/handle.h"
#include "bootstrap/bootstrap_host.h"
#include "comm/lifecycle.h"
#include "comm/probe.h"
#include "device/device_led.h"
#include "run/settings.h"

struct endpoint_info { /* what a rank tells the others */
    struct tt_device_info device;
    int32_t domain;
    uint32_t number; /* that the communicator may have here, if it has no name */
    uint64_t host_key; /* of its host, where ranks measure the network between theirs */
    struct tt_cores cores;
    uint8_t address[TT_ADDRESS_MAX];
};
enum { ROOM_OF_RANK = 3 * sizeof(int32_t) + sizeof(struct tt_cores) };
_Static_assert(sizeof(struct endpoint_info) == TT_ENDPOINT_INFO_BYTES, "as lifecycle.h says");

void *tt_comm_room(int n)
{
    void *room = calloc((size_t)n, sizeof(struct endpoint_info) + TT_ADDRESS_MAX + ROOM_OF_RANK);
    if (room == NULL)
        tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the addresses of %d ranks", n);
    return room;
}

tutti_status tt_comm_domain(const struct tt_settings *settings, int n, int rank, int32_t *domain)
{
    if (strcmp(settings->topology, "auto") == 0) {
        *domain = tt_cache_domain();
        return TUTTI_OK;
    }
    int ranks = tt_topology_ranks(settings->topology);
    if (ranks != n)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "topology: \"%s\" speaks of %d ranks; the communicator has %d",
            settings->topology, ranks, n);
    int32_t *all = malloc((size_t)n * sizeof *all);
    if (all == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the domains of %d ranks", n);
    tt_topology_parse(settings->topology, all);
    *domain = all[rank];
    free(all);
    return TUTTI_OK;
}

static tutti_status connect_all(
    struct tt_comm *comm, const struct endpoint_info *all, uint8_t *addresses, int32_t *domain_of)
{
    struct tt_cores *cores = (struct tt_cores *)(void *)(domain_of + comm->n);
    const int32_t *host = comm->identity.host;
    bool hosts = host != NULL && strcmp(comm->settings.topology, "auto") == 0;
    int here = 0; /* ranks of this host, who share its cores */
    uint32_t number = 0;
    for (int r = 0; r < comm->n; r++) {
        domain_of[r] = hosts ? host[r] : all[r].domain;
        number = all[r].number > number ? all[r].number : number;
        if (host == NULL || host[r] == host[comm->rank])
            cores[here++] = all[r].cores;
        memcpy(addresses + (size_t)r * comm->transport->address_bytes, all[r].address,
            comm->transport->address_bytes);
    }
    comm->waiting.policy = tt_wait_policy_on(here, tt_cores_together(cores, here));
    tt_comm_number(comm, number);
    tutti_status status = tt_comm_check_devices(comm, &all->device, sizeof *all);
    if (status == TUTTI_OK)
        status = tt_comm_connect(comm, addresses, domain_of);
    return status == TUTTI_OK ? tt_comm_connect_devices(comm, &all->device, sizeof *all) : status;
}

tutti_status tt_comm_handle_create(struct tt_comm *comm, tutti_comm **handle)
{
    void *made;
    tutti_status status = tt_handle_create(TT_HANDLE_COMM, comm, &made);
    if (status == TUTTI_OK)
        *handle = comm->handle = made;
    return status;
}

static void give_up(struct tt_comm *made, tutti_comm *handle)
{
    if (handle != NULL)
        tt_comm_take(handle);
    if (made != NULL)
        tt_comm_destroy(made);
}

/* The last exchange: all ranks are connected. */
static tutti_status meet_again(struct tt_comm *made, tutti_status status, const tutti_config *config,
    const struct endpoint_info *all, int32_t *room, tt_exchange_fn exchange, void *context)
{
    struct tt_probe_room measuring = { .leaders = room, .links = (uint32_t *)room + made->n };
    if (!tt_probe_is_due(made))
        return exchange(context, status, NULL, 0, NULL);
    return tt_probe_network(made, status, &all->host_key, sizeof *all,
        tt_comm_init_timeout(&made->settings, config), exchange, context, &measuring);
}

tutti_status tt_comm_establish(int n, int rank, const struct tt_settings *settings,
    const tutti_config *config, const int32_t *domain, const int32_t *host_of, tt_exchange_fn exchange,
    void *context, void *room, tutti_comm **comm)
{
    struct endpoint_info mine = {
        .domain = domain != NULL ? *domain : -1, .number = tt_comm_next_number(), .cores = tt_cores_mine()
    };
    struct endpoint_info *all = room;
    uint8_t *addresses = (uint8_t *)(all + n);
    struct tt_comm *made = NULL;
    tutti_comm *handle = NULL;
    tutti_status status = tt_comm_open(n, rank, settings, config, host_of, mine.address, &made);
    if (status == TUTTI_OK && domain == NULL)
        status = tt_comm_domain(settings, n, rank, &mine.domain);
    if (status == TUTTI_OK)
        status = tt_comm_tell_device(made, &mine.device);
    if (status == TUTTI_OK && tt_probe_is_due(made)) {
        uint8_t key[TT_HOST_KEY_BYTES];
        tt_host_key(key);
        memcpy(&mine.host_key, key, sizeof mine.host_key);
    }
    status = exchange(context, status, &mine, sizeof mine, all);
    if (status == TUTTI_OK) {
        int32_t *domain_of = (int32_t *)(void *)(addresses + (size_t)n * TT_ADDRESS_MAX);
        status = connect_all(made, all, addresses, domain_of);
        if (status == TUTTI_OK)
            status = tt_comm_handle_create(made, &handle);
        int32_t *behind = (int32_t *)(void *)((struct tt_cores *)(void *)(domain_of + n) + n);
        status = meet_again(made, status, config, all, behind, exchange, context);
    }
    if (status != TUTTI_OK) {
        give_up(made, handle);
        return status;
    }
    tt_led_hand_over(made);
    tt_comm_open_devices(&made, 1);
    tt_log(TT_LOG_INFO, "%s: rank %d of %d is ready", made->identity.name, rank, n);
    *comm = handle;
    return TUTTI_OK;
}
