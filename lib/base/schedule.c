/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule.c: the builder.
 *
 * Every cell (a chunk of IN, OUT or TMP; IN and OUT share cells in place) remembers its last writer and
 * the readers since. A step that reads waits for the writer; a step that writes waits for the writer and
 * the readers. A send reads until it is complete, so "reader done" means "nobody reads this memory any
 * more". A fold is one unit: its first step carries the dependencies of all. */
#include "base/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { NO_STEP = UINT32_MAX };
enum {
    FIRST_PAGES = 4,
    PAGE = 128 /* cells: rows of TMP are as long as the vector, and an algorithm may use a cell of each */
};

struct reader { /* one link of a cell's list of readers */
    uint32_t step, next;
};

struct cell {
    uint32_t writer, readers;
};

struct tt_builder {
    tutti_status status;
    struct tt_key key; /* of the whole; that of the schedule is the sub-schedule's, while there is one */
    const struct tt_sub_schedule *sub;
    uint32_t whole, width; /* chunks of the whole; of it per chunk of the sub-schedule */
    int queue;
    bool final, folding, fold_tree, order_edge, in_turn;
    uint32_t fold_first;
    uint32_t step_capacity, dep_capacity, page_count[TT_BUFFERS];
    struct cell **pages[TT_BUFFERS]; /* NULL: nothing there was used yet */
    struct cell *first_pages[TT_BUFFERS][FIRST_PAGES]; /* they are those, of a schedule that is not long */
    struct reader *readers;
    uint32_t reader_count, reader_capacity;
    uint32_t *stamp; /* stamp[i] == unit + 1: step i is already a dependency of `unit` */
};

void tt_spoil(struct tt_schedule *s, tutti_status status, const char *why)
{
    if (s->builder->status == TUTTI_OK)
        s->builder->status =
            tt_fail(status, "schedule %s, rank %d of %d: %s", s->algorithm, s->key.me, s->key.n, why);
}

/* Room for one more item: grows by doubling. False, with the error set, if there is no memory. */
static bool grow(struct tt_schedule *s, void **items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return true;
    uint32_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *bigger = realloc(*items, wanted * item_bytes);
    if (bigger == NULL) {
        tt_spoil(s, TUTTI_OUT_OF_MEMORY, "no memory");
        return false;
    }
    *items = bigger;
    *capacity = wanted;
    return true;
}

tutti_status tt_schedule_begin_lent(
    struct tt_schedule *schedule, const struct tt_key *key, const char *algorithm, uint32_t *counts)
{
    struct tt_schedule s = { .key = *key, .algorithm = algorithm, .lent = counts != NULL };
    s.builder = calloc(1, sizeof *s.builder);
    s.sends = counts != NULL ? counts : calloc((size_t)key->n, sizeof *s.sends);
    s.recvs = counts != NULL ? counts + key->n : calloc((size_t)key->n, sizeof *s.recvs);
    if (s.builder == NULL || s.sends == NULL || s.recvs == NULL) {
        tt_schedule_free(&s);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "schedule %s: no memory", algorithm);
    }
    s.builder->key = *key;
    for (int i = 0; i < TT_BUFFERS; i++) {
        s.builder->pages[i] = s.builder->first_pages[i];
        s.builder->page_count[i] = FIRST_PAGES;
    }
    *schedule = s;
    return TUTTI_OK;
}

tutti_status tt_schedule_begin(struct tt_schedule *schedule, const struct tt_key *key, const char *algorithm)
{
    return tt_schedule_begin_lent(schedule, key, algorithm, NULL);
}

static void free_builder(struct tt_builder *b)
{
    if (b == NULL)
        return;
    for (int i = 0; i < TT_BUFFERS; i++) {
        for (uint32_t page = 0; page < b->page_count[i]; page++)
            free(b->pages[i][page]);
        if (b->pages[i] != b->first_pages[i])
            free(b->pages[i]);
    }
    free(b->readers);
    free(b->stamp);
    free(b);
}

static void give_up_counts(struct tt_schedule *s)
{
    for (uint32_t i = 0; i < s->nsteps && s->lent && s->sends != NULL; i++)
        if (s->steps[i].peer != TT_NONE)
            s->sends[s->steps[i].peer] = s->recvs[s->steps[i].peer] = 0;
    if (!s->lent) {
        free(s->sends);
        free(s->recvs);
    }
    s->sends = s->recvs = NULL;
}

