/* SPDX-License-Identifier: BSD-3-Clause */
/* train_rows.cu: layer norm, RMS norm, GELU, SwiGLU and additions, as training/kernels/rows.h defines them.
 *
 * The law has 16 lanes for a sum along a row, and half a warp has 16 threads: so it adds up a row. */
#include "training/kernels/cuda/launch.cuh"

/* ---- layer norm ---- */

struct layer_norm_rows {
    int64_t rows;
    float *y, *mean, *scale;
    const float *x, *w, *b;
    int64_t c;

    MEMBER void operator()(int64_t row, int64_t lane, bool here) const
    {
        const float *from = x + row * c;
        float sum = 0;
        for (int64_t i = lane; i < c; i += LANES)
            sum = sum + from[i];
        const float m = fold_lanes(sum) / static_cast<float>(c);
        sum = 0;
        for (int64_t i = lane; i < c; i += LANES) {
            const float centred = from[i] - m;
            sum = fused(centred, centred, sum);
        }
        const float s = 1.0f / root(fold_lanes(sum) / static_cast<float>(c) + 1e-5f);
        if (!here)
            return;
        for (int64_t i = lane; i < c; i += LANES)
            y[row * c + i] = fused((from[i] - m) * s, w[i], b[i]);
        if (lane == 0) {
            mean[row] = m;
            scale[row] = s;
        }
    }
};

struct layer_norm_dx_rows {
    int64_t rows;
    float *dx;
    const float *dy, *x, *w, *mean, *scale;
    int64_t c;

    MEMBER void operator()(int64_t row, int64_t lane, bool here) const
    {
        const int64_t at = row * c;
        const float m = mean[row], r = scale[row];
        float sum = 0, dot = 0;
        for (int64_t i = lane; i < c; i += LANES) {
            const float normed = (x[at + i] - m) * r, g = dy[at + i] * w[i];
            sum = sum + g;
            dot = fused(g, normed, dot);
        }
        const float a = fold_lanes(sum) / static_cast<float>(c), b = fold_lanes(dot) / static_cast<float>(c);
        if (!here)
            return;
        for (int64_t i = lane; i < c; i += LANES) {
            const float normed = (x[at + i] - m) * r, g = dy[at + i] * w[i];
            dx[at + i] = (g - a - normed * b) * r + 0.0f;
        }
    }
};

/* ---- RMS norm ---- */

struct rms_norm_rows {
    int64_t rows;
    float *y, *scale;
    const float *x, *w;
    int64_t c;

    MEMBER void operator()(int64_t row, int64_t lane, bool here) const
    {
        const float *from = x + row * c;
        float sum = 0;
        for (int64_t i = lane; i < c; i += LANES)
            sum = fused(from[i], from[i], sum);
        const float s = 1.0f / root(fold_lanes(sum) / static_cast<float>(c) + 1e-5f);
        if (!here)
            return;
        for (int64_t i = lane; i < c; i += LANES)
            y[row * c + i] = from[i] * s * w[i];
        if (lane == 0)
            scale[row] = s;
    }
};

struct rms_norm_dx_rows {
    int64_t rows;
    float *dx;
    const float *dy, *x, *w, *scale;
    int64_t c;

    MEMBER void operator()(int64_t row, int64_t lane, bool here) const
    {
        const int64_t at = row * c;
        const float r = scale[row];
        float dot = 0;
        for (int64_t i = lane; i < c; i += LANES)
            dot = fused(dy[at + i] * w[i], x[at + i] * r, dot);
        const float along = fold_lanes(dot) / static_cast<float>(c);
        if (!here)
            return;
        for (int64_t i = lane; i < c; i += LANES)
            dx[at + i] = (dy[at + i] * w[i] - x[at + i] * r * along) * r + 0.0f;
    }
};

/* ---- the norm of a sum ---- */

/* Lanes read of the sum what they have written. Those behind the last row find in row 0 what another thread
 * may be writing, and store nothing of it. */
template <class Norm> struct norm_of_sum_rows {
    int64_t rows;
    tr_summed s;
    Norm norm;

    MEMBER void operator()(int64_t row, int64_t lane, bool here) const
    {
        const int64_t at = row * norm.c;
        for (int64_t i = lane; here && i < norm.c; i += LANES) {
            const float a = s.bias != nullptr ? s.a[at + i] + s.bias[i] : s.a[at + i];
            s.sum[at + i] = a + s.b[at + i];
        }
        norm(row, lane, here);
    }
};

/* ---- element by element ---- */

struct gelu_each {
    int64_t count;
    float *y;
    const float *x;

