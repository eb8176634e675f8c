/* SPDX-License-Identifier: BSD-3-Clause */
/* test_graph.c: the models' graphs have the parameters and the cost of the closed formulas, each gradient is
 * made once, and the table of operations says what its readers can read. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "training/model/op.h"

static struct tr_error error;
static const struct tr_model_options gpt_nano = {
    .layers = 4, .channels = 64, .heads = 4, .context = 64, .vocabulary = 256
};
static const struct tr_model_options mlp_nano = {
    .layers = 4, .channels = 64, .inputs = 32, .vocabulary = 10
};

static const struct tr_model_options cnn_nano = {
    .layers = 4, .channels = 64, .grid = 8, .planes = 1, .vocabulary = 10
};
static const struct tr_model_options by_filters = {
    .layers = 4, .channels = 64, .grid = 8, .planes = 1, .vocabulary = 10, .split = TR_CONV_FILTERS
};
static const struct tr_model_options by_channels = { .layers = 3,
    .channels = 64,
    .grid = 8,
    .planes = 1,
    .vocabulary = 10,
    .split = TR_CONV_CHANNELS,
    .groups = 8 };
static const struct tr_model_options normed = {
    .layers = 4, .channels = 64, .grid = 8, .planes = 1, .vocabulary = 10, .groups = 8
};
static const struct tr_model_options moe_nano = {
    .layers = 4, .channels = 64, .heads = 4, .context = 64, .vocabulary = 256, .experts = 8, .choices = 2
};
static const struct tr_model_options llama_nano = {
    .layers = 4, .channels = 64, .heads = 4, .kv_heads = 2, .hidden = 192, .context = 64, .vocabulary = 256
};
/* Experts that are full refuse, and a loss keeps them equally busy. */
static struct tr_model_options balanced(struct tr_model_options o)
{
    o.capacity = 1, o.balance = 0.1;
    return o;
}

static struct tr_model_options dropping(struct tr_model_options o)
{
    o.dropout = 0.1;
    return o;
}

/* The form that context parallelism asks for. */
static struct tr_model_options cut(struct tr_model_options o)
{
    o.leaves = TR_ALL_AS_LEAVES, o.separate_kv = o.heads > 0;
    return o;
}

static struct tr_model_options ring(struct tr_model_options o)
{
    o = cut(o);
    o.parts = TR_BLOCKS;
    return o;
}

static struct tr_model_options windows(struct tr_model_options o)
{
    o.leaves = TR_ALL_AS_LEAVES, o.windows = 4;
    return o;
}

static struct tr_model_options scores(struct tr_model_options o)
{
    o = ring(o);
    o.scores = true;
    return o;
}

static struct tr_graph gpt(struct tr_model_options o)
{
    struct tr_graph g = { 0 };
    cr_assert(tr_model_gpt(&g, &o, &error), "%s", error.text);
    return g;
}

static struct tr_graph llama(struct tr_model_options o)
{
    struct tr_graph g = { 0 };
    cr_assert(tr_model_llama(&g, &o, &error), "%s", error.text);
    return g;
}

static struct tr_graph mlp(struct tr_model_options o)
{
    struct tr_graph g = { 0 };
    cr_assert(tr_model_mlp(&g, &o, &error), "%s", error.text);
    return g;
}

static struct tr_graph cnn(struct tr_model_options o)
{
    struct tr_graph g = { 0 };
    cr_assert(tr_model_cnn(&g, &o, &error), "%s", error.text);
    return g;
}

/* Elements of all parameters; those of a tied head are the embedding's. */
static int64_t parameters(const struct tr_graph *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].role == TR_PARAMETER && g->tensors[i].values_of == i)
            n += g->tensors[i].rows * (g->tensors[i].dims > 1 ? g->tensors[i].size[1] : 1);
    return n;
}

