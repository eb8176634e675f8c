/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_control.c: what ranks know of each other besides messages: of this rank what its caller publishes, of a
 * peer a copy, made when this rank last asked.
 *
 * Who waits long looks once in a while. A look at a peer asks it for what is new, and reads what came after
 * the look before. To ask, a connection is needed; so that a stall of a large job does not connect all with
 * all, only LOOKS_MOST are made for that, beside those to ranks whose messages are awaited.
 *
 * Of a peer that has gone and was never heard of, nobody knows what it had completed. It sent nothing that
 * this rank has not taken, so unless it is awaited, for a message or for room for one, it is as if it had
 * completed all. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/schedule.h"
#include "transports/tcp.h"

enum { ABORT_MS = 5000, LOOKS_MOST = 16, PAUSE_NS = 4000000 };

static struct tcp_endpoint *of(struct tt_endpoint *head)
{
    return (struct tcp_endpoint *)head;
}

void tt_tcp_cell_write(tcp_word *cell, const void *bytes, size_t words)
{
    uint64_t version = atomic_load_explicit(&cell[0], memory_order_relaxed), word;
    atomic_store_explicit(&cell[0], version + 1, memory_order_relaxed);
    for (size_t i = 0; i < words; i++) {
        memcpy(&word, (const uint8_t *)bytes + i * sizeof word, sizeof word);
        atomic_store_explicit(&cell[1 + i], word, memory_order_release);
    }
    atomic_store_explicit(&cell[0], version + 2, memory_order_release);
}

uint64_t tt_tcp_cell_read(const tcp_word *cell, void *bytes, size_t words)
{
    uint64_t version = atomic_load_explicit(&cell[0], memory_order_acquire);
    if (version % 2 != 0)
        return 0;
    for (size_t i = 0; i < words; i++) {
        uint64_t word = atomic_load_explicit(&cell[1 + i], memory_order_acquire);
        memcpy((uint8_t *)bytes + i * sizeof word, &word, sizeof word);
    }
    return atomic_load_explicit(&cell[0], memory_order_relaxed) == version ? version : 0;
}

/* Asks a peer for what is new, unless it is asked already, or was a moment ago: the more ranks there are, the
 * longer that is, or all would only ask and answer where they share few cores. */
static void ask(struct tcp_endpoint *e, int peer)
{
    struct tcp_peer *p = &e->peers[peer];
    int64_t now_ns = tt_now_ns();
    if (now_ns < p->ask_ns)
        return;
    p->ask_ns = now_ns + e->head.n * PAUSE_NS;
    if (peer == e->head.me || atomic_load(&p->ask) || atomic_load(&p->state) != TT_PEER_ALIVE)
        return;
    if (atomic_load(&p->connection) == TCP_NOT_DIALED && !atomic_load(&p->awaited) &&
        atomic_fetch_add(&e->looks, 1) >= LOOKS_MOST)
        return;
    atomic_store(&p->ask, true);
    tt_tcp_know(e, peer);
    tt_tcp_wake(e);
}

static void publish(struct tt_endpoint *head, const struct tt_call_record *call, uint64_t sequence)
{
    struct tcp_peer *me = &of(head)->peers[head->me];
    struct tt_call_record record = { 0 };
    if (call != NULL) {
        record = *call;
        record.sequence = sequence == TT_WAIT ? 1 : sequence + 1;
    }
    if (sequence == TT_WAIT) {
        tt_tcp_cell_write(me->control->wait, &record, TCP_RECORD_WORDS);
    } else if (call != NULL) {
        tt_tcp_cell_write(me->control->calls[sequence % TT_CALLS_KEPT], &record, TCP_RECORD_WORDS);
        atomic_store_explicit(&of(head)->begun, sequence + 1, memory_order_release);
    } else {
        atomic_store_explicit(&me->completed, sequence + 1, memory_order_release);
    }
}

