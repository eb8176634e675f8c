/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_carrier.c: messages by UCX's active messages: the plugin libtutti_ucx.so.
 *
 *     sender                                 receiver
 *     ucp_am_send_nbx(head, bytes)  -------> handler: place(head) says where the bytes go
 *                                            eager:      they are here: they are copied there, or, where UCX
 *                                                        has all of a long one in one piece, stay until they
 *                                                        are folded
 *                                            rendezvous: UCX fetches them there
 *                                            arrived(head)
 *
 * Active messages, because a message is matched by its number, in the head, and every message has a slot:
 * none is unexpected. UCX decides which are eager, where it is not told (`rendezvous`); few bytes always are,
 * and go as one part with their head. The head of more stays until the send is done, since UCX before 1.14
 * does not copy it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transports/ucx/ucx_worker.h"

enum { ALIGNED = 16 }; /* what a fold may expect of the bytes of any element */

/* --- Turns: the lock, and what has waited for it */

static ucs_status_t take(struct tt_carrier *c, const struct tt_carrier_head *head, void *data, uint64_t bytes,
    bool rendezvous, bool lasts);

static void finish(struct ucx_work *w)
{
    struct tt_carrier *c = w->carrier;
    if (w->kind == UCX_SEND)
        c->sends--;
    else
        c->fetches--;
    if (!c->closing && w->kind == UCX_SEND)
        c->params.sent(c->params.endpoint, w->send);
    else if (!c->closing && !w->failed)
        c->params.arrived(c->params.endpoint, &w->head, w->bytes, w->place, false);
    tt_ucx_work_free(w);
}

static void take_late(struct tt_carrier *c, struct ucx_work *w)
{
    bool lasts = w->data != w->copy;
    ucs_status_t status = c->closing ? UCS_OK : take(c, &w->head, w->data, w->bytes, w->rendezvous, lasts);
    if (lasts && status == UCS_OK)
        ucp_am_data_release(tt_ucx.worker, w->data);
    free(w);
}

static bool do_what_waits(struct tt_carrier *c)
{
    bool any = c->first != NULL;
    for (struct ucx_work *w; (w = c->first) != NULL;) {
        c->first = w->next;
        if (c->first == NULL)
            c->last = &c->first;
        if (w->kind == UCX_MESSAGE)
            take_late(c, w);
        else
            finish(w);
    }
    atomic_store_explicit(&c->waiting, false, memory_order_relaxed);
    return any;
}

/* A mutex is not fair: who polls would have it again before one that waits for it has run. */
static void take_lock(struct tt_carrier *c)
{
    atomic_fetch_add_explicit(&tt_ucx.waiting, 1, memory_order_relaxed);
    pthread_mutex_lock(c->params.lock);
    atomic_fetch_sub_explicit(&tt_ucx.waiting, 1, memory_order_relaxed);
}

static bool begin_turn(struct tt_carrier *c)
{
    take_lock(c);
    tt_ucx.driver = c;
    return do_what_waits(c);
}

static void end_turn(struct tt_carrier *c)
{
    tt_ucx.driver = NULL;
    pthread_mutex_unlock(c->params.lock);
}

/* From within UCX: another carrier drives. */
static void put_off(struct ucx_work *w)
{
    struct tt_carrier *c = w->carrier;
    w->next = NULL;
    *c->last = w;
    c->last = &w->next;
    atomic_store_explicit(&c->waiting, true, memory_order_relaxed);
    c->params.wake(c->params.endpoint);
}

static void end_work(struct ucx_work *w)
{
    if (w->carrier == tt_ucx.driver || w->carrier->closing)
        finish(w);
    else
        put_off(w);
}

static bool progress(struct tt_carrier *c)
{
    bool waits = atomic_load_explicit(&c->waiting, memory_order_relaxed);
    bool wanted = atomic_load_explicit(&tt_ucx.waiting, memory_order_relaxed) > 0;
    if (!waits && (wanted || pthread_mutex_trylock(c->params.lock) != 0))
        return false; /* who has the lock does it */
    if (waits)
        take_lock(c);
    tt_ucx.driver = c;
    bool any = do_what_waits(c);
    any = ucp_worker_progress(tt_ucx.worker) != 0 || any;
    end_turn(c);
    return any;
}