/* Of matrices, convolutions and attention, on one sequence: what a closed formula counts. */
static double flops(const struct tr_graph *g, bool forward)
{
    double sum = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct tr_node *n = &g->nodes[i];
        bool counted = n->op == TR_COLUMN || n->op == TR_ROW || n->op == TR_ATTENTION ||
                       n->op == TR_COLUMN_DX || n->op == TR_COLUMN_DW || n->op == TR_ROW_DX ||
                       n->op == TR_ROW_DW || n->op == TR_ATTENTION_DX || n->op == TR_ATTEND ||
                       n->op == TR_ATTEND_DX || n->op == TR_ATTEND_PART || n->op == TR_ATTEND_PART_DX ||
                       n->op == TR_COLUMN_LEAVES || n->op == TR_ROW_LEAVES ||
                       (n->op >= TR_FILTERS && n->op <= TR_CHANNELS_LEAVES);
        if (counted && (n->phase == TR_FORWARD) == forward)
            sum += tr_flops(g, n);
    }
    return sum;
}

/* For each parameter one gradient; for each activation's gradient one tensor that is used: others are parts
 * of a sum. Each is made by one operation, and has the shape of what it is the gradient of. */
static int makers(const struct tr_graph *g, int tensor)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int x = 0; x < g->nodes[i].outs; x++)
            n += g->nodes[i].out[x] == tensor;
    return n;
}

static bool is_addend(const struct tr_graph *g, int tensor)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct tr_node *n = &g->nodes[i];
        bool sum = n->op == TR_ADD && !strcmp(g->tensors[n->out[0]].name, g->tensors[tensor].name);
        if (sum && (n->in[0] == tensor || n->in[1] == tensor))
            return true;
    }
    return false;
}

static int gradients_of(const struct tr_graph *g, int tensor)
{
    char name[TR_NAME + 4];
    int n = 0;
    snprintf(name, sizeof name, "d.%s", g->tensors[tensor].name);
    for (int i = 0; i < g->n_tensors; i++) {
        const struct tr_tensor *d = &g->tensors[i];
        if ((d->role != TR_D_ACTIVATION && d->role != TR_D_PARAMETER) || strcmp(d->name, name))
            continue;
        cr_assert_eq(makers(g, i), 1, "%s is made %d times", d->name, makers(g, i));
        cr_assert(
            d->dims == g->tensors[tensor].dims && !memcmp(d->size, g->tensors[tensor].size, sizeof d->size),
            "%s has another shape than %s", d->name, g->tensors[tensor].name);
        n += !is_addend(g, i);
    }
    return n;
}

/* The result of an operation on activations and parameters; not a bias's input, whose gradient is that of
 * the result, nor what the loss is made of. */
static bool has_gradient(const struct tr_graph *g, int tensor)
{
    for (int i = 0; i < g->n_forward; i++) {
        const struct tr_node *n = &g->nodes[i];
        switch (n->op) {
        case TR_COLUMN:
        case TR_ROW:
        case TR_GELU:
        case TR_SWIGLU:
        case TR_LAYER_NORM:
        case TR_RMS_NORM:
        case TR_ROPE:
        case TR_ATTENTION:
        case TR_SPLIT:
        case TR_ROW_MAX:
        case TR_FILTERS:
        case TR_CHANNELS:
        case TR_GROUP_NORM:
        case TR_GATE:
        case TR_DISPATCH:
        case TR_EXPERT_UP:
        case TR_EXPERT_DOWN:
        case TR_COMBINE:
            if (n->in[0] == tensor)
                return true;
            break;
        case TR_SUM_CELLS: /* those of a norm have none */
            if (n->in[0] == tensor && n[1].op == TR_MEAN)
                return true;
            break;
        case TR_ATTEND:
        case TR_ATTEND_PART:
            if (n->in[0] == tensor || n->in[1] == tensor)
                return true;
            break;
        default:
            break;
        }
    }
    return false;
}

