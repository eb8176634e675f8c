/* SPDX-License-Identifier: BSD-3-Clause */
/* spin_open.c: how ranks that have a device each find out whether kernels may do their collectives, and
 * make what those need.
 *
 * All read the same of each other, so they see alike whether it is plain that they cannot. The rest shows
 * only when it is done; so they go on in phases, and after each all know whether it went well at all of
 * them. What decides is one word, in rank 0's memory, that is written once: by rank 0, when it has seen
 * all votes, or by a rank that has waited for that too long. So no rank goes on that others have given up. */
#include "spin/spin.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "segment/exporter.h"
#include "transports/arena.h"

enum { HAND_OVER_MS = 10000, LEADER_MS = 20000, OTHERS_MS = 30000, SCRATCH_BYTES = 256 };
/* A decision is YES, or AGAINST and by which rank; if that is none, some rank did not answer. */
enum { AGAINST = TT_SPIN_NO };

/* --- What ranks tell before they connect */

void tt_spin_tell(const struct tt_spin_setup *s)
{
    struct tt_dev_facts facts;
    struct tt_spin_row *row = s->row;
    const char *why = NULL;
    memset(row, 0, sizeof *row);
    if (s->comm->settings.executor == TT_EXECUTOR_HOST || s->comm->n < 2 || s->comm->n > TT_SPIN_RANKS)
        return;
    if (s->dev->facts(s->device, &facts) != TT_DEV_OK)
        why = s->dev->why();
    else if (!facts.fds)
        why = "its device's memory cannot be handed over by descriptors";
    else if (facts.shared_context)
        why = "several processes run on its device at once (MPS), and kernels that wait need places there";
    else
        atomic_store(&row->blocks, tt_spin_take_blocks(s));
    if (why == NULL && atomic_load(&row->blocks) == 0)
        why = "its device has too few multiprocessors, or kernels of other communicators need them";
    if (why != NULL)
        snprintf(row->why, sizeof row->why, "%s", why);
}

void tt_spin_forget(const struct tt_spin_setup *s)
{
    uint32_t blocks = atomic_exchange(&s->row->blocks, 0);
    if (blocks > 0)
        atomic_fetch_sub(s->places_taken, blocks);
}

/* --- What is plain */

static bool same_process(const struct tt_spin_peer *a, const struct tt_spin_peer *b)
{
    return memcmp(a->arena, b->arena, TT_UUID_BYTES) == 0;
}

/* Each launch of such a process returns when its kernel is over; so it may have one rank. */
static bool launches_block(void)
{
    const char *text = tt_environment("CUDA_LAUNCH_BLOCKING");
    return text != NULL && text[0] != '\0' && strcmp(text, "0") != 0;
}

/* NULL, unless it is plain that these ranks cannot go so. All come to the same end. */
static const char *refuse(const struct tt_comm *comm, const struct tt_spin_peer *peers)
{
    if (comm->settings.executor == TT_EXECUTOR_HOST)
        return "the setting executor is host";
    if (comm->n < 2 || comm->n > TT_SPIN_RANKS)
        return "they serve 2 to 8 ranks";
    if (comm->identity.host != NULL || comm->endpoint->control->ring == NULL)
        return "not all ranks are on one host";
    for (int r = 0; r < comm->n; r++) {
        if (!peers[r].present)
            return "some rank has no device";
        for (int k = 0; k < r; k++)
            if (strcmp(peers[k].address, peers[r].address) == 0)
                return "some ranks share a device";
    }
    return NULL;
}

/* Where all ranks are in one process, or each in its own, kernels tell each other where buffers are.
 * Elsewhere not: to map memory of another process may take a lock of this one until a device is idle, and
 * its kernel could wait for one that another rank of this process has still to launch. */
static void look_at_processes(struct tt_spin *spin, const struct tt_spin_peer *peers)
{
    int pairs = 0;
    for (int r = 0; r < spin->n; r++)
        for (int k = 0; k < r; k++)
            pairs += same_process(&peers[k], &peers[r]);
    spin->one_process = pairs == spin->n * (spin->n - 1) / 2;
    spin->maps = spin->one_process || pairs == 0;
}