/* --- Receiving */

static void fetched(void *request, ucs_status_t status, size_t length, void *user)
{
    struct ucx_work *w = user;
    (void)length;
    w->failed = status != UCS_OK;
    end_work(w);
    ucp_request_free(request);
}

/* Asks UCX to fetch the bytes of a rendezvous. */
static ucs_status_t fetch(
    struct tt_carrier *c, const struct tt_carrier_head *head, void *description, uint64_t bytes, void *place)
{
    struct ucx_work *w = tt_ucx_work_new(c, UCX_FETCH);
    if (w == NULL)
        return UCS_ERR_NO_MEMORY;
    w->head = *head;
    w->bytes = bytes;
    w->place = place;
    ucp_request_param_t params = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                   UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am = fetched,
        .user_data = w,
        .memory_type = UCS_MEMORY_TYPE_HOST };
    c->fetches++;
    ucs_status_ptr_t request = ucp_am_recv_data_nbx(tt_ucx.worker, description, place, bytes, &params);
    if (UCS_PTR_IS_ERR(request)) {
        c->fetches--;
        tt_ucx_work_free(w);
        return UCS_PTR_STATUS(request);
    }
    if (request == NULL)
        finish(w);
    return UCS_INPROGRESS;
}

/* Takes a message. `lasts`: its data stay if this returns UCS_INPROGRESS. */
static ucs_status_t take(struct tt_carrier *c, const struct tt_carrier_head *head, void *data, uint64_t bytes,
    bool rendezvous, bool lasts)
{
    bool keeps = false;
    void *place = c->params.place(c->params.endpoint, head, bytes, &keeps);
    if (place == NULL)
        return UCS_OK;
    if (rendezvous)
        return fetch(c, head, data, bytes, place);
    if (keeps && lasts && (uintptr_t)data % ALIGNED == 0) {
        c->params.arrived(c->params.endpoint, head, bytes, data, true);
        return UCS_INPROGRESS;
    }
    memcpy(place, data, bytes);
    c->params.arrived(c->params.endpoint, head, bytes, place, false);
    return UCS_OK;
}

/* Keeps a message until its carrier has its turn. */
static ucs_status_t take_later(struct tt_carrier *c, const struct tt_carrier_head *head, void *data,
    uint64_t bytes, bool rendezvous, bool lasts)
{
    struct ucx_work *w = malloc(sizeof *w + (lasts ? 0 : bytes));
    if (w == NULL)
        return UCS_ERR_NO_MEMORY;
    *w = (struct ucx_work){ .carrier = c,
        .kind = UCX_MESSAGE,
        .rendezvous = rendezvous,
        .head = *head,
        .bytes = bytes,
        .data = lasts ? data : w->copy };
    if (!lasts)
        memcpy(w->copy, data, bytes);
    put_off(w);
    return lasts ? UCS_INPROGRESS : UCS_OK;
}

