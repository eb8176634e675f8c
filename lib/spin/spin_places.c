/* SPDX-License-Identifier: BSD-3-Clause */
/* spin_places.c: where other ranks' kernels reach a rank's buffers, and what is handed over for that.
 *
 * Within a process all devices reach memory of tutti_mem_alloc, at its own address. To other processes it is
 * handed over when a call first uses it, and other memory when it is registered, or used, as the settings
 * say (segment/); each answers where it has it. A buffer that some rank cannot reach is told to all as
 * reached by none: so all decide alike. */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "segment/exporter.h"
#include "spin/spin.h"

/* --- What is handed over */

struct tt_spin_hands *tt_spin_hands_make(void)
{
    struct tt_spin_hands *hands = calloc(1, sizeof *hands);
    if (hands == NULL)
        return NULL;
    pthread_mutex_init(&hands->lock, NULL);
    hands->users = 1;
    return hands;
}

void tt_spin_hands_leave(struct tt_spin_hands *hands)
{
    pthread_mutex_lock(&hands->lock);
    bool last = --hands->users == 0;
    pthread_mutex_unlock(&hands->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&hands->lock);
    free(hands);
}

void tt_spin_hand_back(struct tt_spin *spin)
{
    struct tt_exporter *all[TT_SPIN_RANKS];
    struct tt_spin_hands *hands = spin->hands;
    if (hands == NULL)
        return;
    pthread_mutex_lock(&hands->lock);
    memcpy(all, hands->exporters, sizeof all);
    memset(hands->exporters, 0, sizeof hands->exporters);
    pthread_mutex_unlock(&hands->lock);
    for (int r = 0; r < spin->n; r++)
        if (all[r] != NULL)
            tt_exporter_close(all[r]);
}

/* What a captured call uses stays mapped as long as its graph. */
struct held {
    struct tt_spin_hands *hands;
    int count;
    struct {
        int rank;
        uint32_t key;
    } keys[2 * TT_SPIN_RANKS];
};

static void release(void *argument)
{
    struct held *held = argument;
    pthread_mutex_lock(&held->hands->lock);
    for (int i = 0; i < held->count; i++) {
        struct tt_exporter *exporter = held->hands->exporters[held->keys[i].rank];
        if (exporter != NULL)
            tt_exporter_release(exporter, held->keys[i].key);
    }
    pthread_mutex_unlock(&held->hands->lock);
    tt_spin_hands_leave(held->hands);
    free(held);
}

static enum tt_dev_error hold(const struct tt_spin *spin, const struct held *found, void *stream)
{
    struct tt_dev_capture capture;
    struct held *held = malloc(sizeof *held);
    enum tt_dev_error error = spin->dev->stream.capture(stream, &capture);
    if (held == NULL || error != TT_DEV_OK) {
        free(held);
        return held == NULL ? TT_DEV_NO_MEMORY : error;
    }
    *held = *found;
    held->hands = spin->hands;
    pthread_mutex_lock(&spin->hands->lock);
    spin->hands->users++;
    pthread_mutex_unlock(&spin->hands->lock);
    for (int i = 0; i < held->count; i++)
        tt_exporter_hold(spin->hands->exporters[held->keys[i].rank], held->keys[i].key);
    error = capture.active ? spin->dev->graph.retain(capture.graph, release, held) : TT_DEV_CAPTURE;
    if (error != TT_DEV_OK)
        release(held);
    return error;
}

/* --- Where a buffer is */

struct search {
    struct tt_spin *spin;
    uint64_t last; /* the number of the call's last kernel; 0: it is captured */
    struct held held;
};

/* To other processes; what some rank does not have yet is asked for, if the settings and the memory let it.
 */
