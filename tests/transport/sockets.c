/* SPDX-License-Identifier: BSD-3-Clause */
/* sockets.c: endpoints of the sockets transport: how they meet and part, and what their links and their
 * control table do. None of that waits for a socket, which is the thread's business (sockets_wire.c), but
 * for connect; close, which lets peers take what was sent before; and abort, which waits for the rank that
 * decides which cause is the first. */
#include "sockets_wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/schedule.h"
#include "base/status.h"

enum { CONNECT_MS = 60000, GREETING_MS = 5000, CLOSE_MS = 2000, ABORT_MS = 5000 };

static struct sockets_endpoint *of(struct tt_endpoint *head)
{
    return (struct sockets_endpoint *)head;
}

/* --- Endpoints */

static void free_endpoint(struct sockets_endpoint *e)
{
    for (int r = 0; e->peers != NULL && r < e->head.n; r++)
        if (e->peers[r].fd >= 0)
            close(e->peers[r].fd);
    if (e->listener >= 0)
        close(e->listener);
    if (e->wake >= 0)
        close(e->wake);
    if (e->memory != NULL)
        munmap(e->memory, e->memory_bytes);
    pthread_mutex_destroy(&e->aborting);
    free(e->peers);
    free(e->ends);
    free(e->head.links);
    free(e->refusals);
    free(e->staging);
    free(e->refused);
    free(e);
}

static void set_head(struct sockets_endpoint *e);

static size_t staging_bytes(const struct sockets_endpoint *e)
{
    size_t refusals = 8 * e->refusal_words, cause = sizeof(struct tt_cause);
    return refusals > cause ? refusals : cause;
}

/* Allocates all that an endpoint has. The system gives the memory of slots when it is touched. */
static bool allocate(struct sockets_endpoint *e)
{
    size_t n = (size_t)e->head.n;
    e->refused_numbers = 1 + 2 * n;
    e->refusal_words = e->refused_numbers + TEXT_WORDS;
    e->memory_bytes = 2 * TT_CLASSES * TT_SLOTS * n * e->head.slot_bytes;
    e->ends = calloc(TT_CLASSES * n, sizeof *e->ends);
    e->head.links = calloc(TT_CLASSES * n, sizeof *e->head.links);
    e->refusals = calloc(n * (1 + e->refusal_words), sizeof *e->refusals);
    e->refused = calloc(e->refusal_words, sizeof *e->refused);
    e->staging = calloc(2 * n, staging_bytes(e));
    void *memory = mmap(
        NULL, e->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    e->memory = memory == MAP_FAILED ? NULL : memory;
    return e->ends != NULL && e->head.links != NULL && e->refusals != NULL && e->refused != NULL &&
           e->staging != NULL && e->memory != NULL;
}

static struct sockets_endpoint *new_endpoint(const struct tt_endpoint_params *params)
{
    size_t n = (size_t)params->n, bytes = (sizeof(struct sockets_endpoint) + 63) / 64 * 64;
    struct sockets_endpoint *e = aligned_alloc(64, bytes);
    if (e == NULL)
        return NULL;
    memset(e, 0, sizeof *e);
    e->params = *params;
    e->listener = e->wake = -1;
    e->first_claimer = TT_NONE;
    pthread_mutex_init(&e->aborting, NULL);
    set_head(e);
    e->peers = calloc(n, sizeof *e->peers);
    for (size_t r = 0; e->peers != NULL && r < n; r++)
        e->peers[r].fd = -1;
    if (e->peers == NULL || !allocate(e)) {
        free_endpoint(e);
        return NULL;
    }
    for (size_t r = 0; r < n; r++) {
        struct peer *p = &e->peers[r];
        p->control.refusals = e->refusals + r * (1 + e->refusal_words);
        p->in.staging = e->staging + 2 * r * staging_bytes(e);
        p->out.staging = p->in.staging + staging_bytes(e);
        p->call = p->completed = params->first_number;
        atomic_store(&p->control.completed, params->first_number);
    }
    return e;
}

static tutti_status listen_for_peers(struct sockets_endpoint *e, struct sockets_address *mine)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof at;
    e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    e->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (e->wake < 0 || e->listener < 0 || bind(e->listener, (const struct sockaddr *)&at, sizeof at) != 0 ||
        listen(e->listener, SOMAXCONN) != 0 ||
        getsockname(e->listener, (struct sockaddr *)&at, &length) != 0 ||
        getrandom(e->token, sizeof e->token, 0) != sizeof e->token)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "sockets: rank %d cannot listen", e->head.me);
    *mine = (struct sockets_address){ .magic = SOCKETS_MAGIC,
        .rank = e->head.me,
        .pid = getpid(),
        .ip = at.sin_addr.s_addr,
        .port = at.sin_port };
    memcpy(mine->token, e->token, sizeof mine->token);
    return TUTTI_OK;
}