ucs_status_t tt_ucx_receive(void *unused, const void *header, size_t header_bytes, void *data, size_t bytes,
    const ucp_am_recv_param_t *params)
{
    struct tt_carrier_head head;
    bool rendezvous = (params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    bool lasts = rendezvous || (params->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
    (void)unused;
    if (header_bytes == 0 && bytes >= sizeof head && !rendezvous) {
        header = data;
        header_bytes = sizeof head;
        data = (uint8_t *)data + sizeof head;
        bytes -= sizeof head;
        lasts = false;
    }
    if (header_bytes != sizeof head)
        return UCS_OK;
    memcpy(&head, header, sizeof head);
    struct tt_carrier *c = tt_ucx_worker_find(head.token);
    if (c == NULL)
        return UCS_OK;
    return c == tt_ucx.driver ? take(c, &head, data, bytes, rendezvous, lasts)
                              : take_later(c, &head, data, bytes, rendezvous, lasts);
}

static void release(struct tt_carrier *c, void *payload)
{
    take_lock(c);
    ucp_am_data_release(tt_ucx.worker, payload);
    pthread_mutex_unlock(c->params.lock);
}

/* --- Sending */

static void send_ended(void *request, ucs_status_t status, void *user)
{
    (void)status;
    end_work(user);
    ucp_request_free(request);
}

/* Sends few bytes out of `w`, where they stay until they are sent. */
static ucs_status_ptr_t send_few(struct ucx_work *w, ucp_ep_h lane, const struct tt_carrier_head *head,
    const void *payload, uint64_t bytes, ucp_request_param_t *params)
{
    memcpy(w->copy, head, sizeof *head);
    if (bytes > 0)
        memcpy(w->copy + sizeof *head, payload, bytes);
    params->op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    params->flags = UCP_AM_SEND_FLAG_EAGER;
    return ucp_am_send_nbx(lane, UCX_AM_MESSAGE, NULL, 0, w->copy, sizeof *head + bytes, params);
}

static int send_now(struct tt_carrier *c, struct ucx_end *end, const struct tt_carrier_head *head,
    const void *payload, uint64_t bytes, void *send)
{
    struct ucx_work *w = tt_ucx_work_new(c, UCX_SEND);
    if (w == NULL)
        return -1;
    w->send = send;
    ucp_request_param_t params = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                   UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = send_ended,
        .user_data = w,
        .memory_type = UCS_MEMORY_TYPE_HOST };
    c->sends++;
    ucp_ep_h lane = end->lanes[bytes <= UCX_SHORT_BYTES ? UCX_SHORT : UCX_LONG];
    ucs_status_ptr_t request = bytes <= UCX_FEW_BYTES ? send_few(w, lane, head, payload, bytes, &params)
                                                      : ucp_am_send_nbx(lane, UCX_AM_MESSAGE, head,
                                                            sizeof *head, payload, bytes, &params);
    if (request != NULL && !UCS_PTR_IS_ERR(request))
        return 0;
    c->sends--;
    tt_ucx_work_free(w);
    return request == NULL ? 1 : -1;
}

static int send_message(struct tt_carrier *c, int peer, const struct tt_carrier_address *address,
    const struct tt_carrier_head *head, const void *payload, uint64_t bytes, void *send)
{
    int result = -1;
    begin_turn(c);
    if (c->ends[peer] == NULL && !c->dropped[peer])
        c->ends[peer] = tt_ucx_end_to(address, &c->params);
    if (c->ends[peer] != NULL && !c->ends[peer]->failed)
        result = send_now(c, c->ends[peer], head, payload, bytes, send);
    end_turn(c);
    return result;
}

/* --- Beginning, sleep, and the end */

static struct tt_carrier *open_carrier(const struct tt_carrier_params *params, char *why, size_t bytes)
{
    struct tt_carrier *c = calloc(1, sizeof *c);
    snprintf(why, bytes, "there is no memory for it");
    if (c != NULL) {
        c->ends = calloc((size_t)params->n, sizeof *c->ends);
        c->dropped = calloc((size_t)params->n, sizeof *c->dropped);
        c->params = *params;
        c->last = &c->first;
    }
    if (c != NULL && c->ends != NULL && c->dropped != NULL && tt_ucx_worker_join(c, why, bytes))
        return c;
    if (c != NULL) {
        free(c->ends);
        free(c->dropped);
    }
    free(c);
    return NULL;
}

static size_t get_address(struct tt_carrier *c, struct tt_carrier_address *address)
{
    take_lock(c);
    size_t bytes = tt_ucx_worker_address(address);
    pthread_mutex_unlock(c->params.lock);
    return bytes;
}

static int sleep_on(struct tt_carrier *c, bool drove, bool *busy)
{
    take_lock(c);
    if (drove || tt_ucx.watcher == NULL)
        tt_ucx.watcher = c;
    bool watches = tt_ucx.watcher == c;
    *busy = c->first != NULL || (watches && ucp_worker_arm(tt_ucx.worker) != UCS_OK);
    pthread_mutex_unlock(c->params.lock);
    return watches ? tt_ucx.descriptor : -1;
}

static void drop_one(struct tt_carrier *c, int peer, bool silent)
{
    struct ucx_end *end = c->ends[peer];
    c->dropped[peer] = true;
    c->ends[peer] = NULL;
    if (end == NULL)
        return;
    if (silent || end->failed)
        tt_ucx_end_close(end, &c->params);
    end->users--;
}

/* True if nothing is under way. What was sent to an end that failed comes back when that is closed. */
static bool is_settled(struct tt_carrier *c)
{
    begin_turn(c);
    for (int i = 0; i < c->params.n; i++)
        if (c->ends[i] != NULL && c->ends[i]->failed)
            tt_ucx_end_close(c->ends[i], &c->params);
    bool settled = c->sends == 0 && c->fetches == 0;
    end_turn(c);
    return settled;
}

static bool settle(struct tt_carrier *c)
{
    int64_t until_ms = c->params.now_ms() + UCX_PATIENCE_MS;
    bool settled;
    while (!(settled = is_settled(c)) && c->params.now_ms() < until_ms)
        progress(c);
    return settled;
}

/* Peers that live take what was sent, or drop it. Where one does neither, its end is closed, by which other
 * communicators lose its process, too. */
static void drop(struct tt_carrier *c, int peer, bool silent)
{
    bool all = peer < 0, stuck = all && !settle(c);
    begin_turn(c);
    for (int i = all ? 0 : peer; i < (all ? c->params.n : peer + 1); i++)
        drop_one(c, i, silent || stuck);
    end_turn(c);
    if (stuck)
        settle(c);
}

static void flush_lane(struct tt_carrier *c, const struct ucx_end *end, int lane, int64_t until_ms)
{
    ucp_request_param_t params = { 0 };
    begin_turn(c);
    ucs_status_ptr_t request = end->failed ? NULL : ucp_ep_flush_nbx(end->lanes[lane], &params);
    bool waits = request != NULL && !UCS_PTR_IS_ERR(request);
    while (waits && ucp_request_check_status(request) == UCS_INPROGRESS && c->params.now_ms() < until_ms) {
        end_turn(c);
        progress(c);
        begin_turn(c);
    }
    if (waits)
        ucp_request_free(request);
    end_turn(c);
}

/* Waits until peers have what was sent. */
static void flush(struct tt_carrier *c, int64_t until_ms)
{
    for (int i = 0; i < c->params.n; i++)
        for (int lane = 0; lane < UCX_LANES && c->ends[i] != NULL; lane++)
            flush_lane(c, c->ends[i], lane, until_ms);
}

/* What UCX does not give back in time would come back to this carrier, so that its memory stays. */
static void close_carrier(struct tt_carrier *c, int patience_ms)
{
    take_lock(c);
    c->closing = true;
    tt_ucx_worker_forget(c);
    pthread_mutex_unlock(c->params.lock);
    flush(c, c->params.now_ms() + patience_ms);
    drop(c, -1, false);
    begin_turn(c);
    tt_ucx_worker_leave(c);
    bool back = tt_ucx.worker == NULL || (c->sends == 0 && c->fetches == 0);
    end_turn(c);
    if (!back)
        return;
    free(c->ends);
    free(c->dropped);
    free(c);
}

static const struct tt_carrier_table table = {
    .version = TT_CARRIER_VERSION,
    .name = "ucx",
    .open = open_carrier,
    .address = get_address,
    .send = send_message,
    .progress = progress,
    .sleep_on = sleep_on,
    .release = release,
    .drop = drop,
    .close = close_carrier,
};

__attribute__((visibility("default"))) const struct tt_carrier_table *tutti_carrier_table(uint32_t version);
const struct tt_carrier_table *tutti_carrier_table(uint32_t version)
{
    return version == TT_CARRIER_VERSION ? &table : NULL;
}
