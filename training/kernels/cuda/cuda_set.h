/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_set.h: the kernels on a device: what a context of this set has in hand, and the set's functions.
 *
 * The set does not start kernels itself. Who makes the context says how one is started: on a stream of a
 * device, or on the processor by an emulator. So the same text of the functions, which choose tiles, cut sums
 * and lay out scratch, runs in tests without a device. */
#ifndef TRAINING_KERNELS_CUDA_SET_H
#define TRAINING_KERNELS_CUDA_SET_H
#include <stddef.h>

#include "training/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tr_cuda_launch {
    const void *function;
    const void *params; /* lie still until the call is over */
    int64_t params_bytes;
    uint32_t grid, block; /* blocks; threads of a block */
};

struct tr_cuda_tuning;
struct tr_cublas;
/* What `self` of a context is. Functions of the set only start kernels, one behind the other on one stream,
 * which is why they may share the workspace. */
struct tr_cuda {
    /* Returns 0, or the error's number as the device's runtime has it. */
    int (*launch)(struct tr_cuda *c, const struct tr_cuda_launch *l);
    void *stream;
    float *workspace; /* of the device, aligned to 16 bytes: roots of trees that several blocks compute */
    int64_t workspace_floats; /* how few there are decides how much is done at once, but no bit */
    int32_t multiprocessors; /* likewise */
    struct tr_cuda_tuning *tuning; /* tune.h; NULL: tiles and splits go by the rule */
    struct tr_cublas *blas; /* cublas.h; of a set in free order alone */
};

/* Room for the leaves of a sum of 2^16 parts over 64 columns; and the error's number, as the runtime has it,
 * where a workspace is so small that a sum has no room for its leaves. */
enum { TR_CUDA_WORKSPACE_LEAST = 1 << 22, TR_CUDA_INVALID = 1 };

/* The table of the functions below. */
extern const struct tr_kernels tr_kernels_cuda;

/* What a status means: of who starts kernels. */
const char *tr_cuda_words(int status);

struct tr_cuda_facts { /* of a device */
    char name[64], address[32]; /* on the bus: which devices of two processes are one */
    char driver[32]; /* "CUDA 13.0" */
    int32_t multiprocessors;
    int64_t free; /* bytes, when it was asked */
};

/* In which numbers cuBLAS multiplies factors; operands, sums and results are float32. */
enum tr_cublas_precision {
    TR_CUBLAS_FLOAT32 = 68, /* CUBLAS_COMPUTE_32F */
    TR_CUBLAS_BFLOAT16 = 75, /* CUBLAS_COMPUTE_32F_FAST_16BF */
    TR_CUBLAS_TF32 = 77 /* CUBLAS_COMPUTE_32F_FAST_TF32 */
};
struct tr_cublas;
struct tr_cuda_tuning;

/* What a library of this set offers: the kernels, and as much of a device's runtime as it takes to run them.
 * Functions return 0, or the error's number, as `launch` does. Copies of memory that the device knows,
 * fills, records and awaits only begin something on the stream; wait and sync wait. `use` comes first. */
struct tr_cuda_library {
    uint32_t version; /* TR_CUDA_VERSION */
    uint32_t kernels_bytes; /* of struct tr_kernels, which has no number of its own */
    const struct tr_kernels *kernels;
    int (*launch)(struct tr_cuda *c, const struct tr_cuda_launch *l);
    int (*use)(int device, struct tr_cuda_facts *facts); /* from now on this thread does */
    int (*pin)(void **memory, int64_t bytes); /* takes memory of the host that devices know */
    int (*unpin)(void *memory);
    int (*stream)(void **stream);
    int (*end_stream)(void *stream);
    int (*event)(void **event);
    int (*timed_event)(void **event); /* one of which `elapsed` tells the time */
    int (*end_event)(void *event);
    int (*record)(void *event, void *stream);
    int (*await)(void *stream, void *event); /* what comes on the stream waits for what was recorded */
    int (*wait)(void *event); /* the processor waits for it */
    int (*elapsed)(void *begin, void *end, float *ms); /* both are over */
    int (*copy)(void *stream, void *to, const void *from, int64_t bytes);
    int (*fill)(void *stream, void *to, int byte, int64_t bytes);
    int (*sync)(void *stream);
    /* What is begun on the stream, and on those that wait for it, becomes a graph, up to `kept`. */
    int (*keep)(void *stream);
    int (*kept)(void *stream, void **graph);
    int (*replay)(void *graph, void *stream);
    int (*drop)(void *graph);
    /* cublas.h */
    bool (*open_cublas)(struct tr_cublas *b, void *stream, enum tr_cublas_precision precision,
        const char *library, char *words, size_t size);
    void (*close_cublas)(struct tr_cublas *b);
    void (*free_order)(struct tr_kernels *set);
    /* tune.h */
    bool (*read_tuning)(struct tr_cuda_tuning *t, const char *path, char *words, size_t size);
    bool (*write_tuning)(const struct tr_cuda_tuning *t, const char *path, char *words, size_t size);
    /* For profilers: what this thread begins, up to the end of as many ranges, is of this one. Without a
     * profiler they cost a look. */
    void (*begin_range)(const char *does, const char *name);
    void (*end_range)(void);
};
enum { TR_CUDA_VERSION = 3 };

