/* SPDX-License-Identifier: BSD-3-Clause */
/* tune.c: which tile, and how many splits, as a function of shape, room and table.
 *
 * Without a table it is a rule, which may be rough: large tiles where there are enough of them to fill the
 * multiprocessors, and splits where there are not. */
#include "training/kernels/cuda/tune.h"

const struct tr_cuda_tile tr_cuda_tiles[TR_CUDA_TILES] = { { 128, 128, 2 }, { 128, 64, 3 }, { 64, 64, 6 } };

static int64_t quotient_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t tiles_of(const struct tr_cuda_shape *s, int tile)
{
    return quotient_up(s->m, tr_cuda_tiles[tile].m) * quotient_up(s->n, tr_cuda_tiles[tile].n) * s->batch;
}

static int64_t largest_subtree(int64_t chunks)
{
    int64_t most = 1;
    while (most < chunks && most < TR_CUDA_SUBTREE)
        most *= 2;
    return most;
}

int64_t tr_cuda_subtree(int64_t chunks, int64_t splits)
{
    for (int64_t most = largest_subtree(chunks), subtree = most; subtree * 16 >= most && subtree;
         subtree /= 2)
        if (quotient_up(chunks, subtree) == splits)
            return subtree;
    return 0;
}

/* Roots of a split tree lie in the workspace, for one product that is no part of a batch. */
static bool may_split(const struct tr_cuda_shape *s, const struct tr_cuda_room *room, int64_t splits)
{
    return s->batch == 1 && s->mask == 0 && splits * s->m * s->n <= room->workspace_floats;
}

/* The splits of any tile, fewest first. The first one is always there: with more chunks than a block adds up
 * the product is cut until it has room. */
static int splits_of(const struct tr_cuda_shape *s, const struct tr_cuda_room *room,
    int64_t splits[TR_CUDA_CANDIDATES / TR_CUDA_TILES])
{
    int n = 0;
    int64_t most = largest_subtree(s->chunks);
    for (int64_t subtree = most; subtree * 16 >= most && subtree; subtree /= 2) {
        int64_t here = quotient_up(s->chunks, subtree);
        if (here > 1 && n > 0 && !may_split(s, room, here))
            break;
        splits[n++] = here;
    }
    return n;
}

int tr_cuda_candidates(const struct tr_cuda_shape *s, const struct tr_cuda_room *room,
    struct tr_cuda_choice of[TR_CUDA_CANDIDATES])
{
    int64_t splits[TR_CUDA_CANDIDATES / TR_CUDA_TILES];
    int n = splits_of(s, room, splits), count = 0;
    for (int32_t tile = 0; tile < TR_CUDA_TILES; tile++)
        for (int i = 0; i < n; i++)
            of[count++] = (struct tr_cuda_choice){ tile, splits[i] };
    return count;
}

static int32_t tile_by_rule(const struct tr_cuda_shape *s, const struct tr_cuda_room *room)
{
    if (s->n <= 64)
        return s->m <= 64 ? 2 : 1;
    int64_t splits = s->mask != 0 || s->chunks < 8 ? 1 : 8;
    if (tiles_of(s, 0) * splits >= room->multiprocessors)
        return 0;
    return tiles_of(s, 1) < room->multiprocessors ? 2 : 1;
}

/* What fills the machine best, where fewer splits win unless they are a tenth behind. */
static struct tr_cuda_choice by_rule(const struct tr_cuda_shape *s, const struct tr_cuda_room *room)
{
    int32_t tile = tile_by_rule(s, room);
    int64_t splits[TR_CUDA_CANDIDATES / TR_CUDA_TILES];
    int n = splits_of(s, room, splits);
    int64_t at_once = tr_cuda_tiles[tile].resident * room->multiprocessors;
    struct tr_cuda_choice best = { tile, splits[0] };
    double best_filled = 0;
    for (int i = 0; i < n; i++) {
        int64_t blocks = tiles_of(s, tile) * splits[i];
        double filled = (double)blocks / (double)(quotient_up(blocks, at_once) * at_once);
        if (filled > best_filled * 1.1) {
            best.splits = splits[i];
            best_filled = filled;
        }
    }
    return best;
}

static bool same_shape(const struct tr_cuda_shape *a, const struct tr_cuda_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->chunks == b->chunks && a->batch == b->batch &&
           a->mask == b->mask && a->a_along == b->a_along && a->b_along == b->b_along;
}

const struct tr_cuda_tuned *tr_cuda_find(const struct tr_cuda_tuning *t, const struct tr_cuda_shape *s)
{
    for (int32_t i = 0; t && i < t->count; i++)
        if (same_shape(&t->tuned[i].shape, s))
            return &t->tuned[i];
    return NULL;
}

struct tr_cuda_choice tr_cuda_choose(
    const struct tr_cuda_shape *s, const struct tr_cuda_room *room, const struct tr_cuda_tuning *t)
{
    const struct tr_cuda_tuned *found = tr_cuda_find(t, s);
    struct tr_cuda_choice legal[TR_CUDA_CANDIDATES];
    int n = found ? tr_cuda_candidates(s, room, legal) : 0;
    for (int i = 0; i < n; i++)
        if (legal[i].tile == found->choice.tile && legal[i].splits == found->choice.splits)
            return legal[i];
    return by_rule(s, room);
}
