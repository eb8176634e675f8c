/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_carrier.c: messages by UCX's active messages: the plugin libtutti_ucx.so.
 *
 *     sender                                 receiver
 *     ucp_am_send_nbx(head, bytes)  -------> handler: place(head) says where the bytes go
 *                                            eager:      they are here, and are copied there
 *                                            rendezvous: UCX fetches them there
 *                                            arrived(head)
 *
 * Active messages, because a message is matched by its number, in the head, and every message has a slot:
 * none is unexpected. UCX decides which are eager. The head stays until the send is done, since UCX before
 * 1.14 does not copy it.
 *
 * A process has one context, and an endpoint of Tutti one worker: what is used by one thread at a time needs
 * no lock. Peer errors are asked for, so that sends to a peer that died end; that it died, Tutti knows by its
 * connections (transports/tcp.h). UCX 1.13 sees no host that vanishes, and says nothing of a peer that
 * leaves. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "transports/carrier.h"

enum { AM_MESSAGE = 1 };

struct tt_carrier {
    ucp_worker_h worker;
    struct tt_carrier_params params;
    int descriptor;
    ucp_ep_h *ends; /* [n]; NULL: not connected */
    bool *failed; /* [n] */
    int fetches; /* rendezvous under way */
    int sends; /* under way */
    bool closing; /* nothing is told any more */
};

struct fetch { /* of a rendezvous */
    struct tt_carrier *carrier;
    struct tt_carrier_head head;
    uint64_t bytes;
    void *place;
};

struct sending {
    struct tt_carrier *carrier;
    void *send;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ucp_context_h context; /* behind the lock; never freed: UCX's threads may still be at it when we end */

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
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .name = "tutti" };
    status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    if (status != UCS_OK)
        context = NULL;
    return status == UCS_OK || failed(why, bytes, "begin", status);
}

static void fetched(void *request, ucs_status_t status, size_t length, void *user)
{
    struct fetch *f = user;
    struct tt_carrier *c = f->carrier;
    (void)length;
    c->fetches--;
    if (status == UCS_OK && !c->closing)
        c->params.arrived(c->params.endpoint, &f->head, f->bytes, f->place);
    free(f);
    if (request != NULL)
        ucp_request_free(request);
}

/* Asks UCX to fetch the bytes of a rendezvous. */
static ucs_status_t fetch(
    struct tt_carrier *c, const struct tt_carrier_head *head, void *description, uint64_t bytes, void *place)
{
    struct fetch *f = malloc(sizeof *f);
    if (f == NULL)
        return UCS_ERR_NO_MEMORY;
    *f = (struct fetch){ .carrier = c, .head = *head, .bytes = bytes, .place = place };
    ucp_request_param_t params = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                   UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am = fetched,
        .user_data = f,
        .memory_type = UCS_MEMORY_TYPE_HOST };
    c->fetches++;
    ucs_status_ptr_t request = ucp_am_recv_data_nbx(c->worker, description, place, bytes, &params);
    if (UCS_PTR_IS_ERR(request)) {
        c->fetches--;
        free(f);
        return UCS_PTR_STATUS(request);
    }
    if (request == NULL)
        fetched(NULL, UCS_OK, bytes, f);
    return UCS_INPROGRESS;
}

static ucs_status_t receive(void *carrier, const void *header, size_t header_bytes, void *data, size_t bytes,
    const ucp_am_recv_param_t *params)
{
    struct tt_carrier *c = carrier;
    struct tt_carrier_head head;
    if (header_bytes != sizeof head || c->closing)
        return UCS_OK;
    memcpy(&head, header, sizeof head);
    bool rendezvous = (params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    void *place = c->params.place(c->params.endpoint, &head, bytes);
    if (place == NULL)
        return UCS_OK;
    if (rendezvous)
        return fetch(c, &head, data, bytes, place);
    memcpy(place, data, bytes);
    c->params.arrived(c->params.endpoint, &head, bytes, place);
    return UCS_OK;
}

static bool make_worker(struct tt_carrier *c, char *why, size_t bytes)
{
    ucp_worker_params_t params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED };
    ucs_status_t status = ucp_worker_create(context, &params, &c->worker);
    if (status != UCS_OK)
        return failed(why, bytes, "make a worker", status);
    ucp_am_handler_param_t handler = { .field_mask =
                                           UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                           UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
        .id = AM_MESSAGE,
        .cb = receive,
        .arg = c,
        .flags = UCP_AM_FLAG_WHOLE_MSG };
    status = ucp_worker_set_am_recv_handler(c->worker, &handler);
    if (status == UCS_OK)
        status = ucp_worker_get_efd(c->worker, &c->descriptor);
    if (status == UCS_OK)
        return true;
    ucp_worker_destroy(c->worker);
    return failed(why, bytes, "use its worker", status);
}