static void each_gradient_once(const struct tr_graph *g)
{
    int activations = 0;
    for (int i = 0; i < g->n_tensors; i++) {
        const struct tr_tensor *t = &g->tensors[i];
        bool due = t->role == TR_PARAMETER || (t->role == TR_ACTIVATION && has_gradient(g, i));
        if (!due)
            continue;
        activations += t->role == TR_ACTIVATION;
        cr_assert_eq(gradients_of(g, i), 1, "%s has %d gradients", t->name, gradients_of(g, i));
    }
    cr_assert_geq(activations, 2 * (int)g->layers);
}

Test(graph, gpt_has_the_parameters_of_the_formula)
{
    struct tr_graph g = gpt(gpt_nano);
    int64_t l = 4, c = 64, t = 64, v = 256;
    cr_assert_eq(parameters(&g), v * c + t * c + l * (12 * c * c + 13 * c) + 2 * c);
    tr_graph_free(&g);
    struct tr_model_options untied = gpt_nano;
    untied.untied = true;
    g = gpt(untied);
    cr_assert_eq(parameters(&g), 2 * v * c + t * c + l * (12 * c * c + 13 * c) + 2 * c);
    tr_graph_free(&g);
}

Test(graph, llama_has_the_parameters_and_the_cost_of_the_formula)
{
    struct tr_graph g = llama(llama_nano), in_parts = llama(ring(llama_nano));
    double l = 4, c = 64, t = 64, v = 256, f = 192, kv = 2 * 16;
    double matrices = l * (2 * c * c + 2 * kv * c + 3 * f * c) + v * c;
    cr_assert_eq((double)parameters(&g), matrices + v * c + l * 2 * c + c);
    cr_assert_float_eq(flops(&g, true), 2 * t * matrices + l * 2 * t * (t + 1) * c, 0.5);
    cr_assert_float_eq(flops(&in_parts, false), 4 * t * matrices + l * 5 * t * (t + 1) * c, 0.5);
    each_gradient_once(&g);
    tr_graph_free(&g);
    tr_graph_free(&in_parts);
}

/* The classes are counted as they are, not as they are padded. */
Test(graph, mlp_has_the_parameters_of_the_formula)
{
    struct tr_graph g = mlp(mlp_nano);
    int64_t l = 4, c = 64, i = 32, v = 10;
    cr_assert_eq(parameters(&g), c * i + c + (l - 1) * (c * c + c) + v * c);
    tr_graph_free(&g);
}

Test(graph, cnn_has_the_parameters_of_the_formula)
{
    struct tr_graph g = cnn(cnn_nano);
    int64_t l = 4, c = 64, v = 10;
    cr_assert_eq(parameters(&g), c * 9 * 4 + c + (l - 1) * (9 * c * c + c) + v * c);
    cr_assert_eq(tr_targets(&g), 1);
    tr_graph_free(&g);
    g = cnn(normed);
    cr_assert_eq(parameters(&g), c * 9 * 4 + c + (l - 1) * (9 * c * c + c) + v * c + l * 2 * c);
    tr_graph_free(&g);
}

/* Forward 2 for each element of a matrix and token, and for attention 4 T^2 C, as it computes the whole
 * square; backward twice that for matrices, and for attention 10, for it computes the scores again. */
Test(graph, gpt_costs_what_the_formula_says)
{
    struct tr_graph graphs[] = { gpt(gpt_nano), gpt(cut(gpt_nano)), gpt(ring(gpt_nano)) };
    double l = 4, c = 64, t = 64, v = 256, matrices = l * 12 * c * c + v * c;
    for (int i = 0; i < 3; i++) {
        cr_assert_float_eq(flops(&graphs[i], true), 2 * t * matrices + l * 2 * t * (t + 1) * c, 0.5);
        cr_assert_float_eq(flops(&graphs[i], false), 4 * t * matrices + l * 5 * t * (t + 1) * c, 0.5);
        tr_graph_free(&graphs[i]);
    }
}

/* Nobody wants the gradient of the rows, so the first layer's backward part costs half. Classes cost as if
 * there were a multiple of 64. */