void tt_schedule_free(struct tt_schedule *schedule)
{
    free_builder(schedule->builder);
    give_up_counts(schedule);
    free(schedule->steps);
    free(schedule->deps);
    free(schedule->followers);
    free(schedule->follower_first);
    *schedule = (struct tt_schedule){ 0 };
}

/* Room for so many pages. */
static bool grow_pages(struct tt_builder *b, unsigned buffer, uint32_t pages)
{
    uint32_t wanted = pages > 2 * b->page_count[buffer] ? pages : 2 * b->page_count[buffer];
    bool first = b->pages[buffer] == b->first_pages[buffer];
    struct cell **bigger = realloc(first ? NULL : b->pages[buffer], wanted * sizeof *bigger);
    if (bigger == NULL)
        return false;
    if (first)
        memcpy(bigger, b->first_pages[buffer], sizeof b->first_pages[buffer]);
    for (uint32_t i = b->page_count[buffer]; i < wanted; i++)
        bigger[i] = NULL;
    b->pages[buffer] = bigger;
    b->page_count[buffer] = wanted;
    return true;
}

/* The record of a cell; IN's live with OUT's in place. NULL, with the error set, if there is no memory. */
static struct cell *cell_at(struct tt_schedule *s, unsigned buffer, uint32_t chunk)
{
    struct tt_builder *b = s->builder;
    uint32_t page = chunk / PAGE;
    if (b->key.in_place && buffer == TT_IN)
        buffer = TT_OUT;
    bool there = page < b->page_count[buffer] || grow_pages(b, buffer, page + 1);
    if (there && b->pages[buffer][page] == NULL) {
        struct cell *cells = malloc(PAGE * sizeof *cells);
        for (uint32_t i = 0; i < PAGE && cells != NULL; i++)
            cells[i] = (struct cell){ NO_STEP, NO_STEP };
        b->pages[buffer][page] = cells;
    }
    if (!there || b->pages[buffer][page] == NULL) {
        tt_spoil(s, TUTTI_OUT_OF_MEMORY, "no memory");
        return NULL;
    }
    return &b->pages[buffer][page][chunk % PAGE];
}

/* `unit` (the last step, or the first of an open fold) waits for `earlier`. */
static void depend(struct tt_schedule *s, uint32_t unit, uint32_t earlier)
{
    struct tt_builder *b = s->builder;
    if (earlier == NO_STEP || earlier == unit || b->stamp[earlier] == unit + 1)
        return;
    if (!grow(s, (void **)&s->deps, s->ndeps, &b->dep_capacity, sizeof *s->deps))
        return;
    if (s->steps[unit].dep_count == UINT16_MAX) {
        tt_spoil(s, TUTTI_INTERNAL_ERROR, "a step with more than 65535 dependencies");
        return;
    }
    b->stamp[earlier] = unit + 1;
    s->deps[s->ndeps++] = earlier;
    s->steps[unit].dep_count++;
}

static void reads(struct tt_schedule *s, uint32_t unit, struct tt_cells range)
{
    struct tt_builder *b = s->builder;
    for (uint32_t c = range.chunk; c < range.chunk + range.count; c++) {
        struct cell *cell = cell_at(s, range.buffer, c);
        if (cell == NULL)
            return;
        depend(s, unit, cell->writer);
        if (!grow(s, (void **)&b->readers, b->reader_count, &b->reader_capacity, sizeof *b->readers))
            return;
        b->readers[b->reader_count] = (struct reader){ unit, cell->readers };
        cell->readers = b->reader_count++;
    }
}

static void writes(struct tt_schedule *s, uint32_t unit, struct tt_cells range)
{
    for (uint32_t c = range.chunk; c < range.chunk + range.count; c++) {
        struct cell *cell = cell_at(s, range.buffer, c);
        if (cell == NULL)
            return;
        depend(s, unit, cell->writer);
        for (uint32_t r = cell->readers; r != NO_STEP; r = s->builder->readers[r].next)
            depend(s, unit, s->builder->readers[r].step);
        *cell = (struct cell){ unit, NO_STEP };
    }
}