static struct tt_carrier *open_carrier(const struct tt_carrier_params *params, char *why, size_t bytes)
{
    struct tt_carrier *c = calloc(1, sizeof *c);
    snprintf(why, bytes, "there is no memory for it");
    if (c != NULL) {
        c->ends = calloc((size_t)params->n, sizeof *c->ends);
        c->failed = calloc((size_t)params->n, sizeof *c->failed);
        c->params = *params;
    }
    bool made = c != NULL && c->ends != NULL && c->failed != NULL;
    pthread_mutex_lock(&lock);
    if (made && context == NULL)
        made = make_context(params, why, bytes);
    pthread_mutex_unlock(&lock);
    if (made && make_worker(c, why, bytes))
        return c;
    if (c != NULL) {
        free(c->ends);
        free(c->failed);
    }
    free(c);
    return NULL;
}

static size_t get_address(struct tt_carrier *c, void *address, size_t room)
{
    ucp_address_t *own;
    size_t bytes;
    if (ucp_worker_get_address(c->worker, &own, &bytes) != UCS_OK)
        return SIZE_MAX;
    if (bytes <= room)
        memcpy(address, own, bytes);
    ucp_worker_release_address(c->worker, own);
    return bytes;
}

/* --- Sending */

/* An end that failed is dropped later: not from within UCX. */
static void end_failed(void *flag, ucp_ep_h end, ucs_status_t status)
{
    (void)end;
    (void)status;
    *(bool *)flag = true;
}

static bool connect_to(struct tt_carrier *c, int peer, const void *address)
{
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                             UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                             UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = { end_failed, &c->failed[peer] } };
    return ucp_ep_create(c->worker, &params, &c->ends[peer]) == UCS_OK;
}

static void finish(struct sending *s)
{
    struct tt_carrier *c = s->carrier;
    c->sends--;
    if (!c->closing)
        c->params.sent(c->params.endpoint, s->send);
    free(s);
}

static void send_ended(void *request, ucs_status_t status, void *user)
{
    (void)status;
    finish(user);
    ucp_request_free(request);
}

static int send_message(struct tt_carrier *c, int peer, const void *address,
    const struct tt_carrier_head *head, const void *payload, uint64_t bytes, void *send)
{
    if (c->failed[peer] || (c->ends[peer] == NULL && !connect_to(c, peer, address)))
        return -1;
    struct sending *s = malloc(sizeof *s);
    if (s == NULL)
        return -1;
    *s = (struct sending){ c, send };
    ucp_request_param_t params = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                   UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = send_ended,
        .user_data = s,
        .memory_type = UCS_MEMORY_TYPE_HOST };
    c->sends++;
    ucs_status_ptr_t request =
        ucp_am_send_nbx(c->ends[peer], AM_MESSAGE, head, sizeof *head, payload, bytes, &params);
    if (request != NULL && !UCS_PTR_IS_ERR(request))
        return 0;
    c->sends--;
    free(s);
    return request == NULL ? 1 : -1;
}

static bool progress(struct tt_carrier *c)
{
    return ucp_worker_progress(c->worker) != 0;
}

static int get_descriptor(struct tt_carrier *c)
{
    return c->descriptor;
}

static bool arm(struct tt_carrier *c)
{
    return ucp_worker_arm(c->worker) == UCS_OK;
}

/* --- The end */

static void wait_for(struct tt_carrier *c, ucs_status_ptr_t request, int64_t until_ms)
{
    if (request == NULL || UCS_PTR_IS_ERR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && c->params.now_ms() < until_ms)
        ucp_worker_progress(c->worker);
    ucp_request_free(request);
}

static void drop_one(struct tt_carrier *c, int peer)
{
    ucp_request_param_t params = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_EP_CLOSE_FLAG_FORCE };
    ucp_ep_h end = c->ends[peer];
    c->failed[peer] = true;
    c->ends[peer] = NULL;
    if (end != NULL)
        wait_for(c, ucp_ep_close_nbx(end, &params), c->params.now_ms() + 1000);
}

static void drop(struct tt_carrier *c, int peer)
{
    int64_t until_ms = c->params.now_ms() + 1000;
    if (peer >= 0) {
        drop_one(c, peer);
        return;
    }
    for (int i = 0; i < c->params.n; i++)
        drop_one(c, i);
    while ((c->sends > 0 || c->fetches > 0) && c->params.now_ms() < until_ms)
        ucp_worker_progress(c->worker);
}

static void close_carrier(struct tt_carrier *c, int patience_ms)
{
    ucp_request_param_t params = { 0 };
    int64_t until_ms = c->params.now_ms() + patience_ms;
    c->closing = true;
    wait_for(c, ucp_worker_flush_nbx(c->worker, &params), until_ms);
    drop(c, -1);
    ucp_worker_destroy(c->worker);
    free(c->ends);
    free(c->failed);
    free(c);
}

static const struct tt_carrier_table table = {
    .version = TT_CARRIER_VERSION,
    .name = "ucx",
    .open = open_carrier,
    .address = get_address,
    .send = send_message,
    .progress = progress,
    .descriptor = get_descriptor,
    .arm = arm,
    .drop = drop,
    .close = close_carrier,
};

__attribute__((visibility("default"))) const struct tt_carrier_table *tutti_carrier_table(uint32_t version);
const struct tt_carrier_table *tutti_carrier_table(uint32_t version)
{
    return version == TT_CARRIER_VERSION ? &table : NULL;
}