static tutti_status open_endpoint(
    const struct tt_endpoint_params *params, uint8_t *address, struct tt_endpoint **endpoint)
{
    struct sockets_address mine;
    if (params->n < 1 || params->me < 0 || params->me >= params->n || params->slot_bytes == 0 ||
        params->slot_bytes > UINT32_MAX)
        return tt_fail(TUTTI_INTERNAL_ERROR, "sockets: rank %d of %d with slots of %llu bytes", params->me,
            params->n, (unsigned long long)params->slot_bytes);
    struct sockets_endpoint *e = new_endpoint(params);
    if (e == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "sockets: no memory for an endpoint of %d ranks", params->n);
    tutti_status status = listen_for_peers(e, &mine);
    if (status != TUTTI_OK) {
        free_endpoint(e);
        return status;
    }
    memset(address, 0, TT_ADDRESS_BYTES);
    memcpy(address, &mine, sizeof mine);
    *endpoint = &e->head;
    return TUTTI_OK;
}

static bool await_readable(int fd, int64_t deadline_ns)
{
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    int64_t left_ms = (deadline_ns - tt_now_ns()) / 1000000;
    return left_ms > 0 && poll(&polled, 1, (int)left_ms) == 1;
}

static bool say_greeting(const struct sockets_endpoint *e, int fd, const struct sockets_address *to)
{
    struct sockets_greeting mine = { .magic = SOCKETS_MAGIC, .from = e->head.me, .to = to->rank };
    memcpy(mine.token, to->token, sizeof mine.token);
    return send(fd, &mine, sizeof mine, MSG_NOSIGNAL) == sizeof mine;
}

/* Returns the rank at the other end; TT_NONE: it is none, or does not say so in time. */
static int hear_greeting(const struct sockets_endpoint *e, int fd, int64_t deadline_ns)
{
    struct sockets_greeting theirs;
    uint8_t *to = (uint8_t *)&theirs;
    for (size_t at = 0; at < sizeof theirs;) {
        ssize_t got = await_readable(fd, deadline_ns) ? recv(fd, to + at, sizeof theirs - at, 0) : -1;
        if (got <= 0)
            return TT_NONE;
        at += (size_t)got;
    }
    bool right = theirs.magic == SOCKETS_MAGIC && theirs.to == e->head.me && theirs.from >= 0 &&
                 theirs.from < e->head.n && memcmp(theirs.token, e->token, sizeof e->token) == 0;
    return right ? theirs.from : TT_NONE;
}

static bool dial(struct sockets_endpoint *e, const struct sockets_address *to)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = to->port, .sin_addr.s_addr = to->ip };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    e->peers[to->rank].fd = fd;
    return fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) == 0 && say_greeting(e, fd, to);
}

/* Accepts one higher rank; a stranger is turned away. False if nobody comes in time. */
static bool accept_one(
    struct sockets_endpoint *e, const struct sockets_address *all, int64_t deadline_ns, int *accepted)
{
    if (!await_readable(e->listener, deadline_ns))
        return false;
    int fd = accept4(e->listener, NULL, NULL, SOCK_CLOEXEC);
    int64_t patience_ns = tt_deadline_ns(GREETING_MS);
    int rank = fd < 0 ? TT_NONE : hear_greeting(e, fd, patience_ns < deadline_ns ? patience_ns : deadline_ns);
    bool higher = rank != TT_NONE && rank > e->head.me;
    bool right = higher && e->peers[rank].fd < 0 && say_greeting(e, fd, &all[rank]);
    if (right)
        e->peers[rank].fd = fd;
    else if (fd >= 0)
        close(fd);
    *accepted += right;
    return true;
}

