/* SPDX-License-Identifier: BSD-3-Clause */
/* test_apart.c: a back end whose memory the processor may not touch, but in kernels and copies: whoever else
 * looks into the arena ends with a signal here, as it would read nothing of use on a device. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/training/options_rig.h"
#include "training/backend/backend.h"
#include "training/checkpoint/checkpoint.h"
#include "training/launch.h"
#include "training/run/run.h"

/* ---- the memory ---- */

static unsigned char *memory; /* one arena; it is shut whenever nobody should be in it */
static size_t size;
static int opened, closed, records, waits;

static void let(int access)
{
    if (memory)
        cr_assert_eq(mprotect(memory, size, access), 0);
}

static bool open_apart(struct tr_context *x, struct tr_error *e)
{
    (void)e;
    x->self = &memory;
    opened++;
    return true;
}

static void close_apart(struct tr_context *x)
{
    cr_expect_eq(x->self, &memory);
    closed++;
}

static void *alloc(struct tr_context *x, int64_t bytes, bool on_host)
{
    if (on_host)
        return tr_backend_host.alloc(x, bytes, true);
    size = (size_t)bytes;
    memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void release(struct tr_context *x, void *p, bool on_host)
{
    if (on_host) {
        tr_backend_host.release(x, p, true);
        return;
    }
    cr_expect_eq(p, memory);
    munmap(memory, size);
    memory = NULL;
}

static void copy_apart(struct tr_context *x, void *to, const void *from, int64_t bytes)
{
    let(PROT_READ | PROT_WRITE);
    tr_backend_host.copy(x, to, from, bytes);
    let(PROT_NONE);
}

static void clear_apart(struct tr_context *x, void *to, int byte, int64_t bytes)
{
    let(PROT_READ | PROT_WRITE);
    tr_backend_host.clear(x, to, byte, bytes);
    let(PROT_NONE);
}

static tutti_stream own_stream(struct tr_context *x)
{
    return tr_backend_host.stream(x);
}

static tutti_status record(struct tr_context *x, tutti_stream stream, uint64_t *point)
{
    tutti_status s = tr_backend_host.record(x, stream, point);
    if (stream.kind == TUTTI_STREAM_NONE)
        *point = (uint64_t)++records;
    return s;
}

static tutti_status after(struct tr_context *x, tutti_stream later, tutti_stream earlier, uint64_t point)
{
    if (earlier.kind != TUTTI_STREAM_NONE)
        return tr_backend_host.after(x, later, earlier, point);
    cr_assert_eq(point, (uint64_t)records, "a call waits for what was begun before it, not for point %ld",
        (long)point);
    waits++;
    return TUTTI_OK;
}

static void sync_apart(struct tr_context *x)
{
    (void)x;
}

/* ---- copies beside the list, each as late as it may be: when somebody waits for it ---- */

enum { COPIES = 4096 };
static struct {
    void *to;
    const void *from;
    int64_t bytes;
} copies[COPIES];
static uint64_t begun, done;

static bool make_stream(struct tr_context *x, tutti_stream *made, struct tr_error *e)
{
    (void)x, (void)e;
    *made = tutti_cuda_stream(copies);
    return true;
}

static void copy_later(struct tr_context *x, tutti_stream on, void *to, const void *from, int64_t bytes)
{
    if (on.kind == TUTTI_STREAM_NONE) {
        copy_apart(x, to, from, bytes);
        return;
    }
    cr_assert_lt(begun - done, COPIES);
    copies[begun % COPIES].to = to, copies[begun % COPIES].from = from;
    copies[begun++ % COPIES].bytes = bytes;
}

static tutti_status record_late(struct tr_context *x, tutti_stream stream, uint64_t *point)
{
    (void)x, (void)stream;
    *point = begun;
    return TUTTI_OK;
}

static tutti_status wait_late(struct tr_context *x, tutti_stream earlier, uint64_t point)
{
    for (; earlier.kind != TUTTI_STREAM_NONE && done < point; done++)
        copy_apart(x, copies[done % COPIES].to, copies[done % COPIES].from, copies[done % COPIES].bytes);
    return TUTTI_OK;
}

static tutti_status after_late(struct tr_context *x, tutti_stream later, tutti_stream earlier, uint64_t point)
{
    (void)later;
    return wait_late(x, earlier, point);
}

static void end_stream(struct tr_context *x, tutti_stream ended)
{
    wait_late(x, ended, begun);
}

static const struct tr_backend apart = { .name = "apart",
    .apart = true,
    .open = open_apart,
    .close = close_apart,
    .alloc = alloc,
    .release = release,
    .copy = copy_apart,
    .copy_later = copy_later,
    .clear = clear_apart,
    .sync = sync_apart,
    .stream = own_stream,
    .make_stream = make_stream,
    .end_stream = end_stream,
    .record = record_late,
    .after = after_late,
    .wait = wait_late };

/* ---- the kernels: those of the processor, with the memory open ---- */

static const struct tr_kernels *real;
#define KERNEL(name, member, parameters, arguments)                                                          \
    static void name parameters                                                                              \
    {                                                                                                        \
        let(PROT_READ | PROT_WRITE);                                                                         \
        real->member arguments;                                                                              \
        let(PROT_NONE);                                                                                      \
    }
#define ON struct tr_context *on

KERNEL(gemm, gemm, (ON, const struct tr_gemm *g, float *s), (on, g, s))
KERNEL(copy, copy, (ON, void *to, const void *from, const struct tr_copy *c), (on, to, from, c))
KERNEL(fill, fill, (ON, void *to, int byte, int64_t bytes), (on, to, byte, bytes))
KERNEL(tree_in, tree_in, (ON, float *sum, float *const *level, int64_t count, int64_t j, int64_t n),
    (on, sum, level, count, j, n))
KERNEL(fold, fold, (ON, float *to, const float *from, int64_t n, int64_t count, int64_t sequences),
    (on, to, from, n, count, sequences))
KERNEL(norm, layer_norm.forward,
    (ON, float *y, float *mean, float *scale, const float *x, const float *w, const float *b, int64_t rows,
        int64_t c),
    (on, y, mean, scale, x, w, b, rows, c))
KERNEL(norm_dx, layer_norm.dx,
    (ON, float *dx, const float *dy, const float *x, const float *w, const float *mean, const float *scale,
        int64_t rows, int64_t c),
    (on, dx, dy, x, w, mean, scale, rows, c))
KERNEL(norm_dw, layer_norm.dw,
    (ON, float *dw, float *db, const float *dy, const float *x, const float *mean, const float *scale,
        const struct tr_tokens *t),
    (on, dw, db, dy, x, mean, scale, t))
KERNEL(sum_tokens, sum_tokens, (ON, float *sums, const float *x, const struct tr_tokens *t), (on, sums, x, t))
KERNEL(
    sum_squares, sum_squares, (ON, float *sums, const float *x, const struct tr_tokens *t), (on, sums, x, t))
KERNEL(mean_of, mean, (ON, float *y, const float *sums, float cells, const struct tr_tokens *t),
    (on, y, sums, cells, t))
KERNEL(centre, group_norm.centre,
    (ON, float *y, const float *x, const float *sums, const struct tr_grouped *g, float *s),
    (on, y, x, sums, g, s))
KERNEL(group, group_norm.forward,
    (ON, float *y, const float *x, const float *squares, const float *w, const float *b,
        const struct tr_grouped *g, float *s),
    (on, y, x, squares, w, b, g, s))
KERNEL(group_dw, group_norm.dw,
    (ON, float *dw, float *db, const float *dy, const float *x, const float *squares,
        const struct tr_grouped *g, float *s),
    (on, dw, db, dy, x, squares, g, s))
KERNEL(group_dx, group_norm.dx,
    (ON, float *dx, const float *dy, const float *x, const float *squares, const float *w, const float *dw,
        const float *db, const struct tr_grouped *g, float *s),
    (on, dx, dy, x, squares, w, dw, db, g, s))
KERNEL(to_float, bfloat16.to_float, (ON, float *to, const uint16_t *from, int64_t n), (on, to, from, n))
KERNEL(from_float, bfloat16.from_float,
    (ON, uint16_t *to, const float *from, int64_t n, const struct tr_chance *by), (on, to, from, n, by))
KERNEL(add_halves, bfloat16.add, (ON, uint16_t *sum, const uint16_t *a, const uint16_t *b, int64_t n),
    (on, sum, a, b, n))
KERNEL(gelu, gelu.forward, (ON, float *y, const float *x, int64_t n), (on, y, x, n))
KERNEL(gelu_dx, gelu.dx, (ON, float *dx, const float *dy, const float *x, int64_t n), (on, dx, dy, x, n))
KERNEL(add, add, (ON, float *out, const float *a, const float *b, int64_t n), (on, out, a, b, n))
KERNEL(add_bias, add_bias, (ON, float *out, const float *x, const float *b, int64_t rows, int64_t columns),
    (on, out, x, b, rows, columns))
KERNEL(attend, attention.whole,
    (ON, float *out, float *lse, const float *q, const float *kv, const struct tr_attention *a, float *s),
    (on, out, lse, q, kv, a, s))
KERNEL(attend_dx, attention.dx,
    (ON, float *dq, float *dkv, const float *dout, const float *out, const float *lse, const float *q,
        const float *kv, const struct tr_attention *a, float *s),
    (on, dq, dkv, dout, out, lse, q, kv, a, s))
KERNEL(patches, patches,
    (ON, float *to, const float *x, const struct tr_grid *g, int64_t channels, bool outside, int64_t way),
    (on, to, x, g, channels, outside, way))
KERNEL(embed, embed.forward,
    (ON, float *out, const float *w, const uint16_t *token, int64_t tokens, int64_t c, int64_t first,
        int64_t rows),
    (on, out, w, token, tokens, c, first, rows))
KERNEL(embed_dw, embed.dw,
    (ON, float *dw, const float *dy, const uint16_t *token, const struct tr_embedded *e, float *s),
    (on, dw, dy, token, e, s))
KERNEL(position, embed.position, (ON, float *y, const float *x, const float *w, const struct tr_positions *p),
    (on, y, x, w, p))
KERNEL(position_dw, embed.position_dw, (ON, float *dw, const float *dy, const struct tr_positions *p),
    (on, dw, dy, p))
KERNEL(max_of, softmax.max, (ON, float *max, const float *x, int64_t rows, int64_t columns, int64_t stride),
    (on, max, x, rows, columns, stride))
KERNEL(softmax, softmax.forward,
    (ON, float *x, float *sum, float *wanted, const float *max, const uint16_t *target, int64_t rows,
        int64_t columns, int64_t stride, int64_t first, int64_t chunk, int64_t chunks),
    (on, x, sum, wanted, max, target, rows, columns, stride, first, chunk, chunks))
KERNEL(softmax_dx, softmax.dx,
    (ON, float *x, const float *sum, const uint16_t *target, int64_t rows, int64_t columns, int64_t stride,
        int64_t first, float scale),
    (on, x, sum, target, rows, columns, stride, first, scale))
KERNEL(loss, softmax.loss,
    (ON, double *leaf, int64_t leaves, const float *sum, const float *max, const float *wanted,
        const struct tr_tokens *t),
    (on, leaf, leaves, sum, max, wanted, t))
KERNEL(square_leaves, square_leaves,
    (ON, double *out, const void *x, bool bfloat16, int64_t count, int64_t leaf),
    (on, out, x, bfloat16, count, leaf))
KERNEL(update, update, (ON, const struct tr_update *u), (on, u))

/* What one rank does not call stays as it is: it would find the memory shut. */
static struct tr_kernels apart_set(void)
{
    real = tr_kernels_best();
    struct tr_kernels k = *real;
    k.name = "apart", k.backend = &apart;
    k.gemm = gemm, k.copy = copy, k.fill = fill, k.tree_in = tree_in, k.fold = fold;
    k.layer_norm.forward = norm, k.layer_norm.dx = norm_dx, k.layer_norm.dw = norm_dw;
    k.sum_tokens = sum_tokens, k.sum_squares = sum_squares, k.mean = mean_of;
    k.group_norm.centre = centre, k.group_norm.forward = group, k.group_norm.dw = group_dw,
    k.group_norm.dx = group_dx;
    k.bfloat16.to_float = to_float, k.bfloat16.from_float = from_float, k.bfloat16.add = add_halves;
    k.gelu.forward = gelu, k.gelu.dx = gelu_dx, k.add = add, k.add_bias = add_bias;
    k.attention.whole = attend, k.attention.dx = attend_dx, k.patches = patches;
    k.embed.forward = embed, k.embed.dw = embed_dw, k.embed.position = position,
    k.embed.position_dw = position_dw;
    k.softmax.max = max_of, k.softmax.forward = softmax, k.softmax.dx = softmax_dx, k.softmax.loss = loss;
    k.square_leaves = square_leaves, k.update = update;
    return k;
}

/* ---- the tests ---- */

static struct tr_options options;
static struct tr_prepared prepared;
static struct tr_data data;

static void set_up(const char *line)
{
    struct tr_error e = { .text = "" };
    cr_assert(rig_options(&options, line, &e) && tr_prepare(&prepared, &options, &e), "%s: %s", line, e.text);
    cr_assert(tr_open_data(&data, &options, &prepared.run.graph, &e), "%s: %s", line, e.text);
}

static void tear_down(void)
{
    tr_data_close(&data);
    tr_prepared_free(&prepared);
}

enum { STEPS = 3, MOST = 1 << 16 };
struct told {
    struct tr_result results[STEPS];
    float parameter[MOST];
};

/* The second step is audited. What a checkpoint keeps comes back. */
static void run(const struct tr_kernels *k, struct told *to, const char *line)
{
    struct tr_error e = { .text = "" };
    struct tr_runner r;
    const char *path = "apart.tmp";
    cr_assert(tr_runner_open(&r, prepared.tapes->of, k, &data, NULL, &e), "%s: %s", line, e.text);
    for (int s = 0; s < STEPS; s++) {
        r.audited = s == 1;
        cr_assert(tr_runner_step(&r, &e), "%s: %s", line, e.text);
        to->results[s] = r.result;
    }
    cr_assert(tr_checkpoint_save(&r, path, NULL, &e) && tr_checkpoint_load(&r, path, NULL, &e), "%s: %s",
        line, e.text);
    const struct tr_tensor *w = &prepared.run.graph.tensors[r.tape->states[1].parameter];
    cr_assert_leq(w->rows * (w->dims > 1 ? w->size[1] : 1), MOST);
    tr_runner_read(&r, r.tape->states[1].parameter, 0, to->parameter);
    tr_runner_close(&r);
    remove(path);
}

Test(apart, nobody_looks_into_the_memory_but_kernels_and_copies)
{
    static const char *const lines[] = { "--data grammar --batch 6", "--model mlp:nano", "--model cnn:nano",
        "--data grammar --precision bfloat16 --rounding stochastic", "--data grammar --micro 4 --clip 0.5",
        "--data grammar --optimizer sgd", "--data grammar --offload optimizer --offload-delay 1",
        "--data grammar --offload optimizer --precision bfloat16", "--data grammar --offload activations",
        "--data grammar --offload both --micro 2 --batch 4", "--model cnn:nano --offload both",
        "--model moe:nano --data grammar --batch 2" };
    struct tr_kernels set = apart_set();
    static struct told plain, told;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        set_up(lines[i]);
        run(real, &plain, lines[i]);
        run(&set, &told, lines[i]);
        cr_expect(!memcmp(&plain, &told, sizeof told), "%s: the bits are others", lines[i]);
        tear_down();
    }
    cr_expect_eq(opened, closed);
}

