/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_worker.c: the worker of the process, and its ends.
 *
 * Peer errors are asked for, so that sends to a process that died end; that it died, Tutti knows by its
 * connections (transports/tcp.h). UCX 1.13 sees no host that vanishes, and says nothing of a peer that
 * leaves. */
#include "transports/ucx/ucx_worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct ucx_process tt_ucx;

static bool failed(char *why, size_t bytes, const char *what, ucs_status_t status)
{
    snprintf(why, bytes, "UCX cannot %s: %s", what, ucs_status_string(status));
    return false;
}

static bool make_context(const struct tt_carrier_params *own, char *why, size_t bytes)
{
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return failed(why, bytes, "read its settings", status);
    if (own->transports != NULL)
        ucp_config_modify(config, "TLS", own->transports);
    if (own->devices != NULL)
        ucp_config_modify(config, "NET_DEVICES", own->devices);
    if (own->rendezvous != NULL)
        ucp_config_modify(config, "RNDV_THRESH", own->rendezvous);
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .name = "tutti" };
    status = ucp_init(&params, config, &tt_ucx.context);
    ucp_config_release(config);
    if (status != UCS_OK || getrandom(&tt_ucx.id, sizeof tt_ucx.id, 0) < 0) {
        tt_ucx.context = NULL;
        return failed(why, bytes, "begin", status);
    }
    return true;
}

static bool make_worker(char *why, size_t bytes)
{
    ucp_worker_params_t params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED };
    ucs_status_t status = ucp_worker_create(tt_ucx.context, &params, &tt_ucx.worker);
    if (status != UCS_OK) {
        tt_ucx.worker = NULL;
        return failed(why, bytes, "make a worker", status);
    }
    ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                     UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                     UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
        .id = UCX_AM_MESSAGE,
        .cb = tt_ucx_receive,
        .flags = UCP_AM_FLAG_WHOLE_MSG };
    status = ucp_worker_set_am_recv_handler(tt_ucx.worker, &handler);
    if (status == UCS_OK)
        status = ucp_worker_get_efd(tt_ucx.worker, &tt_ucx.descriptor);
    if (status == UCS_OK)
        return true;
    ucp_worker_destroy(tt_ucx.worker);
    tt_ucx.worker = NULL;
    return failed(why, bytes, "use its worker", status);
}

static struct tt_carrier **list_of(uint64_t token)
{
    return &tt_ucx.carriers[token % UCX_CARRIERS];
}

bool tt_ucx_worker_join(struct tt_carrier *c, char *why, size_t bytes)
{
    pthread_mutex_lock(c->params.lock);
    bool made = (tt_ucx.context != NULL || make_context(&c->params, why, bytes)) &&
                (tt_ucx.worker != NULL || make_worker(why, bytes));
    if (made) {
        struct tt_carrier **list = list_of(c->params.token);
        c->next = *list;
        *list = c;
        tt_ucx.open++;
    }
    pthread_mutex_unlock(c->params.lock);
    return made;
}

struct tt_carrier *tt_ucx_worker_find(uint64_t token)
{
    struct tt_carrier *c = *list_of(token);
    while (c != NULL && c->params.token != token)
        c = c->next;
    return c;
}

void tt_ucx_worker_forget(struct tt_carrier *c)
{
    struct tt_carrier **place = list_of(c->params.token);
    while (*place != NULL && *place != c)
        place = &(*place)->next;
    if (*place == c)
        *place = c->next;
    if (tt_ucx.watcher != c)
        return;
    tt_ucx.watcher = NULL; /* whose thread asks first will be it, so let all of them ask */
    for (int i = 0; i < UCX_CARRIERS; i++)
        for (const struct tt_carrier *other = tt_ucx.carriers[i]; other != NULL; other = other->next)
            other->params.wake(other->params.endpoint);
}

void tt_ucx_worker_leave(struct tt_carrier *c)
{
    if (--tt_ucx.open > 0)
        return;
    for (struct ucx_end *end; (end = tt_ucx.ends) != NULL;) {
        tt_ucx_end_close(end, &c->params);
        tt_ucx.ends = end->next;
        free(end);
    }
    ucp_worker_destroy(tt_ucx.worker);
    tt_ucx.worker = NULL;
    for (struct ucx_work *w; (w = tt_ucx.spare) != NULL;) {
        tt_ucx.spare = w->next;
        free(w);
    }
}