/* Finds the rows of all ranks. Reads nothing that a rank may have written since it told. */
static tutti_status find_rows(struct tt_spin *spin, const struct tt_spin_peer *peers)
{
    spin->blocks = TT_PAD_BLOCKS;
    for (int r = 0; r < spin->n; r++) {
        spin->same_process[r] = same_process(&peers[r], &peers[spin->me]);
        spin->rows[r] = spin->its.row;
        if (r != spin->me) {
            spin->arenas[r] = tt_arena_find(peers[r].arena);
            if (spin->arenas[r] == NULL)
                return tt_fail(
                    TUTTI_SYSTEM_ERROR, "the memory of rank %d is not mapped at rank %d", r, spin->me);
            spin->rows[r] = (struct tt_spin_row *)(void *)(spin->arenas[r]->base + peers[r].offset);
        }
        if (!spin->same_process[r])
            tt_process_watch(&spin->processes[r], peers[r].process);
        uint32_t blocks = atomic_load(&spin->rows[r]->blocks);
        spin->blocks = blocks < spin->blocks ? blocks : spin->blocks;
        if (blocks == 0 && spin->why[0] == '\0')
            snprintf(spin->why, sizeof spin->why, "rank %d: %.200s", r, spin->rows[r]->why);
    }
    return TUTTI_OK;
}

/* What this rank alone sees is in the way; told with its first vote. */
static void look_around(struct tt_spin *spin, const struct tt_spin_peer *peers)
{
    char *why = spin->its.row->why;
    int here = 0;
    for (int r = 0; r < spin->n; r++) {
        bool reaches = true;
        here += spin->same_process[r];
        if (r == spin->me || why[0] != '\0')
            continue;
        enum tt_dev_error error = spin->dev->reaches(spin->its.device, peers[r].address, &reaches);
        if (error != TT_DEV_OK && error != TT_DEV_ABSENT)
            snprintf(why, TT_SPIN_WHY, "%.200s", spin->dev->why());
        else if (!reaches)
            snprintf(why, TT_SPIN_WHY, "its device, %d, does not reach the memory of that of rank %d",
                spin->its.device, r);
    }
    if (here > 1 && launches_block())
        snprintf(why, TT_SPIN_WHY, "its process has several ranks, and launches block there");
}