Test(apart, what_is_not_finite_is_found_there)
{
    char said[2][sizeof((struct tr_error *)NULL)->text];
    struct tr_kernels set = apart_set();
    set_up("--data grammar --rate 1e30 --clip 0");
    for (int i = 0; i < 2; i++) {
        struct tr_error e = { .text = "" };
        struct tr_runner r;
        cr_assert(tr_runner_open(&r, prepared.tapes->of, i ? &set : real, &data, NULL, &e), "%s", e.text);
        for (int s = 0; s < 5 && tr_runner_step(&r, &e); s++)
            continue;
        cr_expect(strstr(e.text, "the first that is not finite is"), "%s", e.text);
        strcpy(said[i], e.text);
        tr_runner_close(&r);
    }
    cr_expect_str_eq(said[0], said[1]);
    tear_down();
}

/* ---- what goes beside the list ---- */

/* A set whose memory is the host's, and which counts. */
static bool rank(tutti_comm *world, void *context, struct tr_error *e)
{
    struct tr_backend counting = tr_backend_host;
    struct tr_kernels set = *tr_kernels_best();
    struct tr_runner r;
    const char *line = context;
    int beside = 0;
    counting.record = record, counting.after = after, set.backend = &counting;
    if (!rig_options(&options, line, e) || !tr_prepare(&prepared, &options, e) ||
        !tr_open_data(&data, &options, &prepared.run.graph, e))
        return false;
    const struct tr_tape *t = &prepared.tapes->of[tutti_comm_rank(world)];
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        beside += i->code == TR_SEND || (i->beside && i->code != TR_WAIT);
    }
    if (!tr_runner_open(&r, t, &set, &data, world, e) || !tr_runner_step(&r, e))
        return false;
    tr_runner_close(&r);
    tear_down();
    return (beside > 0 && waits == beside) ||
           tr_fail(e, "%s: %d calls beside the list, and %d wait for the kernels", line, beside, waits);
}

Test(apart, calls_beside_the_list_wait_for_what_was_begun_before_them)
{
    cr_expect_eq(tr_launch(2, rank, "--data grammar --dp 2 --overlap"), 0);
    cr_expect_eq(tr_launch(2, rank, "--data grammar --pp 2 --micro 4"), 0);
}