static bool legal(
    struct tt_schedule *s, int peer, bool message, const struct tt_cells *a, const struct tt_cells *b)
{
    if (s->builder->status != TUTTI_OK)
        return false;
    const char *why = NULL;
    if (s->chunks == 0)
        why = "a step before tt_chunks";
    else if (message && (peer < 0 || peer >= s->key.n || peer == s->key.me))
        why = "a peer that is not another rank";
    else if (s->nsteps >= TT_STEPS_MAX)
        why = "more than 4194304 steps";
    for (int i = 0; i < 2 && why == NULL; i++) {
        const struct tt_cells *r = i == 0 ? a : b;
        if (r != NULL && (r->count == 0 || r->count > s->chunks))
            why = "an empty range, or one longer than the vector";
        else if (r != NULL && r->buffer != TT_TMP && r->chunk + r->count > s->chunks)
            why = "a range beyond the last chunk";
        else if (r != NULL && r->count != a->count)
            why = "operands of different length";
    }
    if (why != NULL)
        tt_spoil(s, TUTTI_INTERNAL_ERROR, why);
    return why == NULL;
}

static void use_tmp(struct tt_schedule *s, struct tt_cells range)
{
    if (range.buffer == TT_TMP && range.chunk + range.count > s->tmp_cells)
        s->tmp_cells = range.chunk + range.count;
}

/* Append a step; returns it, or NULL once the build has failed. */
static struct tt_step *append(struct tt_schedule *s, enum tt_verb verb, int peer)
{
    struct tt_builder *b = s->builder;
    uint32_t capacity = b->step_capacity, stamps = b->step_capacity;
    if (!grow(s, (void **)&s->steps, s->nsteps, &capacity, sizeof *s->steps) ||
        !grow(s, (void **)&b->stamp, s->nsteps, &stamps, sizeof *b->stamp))
        return NULL;
    b->step_capacity = capacity;
    b->stamp[s->nsteps] = 0;
    struct tt_step *step = &s->steps[s->nsteps++];
    *step = (struct tt_step){ .verb = (uint8_t)verb, .peer = peer, .dep_first = s->ndeps, .fold_count = 1 };
    step->flags = (uint8_t)(b->queue << TT_QUEUE_SHIFT);
    if (b->order_edge && s->nsteps > 1)
        depend(s, s->nsteps - 1, s->nsteps - 2 - step[-1].fold_index);
    b->order_edge = false;
    if (verb == TT_VERB_SEND)
        step->ordinal = s->sends[peer]++;
    else if (verb == TT_VERB_RECV || verb == TT_VERB_RECV_REDUCE)
        step->ordinal = s->recvs[peer]++;
    return step;
}

static void set_dst(struct tt_schedule *s, struct tt_step *step, struct tt_cells dst)
{
    step->dst_buffer = (uint8_t)dst.buffer;
    step->dst_chunk = dst.chunk;
    step->nchunks = dst.count;
    use_tmp(s, dst);
}

static void set_src(struct tt_schedule *s, struct tt_step *step, struct tt_cells src)
{
    step->src_buffer = src.buffer & 15;
    step->src_chunk = src.chunk;
    step->nchunks = src.count;
    use_tmp(s, src);
}

void tt_chunks(struct tt_schedule *s, uint32_t chunks)
{
    struct tt_builder *b = s->builder;
    const struct tt_sub_schedule *sub = b->sub;
    if (chunks == 0 || (sub == NULL && s->nsteps > 0))
        tt_spoil(s, TUTTI_INTERNAL_ERROR, "tt_chunks after the first step, or of 0");
    else if (sub != NULL && sub->map == NULL && sub->in.count % chunks != 0)
        tt_spoil(s, TUTTI_INTERNAL_ERROR, "a sub-schedule whose chunks are no part of its cells");
    else if (sub != NULL)
        b->width = sub->map == NULL ? sub->in.count / chunks : 1;
    s->chunks = chunks;
    if (sub == NULL)
        s->max_chunks = 1;
}

void tt_max_chunks(struct tt_schedule *s, uint32_t max_chunks)
{
    if (s->builder->sub == NULL)
        s->max_chunks = max_chunks > 0 ? max_chunks : 1;
}

/* The cells of the whole for those that a sub-schedule names. Rows of TMP are as long as the vector. */
static struct tt_cells place(struct tt_schedule *s, struct tt_cells cells)
{
    const struct tt_builder *b = s->builder;
    const struct tt_sub_schedule *sub = b->sub;
    if (sub == NULL || b->status != TUTTI_OK)
        return cells;
    uint32_t column = cells.chunk % s->chunks, row = cells.chunk / s->chunks;
    if (column + cells.count > s->chunks || (sub->map != NULL && cells.count > 1))
        tt_spoil(s, TUTTI_INTERNAL_ERROR, "a range that a sub-schedule cannot place");
    struct tt_cells base = cells.buffer == TT_IN ? sub->in : sub->out;
    if (cells.buffer == TT_TMP)
        base = tt_tmp(sub->tmp + row * b->whole + sub->in.chunk % b->whole);
    uint32_t chunk = sub->map != NULL ? (uint32_t)sub->map[column] : column * b->width;
    return tt_range(base.buffer, base.chunk + chunk, cells.count * b->width);
}