/* Each rank connects to the lower ones, which the system accepts for them, then accepts the higher ones, and
 * last hears what the lower ones answer: so none waits for one that waits for it. */
static tutti_status meet(struct sockets_endpoint *e, const struct sockets_address *all)
{
    int64_t deadline_ns = tt_deadline_ns(CONNECT_MS);
    int me = e->head.me, accepted = 0;
    for (int r = 0; r < me; r++)
        if (!dial(e, &all[r]))
            return tt_fail_errno(TUTTI_SYSTEM_ERROR, "sockets: rank %d cannot connect to rank %d", me, r);
    while (accepted < e->head.n - 1 - me)
        if (!accept_one(e, all, deadline_ns, &accepted))
            return tt_fail(TUTTI_TIMEOUT, "sockets: %d ranks have not connected to rank %d in %d ms",
                e->head.n - 1 - me - accepted, me, CONNECT_MS);
    for (int r = 0; r < me; r++)
        if (hear_greeting(e, e->peers[r].fd, deadline_ns) != r)
            return tt_fail(
                TUTTI_SYSTEM_ERROR, "sockets: rank %d does not answer rank %d as it should", r, me);
    return TUTTI_OK;
}

static const struct tt_link_ops link_ops;

static void make_links(struct sockets_endpoint *e)
{
    uint8_t *payload = e->memory;
    for (int i = 0; i < TT_CLASSES * e->head.n; i++) {
        struct sockets_link *link = &e->ends[i];
        link->head = (struct tt_link){ &link_ops, &e->head, i % e->head.n };
        for (int s = 0; s < TT_SLOTS; s++, payload += 2 * e->head.slot_bytes) {
            link->out[s].payload = payload;
            link->in[s].payload = payload + e->head.slot_bytes;
        }
        e->head.links[i] = &link->head;
    }
}