/* The one function that such a library exports, by this name. */
#define TR_CUDA_OFFER "tr_cuda_offer"
typedef const struct tr_cuda_library *tr_cuda_offer_fn(void);
__attribute__((visibility("default"))) const struct tr_cuda_library *tr_cuda_offer(void);

/* train_gemm.cu */
void tr_cuda_gemm(struct tr_context *x, const struct tr_gemm *g, float *scratch);
int64_t tr_cuda_scratch_gemm(const struct tr_gemm *g);

/* train_move.cu */
void tr_cuda_copy(struct tr_context *x, void *to, const void *from, const struct tr_copy *c);
void tr_cuda_fill(struct tr_context *x, void *to, int byte, int64_t bytes);
void tr_cuda_tree_in(
    struct tr_context *x, float *sum, float *const *level, int64_t count, int64_t j, int64_t n);
void tr_cuda_fold(
    struct tr_context *x, float *to, const float *from, int64_t n, int64_t count, int64_t sequences);
void tr_cuda_fold_parts(struct tr_context *x, const struct tr_partial *to, const struct tr_partial *from,
    int64_t n, int64_t count, int64_t sequences);
void tr_cuda_patches(struct tr_context *x, float *to, const float *from, const struct tr_grid *g,
    int64_t channels, bool channels_outside, int64_t direction);

/* train_rows.cu */
void tr_cuda_layer_norm(struct tr_context *x, float *y, float *mean, float *scale, const float *in,
    const float *w, const float *b, int64_t rows, int64_t c);
void tr_cuda_layer_norm_dx(struct tr_context *x, float *dx, const float *dy, const float *in, const float *w,
    const float *mean, const float *scale, int64_t rows, int64_t c);
void tr_cuda_rms_norm(
    struct tr_context *x, float *y, float *scale, const float *in, const float *w, int64_t rows, int64_t c);
void tr_cuda_rms_norm_dx(struct tr_context *x, float *dx, const float *dy, const float *in, const float *w,
    const float *scale, int64_t rows, int64_t c);
void tr_cuda_layer_norm_of_sum(struct tr_context *x, float *y, float *mean, float *scale,
    const struct tr_summed *s, const float *w, const float *b, int64_t rows, int64_t c);
void tr_cuda_rms_norm_of_sum(struct tr_context *x, float *y, float *scale, const struct tr_summed *s,
    const float *w, int64_t rows, int64_t c);
void tr_cuda_gelu(struct tr_context *x, float *y, const float *in, int64_t count);
void tr_cuda_gelu_dx(struct tr_context *x, float *dx, const float *dy, const float *in, int64_t count);
void tr_cuda_swiglu(struct tr_context *x, float *y, const float *in, int64_t pairs, int64_t chunk);
void tr_cuda_swiglu_dx(
    struct tr_context *x, float *dx, const float *dy, const float *in, int64_t pairs, int64_t chunk);
void tr_cuda_add(struct tr_context *x, float *out, const float *a, const float *b, int64_t count);
void tr_cuda_add_bias(
    struct tr_context *x, float *out, const float *in, const float *b, int64_t rows, int64_t columns);

/* train_sums.cu */
void tr_cuda_layer_norm_dw(struct tr_context *x, float *dw, float *db, const float *dy, const float *in,
    const float *mean, const float *scale, const struct tr_tokens *t);
void tr_cuda_rms_norm_dw(struct tr_context *x, float *dw, const float *dy, const float *in,
    const float *scale, const struct tr_tokens *t);