    MEMBER void operator()(int64_t i) const
    {
        y[i] = gelu_of(x[i]);
    }
};
struct gelu_dx_each {
    int64_t count;
    float *dx;
    const float *dy, *x;

    MEMBER void operator()(int64_t i) const
    {
        dx[i] = dy[i] * gelu_slope(x[i]);
    }
};
/* Element i of what is gated lies beside its gate, a chunk behind it. */
INLINE int64_t gate_of(int64_t i, int64_t chunk)
{
    return i + i / chunk * chunk;
}
struct swiglu_each {
    int64_t count;
    float *y;
    const float *x;
    int64_t chunk;

    MEMBER void operator()(int64_t i) const
    {
        const float *at = x + gate_of(i, chunk), gate = *at;
        y[i] = gate * sigmoid(gate) * at[chunk];
    }
};
struct swiglu_dx_each {
    int64_t count;
    float *dx;
    const float *dy, *x;
    int64_t chunk;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t at = gate_of(i, chunk);
        const float gate = x[at], beside = x[at + chunk], d = dy[i], s = sigmoid(gate);
        dx[at] = d * beside * (s * (1.0f + gate * (1.0f - s)));
        dx[at + chunk] = d * (gate * s);
    }
};
/* b is repeated after `columns` of its elements. */
struct add_each {
    int64_t count;
    float *out;
    const float *a, *b;
    int64_t columns;

    MEMBER void operator()(int64_t i) const
    {
        out[i] = a[i] + b[i % columns];
    }
};

/* ---- the set's functions ---- */

void tr_cuda_layer_norm(struct tr_context *x, float *y, float *mean, float *scale, const float *in,
    const float *w, const float *b, int64_t rows, int64_t c)
{
    start_rows(x, layer_norm_rows{ rows, y, mean, scale, in, w, b, c });
}

void tr_cuda_layer_norm_dx(struct tr_context *x, float *dx, const float *dy, const float *in, const float *w,
    const float *mean, const float *scale, int64_t rows, int64_t c)
{
    start_rows(x, layer_norm_dx_rows{ rows, dx, dy, in, w, mean, scale, c });
}

void tr_cuda_rms_norm(
    struct tr_context *x, float *y, float *scale, const float *in, const float *w, int64_t rows, int64_t c)
{
    start_rows(x, rms_norm_rows{ rows, y, scale, in, w, c });
}

void tr_cuda_rms_norm_dx(struct tr_context *x, float *dx, const float *dy, const float *in, const float *w,
    const float *scale, int64_t rows, int64_t c)
{
    start_rows(x, rms_norm_dx_rows{ rows, dx, dy, in, w, scale, c });
}

void tr_cuda_layer_norm_of_sum(struct tr_context *x, float *y, float *mean, float *scale,
    const struct tr_summed *s, const float *w, const float *b, int64_t rows, int64_t c)
{
    const layer_norm_rows norm = { rows, y, mean, scale, s->sum, w, b, c };
    start_rows(x, norm_of_sum_rows<layer_norm_rows>{ rows, *s, norm });
}

void tr_cuda_rms_norm_of_sum(struct tr_context *x, float *y, float *scale, const struct tr_summed *s,
    const float *w, int64_t rows, int64_t c)
{
    const rms_norm_rows norm = { rows, y, scale, s->sum, w, c };
    start_rows(x, norm_of_sum_rows<rms_norm_rows>{ rows, *s, norm });
}

void tr_cuda_gelu(struct tr_context *x, float *y, const float *in, int64_t count)
{
    start_each(x, gelu_each{ count, y, in });
}

void tr_cuda_gelu_dx(struct tr_context *x, float *dx, const float *dy, const float *in, int64_t count)
{
    start_each(x, gelu_dx_each{ count, dx, dy, in });
}

void tr_cuda_swiglu(struct tr_context *x, float *y, const float *in, int64_t pairs, int64_t chunk)
{
    start_each(x, swiglu_each{ pairs * chunk, y, in, chunk });
}

void tr_cuda_swiglu_dx(
    struct tr_context *x, float *dx, const float *dy, const float *in, int64_t pairs, int64_t chunk)
{
    start_each(x, swiglu_dx_each{ pairs * chunk, dx, dy, in, chunk });
}

void tr_cuda_add(struct tr_context *x, float *out, const float *a, const float *b, int64_t count)
{
    start_each(x, add_each{ count, out, a, b, count });
}

void tr_cuda_add_bias(
    struct tr_context *x, float *out, const float *in, const float *b, int64_t rows, int64_t columns)
{
    start_each(x, add_each{ rows * columns, out, in, b, columns });
}
