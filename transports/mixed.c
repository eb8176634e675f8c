/* SPDX-License-Identifier: BSD-3-Clause */
/* mixed.c: an endpoint whose links are of several transports: ranks of one host by shared memory, the others
 * by a network.
 *
 *     rank 0, its links:   1 shm    2 tcp        3 tcp              host a: 0, 1     host b: 2, 3
 *
 * It has an endpoint of each transport (a part). A peer is reached by the first part that has a link to it,
 * and that link is this endpoint's, so a message costs what it costs there. What ranks know of each other
 * besides messages goes by the part that reaches the peer; what a rank tells all, by every part. Which cause
 * is the first the last part decides, the one that reaches all; a cause that one part knows is passed on to
 * the others by whoever asks for it.
 *
 * The first part is the one that shares memory: its words say that this rank is inside, and its doorbell is
 * rung by all parts. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transports/registry.h"

struct mixed {
    struct tt_endpoint head; /* first */
    const struct tt_transport *const *transports;
    struct tt_endpoint *parts[TT_PARTS_MAX]; /* one of each */
    int nparts;
    uint8_t *part_of; /* [n] */
};

static struct mixed *of(struct tt_endpoint *e)
{
    return (struct mixed *)e;
}

static struct tt_endpoint *part_to(struct tt_endpoint *e, int peer)
{
    return of(e)->parts[of(e)->part_of[peer]];
}

/* --- Control */

static void publish(struct tt_endpoint *e, const struct tt_call_record *call, uint64_t sequence)
{
    for (int i = 0; i < of(e)->nparts; i++)
        of(e)->parts[i]->control->publish(of(e)->parts[i], call, sequence);
}

static bool call_of(struct tt_endpoint *e, int peer, uint64_t sequence, struct tt_call_record *call)
{
    struct tt_endpoint *part = part_to(e, peer);
    return part->control->call_of(part, peer, sequence, call);
}

static uint64_t completed_by(struct tt_endpoint *e, int peer)
{
    struct tt_endpoint *part = part_to(e, peer);
    return part->control->completed_by(part, peer);
}

static void refuse(struct tt_endpoint *e, const struct tt_refusal *refusal)
{
    for (int i = 0; i < of(e)->nparts; i++)
        if (of(e)->parts[i]->control->refuse != NULL)
            of(e)->parts[i]->control->refuse(of(e)->parts[i], refusal);
}

static bool refused(struct tt_endpoint *e, int rank, struct tt_refusal *refusal)
{
    struct tt_endpoint *part = part_to(e, rank);
    return part->control->refused != NULL && part->control->refused(part, rank, refusal);
}

static void note(struct tt_endpoint *e, const struct tt_note *text)
{
    for (int i = 0; i < of(e)->nparts; i++)
        if (of(e)->parts[i]->control->note != NULL)
            of(e)->parts[i]->control->note(of(e)->parts[i], text);
}

static bool note_of(struct tt_endpoint *e, int peer, struct tt_note *text)
{
    struct tt_endpoint *part = part_to(e, peer);
    return part->control->note_of != NULL && part->control->note_of(part, peer, text);
}

static enum tt_peer_state peer_state(struct tt_endpoint *e, int peer, struct tt_peer_place *place)
{
    struct tt_endpoint *part = part_to(e, peer);
    return part->control->peer_state(part, peer, place);
}

/* Finds a cause that one part knows, and passes it on to the others. */
static bool find_cause(struct tt_endpoint *e, struct tt_cause *cause)
{
    struct tt_cause other;
    int n = of(e)->nparts, found = 0;
    while (found < n && !of(e)->parts[found]->control->cause(of(e)->parts[found], cause))
        found++;
    bool local = found < n && atomic_load(&of(e)->parts[found]->gone); /* the others go on */
    for (int i = 0; i < n && found < n && !local; i++)
        if (i != found && !of(e)->parts[i]->control->cause(of(e)->parts[i], &other))
            of(e)->parts[i]->control->abort(of(e)->parts[i], cause);
    return found < n;
}