/* --- Ends. An address begins with the id of its process. */

size_t tt_ucx_worker_address(struct tt_carrier_address *address)
{
    ucp_address_t *own;
    size_t id = sizeof tt_ucx.id, bytes;
    if (ucp_worker_get_address(tt_ucx.worker, &own, &bytes) != UCS_OK)
        return SIZE_MAX;
    if (id + bytes <= sizeof address->at) {
        address->bytes = (uint16_t)(id + bytes);
        memcpy(address->at, &tt_ucx.id, id);
        memcpy(address->at + id, own, bytes);
    }
    ucp_worker_release_address(tt_ucx.worker, own);
    return id + bytes;
}

static void end_failed(void *end, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    (void)status;
    ((struct ucx_end *)end)->failed = true;
}

/* Frees the ends that nobody uses to the workers that this process had before. */
static void free_old_ends(const struct tt_carrier_address *address, const struct tt_carrier_params *params)
{
    struct ucx_end **place = &tt_ucx.ends;
    for (struct ucx_end *end; (end = *place) != NULL;) {
        if (end->users > 0 || memcmp(end->address.at, address->at, sizeof tt_ucx.id) != 0) {
            place = &end->next;
            continue;
        }
        tt_ucx_end_close(end, params);
        *place = end->next;
        free(end);
    }
}

/* Makes both lanes, in this order in all processes, since UCX pairs them by it. */
static bool connect_end(struct ucx_end *end)
{
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                             UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                             UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = (const ucp_address_t *)(end->address.at + sizeof tt_ucx.id),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = { end_failed, end } };
    for (int lane = 0; lane < UCX_LANES; lane++)
        if (ucp_ep_create(tt_ucx.worker, &params, &end->lanes[lane]) != UCS_OK) {
            end->lanes[lane] = NULL;
            return false;
        }
    return true;
}

struct ucx_end *tt_ucx_end_to(
    const struct tt_carrier_address *address, const struct tt_carrier_params *params)
{
    struct ucx_end *end = tt_ucx.ends;
    while (end != NULL && (end->failed || end->address.bytes != address->bytes ||
                              memcmp(end->address.at, address->at, address->bytes) != 0))
        end = end->next;
    if (end == NULL) {
        free_old_ends(address, params);
        end = calloc(1, sizeof *end);
        if (end == NULL)
            return NULL;
        end->address = *address;
        if (!connect_end(end)) {
            tt_ucx_end_close(end, params);
            free(end);
            return NULL;
        }
        end->next = tt_ucx.ends;
        tt_ucx.ends = end;
    }
    end->users++;
    return end;
}

static void close_lane(ucp_ep_h lane, const struct tt_carrier_params *params)
{
    ucp_request_param_t force = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE };
    int64_t until_ms = params->now_ms() + UCX_PATIENCE_MS;
    ucs_status_ptr_t request = ucp_ep_close_nbx(lane, &force);
    if (request == NULL || UCS_PTR_IS_ERR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && params->now_ms() < until_ms)
        ucp_worker_progress(tt_ucx.worker);
    ucp_request_free(request);
}

void tt_ucx_end_close(struct ucx_end *end, const struct tt_carrier_params *params)
{
    end->failed = true;
    for (int i = 0; i < UCX_LANES; i++) {
        ucp_ep_h lane = end->lanes[i];
        end->lanes[i] = NULL;
        if (lane != NULL)
            close_lane(lane, params);
    }
}

/* --- Work */

struct ucx_work *tt_ucx_work_new(struct tt_carrier *c, enum ucx_work_kind kind)
{
    struct ucx_work *w = tt_ucx.spare;
    if (w != NULL)
        tt_ucx.spare = w->next;
    else
        w = malloc(sizeof *w + sizeof w->head + UCX_FEW_BYTES);
    if (w != NULL)
        *w = (struct ucx_work){ .carrier = c, .kind = kind };
    return w;
}

void tt_ucx_work_free(struct ucx_work *w)
{
    w->next = tt_ucx.spare;
    tt_ucx.spare = w;
}