/* Reverses the cells of a message. */
static struct tt_cells carry(struct tt_schedule *s, struct tt_cells cells)
{
    cells = place(s, cells);
    if (cells.count > s->max_chunks)
        tt_spoil(s, TUTTI_INTERNAL_ERROR, "a message longer than tt_max_chunks says");
    return cells;
}

static bool is_final(const struct tt_builder *b)
{
    return b->final && (b->sub == NULL || b->sub->completes);
}

void tt_run_sub_schedule(struct tt_schedule *s, const struct tt_sub_schedule *sub, const struct tt_team *team,
    int root, tt_generator generate)
{
    struct tt_builder *b = s->builder;
    if (b->sub != NULL || s->chunks == 0)
        tt_spoil(s, TUTTI_INTERNAL_ERROR, "a sub-schedule inside another, or before tt_chunks");
    b->sub = sub;
    b->whole = s->chunks;
    s->key.collective = (uint8_t)sub->collective;
    s->key.in_place =
        sub->in.chunk == sub->out.chunk && tt_same_memory(&b->key, sub->in.buffer, sub->out.buffer);
    generate(s, team, root);
    s->key = b->key;
    s->chunks = b->whole;
    b->sub = NULL;
}

void tt_queue(struct tt_schedule *s, int queue)
{
    if (queue < 0 || queue > 15)
        tt_spoil(s, TUTTI_INTERNAL_ERROR, "a queue outside 0..15");
    else
        s->builder->queue = queue;
}

void tt_final(struct tt_schedule *s, bool final)
{
    s->builder->final = final;
}

void tt_order_edge(struct tt_schedule *s)
{
    s->builder->order_edge = true;
}

void tt_in_turn(struct tt_schedule *s, bool in_turn)
{
    s->builder->in_turn = in_turn;
}

/* The last step waits for the send before it to the same peer, but not for one that it follows at once: these
 * go together. */
static void wait_for_last_send(struct tt_schedule *s)
{
    uint32_t last = s->nsteps - 1;
    bool together = true;
    for (uint32_t i = last; i-- > 0;) {
        bool same = s->steps[i].verb == TT_VERB_SEND && s->steps[i].peer == s->steps[last].peer;
        together = together && same;
        if (same && !together) {
            depend(s, last, i);
            return;
        }
    }
}

void tt_send(struct tt_schedule *s, int peer, struct tt_cells src)
{
    struct tt_step *step;
    if (!legal(s, peer, true, &src, NULL) || (step = append(s, TT_VERB_SEND, peer)) == NULL)
        return;
    src = carry(s, src);
    set_src(s, step, src);
    if (s->builder->in_turn)
        wait_for_last_send(s);
    reads(s, s->nsteps - 1, src);
}

void tt_recv(struct tt_schedule *s, int peer, struct tt_cells dst)
{
    struct tt_step *step;
    if (!legal(s, peer, true, &dst, NULL) || (step = append(s, TT_VERB_RECV, peer)) == NULL)
        return;
    dst = carry(s, dst);
    set_dst(s, step, dst);
    writes(s, s->nsteps - 1, dst);
}

void tt_recv_reduce(struct tt_schedule *s, int peer, struct tt_cells dst, struct tt_cells src, bool left)
{
    struct tt_builder *b = s->builder;
    struct tt_step *step;
    if (!legal(s, peer, true, &dst, &src) || (step = append(s, TT_VERB_RECV_REDUCE, peer)) == NULL)
        return;
    src = place(s, src);
    dst = carry(s, dst);
    set_src(s, step, src);
    set_dst(s, step, dst);
    step->flags |= (uint8_t)((left ? TT_LEFT : 0) | (is_final(b) ? TT_FINAL : 0));
    if (!b->folding) {
        reads(s, s->nsteps - 1, src);
        writes(s, s->nsteps - 1, dst);
        return;
    }
    uint32_t unit = b->fold_first, index = s->nsteps - 1 - unit;
    const struct tt_step *first = &s->steps[unit];
    if (index >= TT_FOLD_MAX || first->dst_buffer != step->dst_buffer ||
        first->dst_chunk != step->dst_chunk || first->src_buffer != step->src_buffer ||
        first->src_chunk != step->src_chunk || first->nchunks != step->nchunks) {
        tt_spoil(s, TUTTI_INTERNAL_ERROR, "a fold of more than 8, or with different cells");
        return;
    }
    step->fold_index = (uint8_t)index;
    if (b->fold_tree)
        step->flags |= TT_FOLD_TREE;
    if (index == 0) { /* the others touch the same cells, as one unit */
        reads(s, unit, src);
        writes(s, unit, dst);
    }
}