static bool call_of(struct tt_endpoint *head, int peer, uint64_t sequence, struct tt_call_record *call)
{
    const struct tcp_control *theirs = of(head)->peers[peer].control;
    bool wait = sequence == TT_WAIT;
    const tcp_word *cell = wait ? theirs->wait : theirs->calls[sequence % TT_CALLS_KEPT];
    ask(of(head), peer);
    return tt_tcp_cell_read(cell, call, TCP_RECORD_WORDS) != 0 && call->sequence == (wait ? 1 : sequence + 1);
}

static uint64_t completed_by(struct tt_endpoint *head, int peer)
{
    struct tcp_peer *p = &of(head)->peers[peer];
    ask(of(head), peer);
    bool unknown = atomic_load(&p->state) != TT_PEER_ALIVE && !atomic_load(&p->met);
    if (unknown && !atomic_load(&p->awaited))
        return UINT64_MAX;
    return atomic_load_explicit(&p->completed, memory_order_acquire);
}

static void note(struct tt_endpoint *head, const struct tt_note *text)
{
    tt_tcp_cell_write(of(head)->peers[head->me].control->note, text, TCP_NOTE_WORDS);
}

static bool note_of(struct tt_endpoint *head, int peer, struct tt_note *text)
{
    struct tcp_peer *p = &of(head)->peers[peer];
    atomic_store(&p->awaited, true); /* so that a connection is made to ask */
    ask(of(head), peer);
    return tt_tcp_cell_read(p->control->note, text, TCP_NOTE_WORDS) != 0;
}

/* Writes into the cell of what this rank refused: one number, or, NULL, that nothing is refused any more. */
static void refuse(struct tt_endpoint *head, const struct tt_refusal *refusal)
{
    tcp_word *own = of(head)->refused;
    size_t numbers = 1 + 2 * (size_t)head->n;
    uint64_t version = atomic_load_explicit(&own[0], memory_order_relaxed), word;
    atomic_store_explicit(&own[0], version + 1, memory_order_relaxed);
    for (size_t i = 0; refusal == NULL && i < numbers; i++)
        atomic_store_explicit(&own[1 + i], 0, memory_order_release);
    if (refusal != NULL) {
        bool message = refusal->peer != TT_NONE;
        size_t place = message ? 1 + 2 * (size_t)refusal->peer + refusal->sends : 0;
        atomic_store_explicit(&own[1 + place], refusal->number + 1, memory_order_release);
        for (size_t i = 0; i < TCP_TEXT_WORDS; i++) {
            memcpy(&word, refusal->text + i * sizeof word, sizeof word);
            atomic_store_explicit(&own[1 + numbers + i], word, memory_order_release);
        }
    }
    atomic_store_explicit(&own[0], version + 2, memory_order_release);
}

uint64_t tt_tcp_refused(const struct tcp_endpoint *e, int rank, uint8_t *told)
{
    const tcp_word *numbers = e->refused + 1, *text = numbers + 1 + 2 * e->head.n;
    uint64_t version = atomic_load_explicit(e->refused, memory_order_acquire);
    for (int i = 0; i < TCP_REFUSED_WORDS; i++) {
        const tcp_word *word = i == 0                    ? &numbers[0]
                               : i < TCP_REFUSED_NUMBERS ? &numbers[2 * rank + i]
                                                         : &text[i - TCP_REFUSED_NUMBERS];
        uint64_t value = atomic_load_explicit(word, memory_order_acquire);
        memcpy(told + 8 * (size_t)i, &value, sizeof value);
    }
    return version % 2 == 0 && atomic_load_explicit(e->refused, memory_order_relaxed) == version ? version
                                                                                                 : 0;
}

/* A rank knows of messages with itself alone. */
static bool refused(struct tt_endpoint *head, int rank, struct tt_refusal *refusal)
{
    struct tcp_endpoint *e = of(head);
    uint64_t told[TCP_REFUSED_WORDS];
    ask(e, rank);
    if ((refusal->peer != TT_NONE && refusal->peer != head->me) ||
        tt_tcp_cell_read(e->peers[rank].control->refusals, told, TCP_REFUSED_WORDS) == 0)
        return false;
    uint64_t number = told[refusal->peer == TT_NONE ? 0 : 1 + refusal->sends];
    memcpy(refusal->text, &told[TCP_REFUSED_NUMBERS], sizeof refusal->text);
    refusal->text[TT_REFUSAL_TEXT - 1] = '\0';
    refusal->number = number - 1;
    return number != 0;
}

