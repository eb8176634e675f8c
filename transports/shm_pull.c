/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_pull.c: long messages between buffers that are private to their processes: the kernel copies once.
 *
 *     sender:    0 pulled    1 written    2 pulled    3 written      at the same time,
 *     receiver:  reads 0                  reads 2                    by both cores
 *
 * The kernel looks up each page of the other process. On huge pages that is nothing, and one copy takes half
 * of what two do; on small ones it takes longer than the bytes (perf/results/README.md). What counts are the
 * pages of the other side: a reader's copy is fast if the source lies on huge pages, a writer's, if the
 * destination does. Each rank looks at its own: the receiver as it grants, the sender as it sends.
 *
 * Only what is granted goes that way: the receiver is there, and has a place for the bytes. A message that is
 * pulled is read there as soon as somebody looks for it, together with all others that can be pulled by then,
 * for a call takes a microsecond or more, and then has arrived as one that was placed. A sender that receives
 * as well, or has other work, leaves all of it to the readers: that keeps all cores busy, too, and no line is
 * written by two.
 *
 * Whether a peer can be read is tried when they connect. If it is refused later (a process may forbid it at
 * any time, or the memory be a device's), the receiver asks for a copy, and pulls no more.
 *
 * A number of a process may become that of another one; so what was read counts only if the peer is alive
 * afterwards. */
#include <sys/uio.h>

#include "base/clock.h"
#include "base/config.h"
#include "transports/shm_place.h"

enum { WAIT_NS = 100000 };

bool tt_shm_probe(pid_t pid, uint64_t at, uint64_t expected)
{
    uint64_t value = ~expected;
    struct iovec local = { &value, sizeof value }, remote = { (void *)(uintptr_t)at, sizeof value };
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof value && value == expected;
}

bool tt_shm_is_fast(const struct tt_shm_endpoint *e, uintptr_t address, uint64_t bytes)
{
    return e->pull == TT_PULL_ALWAYS || tt_pages_huge(e->pages, address, bytes);
}

/* Notes where a message is to be put that this rank awaits in private memory; TT_SHM_MAPPED: nobody reaches
 * it. */
enum tt_shm_memory tt_shm_grant_private(
    struct tt_shm_channel *c, uint64_t number, uint32_t signature, uintptr_t place, uint64_t bytes)
{
    const struct tt_shm_endpoint *e = c->endpoint;
    struct tt_shm_pulls *p = &c->pulls;
    if (!c->peer->open || p->unreadable || bytes < TT_PAGES_LEAST)
        return TT_SHM_MAPPED;
    p->place[number & (TT_SLOTS - 1)] = place;
    p->bytes[number & (TT_SLOTS - 1)] = (uint32_t)bytes;
    p->signature[number & (TT_SLOTS - 1)] = signature;
    return tt_shm_is_fast(e, place, bytes) ? TT_SHM_WRITABLE : TT_SHM_PRIVATE;
}

static bool write_there(struct tt_shm_channel *c, uint64_t place, uintptr_t from, uint64_t bytes)
{
    struct iovec local = { (void *)from, bytes }, remote = { (void *)(uintptr_t)place, bytes };
    if (!tt_arena_alive(c->peer->arena))
        return false;
    bool whole = process_vm_writev(c->peer->pid, &local, 1, &remote, 1, 0) == (ssize_t)bytes;
    c->pulls.unwritable = !whole;
    return whole;
}

/* True if the receiver has granted what came just before in this call: it is there, and will grant this. */
static bool will_grant(const struct tt_shm_channel *c, const struct tt_message *m)
{
    return m->goes_on && c->pulls.found + TT_SLOTS >= m->number + 1;
}

/* True if a sender that is to write waits for the grant, for it has run ahead of the receiver; not for long,
 * since no grant wakes who sleeps. */
static bool waits(struct tt_shm_channel *c, const struct tt_message *m)
{
    struct tt_shm_pulls *p = &c->pulls;
    int64_t now = tt_now_ns();
    if (p->awaited != m->number + 1)
        p->until_ns = now + WAIT_NS;
    p->awaited = m->number + 1;
    return now < p->until_ns;
}

static bool may_go(const struct tt_shm_channel *c, const struct tt_message *m)
{
    return c->peer->open && m->bytes >= TT_PAGES_LEAST && tt_endpoint_inside(&c->endpoint->head);
}

bool tt_shm_pulls(struct tt_link *link, const struct tt_message *m)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    const struct tt_shm_grant *grant = &c->grants_in[m->number & (TT_SLOTS - 1)];
    uintptr_t address;
    uint64_t at;
    bool packed = tt_shm_first_run(&m->source, &address) >= m->bytes;
    if (!packed || !may_go(c, m) ||
        tt_shm_expose(c->endpoint, c->peer, &m->source, m->bytes, packed, address, &at))
        return false;
    if (m->whole != 0)
        return tt_shm_offers(c, m, address);
    bool granted = atomic_load_explicit(&grant->number, memory_order_acquire) == m->number + 1;
    return (granted ? grant->memory != TT_SHM_MAPPED : will_grant(c, m)) &&
           tt_shm_is_fast(c->endpoint, address, m->bytes);
}