static bool end(struct tt_endpoint *e, const struct tt_cause *cause)
{
    struct tt_cause earlier;
    bool first = !find_cause(e, &earlier);
    for (int i = of(e)->nparts - 1; i >= 0 && first; i--)
        first = of(e)->parts[i]->control->abort(of(e)->parts[i], cause);
    if (!first) /* by now, another one's may have won in some part */
        find_cause(e, &earlier);
    return first;
}

/* The first part decides. A cause that it has not heard of yet came later. */
static bool end_local(struct tt_endpoint *e, const struct tt_cause *cause)
{
    struct tt_cause earlier;
    if (find_cause(e, &earlier) || atomic_exchange(&e->gone, true))
        return false;
    bool first = of(e)->parts[0]->control->abort_local(of(e)->parts[0], cause);
    for (int i = 1; i < of(e)->nparts && first; i++)
        of(e)->parts[i]->control->abort_local(of(e)->parts[i], cause);
    if (!first) /* all have ended meanwhile, this rank with them */
        atomic_store(&e->gone, false);
    return first;
}

static bool quiet(struct tt_endpoint *e, bool patient)
{
    bool all = true;
    for (int i = 0; i < of(e)->nparts; i++)
        all = of(e)->parts[i]->control->quiet(of(e)->parts[i], patient) && all;
    return all;
}

static const struct tt_control_ops control_ops = {
    .publish = publish,
    .call_of = call_of,
    .completed_by = completed_by,
    .refuse = refuse,
    .refused = refused,
    .note = note,
    .note_of = note_of,
    .peer_state = peer_state,
    .abort = end,
    .abort_local = end_local,
    .cause = find_cause,
    .quiet = quiet,
};

/* --- Memory */

static void tidy(struct tt_endpoint *e)
{
    for (int i = 0; i < of(e)->nparts; i++)
        if (of(e)->transports[i]->memory != NULL)
            of(e)->transports[i]->memory->tidy(of(e)->parts[i]);
}

static const struct tt_memory_ops memory_ops = { .tidy = tidy };

uint64_t tt_endpoint_path_bytes(const struct tt_endpoint *e, enum tt_path path)
{
    const struct mixed *m = (const struct mixed *)e;
    uint64_t bytes = e->path_bytes[path];
    for (int i = 0; e->transport == &tt_mixed && i < m->nparts; i++)
        bytes += m->parts[i]->path_bytes[path];
    return bytes;
}

/* --- Life */

static void close_all(struct tt_endpoint *e)
{
    for (int i = of(e)->nparts - 1; i >= 0; i--) /* the doorbell, which all ring, goes last */
        of(e)->transports[i]->close(of(e)->parts[i]);
    free(e->links);
    free(of(e)->part_of);
    free(e);
}

static tutti_status open_all(
    const struct tt_endpoint_params *params, uint8_t *address, struct tt_endpoint **endpoint)
{
    size_t n = (size_t)params->n;
    struct mixed *m = calloc(1, sizeof *m);
    if (m != NULL) {
        m->head.links = calloc(n * TT_CLASSES, sizeof(struct tt_link *));
        m->part_of = calloc(n, sizeof *m->part_of);
        m->transports = params->transports != NULL ? params->transports : tt_transports;
    }
    tutti_status status =
        m != NULL && m->head.links != NULL && m->part_of != NULL
            ? TUTTI_OK
            : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for an endpoint of %d ranks", params->n);
    for (int i = 0; status == TUTTI_OK && m->transports[i] != NULL; i++) {
        status = m->transports[i]->open(params, address + (size_t)i * TT_ADDRESS_BYTES, &m->parts[i]);
        m->nparts += status == TUTTI_OK;
    }
    if (status != TUTTI_OK) {
        if (m != NULL)
            close_all(&m->head);
        return status;
    }
    m->head.transport = &tt_mixed;
    m->head.control = &control_ops;
    m->head.n = params->n;
    m->head.me = params->me;
    m->head.slot_bytes = params->slot_bytes;
    m->head.own_bytes = m->parts[0]->own_bytes;
    m->head.ended = m->parts[0]->ended;
    m->head.local_aborts = m->parts[0]->local_aborts;
    m->head.seen = m->parts[0]->seen;
    m->head.inside = m->parts[0]->inside;
    m->head.doorbell = m->parts[0]->doorbell;
    for (int i = 1; i < m->nparts; i++) {
        m->head.own_bytes += m->parts[i]->own_bytes;
        m->parts[i]->inside = m->head.inside;
        m->parts[i]->doorbell = m->head.doorbell;
    }
    *endpoint = &m->head;
    return TUTTI_OK;
}