static enum tt_peer_state peer_state(struct tt_endpoint *head, int peer, struct tt_peer_place *place)
{
    struct tcp_peer *p = &of(head)->peers[peer];
    ask(of(head), peer);
    enum tt_peer_state state = (enum tt_peer_state)atomic_load(&p->state);
    place->process = p->address.pid;
    (state == TT_PEER_REFUSES ? tt_net_print : tt_net_print_host)(&p->address.net, place->host);
    tt_net_print_host(&of(head)->peers[head->me].address.net, place->from);
    return state;
}

/* Waits until the rank that decides has said which cause is the first: as long as a frame goes there and
 * back, and at most ABORT_MS; then this rank takes its own. Who decides waits until all others know. */
static bool abort_all(struct tt_endpoint *head, const struct tt_cause *cause)
{
    struct tcp_endpoint *e = of(head);
    bool own = false;
    if (!e->connected)
        return false;
    pthread_mutex_lock(&e->end.aborting);
    if (!tt_endpoint_is_over(head)) {
        int64_t deadline_ns = tt_deadline_ns(ABORT_MS);
        own = !atomic_load(&e->end.claimed);
        if (own) { /* else the thread has found one before */
            e->end.claim = *cause;
            atomic_store(&e->end.claimed, true);
        }
        tt_tcp_wake(e);
        while (atomic_load(&e->end.ended) == 0) {
            tt_sleep_ms(1);
            if (tt_now_ns() > deadline_ns) {
                atomic_store(&e->end.impatient, true);
                tt_tcp_wake(e);
            }
        }
        own = own && atomic_load(&e->end.ended) == (uint32_t)head->me + 1;
    }
    pthread_mutex_unlock(&e->end.aborting);
    return own;
}

/* Waits for nobody: while another thread of this rank waits in abort_all, its cause is the first. The thread
 * goes on, for peers that come later are to hear a goodbye, too. */
static bool abort_local(struct tt_endpoint *head, const struct tt_cause *cause)
{
    struct tcp_endpoint *e = of(head);
    if (!e->connected || pthread_mutex_trylock(&e->end.aborting) != 0)
        return false;
    bool first = !tt_endpoint_is_over(head);
    if (first) {
        e->end.alone = *cause;
        atomic_store(&head->gone, true);
        atomic_fetch_add(&e->end.local_aborts, 1);
    }
    pthread_mutex_unlock(&e->end.aborting);
    tt_doorbell_ring_always(head->doorbell);
    tt_tcp_wake(e);
    return first;
}

/* Ends the communicator for what this rank's thread has found, if nothing was found before. */
static void end_for(struct tcp_endpoint *e, const struct tt_cause *cause)
{
    if (atomic_load(&e->end.decided) != 0 || atomic_load(&e->head.gone) ||
        pthread_mutex_trylock(&e->end.aborting) != 0)
        return;
    if (!atomic_load(&e->end.claimed)) {
        e->end.claim = *cause;
        atomic_store(&e->end.claimed, true);
        tt_tcp_wake(e); /* to decide, or to tell who does */
    }
    pthread_mutex_unlock(&e->end.aborting);
}

/* A rank that cannot be reached ends the communicator: those that it is to talk with would wait for ever. */
void tt_tcp_claim_unreachable(struct tcp_endpoint *e, int rank, const char *why)
{
    char there[TT_NET_TEXT], here[TT_NET_TEXT];
    struct tt_cause cause = {
        .status = TUTTI_PEER_LOST, .rank = e->head.me, .peer = rank, .operation = "connect"
    };
    tt_net_print(&e->peers[rank].address.net, there);
    tt_net_print_host(&e->peers[e->head.me].address.net, here);
    snprintf(cause.text, sizeof cause.text,
        "rank %d, at %s, cannot connect to rank %d at %s: %s; a firewall may lie between, or "
        "TUTTI_INTERFACE name another network",
        e->head.me, here, rank, there, why);
    end_for(e, &cause);
}