static bool find_in_others(struct search *s, const void *buffer, uint64_t bytes,
    const struct tt_dev_pointer *what, uint64_t there[TT_SPIN_RANKS])
{
    const struct tt_spin *spin = s->spin;
    bool all = true, any = spin->comm->settings.device_import == TT_IMPORT_ALL && s->last != 0;
    for (int r = 0; r < spin->n; r++) {
        struct tt_exporter *exporter = spin->hands->exporters[r];
        uint32_t key;
        uint64_t offset;
        if (r == spin->me)
            continue;
        if (tt_exporter_find(exporter, buffer, bytes, what, s->last, &key, &offset)) {
            there[r] = tt_exporter_address(exporter, key) + offset;
            s->held.keys[s->held.count].rank = r;
            s->held.keys[s->held.count++].key = key;
            continue;
        }
        all = false;
        if (any)
            tt_exporter_ask(exporter, what, TT_EXPORT_USED);
        else if (spin->its.given((void *)what->base))
            tt_exporter_ask(exporter, what, TT_EXPORT_GIVEN);
    }
    return all;
}

/* Sets where each rank reaches the buffer; false: not all of them do. */
static bool find(struct search *s, const void *buffer, uint64_t bytes, uint64_t there[TT_SPIN_RANKS])
{
    struct tt_dev_pointer what;
    const struct tt_spin *spin = s->spin;
    if (spin->dev->memory.classify(buffer, &what) != TT_DEV_OK || what.kind != TT_DEV_DEVICE ||
        (uintptr_t)buffer + bytes > what.base + what.bytes)
        return false;
    for (int r = 0; r < spin->n; r++)
        there[r] = (uintptr_t)buffer;
    return spin->one_process ? spin->its.given((void *)what.base)
                             : find_in_others(s, buffer, bytes, &what, there);
}

const char *tt_spin_says_where(const struct tt_spin *spin)
{
    if (!spin->maps)
        return "by pads: some process has several ranks, and another process has some, too";
    return spin->one_process
               ? "in place, where all of them are tutti_mem_alloc's; else by pads"
               : "in place, where all of them are tutti_mem_alloc's, registered, or handed over by "
                 "device_import=all; else by pads";
}

/* The end of what these blocks are. */
static uint64_t end_of(const struct tt_direct_block *blocks, int count)
{
    uint64_t end = 0;
    for (int k = 0; k < count; k++)
        if (blocks[k].bytes > 0 && blocks[k].at + blocks[k].bytes > end)
            end = blocks[k].at + blocks[k].bytes;
    return end;
}

/* An exchange in place stores where others still read. */
static bool may(const struct tt_call *call)
{
    return tt_collectives[call->collective].result != TT_RESULT_EXCHANGED || call->send != call->recv;
}

enum tt_dev_error tt_spin_place(struct tt_spin *spin, const struct tt_spin_call *of, uint64_t last,
    void *stream, struct tt_direct_params *p)
{
    uint64_t in[TT_SPIN_RANKS] = { 0 }, out[TT_SPIN_RANKS] = { 0 };
    struct search s = { .spin = spin, .last = last };
    uint64_t given = end_of(p->send, (int)p->blocks), got = p->shares ? p->receive[spin->me].bytes : 0;
    bool reached = may(of->call) && (given == 0 || of->reached[TT_IN]) && (got == 0 || of->reached[TT_OUT]);
    if (reached && given > 0)
        reached = find(&s, of->call->send, given, in);
    if (reached && got > 0)
        reached = find(&s, (uint8_t *)of->call->recv + p->receive[spin->me].at, got, out);
    for (int r = 0; r < spin->n && reached; r++) {
        const struct tt_direct_block *block = &p->send[p->blocks == 1 ? 0 : r];
        p->place[r][TT_IN] = tt_direct_place(block->bytes > 0 ? in[r] + block->at : 0);
        p->place[r][TT_OUT] = tt_direct_place(out[r]);
    }
    if (reached)
        atomic_store(&spin->placed, true);
    return reached && last == 0 && s.held.count > 0 ? hold(spin, &s.held, stream) : TT_DEV_OK;
}