Test(graph, mlp_costs_what_the_formula_says)
{
    struct tr_graph g = mlp(mlp_nano);
    double l = 4, c = 64, t = 8, i = 32, v = 64, hidden = (l - 1) * c * c + v * c;
    cr_assert_float_eq(flops(&g, true), 2 * t * (i * c + hidden), 0.5);
    cr_assert_float_eq(flops(&g, false), 2 * t * i * c + 4 * t * hidden, 0.5);
    tr_graph_free(&g);
}

/* The head scores one row of a picture. */
Test(graph, cnn_costs_what_the_formula_says)
{
    struct tr_graph g = cnn(cut(cnn_nano));
    double l = 4, c = 64, t = 64, first = 9 * 4 * c, hidden = (l - 1) * 9 * c * c, head = 64 * c;
    cr_assert_float_eq(flops(&g, true), 2 * t * (first + hidden) + 2 * head, 0.5);
    cr_assert_float_eq(flops(&g, false), 2 * t * first + 4 * t * hidden + 4 * head, 0.5);
    tr_graph_free(&g);
}

Test(graph, each_gradient_is_made_once)
{
    struct tr_model_options odd = mlp_nano, one = mlp_nano, untied = gpt_nano;
    odd.layers = 5, one.layers = 1, untied.untied = true;
    struct tr_graph graphs[] = { gpt(gpt_nano), gpt(untied), mlp(mlp_nano), mlp(odd), mlp(one),
        gpt(cut(gpt_nano)), gpt(cut(untied)), mlp(cut(mlp_nano)), gpt(ring(gpt_nano)), cnn(cnn_nano),
        gpt(windows(gpt_nano)), gpt(scores(gpt_nano)), gpt(moe_nano), cnn(cut(cnn_nano)), cnn(normed),
        cnn(by_filters), cnn(cut(by_channels)), gpt(balanced(moe_nano)) };
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        each_gradient_once(&graphs[i]);
        tr_graph_free(&graphs[i]);
    }
}

/* What a node reads is an input, a parameter, or was made before. */
Test(graph, nodes_are_in_an_order_in_which_they_may_run)
{
    struct tr_graph graphs[] = { gpt(gpt_nano), mlp(mlp_nano), gpt(cut(gpt_nano)), mlp(cut(mlp_nano)),
        gpt(ring(gpt_nano)), cnn(cnn_nano), gpt(windows(gpt_nano)), gpt(scores(gpt_nano)), gpt(moe_nano),
        cnn(cut(cnn_nano)), cnn(normed) };
    for (int k = 0; k < 11; k++) {
        struct tr_graph *g = &graphs[k];
        bool *there = calloc((size_t)g->n_tensors, sizeof *there);
        for (int i = 0; i < g->n_tensors; i++)
            there[i] = g->tensors[i].role == TR_PARAMETER || g->tensors[i].role == TR_INPUT;
        for (int i = 0; i < g->n_nodes; i++) {
            for (int x = 0; x < g->nodes[i].ins; x++)
                cr_assert(there[g->nodes[i].in[x]], "%s reads %s too early", tr_op(g->nodes[i].op)->name,
                    g->tensors[g->nodes[i].in[x]].name);
            for (int x = 0; x < g->nodes[i].outs; x++)
                there[g->nodes[i].out[x]] = true;
        }
        free(there);
        tr_graph_free(g);
    }
}

/* Two experts of 2 C hidden channels cost what a feed-forward part of 4 C does; the router, as if it had 64
 * rows, comes on top. */