/* With the number of descriptors that would be enough if all ranks that live were to be reached. */
void tt_tcp_claim_lack(struct tcp_endpoint *e, int number)
{
    struct tt_cause cause = {
        .status = TUTTI_SYSTEM_ERROR, .rank = e->head.me, .peer = TT_NONE, .operation = "connect"
    };
    struct rlimit limit = { 0 };
    int missing = 1; /* the spare one */
    for (int r = 0; r < e->head.n; r++)
        missing += r != e->head.me && e->peers[r].fd < 0 && atomic_load(&e->peers[r].state) == TT_PEER_ALIVE;
    getrlimit(RLIMIT_NOFILE, &limit);
    unsigned long long most = limit.rlim_cur;
    if (number == EMFILE)
        snprintf(cause.text, sizeof cause.text,
            "rank %d has no file descriptor left for its connections with other hosts: its process may have "
            "%llu (ulimit -n), uses them all, and needs up to %d more: let it have %llu",
            e->head.me, most, missing, most + (unsigned)missing);
    else
        snprintf(cause.text, sizeof cause.text,
            "rank %d gets no file descriptor for its connections with other hosts, and needs up to %d more: "
            "its system has none left (fs.file-max)",
            e->head.me, missing);
    end_for(e, &cause);
    e->end.by_any = true;
}

static bool cause_of(struct tt_endpoint *head, struct tt_cause *cause)
{
    struct tcp_endpoint *e = of(head);
    if (atomic_load_explicit(&head->gone, memory_order_acquire)) {
        *cause = e->end.alone;
        return true;
    }
    if (atomic_load_explicit(&e->end.ended, memory_order_acquire) == 0)
        return false;
    *cause = e->end.cause;
    cause->operation[sizeof cause->operation - 1] = '\0';
    cause->text[sizeof cause->text - 1] = '\0';
    return true;
}

/* Gives back all memory of the caller: what is still to be written from there is copied, and what was granted
 * is granted no more. A message that was on its way there ends in its slot's own room. */
static void give_back(struct tcp_link *link)
{
    for (int i = 0; i < TCP_SLOTS; i++) {
        struct tcp_slot *out = &link->out[i], *in = &link->in[i];
        if (atomic_load(&out->state) == TCP_FULL && out->payload != out->memory) {
            memcpy(out->memory, out->payload, out->bytes);
            out->payload = out->memory;
        }
        in->granted = 0;
        if (in->payload != in->memory && atomic_load(&in->state) != TCP_FULL)
            in->payload = in->memory;
    }
}

static bool is_quiet(struct tt_endpoint *head, bool patient)
{
    struct tcp_endpoint *e = of(head);
    (void)patient;
    pthread_mutex_lock(&e->driving);
    e->deaf = true;
    if (e->carrier != NULL)
        e->carries->drop(e->carrier, -1, false);
    for (int i = 0; i < TT_CLASSES * head->n; i++)
        give_back(&e->ends[i]);
    for (int r = 0; r < head->n; r++) { /* frames that are under way */
        struct tcp_transfer *in = &e->peers[r].in, *to = &e->peers[r].to;
        if (in->at >= sizeof in->frame && in->frame.kind == TCP_MESSAGE)
            in->payload = tt_tcp_link_of(e, in->frame.class, r)->in[in->frame.number % TCP_SLOTS].memory;
        if (to->size > 0 && to->frame.kind == TCP_MESSAGE)
            to->payload = tt_tcp_link_of(e, to->frame.class, r)->out[to->frame.number % TCP_SLOTS].memory;
    }
    pthread_mutex_unlock(&e->driving);
    tt_tcp_wake(e); /* the caller does not drive any more what is under way */
    return true;
}

const struct tt_control_ops tt_tcp_control_ops = {
    .publish = publish,
    .call_of = call_of,
    .completed_by = completed_by,
    .refuse = refuse,
    .refused = refused,
    .note = note,
    .note_of = note_of,
    .peer_state = peer_state,
    .abort = abort_all,
    .abort_local = abort_local,
    .cause = cause_of,
    .quiet = is_quiet,
};