tutti_status tt_spin_connect(
    const struct tt_spin_setup *setup, const struct tt_spin_peer *peers, struct tt_spin **made)
{
    struct tt_comm *comm = setup->comm;
    const char *why = refuse(comm, peers);
    struct tt_spin *spin = aligned_alloc(_Alignof(struct tt_spin), sizeof *spin);
    if (spin == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the ranks of several devices");
    memset(spin, 0, sizeof *spin);
    spin->its = *setup;
    spin->comm = comm;
    spin->dev = setup->dev;
    spin->n = why == NULL ? comm->n : 0; /* there may be more ranks than it has room for */
    spin->me = comm->rank;
    *made = spin;
    tt_spin_set_meeting(spin);
    if (why != NULL) {
        snprintf(spin->why, sizeof spin->why, "%s", why);
        return TUTTI_OK;
    }
    look_at_processes(spin, peers);
    tutti_status status = find_rows(spin, peers);
    if (status == TUTTI_OK && ((spin->home = tt_spin_home_join(setup->slot, spin->n)) == NULL ||
                                  (spin->hands = tt_spin_hands_make()) == NULL))
        status = tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the pads of several devices");
    if (status == TUTTI_OK && spin->why[0] == '\0')
        look_around(spin, peers);
    return status;
}

/* --- Agreeing */

static void ring_all(const struct tt_spin *spin)
{
    struct tt_endpoint *e = spin->comm->endpoint;
    for (int r = 0; r < spin->n; r++)
        if (r != spin->me)
            e->control->ring(e, r);
}

/* The first decision counts. Each rank gets it in a row of its own: that of rank 0 may go with its
 * communicator, which it may destroy as soon as it is made. */
static void decide(const struct tt_spin *spin, enum tt_spin_phase phase, uint32_t decision)
{
    uint32_t none = TT_SPIN_UNDECIDED;
    if (!atomic_compare_exchange_strong(&spin->rows[0]->decided[phase], &none, decision))
        return;
    for (int r = spin->n; r-- > 0;)
        atomic_store(&spin->rows[r]->told[phase], decision);
    ring_all(spin);
}

static bool has_gone(const struct tt_spin *spin, int rank)
{
    return spin->arenas[rank] != NULL && !tt_arena_alive(spin->arenas[rank]);
}

/* Rank 0 decides when all have voted, or one has against it, or is gone. */
static void count_votes(const struct tt_spin *spin, enum tt_spin_phase phase)
{
    int yes = 0;
    for (int r = 0; r < spin->n; r++) {
        uint32_t vote = atomic_load(&spin->rows[r]->vote[phase]);
        yes += vote == TT_SPIN_YES;
        if (vote == TT_SPIN_NO || (vote == TT_SPIN_UNDECIDED && has_gone(spin, r)))
            decide(spin, phase, AGAINST + (uint32_t)r);
    }
    if (yes == spin->n)
        decide(spin, phase, TT_SPIN_YES);
}

static void vote(struct tt_spin *spin, enum tt_spin_phase phase, bool yes)
{
    atomic_store(&spin->its.row->vote[phase], yes ? TT_SPIN_YES : TT_SPIN_NO);
    ring_all(spin);
}

/* True if all ranks have voted so; the same at all of them. */
static bool await_decision(struct tt_spin *spin, enum tt_spin_phase phase)
{
    const struct tt_comm *comm = spin->comm;
    struct tt_wait w;
    uint32_t decided;
    int64_t until = tt_deadline_ns(spin->me == 0 ? LEADER_MS : OTHERS_MS);
    tt_wait_begin(&w, comm->waiting.policy, &comm->endpoint->doorbell, 1);
    while ((decided = atomic_load(&spin->its.row->told[phase])) == TT_SPIN_UNDECIDED) {
        if (spin->me == 0)
            count_votes(spin, phase);
        if (tt_now_ns() >= until || tt_comm_check(spin->comm) != TUTTI_OK || has_gone(spin, 0))
            decide(spin, phase, AGAINST + (uint32_t)spin->n);
        tt_wait_idle(&w);
    }
    tt_doorbell_ring_always(comm->endpoint->doorbell); /* it may end for another reason than a ring */
    tt_wait_awake(&w);
    return decided == TT_SPIN_YES;
}

/* Sets why it was decided against. */
static void explain(struct tt_spin *spin, enum tt_spin_phase phase)
{
    uint32_t r = atomic_load(&spin->its.row->told[phase]) - AGAINST;
    bool said = r < (uint32_t)spin->n && atomic_load(&spin->rows[r]->vote[phase]) == TT_SPIN_NO;
    if (said)
        snprintf(spin->why, sizeof spin->why, "rank %u: %.200s", r, spin->rows[r]->why);
    else
        snprintf(spin->why, sizeof spin->why, "some rank has ended, or did not answer in time");
}

/* --- What each does in a phase. False: its row says why. */

static bool __attribute__((format(printf, 2, 3))) fail(struct tt_spin *spin, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(spin->its.row->why, TT_SPIN_WHY, format, arguments);
    va_end(arguments);
    return false;
}

/* A pad begins as zeros; the rest of it, what a segment has for a block, does not matter. */
static enum tt_dev_error make_pad(struct tt_spin *spin)
{
    struct tt_dev_segment *pad = tt_spin_home_pad(spin->home, spin->me);
    const struct tt_dev *dev = spin->dev;
    void *stream = NULL;
    enum tt_dev_error error = dev->segment.alloc(sizeof(struct tt_pad) + SCRATCH_BYTES, pad);
    if (error == TT_DEV_OK)
        error = dev->stream.create(&stream);
    if (error == TT_DEV_OK)
        error = dev->fill(pad->base, 0, offsetof(struct tt_pad, room), stream);
    if (error == TT_DEV_OK)
        error = dev->stream.sync(stream);
    if (stream != NULL)
        dev->stream.destroy(stream);
    if (error == TT_DEV_OK) {
        spin->pads[spin->me] = pad->base;
        spin->scratch = (uint8_t *)pad->base + sizeof(struct tt_pad);
    }
    return error;
}

static bool make(struct tt_spin *spin)
{
    bool alone = true;
    if (spin->its.row->why[0] != '\0')
        return false;
    if (spin->dev->preload() != TT_DEV_OK)
        return fail(spin, "%.200s", spin->dev->why());
    if (make_pad(spin) != TT_DEV_OK)
        return fail(spin, "its pad of %zu bytes: %.160s", sizeof(struct tt_pad), spin->dev->why());
    for (int r = 0; r < spin->n; r++)
        alone = alone && spin->same_process[r];
    if (!alone && tt_importer_open(spin->dev, spin->its.device, spin->n, &spin->importer,
                      &spin->its.row->importer) != TUTTI_OK)
        return fail(spin, "%.200s", tt_last_error());
    if (spin->importer != NULL)
        tt_importer_keep(spin->importer);
    return true;
}

/* Hands the pad to that rank's importer, which keeps it mapped until it is closed. */
static bool hand_to(struct tt_spin *spin, int rank, const struct tt_dev_pointer *what)
{
    struct tt_exporter *exporter;
    char why[TT_EXPORT_WHY] = "";
    if (tt_exporter_open(spin->dev, spin->its.device, &spin->rows[rank]->importer, spin->me,
            &spin->numbers_over, HAND_OVER_MS, &exporter) != TUTTI_OK)
        return fail(spin, "%.200s", tt_last_error());
    bool handed = tt_exporter_add(exporter, what, HAND_OVER_MS, why) &&
                  tt_exporter_find(exporter, spin->pads[spin->me], sizeof(struct tt_pad), what, 0,
                      &spin->its.row->handed[rank].key, &spin->its.row->handed[rank].offset);
    if (!handed)
        fail(spin, "rank %d has not mapped its pad: %.160s", rank, why);
    spin->hands->exporters[rank] = exporter;
    return handed;
}

static bool hand_over(struct tt_spin *spin)
{
    struct tt_dev_pointer what;
    bool handed = true;
    if (spin->dev->memory.classify(spin->pads[spin->me], &what) != TT_DEV_OK)
        return fail(spin, "%.200s", spin->dev->why());
    for (int r = 0; r < spin->n && handed; r++)
        if (!spin->same_process[r])
            handed = hand_to(spin, r, &what);
    return handed;
}

static bool find(struct tt_spin *spin)
{
    for (int r = 0; r < spin->n; r++) {
        const struct tt_spin_row *row = spin->rows[r];
        if (spin->same_process[r])
            spin->pads[r] = tt_spin_home_pad(spin->home, r)->base;
        else
            spin->pads[r] = tt_importer_find(spin->importer, r, row->handed[spin->me].key,
                row->handed[spin->me].offset, sizeof(struct tt_pad));
        if (spin->pads[r] == NULL)
            return fail(spin, "it has not mapped the pad of rank %d", r);
    }
    return true;
}

static bool step(struct tt_spin *spin, enum tt_spin_phase phase)
{
    switch (phase) {
    case TT_SPIN_MADE:
        return make(spin);
    case TT_SPIN_HANDED:
        return hand_over(spin);
    case TT_SPIN_FOUND:
        return find(spin);
    case TT_SPIN_LAUNCHED:
        return tt_spin_trial_launch(spin, spin->its.row->why);
    default:
        return tt_spin_trial_judge(spin, spin->its.row->why);
    }
}

/* Of all ranks that this thread makes: first they all vote, and then it is decided. */
static bool pass(struct tt_spin *const *spins, int count, enum tt_spin_phase phase)
{
    bool yes = true;
    for (int i = 0; i < count; i++) {
        struct tt_spin *spin = spins[i];
        bool used = spin->dev->use(spin->its.device) == TT_DEV_OK || fail(spin, "%.200s", spin->dev->why());
        vote(spin, phase, used && step(spin, phase));
    }
    for (int i = 0; i < count; i++)
        yes = await_decision(spins[i], phase);
    for (int i = 0; i < count && !yes; i++)
        explain(spins[i], phase);
    return yes;
}

/* What only connecting needed. */
static void finish(struct tt_spin *spin, bool yes)
{
    spin->dev->use(spin->its.device);
    tt_spin_trial_end(spin);
    spin->serves = yes;
    if (yes)
        return;
    tt_spin_hand_back(spin);
    tt_spin_forget(&spin->its);
}

void tt_spin_open(struct tt_spin *const *spins, int count)
{
    const struct tt_spin *first = spins[0];
    int phase = 0, before = -1;
    bool known = first->dev->current(&before) == TT_DEV_OK, yes = first->why[0] == '\0';
    while (phase < TT_SPIN_PHASES && yes) {
        yes = pass(spins, count, (enum tt_spin_phase)phase);
        phase += yes;
    }
    for (int i = 0; i < count; i++)
        finish(spins[i], yes);
    if (known)
        first->dev->use(before);
    bool asked = first->comm->settings.executor == TT_EXECUTOR_SPIN;
    bool plain = first->home == NULL && !asked; /* nobody expected anything else */
    if (!yes && !plain && first->me == 0) /* that devices do not reach each other is how a machine is made */
        tt_log(phase > TT_SPIN_MADE || asked ? TT_LOG_WARN : TT_LOG_INFO,
            "%s: no kernels of several devices: %s; its calls go by the host's memory",
            first->comm->identity.name, first->why);
}

/* --- The end */

void tt_spin_free(struct tt_spin *spin, bool drained)
{
    tt_spin_hand_back(spin);
    if (spin->hands != NULL)
        tt_spin_hands_leave(spin->hands);
    for (int r = 0; r < spin->n; r++)
        tt_process_unwatch(&spin->processes[r]);
    if (spin->importer != NULL && drained)
        tt_importer_close(spin->importer);
    if (spin->home != NULL)
        tt_spin_home_leave(spin->home, spin->dev, drained);
    for (int r = 0; r < spin->n && drained; r++)
        if (spin->arenas[r] != NULL)
            tt_arena_release(spin->arenas[r]);
    if (drained)
        tt_spin_forget(&spin->its);
    free(spin);
}
