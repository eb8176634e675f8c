/* SPDX-License-Identifier: BSD-3-Clause */
/* fused.c: the chains that are known: a product and the bias and GELU behind it, or the slope of GELU; and a
 * residual sum and the norm behind it. */
#include "training/ops/fused.h"

#include "training/ops/linear.h"

static bool has_products(const struct tr_kernels *k)
{
    return k->gelu.behind_products;
}

static bool has_layer_norm(const struct tr_kernels *k)
{
    return k->layer_norm.of_sum;
}

static bool has_rms_norm(const struct tr_kernels *k)
{
    return k->rms_norm.of_sum;
}

/* The product lies where the last but GELU's result does. */
static void multiply(const struct tr_call *c, float *to, struct tr_then then)
{
    struct tr_gemm g = tr_row_product(c);
    g.c = to, g.then = then;
    c->k->gemm(c->x, &g, c->scratch);
}

static void with_bias(const struct tr_call *c)
{
    multiply(c, c[1].out[0].p, (struct tr_then){ .bias = c[1].in[1].p });
}

static void with_bias_and_gelu(const struct tr_call *c)
{
    multiply(c, c[1].out[0].p, (struct tr_then){ .bias = c[1].in[1].p, .gelu = c[2].out[0].p });
}

static void with_slope(const struct tr_call *c)
{
    multiply(c, c[1].out[0].p, (struct tr_then){ .slope = c[1].in[1].p });
}

/* What is added to the chain's value may be either operand. */
static struct tr_summed summed(const struct tr_call *add, const struct tr_call *bias)
{
    const float *chain = bias ? bias->out[0].p : add->in[0].p;
    bool first = add->in[0].p == chain;
    return (struct tr_summed){ .sum = add->out[0].p,
        .a = bias ? bias->in[0].p : chain,
        .bias = bias ? bias->in[1].p : NULL,
        .b = add->in[first].p };
}

static void layer_norm(const struct tr_call *norm, struct tr_summed s)
{
    const struct tr_operand *x = &norm->in[0];
    norm->k->layer_norm.of_sum(norm->x, norm->out[0].p, norm->out[1].p, norm->out[2].p, &s, norm->in[1].p,
        norm->in[2].p, norm->n * x->d[1], x->d[2]);
}

static void layer_norm_of_biased(const struct tr_call *c)
{
    layer_norm(&c[2], summed(&c[1], &c[0]));
}

static void layer_norm_of_sum(const struct tr_call *c)
{
    layer_norm(&c[1], summed(&c[0], NULL));
}

static void rms_norm_of_sum(const struct tr_call *c)
{
    const struct tr_operand *x = &c[1].in[0];
    struct tr_summed s = summed(&c[0], NULL);
    c->k->rms_norm.of_sum(c->x, c[1].out[0].p, c[1].out[1].p, &s, c[1].in[1].p, c[1].n * x->d[1], x->d[2]);
}

const struct tr_fused tr_fused[] = {
    { 3, { TR_COLUMN, TR_BIAS, TR_GELU }, { false, true }, has_products, with_bias_and_gelu },
    { 3, { TR_ROW, TR_BIAS, TR_GELU }, { false, true }, has_products, with_bias_and_gelu },
    { 3, { TR_BIAS, TR_ADD, TR_LAYER_NORM }, { false, true }, has_layer_norm, layer_norm_of_biased },
    { 2, { TR_ADD, TR_LAYER_NORM }, { true }, has_layer_norm, layer_norm_of_sum },
    { 2, { TR_ADD, TR_RMS_NORM }, { true }, has_rms_norm, rms_norm_of_sum },
    { 2, { TR_COLUMN, TR_BIAS }, { false }, has_products, with_bias },
    { 2, { TR_ROW_DX, TR_GELU_DX }, { false }, has_products, with_slope },
    { 2, { TR_COLUMN_DX, TR_GELU_DX }, { false }, has_products, with_slope },
};
const int tr_fused_rows = sizeof tr_fused / sizeof *tr_fused;