void tt_reduce(struct tt_schedule *s, struct tt_cells dst, struct tt_cells left, struct tt_cells right)
{
    struct tt_step *step;
    if (!legal(s, TT_NONE, false, &dst, &left) || !legal(s, TT_NONE, false, &dst, &right) ||
        (step = append(s, TT_VERB_REDUCE, TT_NONE)) == NULL)
        return;
    dst = place(s, dst);
    left = place(s, left);
    right = place(s, right);
    set_src(s, step, left);
    set_dst(s, step, dst);
    use_tmp(s, right);
    step->right_buffer = right.buffer & 15;
    step->right_chunk = right.chunk;
    if (is_final(s->builder))
        step->flags |= TT_FINAL;
    reads(s, s->nsteps - 1, left);
    reads(s, s->nsteps - 1, right);
    writes(s, s->nsteps - 1, dst);
}

void tt_copy(struct tt_schedule *s, struct tt_cells dst, struct tt_cells src)
{
    struct tt_step *step;
    if (!legal(s, TT_NONE, false, &dst, &src))
        return;
    dst = place(s, dst);
    src = place(s, src);
    if (dst.chunk == src.chunk && tt_same_memory(&s->builder->key, dst.buffer, src.buffer))
        return;
    if ((step = append(s, TT_VERB_COPY, TT_NONE)) == NULL)
        return;
    set_src(s, step, src);
    set_dst(s, step, dst);
    reads(s, s->nsteps - 1, src);
    writes(s, s->nsteps - 1, dst);
}

void tt_fold_begin(struct tt_schedule *s, bool tree)
{
    struct tt_builder *b = s->builder;
    if (b->folding)
        tt_spoil(s, TUTTI_INTERNAL_ERROR, "a fold inside a fold");
    b->folding = true;
    b->fold_tree = tree;
    b->fold_first = s->nsteps;
}

void tt_fold_end(struct tt_schedule *s)
{
    struct tt_builder *b = s->builder;
    b->folding = false;
    for (uint32_t i = b->fold_first; i < s->nsteps; i++)
        s->steps[i].fold_count = (uint8_t)(s->nsteps - b->fold_first);
    if (s->nsteps - b->fold_first == 1) /* one operation has one shape */
        s->steps[b->fold_first].flags &= (uint8_t)~TT_FOLD_TREE;
}

/* Lists for each step those that wait for it: the executor needs them when it is done. */
static bool list_followers(struct tt_schedule *s)
{
    s->follower_first = calloc((size_t)s->nsteps + 2, sizeof *s->follower_first);
    s->followers = malloc(((size_t)s->ndeps + 1) * sizeof *s->followers);
    if (s->follower_first == NULL || s->followers == NULL)
        return false;
    uint32_t *next =
        s->follower_first + 1; /* becomes the running position, then shifts into place by itself */
    for (uint32_t d = 0; d < s->ndeps; d++)
        next[s->deps[d] + 1]++;
    for (uint32_t i = 0; i < s->nsteps; i++)
        next[i + 1] += next[i];
    for (uint32_t i = 0; i < s->nsteps; i++)
        for (uint32_t d = 0; d < s->steps[i].dep_count; d++)
            s->followers[next[s->deps[s->steps[i].dep_first + d]]++] = i;
    return true;
}

tutti_status tt_schedule_end(struct tt_schedule *schedule)
{
    if (schedule->builder->folding)
        tt_spoil(schedule, TUTTI_INTERNAL_ERROR, "a fold that was not ended");
    if (schedule->builder->status == TUTTI_OK && !list_followers(schedule))
        tt_spoil(schedule, TUTTI_OUT_OF_MEMORY, "no memory");
    tutti_status status = schedule->builder->status;
    if (status != TUTTI_OK) {
        tt_schedule_free(schedule);
        return status;
    }
    free_builder(schedule->builder);
    schedule->builder = NULL;
    if (schedule->lent)
        give_up_counts(schedule);
    return TUTTI_OK;
}

int tt_team_rank(const struct tt_team *team, int index)
{
    int i = index % team->n;
    if (i < 0)
        i += team->n;
    return team->ranks != NULL ? team->ranks[i] : i;
}