Test(graph, a_token_of_two_experts_costs_that_of_a_gpt)
{
    struct tr_graph g = gpt(moe_nano), dense = gpt(gpt_nano);
    double experts = 0, router = 4 * 2.0 * 64 * 64 * 64, parts = 4 * 2.0 * 64 * 2 * 256 * 64;
    for (int i = 0; i < g.n_nodes; i++)
        if (g.nodes[i].op == TR_EXPERT_UP || g.nodes[i].op == TR_EXPERT_DOWN)
            experts += tr_flops(&g, &g.nodes[i]);
    cr_assert_eq(experts, parts);
    cr_assert_eq(flops(&g, true) + experts, flops(&dense, true) + router);
    cr_assert_eq(parameters(&g),
        parameters(&dense) + 4 * (8 * 64 + 8 * (2 * 128 * 64 + 128 + 64) - (2 * 256 * 64 + 256 + 64)));
    tr_graph_free(&g);
    tr_graph_free(&dense);
}

/* The layers of the mlp go in pairs; one without a partner has a name that no table cuts. */
Test(graph, an_odd_layer_has_its_own_name)
{
    struct tr_model_options odd = mlp_nano;
    odd.layers = 3;
    static const char *const names[] = { "layer0.fc1.weight", "layer0.fc1.bias", "layer1.fc2.weight",
        "layer1.fc2.bias", "layer2.fc.weight", "layer2.fc.bias", "head.weight" };
    struct tr_graph g = mlp(odd);
    for (int i = 0; i < 7; i++)
        cr_assert_str_eq(g.tensors[i].name, names[i]);
    tr_graph_free(&g);
}

/* A partial result enters nothing but its own fold, which no operation is; packing moves it. */
static bool legal_operand(struct tr_placement p, int op)
{
    return p.kind != TR_P || op == TR_PACK || op == TR_DEAL;
}

/* What is written again is what was read. */
static void write_rule(char text[80], const struct tr_placement *in, int ins, const struct tr_placement *out,
    int outs, int shift)
{
    int used = 0;
    for (int x = 0; x < ins + outs; x++) {
        char place[3];
        struct tr_placement p = x < ins ? in[x] : out[x - ins];
        tr_placement_text(p, place);
        if (place[0] == 'H' && p.kind == TR_S)
            place[1] = 's'; /* which people read as Hz */
        if ((p.shift || p.term) && place[1] == '0' + shift)
            place[1] = '#';
        place[1] = place[1] == ' ' ? 0 : place[1];
        used += snprintf(text + used, 80 - (size_t)used, "%s%s",
            x == 0     ? ""
            : x == ins ? " -> "
                       : " ",
            place);
    }
}

/* No model has it: it stands where tokens, or sums over them, lie otherwise than is asked for. */
static bool moves(int op)
{
    return op == TR_PACK || op == TR_UNPACK || op == TR_ARRANGE || op == TR_DEAL || op == TR_HALVES ||
           op == TR_SLICE || op == TR_ROUND;
}

/* Every rule of the table can be read, has as many placements as the operation has operands at most in the
 * graphs of the models (attention that drops nothing has no draws), and takes no partial result but to move
 * it. */