/* Chooses the path of a long message in one run of private memory, and writes it to where it goes if that is
 * PLACED. TT_PATHS: it is worth a wait. */
enum tt_path tt_shm_long_path(struct tt_shm_channel *c, const struct tt_message *m, uintptr_t address)
{
    struct tt_shm_pulls *p = &c->pulls;
    const struct tt_shm_grant *grant = &c->grants_in[m->number & (TT_SLOTS - 1)];
    if (!may_go(c, m))
        return TT_PATH_COPIED;
    bool reads = tt_shm_is_fast(c->endpoint, address, m->bytes);
    bool halves = m->halves && !p->unwritable && c->endpoint->awaited == 0;
    if (atomic_load_explicit(&grant->number, memory_order_acquire) != m->number + 1) {
        if (!reads || !will_grant(c, m))
            return TT_PATH_COPIED;
        return halves && waits(c, m) ? TT_PATHS : TT_PATH_PULLED;
    }
    uint8_t memory = grant->memory;
    if (memory == TT_SHM_MAPPED || grant->bytes != m->bytes || grant->signature != m->signature)
        return TT_PATH_COPIED;
    p->found = p->found > m->number ? p->found : m->number + 1;
    bool writes = memory == TT_SHM_WRITABLE && !p->unwritable && (!reads || halves);
    if (writes && write_there(c, grant->place.at, address, m->bytes))
        return TT_PATH_PLACED;
    return reads ? TT_PATH_PULLED : TT_PATH_COPIED;
}

/* True if this message is there, is to be pulled to where this rank granted, and was not yet. */
static bool is_pullable(const struct tt_shm_channel *c, uint64_t number)
{
    const struct tt_shm_line *line = &c->in[tt_shm_line_of(number)];
    unsigned slot = number & (TT_SLOTS - 1);
    return atomic_load_explicit(&line->flag, memory_order_acquire) == tt_shm_flag(number) &&
           line->path == TT_PATH_PULLED && c->granted[slot] == number + 1 && c->pulls.bytes[slot] != 0 &&
           !tt_shm_pull_odd(c, line, slot) && ((c->pulls.done | c->pulls.asked) & tt_shm_bit(number)) == 0;
}

/* Reads all messages from this one on that can be, but what may come whole; false if that failed. */
static bool read_all(struct tt_shm_channel *c, uint64_t number)
{
    struct iovec local[TT_SLOTS], remote[TT_SLOTS];
    uint64_t all = 0;
    unsigned long n = 0;
    uint8_t bits = 0;
    for (uint64_t m = number; m < number + TT_SLOTS; m++) {
        if (!is_pullable(c, m) || (m != number && c->in[tt_shm_line_of(m)].whole != 0))
            continue;
        unsigned slot = m & (TT_SLOTS - 1);
        local[n] = (struct iovec){ (void *)c->pulls.place[slot], c->pulls.bytes[slot] };
        remote[n++] =
            (struct iovec){ (void *)(uintptr_t)c->in[tt_shm_line_of(m)].source.at, c->pulls.bytes[slot] };
        bits |= tt_shm_bit(m);
        all += c->pulls.bytes[slot];
    }
    if (process_vm_readv(c->peer->pid, local, n, remote, n, 0) != (ssize_t)all)
        return false;
    c->pulls.done |= tt_arena_alive(c->peer->arena) ? bits : 0;
    return true;
}

/* The sender finds that as it looks whether its message is read. */
void tt_shm_ask_for_copy(struct tt_shm_channel *c, uint64_t number)
{
    c->pulls.asked |= tt_shm_bit(number);
    atomic_store_explicit(&c->grants_out[number & (TT_SLOTS - 1)].answer,
        tt_shm_answer(number, TT_SHM_COPY_IT), memory_order_release);
    tt_doorbell_ring_light(c->peer->bell, c->endpoint->head.light);
}

/* True if the message, whose line says that it is to be pulled, lies where it was granted now. False: it is
 * not there yet, or never will be, for its sender has died. Where this rank granted nothing that it could
 * pull to, it comes as a copy. */
bool tt_shm_pull(struct tt_shm_channel *c, uint64_t number)
{
    if ((c->pulls.done & tt_shm_bit(number)) != 0)
        return true;
    if ((c->pulls.asked & tt_shm_bit(number)) != 0)
        return false;
    bool pullable = is_pullable(c, number) && !c->pulls.unreadable;
    bool read = pullable && read_all(c, number);
    c->pulls.unreadable = c->pulls.unreadable || (pullable && !read);
    if (!read)
        tt_shm_ask_for_copy(c, number);
    return (c->pulls.done & tt_shm_bit(number)) != 0;
}
