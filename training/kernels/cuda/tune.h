/* SPDX-License-Identifier: BSD-3-Clause */
/* tune.h: in which tiles a product is computed, and how many blocks of threads share the tree of an element.
 *
 * No choice changes a bit. So what is fastest may be measured in the first step of a run, where each
 * candidate computes the product once more, and be kept in a file for the next runs on such a device. */
#ifndef TRAINING_KERNELS_CUDA_TUNE_H
#define TRAINING_KERNELS_CUDA_TUNE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TR_CUDA_TILES = 3,
    TR_CUDA_SUBTREE = 64, /* chunks that a block adds up at most */
    TR_CUDA_CANDIDATES = TR_CUDA_TILES * 5, /* of one product, at most */
    TR_CUDA_MOST_TUNED = 512,
    TR_CUDA_NAME = 256
};

/* The sides of a tile, and how many of it find room on a multiprocessor. */
struct tr_cuda_tile {
    int64_t m, n, resident;
};
extern const struct tr_cuda_tile tr_cuda_tiles[TR_CUDA_TILES];

/* All that the choice hangs on; mask: enum mask of gemm.cuh, of which 0 is none. */
struct tr_cuda_shape {
    int64_t m, n, k, chunks, batch;
    int32_t mask;
    bool a_along, b_along;
};
struct tr_cuda_room {
    int64_t multiprocessors, workspace_floats;
};
struct tr_cuda_choice {
    int32_t tile;
    int64_t splits; /* blocks for each tile, of which each has a whole subtree of the chunks */
};

struct tr_cuda_tuned {
    struct tr_cuda_shape shape;
    struct tr_cuda_choice choice;
    int64_t ns; /* what it took */
};

struct tr_cuda;
/* What was measured on one kind of device. */
struct tr_cuda_tuning {
    char device[TR_CUDA_NAME], driver[TR_CUDA_NAME];
    /* The time in ns when all is over that was started; NULL: what is not in the table goes by the rule. A
     * step that is captured into a graph may not be measured. */
    int64_t (*now)(struct tr_cuda *c);
    int32_t count;
    struct tr_cuda_tuned tuned[TR_CUDA_MOST_TUNED];
};

/* Chunks that a block adds up if there are so many splits: a power of two; 0 if no power gives that many. */
int64_t tr_cuda_subtree(int64_t chunks, int64_t splits);
/* The legal ones, and how many these are: at least one. */
int tr_cuda_candidates(const struct tr_cuda_shape *s, const struct tr_cuda_room *room,
    struct tr_cuda_choice of[TR_CUDA_CANDIDATES]);
/* What the table has for this shape, NULL if nothing. */
const struct tr_cuda_tuned *tr_cuda_find(const struct tr_cuda_tuning *t, const struct tr_cuda_shape *s);
/* That, if it is legal here; else, and where t is NULL, what the rule says. */
struct tr_cuda_choice tr_cuda_choose(
    const struct tr_cuda_shape *s, const struct tr_cuda_room *room, const struct tr_cuda_tuning *t);

/* The file: its format is in tuning_file.c. `read` takes what was measured on the device whose name t has,
 * and on no other; false: t is as before, and words say what is wrong. `write` replaces the file at once. */
bool tr_cuda_tuning_read(struct tr_cuda_tuning *t, const char *path, char *words, size_t size);
bool tr_cuda_tuning_write(const struct tr_cuda_tuning *t, const char *path, char *words, size_t size);

#ifdef __cplusplus
}
#endif
#endif