static tutti_status connect_endpoint(struct tt_endpoint *head, const uint8_t *addresses)
{
    struct sockets_endpoint *e = of(head);
    struct sockets_address *all = malloc((size_t)head->n * sizeof *all);
    tutti_status status = TUTTI_OK;
    if (all == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "sockets: no memory for %d addresses", head->n);
    for (int r = 0; r < head->n && status == TUTTI_OK; r++) {
        memcpy(&all[r], addresses + (size_t)r * TT_ADDRESS_BYTES, sizeof all[r]);
        if (all[r].magic != SOCKETS_MAGIC || all[r].rank != r)
            status = tt_fail(TUTTI_INVALID_USAGE, "sockets: address %d is not that of rank %d", r, r);
        e->peers[r].process = all[r].pid;
    }
    if (status == TUTTI_OK)
        status = meet(e, all);
    free(all);
    for (int r = 0; r < head->n && status == TUTTI_OK; r++)
        if (r != head->me)
            setsockopt(e->peers[r].fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    make_links(e);
    if (status == TUTTI_OK)
        status = wire_start(e);
    e->connected = status == TUTTI_OK;
    return status;
}

static void close_endpoint(struct tt_endpoint *head)
{
    struct sockets_endpoint *e = of(head);
    e->close_ns = tt_deadline_ns(CLOSE_MS);
    if (e->connected)
        wire_stop(e);
    free_endpoint(e);
}

/* --- Links */

/* Returns the slot of a message from (`sends`), or to, this rank. */
static struct slot *slot_of(struct tt_link *head, uint64_t number, bool sends)
{
    struct sockets_link *link = (struct sockets_link *)(void *)head;
    bool out = sends && head->peer != head->endpoint->me;
    return out ? &link->out[number % TT_SLOTS] : &link->in[number % TT_SLOTS];
}

static bool send_message(struct tt_link *link, const struct tt_message *m)
{
    struct sockets_endpoint *e = of(link->endpoint);
    struct slot *slot = slot_of(link, m->number, true);
    if (atomic_load_explicit(&slot->state, memory_order_acquire) != SLOT_FREE)
        return false;
    uint64_t element = m->source.layout->element_bytes, run;
    for (uint64_t at = 0; at < m->bytes; at += run) {
        const void *from = (const void *)tt_view_run(&m->source, at / element, &run);
        run = run * element < m->bytes - at ? run * element : m->bytes - at;
        memcpy(slot->payload + at, from, run);
    }
    slot->number = m->number;
    slot->signature = m->signature;
    slot->bytes = m->bytes;
    e->head.path_bytes[TT_PATH_COPIED] += m->bytes;
    atomic_store_explicit(&slot->state, SLOT_FULL, memory_order_release);
    if (link->peer != e->head.me)
        wire_wake(e);
    return true;
}

static bool is_sent(struct tt_link *link, uint64_t number)
{
    (void)link;
    (void)number;
    return true;
}

static bool has_arrived(
    struct tt_link *link, uint64_t number, const struct tt_view *like, struct tt_arrival *arrival)
{
    const struct slot *slot = slot_of(link, number, false);
    (void)like;
    if (atomic_load_explicit(&slot->state, memory_order_acquire) != SLOT_FULL || slot->number != number)
        return false;
    *arrival = (struct tt_arrival){ .path = TT_PATH_COPIED,
        .packed = true,
        .signature = slot->signature,
        .bytes = slot->bytes,
        .available = slot->bytes,
        .base = (uintptr_t)slot->payload };
    return true;
}

static void release(struct tt_link *link, uint64_t number)
{
    struct sockets_endpoint *e = of(link->endpoint);
    struct slot *slot = slot_of(link, number, false);
    bool own = link->peer == e->head.me;
    if (atomic_load_explicit(&slot->state, memory_order_acquire) != SLOT_FULL || slot->number != number)
        return;
    atomic_store_explicit(&slot->state, own ? SLOT_FREE : SLOT_DONE, memory_order_release);
    if (!own)
        wire_wake(e);
}

static const struct tt_link_ops link_ops = {
    .send = send_message,
    .sent = is_sent,
    .arrived = has_arrived,
    .release = release,
};

/* --- Control */

static void publish(struct tt_endpoint *head, const struct tt_call_record *call, uint64_t sequence)
{
    struct sockets_endpoint *e = of(head);
    struct control *mine = &e->peers[head->me].control;
    struct tt_call_record record = { 0 };
    if (call != NULL) {
        record = *call;
        record.sequence = sequence == TT_WAIT ? 1 : sequence + 1;
    }
    if (sequence == TT_WAIT) {
        cell_write(mine->wait, &record, RECORD_WORDS);
    } else if (call != NULL) {
        cell_write(mine->calls[sequence % TT_CALLS_KEPT], &record, RECORD_WORDS);
        atomic_store_explicit(&mine->begun, sequence + 1, memory_order_release);
    } else {
        atomic_store_explicit(&mine->completed, sequence + 1, memory_order_release);
    }
    wire_wake(e);
}

static bool call_of(struct tt_endpoint *head, int peer, uint64_t sequence, struct tt_call_record *call)
{
    const struct control *theirs = &of(head)->peers[peer].control;
    bool wait = sequence == TT_WAIT;
    const cell_word *cell = wait ? theirs->wait : theirs->calls[sequence % TT_CALLS_KEPT];
    return cell_read(cell, call, RECORD_WORDS) != 0 && call->sequence == (wait ? 1 : sequence + 1);
}

static uint64_t completed_by(struct tt_endpoint *head, int peer)
{
    return atomic_load_explicit(&of(head)->peers[peer].control.completed, memory_order_acquire);
}

/* Returns where the number of this refusal stands in a cell for refusals. */
static size_t place_of(const struct tt_endpoint *head, const struct tt_refusal *r)
{
    return r->peer == TT_NONE ? 0 : (size_t)(1 + (r->sends ? head->n : 0) + r->peer);
}

static void refuse(struct tt_endpoint *head, const struct tt_refusal *refusal)
{
    struct sockets_endpoint *e = of(head);
    if (refusal == NULL) {
        memset(e->refused, 0, e->refusal_words * sizeof *e->refused);
    } else {
        e->refused[place_of(head, refusal)] = refusal->number + 1;
        memcpy(&e->refused[e->refused_numbers], refusal->text, sizeof refusal->text);
    }
    cell_write(e->peers[head->me].control.refusals, e->refused, e->refusal_words);
    wire_wake(e);
}

static bool refused(struct tt_endpoint *head, int rank, struct tt_refusal *refusal)
{
    const struct sockets_endpoint *e = of(head);
    const cell_word *cell = e->peers[rank].control.refusals;
    size_t place = 1 + place_of(head, refusal), text = 1 + e->refused_numbers;
    uint64_t version = atomic_load_explicit(&cell[0], memory_order_acquire);
    uint64_t number = atomic_load_explicit(&cell[place], memory_order_acquire);
    for (size_t i = 0; i < TEXT_WORDS; i++) {
        uint64_t word = atomic_load_explicit(&cell[text + i], memory_order_acquire);
        memcpy(refusal->text + i * sizeof word, &word, sizeof word);
    }
    refusal->text[TT_REFUSAL_TEXT - 1] = '\0';
    refusal->number = number - 1;
    return number != 0 && version % 2 == 0 && atomic_load_explicit(&cell[0], memory_order_relaxed) == version;
}

static enum tt_peer_state peer_state(struct tt_endpoint *head, int peer, long *process)
{
    struct peer *p = &of(head)->peers[peer];
    *process = p->process;
    return (enum tt_peer_state)atomic_load(&p->state);
}

/* Waits until the rank that decides has said which cause is the first: as long as a frame goes there and
 * back, and at most ABORT_MS; then this rank takes its own. */
static bool abort_all(struct tt_endpoint *head, const struct tt_cause *cause)
{
    struct sockets_endpoint *e = of(head);
    bool won = false;
    if (!e->connected)
        return false;
    pthread_mutex_lock(&e->aborting);
    if (atomic_load(&e->ended) == 0) {
        int64_t deadline_ns = tt_deadline_ns(ABORT_MS);
        e->claim = *cause;
        atomic_store(&e->claimed, true);
        wire_wake(e);
        while (atomic_load(&e->ended) == 0) {
            tt_sleep_ms(1);
            if (tt_now_ns() > deadline_ns) {
                atomic_store(&e->impatient, true);
                wire_wake(e);
            }
        }
        won = atomic_load(&e->ended) == (uint32_t)head->me + 1;
    }
    pthread_mutex_unlock(&e->aborting);
    return won;
}

static bool cause_of(struct tt_endpoint *head, struct tt_cause *cause)
{
    struct sockets_endpoint *e = of(head);
    if (atomic_load_explicit(&e->ended, memory_order_acquire) == 0)
        return false;
    *cause = e->cause;
    cause->operation[sizeof cause->operation - 1] = '\0';
    cause->text[sizeof cause->text - 1] = '\0';
    return true;
}

/* Peers have copies of what this rank sent, and nothing of its memory. */
static bool is_quiet(struct tt_endpoint *head, bool patient)
{
    (void)head;
    (void)patient;
    return true;
}

static const struct tt_control_ops control_ops = {
    .publish = publish,
    .call_of = call_of,
    .completed_by = completed_by,
    .refuse = refuse,
    .refused = refused,
    .peer_state = peer_state,
    .abort = abort_all,
    .cause = cause_of,
    .quiet = is_quiet,
};

static void set_head(struct sockets_endpoint *e)
{
    e->head = (struct tt_endpoint){ .transport = &tt_sockets,
        .control = &control_ops,
        .n = e->params.n,
        .me = e->params.me,
        .slot_bytes = e->params.slot_bytes,
        .ended = &e->ended,
        .inside = &e->inside,
        .doorbell = &e->bell };
}

const struct tt_transport tt_sockets = {
    .name = "sockets",
    .address_bytes = TT_ADDRESS_BYTES,
    .open = open_endpoint,
    .connect = connect_endpoint,
    .close = close_endpoint,
};