Test(ops, every_rule_can_be_read)
{
    struct tr_graph graphs[] = { gpt(gpt_nano), mlp(mlp_nano), gpt(cut(gpt_nano)), gpt(ring(gpt_nano)),
        cnn(cnn_nano), gpt(windows(gpt_nano)), gpt(scores(gpt_nano)), gpt(moe_nano), cnn(cut(cnn_nano)),
        cnn(normed), gpt(balanced(moe_nano)), gpt(cut(moe_nano)), llama(llama_nano), gpt(dropping(gpt_nano)),
        gpt(dropping(cut(gpt_nano))), gpt(dropping(ring(gpt_nano))), gpt(dropping(windows(gpt_nano))),
        gpt(dropping(scores(gpt_nano))) };
    int seen = 0, n = sizeof graphs / sizeof *graphs;
    for (int op = 0; op < TR_OPS; op++) {
        const struct tr_node moving = { .op = op, .ins = 1, .outs = 1 };
        const struct tr_node *user = moves(op) ? &moving : NULL;
        for (int k = 0; k < n; k++)
            for (int i = 0; i < graphs[k].n_nodes; i++)
                if (graphs[k].nodes[i].op == op && (user == NULL || graphs[k].nodes[i].ins > user->ins))
                    user = &graphs[k].nodes[i];
        cr_assert(user && tr_op(op)->rules[0] && tr_op(op)->run, "%s: in no model, or no whole row",
            tr_op(op)->name);
        for (int r = 0; r < TR_RULES && tr_op(op)->rules[r]; r++, seen++) {
            const char *rule = tr_op(op)->rules[r];
            struct tr_placement in[TR_INS], out[TR_OUTS];
            int ins, outs;
            char text[80];
            cr_assert(tr_rule_parse(rule, 9, in, &ins, out, &outs), "%s: %s", tr_op(op)->name, rule);
            cr_assert(ins == user->ins && outs == user->outs, "%s: %s is of %d and %d operands",
                tr_op(op)->name, rule, user->ins, user->outs);
            write_rule(text, in, ins, out, outs, 9);
            cr_assert_str_eq(text, rule, "%s: %s is read as %s", tr_op(op)->name, rule, text);
            for (int x = 0; x < ins; x++)
                cr_assert(legal_operand(in[x], op), "%s: %s", tr_op(op)->name, rule);
        }
    }
    cr_assert_gt(seen, 3 * TR_OPS - 10);
    for (int k = 0; k < n; k++)
        tr_graph_free(&graphs[k]);
}

Test(ops, what_is_no_rule_is_not_read)
{
    struct tr_placement in[TR_INS], out[TR_OUTS];
    int ins, outs;
    cr_assert_not(tr_rule_parse("R R", 0, in, &ins, out, &outs));
    cr_assert_not(tr_rule_parse(NULL, 0, in, &ins, out, &outs));
    cr_assert(tr_rule_parse("Sc Sr -> P+", 0, in, &ins, out, &outs));
    cr_assert(ins == 2 && outs == 1 && tr_placement_is(in[0], tr_placement_of("Sc", 0)) &&
              tr_placement_is(in[1], tr_placement_of("Sr", 0)) &&
              tr_placement_is(out[0], tr_placement_of("P+", 0)));
}

Test(graph, illegal_sizes_are_named)
{
    struct tr_graph g;
    struct tr_model_options o = mlp_nano;
    o.inputs = 0;
    cr_assert_not(tr_model_mlp(&g, &o, &error));
    cr_assert(strstr(error.text, "inputs of a row: legal are 2 to 65536"), "%s", error.text);
    o = mlp_nano, o.channels = 100;
    cr_assert_not(tr_model_mlp(&g, &o, &error));
    cr_assert(strstr(error.text, "multiples of 64"), "%s", error.text);
    o = cnn_nano, o.vocabulary = 257;
    cr_assert_not(tr_model_cnn(&g, &o, &error));
    cr_assert(strstr(error.text, "classes of pictures: legal are 2 to 256"), "%s", error.text);
    o = cnn_nano, o.grid = 12;
    cr_assert_not(tr_model_cnn(&g, &o, &error));
    cr_assert(strstr(error.text, "multiples of 8 up to 256"), "%s", error.text);
    static const struct {
        int64_t heads, kv_heads, hidden;
        const char *says;
    } wrong[] = { { 64, 64, 192, "RoPE turns in pairs: legal is an even number" },
        { 4, 3, 192, "what divides the 4 heads" }, { 4, 1, 192, "have a multiple of 32 channels" },
        { 4, 2, 100, "multiples of 64 up to" }, { 5, 1, 192, "what divides the 64 channels" } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o = llama_nano, o.heads = wrong[i].heads, o.kv_heads = wrong[i].kv_heads, o.hidden = wrong[i].hidden;
        cr_assert_not(tr_model_llama(&g, &o, &error));
        cr_assert(strstr(error.text, wrong[i].says), "%s", error.text);
    }
    o = gpt_nano, o.heads = 5;
    cr_assert_not(tr_model_gpt(&g, &o, &error));
    cr_assert(strstr(error.text, "what divides the 64 channels"), "%s", error.text);
}