void tr_cuda_sum_tokens(struct tr_context *x, float *sums, const float *in, const struct tr_tokens *t);
void tr_cuda_sum_squares(struct tr_context *x, float *sums, const float *in, const struct tr_tokens *t);
void tr_cuda_mean(struct tr_context *x, float *y, const float *sums, float number, const struct tr_tokens *t);
int64_t tr_cuda_scratch_group(const struct tr_grouped *g);
void tr_cuda_group_centre(struct tr_context *x, float *y, const float *in, const float *sums,
    const struct tr_grouped *g, float *scratch);
void tr_cuda_group_norm(struct tr_context *x, float *y, const float *in, const float *squares, const float *w,
    const float *b, const struct tr_grouped *g, float *scratch);
void tr_cuda_group_norm_dw(struct tr_context *x, float *dw, float *db, const float *dy, const float *in,
    const float *squares, const struct tr_grouped *g, float *scratch);
void tr_cuda_group_norm_dx(struct tr_context *x, float *dx, const float *dy, const float *in,
    const float *squares, const float *w, const float *dw, const float *db, const struct tr_grouped *g,
    float *scratch);

/* train_rope.cu */
void tr_cuda_rope(
    struct tr_context *x, float *qkv, const float *grouped, const struct tr_rope *r, float *scratch);
void tr_cuda_rope_dx(
    struct tr_context *x, float *grouped, const float *qkv, const struct tr_rope *r, float *scratch);
int64_t tr_cuda_scratch_rope(const struct tr_rope *r);

/* train_softmax.cu */
void tr_cuda_row_max(
    struct tr_context *x, float *max, const float *in, int64_t rows, int64_t columns, int64_t stride);
void tr_cuda_softmax(struct tr_context *x, float *in, float *sum, float *wanted, const float *max,
    const uint16_t *target, int64_t rows, int64_t columns, int64_t stride, int64_t first, int64_t chunk,
    int64_t chunks);
void tr_cuda_softmax_dx(struct tr_context *x, float *in, const float *sum, const uint16_t *target,
    int64_t rows, int64_t columns, int64_t stride, int64_t first, float scale);
void tr_cuda_loss(struct tr_context *x, double *leaf, int64_t leaves, const float *sum, const float *max,
    const float *wanted, const struct tr_tokens *t);

/* train_attention.cu */
int64_t tr_cuda_scratch_attention(const struct tr_attention *s);
void tr_cuda_attention(struct tr_context *x, float *out, float *lse, const float *q, const float *kv,
    const struct tr_attention *s, float *scratch);
void tr_cuda_attention_part(struct tr_context *x, float *part, const float *q, const float *kv,
    const struct tr_attention *s, float *scratch);
void tr_cuda_attention_merge(struct tr_context *x, float *out, float *lse, const struct tr_partial *part,
    int64_t n, const struct tr_attention *s, float *scratch);
void tr_cuda_attention_dx(struct tr_context *x, float *dq, float *dkv, const float *dout, const float *out,
    const float *lse, const float *q, const float *kv, const struct tr_attention *s, float *scratch);

/* train_embed.cu */
void tr_cuda_embed(struct tr_context *x, float *out, const float *w, const uint16_t *token, int64_t tokens,
    int64_t c, int64_t first, int64_t rows);
void tr_cuda_embed_dw(struct tr_context *x, float *dw, const float *dy, const uint16_t *token,
    const struct tr_embedded *e, float *scratch);
int64_t tr_cuda_scratch_embed(const struct tr_embedded *e);
void tr_cuda_position(
    struct tr_context *x, float *y, const float *in, const float *w, const struct tr_positions *p);
void tr_cuda_position_dw(struct tr_context *x, float *dw, const float *dy, const struct tr_positions *p);
void tr_cuda_dropout(
    struct tr_context *x, float *y, const float *in, const uint32_t *draws, const struct tr_dropped *d);

/* train_update.cu */
void tr_cuda_to_float(struct tr_context *x, float *to, const uint16_t *from, int64_t count);
void tr_cuda_from_float(
    struct tr_context *x, uint16_t *to, const float *from, int64_t count, const struct tr_chance *by);
void tr_cuda_add_bfloat16(
    struct tr_context *x, uint16_t *sum, const uint16_t *a, const uint16_t *b, int64_t count);
void tr_cuda_square_leaves(
    struct tr_context *x, double *out, const void *in, bool bfloat16, int64_t count, int64_t leaf);
void tr_cuda_update(struct tr_context *x, const struct tr_update *u);

#ifdef __cplusplus
}
#endif
#endif