/* Takes over the links of a part to ranks that no part before reaches. */
static void take_links(struct mixed *m, int part)
{
    const struct tt_endpoint *p = m->parts[part];
    for (int i = 0; i < TT_CLASSES * m->head.n; i++)
        if (m->head.links[i] == NULL && p->links[i] != NULL) {
            m->head.links[i] = p->links[i];
            m->part_of[i % m->head.n] = (uint8_t)part;
        }
}

/* The addresses of one part. It connects to all ranks that it reaches, also to those that an earlier one
 * reaches, so that all ranks of a part agree on who is in it. */
static void list_addresses(int n, int part, const uint8_t *addresses, uint8_t *mine)
{
    for (int rank = 0; rank < n; rank++)
        memcpy(mine + (size_t)rank * TT_ADDRESS_BYTES,
            addresses + ((size_t)rank * TT_PARTS_MAX + (size_t)part) * TT_ADDRESS_BYTES, TT_ADDRESS_BYTES);
}

/* Sets the limits of the mixed endpoint to what holds for all its links. */
static void find_limits(struct mixed *m)
{
    const struct tt_endpoint *first = m->parts[0];
    bool one = true;
    for (int rank = 0; rank < m->head.n; rank++)
        one = one && m->part_of[rank] == 0;
    m->head.ended = first->ended;
    m->head.local_aborts = first->local_aborts;
    m->head.words = first->words;
    m->head.light = first->light;
    m->head.copy_bytes = first->copy_bytes;
    for (int rank = 0; rank < m->head.n; rank++) {
        uint32_t ns = m->parts[m->part_of[rank]]->poll_ns;
        m->head.poll_ns = ns > m->head.poll_ns ? ns : m->head.poll_ns;
    }
    m->head.post_bytes = one ? first->post_bytes : 0;
    m->head.shared_from = one ? first->shared_from : 0;
    m->head.shared_bytes = one ? first->shared_bytes : 0;
}

/* Only this rank's own process rings its bell if all others are reached by the last part. */
static void park_in_last(void *endpoint, uint32_t ticket, int64_t ns)
{
    struct tt_endpoint *last = of(endpoint)->parts[of(endpoint)->nparts - 1];
    last->park(last, ticket, ns);
}

static void find_park(struct mixed *m)
{
    int last = m->nparts - 1;
    bool all = m->head.n > 1 && m->parts[last]->park != NULL;
    for (int rank = 0; rank < m->head.n; rank++)
        all = all && (rank == m->head.me || m->part_of[rank] == last);
    m->head.park = all ? park_in_last : NULL;
}

static tutti_status connect_all(struct tt_endpoint *e, const uint8_t *addresses)
{
    struct mixed *m = of(e);
    uint8_t *mine = malloc((size_t)e->n * TT_ADDRESS_BYTES);
    if (mine == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the addresses of %d ranks", e->n);
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < m->nparts && status == TUTTI_OK; i++) {
        list_addresses(e->n, i, addresses, mine);
        status = m->transports[i]->connect(m->parts[i], mine);
        if (status == TUTTI_OK)
            take_links(m, i);
    }
    free(mine);
    if (status == TUTTI_OK) {
        find_limits(m);
        find_park(m);
    }
    return status;
}

const struct tt_transport tt_mixed = {
    .name = "mixed",
    .address_bytes = TT_PARTS_MAX * TT_ADDRESS_BYTES,
    .open = open_all,
    .connect = connect_all,
    .close = close_all,
    .memory = &memory_ops,
};
