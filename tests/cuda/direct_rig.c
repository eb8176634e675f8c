/* SPDX-License-Identifier: BSD-3-Clause */
/* direct_rig.c: runs kernels of several devices on threads, and says what their results are. */
#include "tests/cuda/direct_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/dev_kernel.h"
#include "tests/kernels/kernel_reference.h"
#include "tests/rig/patience.h"

enum {
    RANKS = TT_FUSED_RANKS,
    LONGEST = 24 << 10,
    EDGE = 192,
    REGION = LONGEST + 2 * EDGE,
    VALUES = 1 << 12
};

/* --- Operands: of each type some values that kernels find hard. */

static uint64_t values[TT_FOLD_TYPES][VALUES];

static const struct type *type_of(tutti_type type)
{
    const struct type *t = types;
    while (t->type != type)
        t++;
    return t;
}

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 29) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static uint64_t value_of(tutti_type type, uint64_t case_seed, int rank, uint64_t element)
{
    return values[type][mixed(mixed(case_seed * RANKS + (uint64_t)rank) + element) % VALUES];
}

static void draw_values(void)
{
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < VALUES; i++)
            values[types[t].type][i] = random_value(&types[t]);
}

static void fill(void *to, const struct direct_case *c, int rank, uint64_t bytes)
{
    const size_t element = c->call.element_bytes;
    for (uint64_t i = 0; i < bytes / element; i++) {
        uint64_t value = value_of(c->call.type, c->seed, rank, i);
        memcpy((uint8_t *)to + i * element, &value, element);
    }
}

static uint64_t factor_at(const struct direct_case *c, int rank)
{
    return value_of(c->call.type, c->seed, rank, UINT64_C(1) << 40);
}

/* --- Pads. */

struct direct_rig *direct_rig_create(int n, uint64_t epochs)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct direct_rig *rig = calloc(1, sizeof *rig);
    pthread_once(&once, draw_values);
    rig->n = n;
    rig->late_us = 300;
    for (int r = 0; r < n; r++) {
        rig->pads[r] = mmap(NULL, sizeof *rig->pads[r], PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (rig->pads[r] == MAP_FAILED)
            abort();
        rig->pads[r]->epoch = epochs;
        for (int k = 0; k < n; k++) /* ranks that have called so often, and not yet again */
            rig->pads[r]->call[k] = (uint32_t)epochs;
        for (int k = 0; k < n; k++)
            rig->pads[r]->flag[0][k] = k != r ? epochs : 0;
    }
    return rig;
}

void direct_rig_free(struct direct_rig *rig)
{
    for (int r = 0; r < rig->n; r++)
        munmap(rig->pads[r], sizeof *rig->pads[r]);
    free(rig);
}

/* --- One call of one rank. */

struct buffers {
    _Alignas(64) uint8_t memory[2][REGION];
    uint8_t *in, *out;
    uint64_t factor;
};

static uint64_t start_of(const struct tt_rect_call *call, int rank)
{
    uint64_t elements = call->counts == NULL ? call->total / (uint64_t)call->n * (uint64_t)rank : 0;
    for (int k = 0; k < rank && call->counts != NULL; k++)
        elements += call->counts[k];
    return elements * call->element_bytes;
}

/* In place, the smaller buffer is the own block of the larger one, or both begin alike. */
static void place(struct buffers *b, const struct direct_case *c, int rank)
{
    const struct tt_collective_row *row = &tt_collectives[c->call.collective];
    const uint64_t start = row->in_place == TT_IN_PLACE_OWN_BLOCK ? start_of(&c->call, rank) : 0;
    b->in = b->memory[0] + EDGE + c->in_shift * c->call.element_bytes;
    b->out = b->memory[1] + EDGE + c->out_shift * c->call.element_bytes;
    if (!(c->call.in_place >> rank & 1))
        return;
    if (row->in == TT_REACH_OWN)
        b->in = b->out + start;
    else
        b->out = b->in + start;
}

struct plan {
    struct tt_fused_params rects;
    struct tt_rect_plan plan;
    uint32_t unit;
    bool folds, ll;
};

static void finish(struct direct_case *c)
{
    c->call.element_bytes = (uint32_t)type_of(c->call.type)->bytes;
    if (tt_collectives[c->call.collective].counts != TT_COUNTS_SHARED)
        return;
    c->call.counts = c->counts;
    c->call.total = 0;
    for (int k = 0; k < c->call.n; k++)
        c->call.total += c->counts[k];
}

/* In place or not, kernels of several devices serve the same calls. */
static void make_plan(const struct direct_case *c, struct plan *plan)
{
    struct tt_rect_call call = c->call;
    call.in_place = 0;
    if (!tt_rectangles(&call, &plan->rects, &plan->plan))
        abort();
    plan->folds = tt_collectives[call.collective].result == TT_RESULT_REDUCED;
    plan->unit = plan->folds ? call.element_bytes : 1;
}

static void tell_places(const struct direct_rig *rig, struct tt_direct_params *p)
{
    for (int k = 0; k < rig->n; k++) {
        const struct tt_direct_block *block = &p->send[p->blocks == 1 ? 0 : k];
        p->place[k][0] = tt_direct_place((uintptr_t)p->in + block->at);
        uint64_t result = (uintptr_t)p->out + p->receive[p->rank].at;
        p->place[k][1] = tt_direct_place(p->shares ? result : 0); /* nobody takes it */
    }
}

static struct tt_direct_params params_of(
    struct direct_rig *rig, int rank, const struct direct_case *c, struct buffers *b, struct plan *plan)
{
    static const enum tt_shape shapes[] = { TT_CHAIN, TT_TREE };
    struct tt_direct_params p = { .in = b->in,
        .out = b->out,
        .words = &rig->words[rank],
        .scalar = c->seed % 2 != 0 ? &b->factor : NULL,
        .factor = c->seed % 2 != 0 ? 0 : b->factor,
        .call = c->seed % 4 < 2 ? rig->words[rank].over + 1 : 0,
        .segment = c->segment,
        .signature = c->odd_rank == (uint32_t)rank + 1 ? 8 : 7,
        .ranks = (uint32_t)rig->n,
        .rank = (uint32_t)rank,
        .row = tt_fold_row_of(c->call.op),
        .shape = shapes[c->call.exact],
        .scales = c->call.scaled && plan->folds,
        .divisor = plan->rects.divisor };
    memcpy(p.pads, rig->pads, sizeof p.pads);
    plan->ll = tt_direct_set(&p, plan->rects.rect, plan->rects.rects, plan->unit) &&
               c->ll != (c->odd_rank == p.rank + 1);
    p.way = plan->ll ? TT_DIRECT_LL : TT_DIRECT_PADS;
    p.part = plan->ll ? 0 : c->part;
    p.maps =
        c->maps && !plan->ll && p.longest > 0 && tt_direct_maps(plan->folds, p.scales != 0, c->call.type);
    bool exchanged = tt_collectives[c->call.collective].result == TT_RESULT_EXCHANGED;
    if (p.maps && !(c->unmapped >> rank & 1) && !(exchanged && b->in == b->out))
        tell_places(rig, &p);
    return p;
}

/* What a rectangle means for this rank. */
static void expect_rect(
    const struct direct_case *c, const struct plan *plan, const struct tt_rect *r, uint8_t *out)
{
    static __thread uint8_t whole[LONGEST], operands[RANKS][LONGEST];
    const void *sources[RANKS];
    int n = 0;
    for (int k = 0; k < c->call.n; k++) {
        if (!(r->sources >> k & 1))
            continue;
        uint64_t factor = factor_at(c, k);
        fill(whole, c, k, r->from + r->count * plan->unit);
        memcpy(operands[n], whole + r->from, r->count * plan->unit);
        if (c->call.scaled && plan->folds)
            tt_scale(operands[n], operands[n], r->count, c->call.type, &factor);
        sources[n] = operands[n];
        n++;
    }
    if (!plan->folds)
        memcpy(out + r->to, sources[0], r->count);
    else
        tt_fold_find_isa(c->call.type, c->call.op, c->call.exact ? TT_TREE : TT_CHAIN, TT_ISA_GENERIC)(
            out + r->to, sources, n, r->count, plan->rects.divisor);
}

/* `before`: what may be there as well, or NULL. */
static bool compare(const struct direct_case *c, int rank, const struct buffers *got,
    const struct buffers *want, const struct buffers *before)
{
    for (size_t i = 0; i < sizeof got->memory; i++)
        if (((const uint8_t *)got->memory)[i] != ((const uint8_t *)want->memory)[i] &&
            (before == NULL || ((const uint8_t *)got->memory)[i] != ((const uint8_t *)before->memory)[i])) {
            fprintf(stderr,
                "%s by %s, %d ranks, type %u, op %u, exact %d, scaled %d, in place %x, %llu elements, grid "
                "%u, "
                "segment %llu, seed %llu: rank %d has byte %zu wrong\n",
                tt_collectives[c->call.collective].name,
                c->ll     ? "LL"
                : c->maps ? "MAPPED"
                          : "PADS",
                c->call.n, c->call.type, c->call.op, c->call.exact, c->call.scaled, c->call.in_place,
                (unsigned long long)c->call.total, c->grid, (unsigned long long)c->segment,
                (unsigned long long)c->seed, rank, i);
            return false;
        }
    return true;
}

struct block_run {
    const struct tt_emulated_launch *launch;
    uint32_t index;
    pthread_t thread;
};

static void *run_block(void *of)
{
    struct block_run *run = of;
    tt_emulate_block(run->launch, run->index);
    return NULL;
}

/* Of a call with a number, that; else its last epoch. */
static uint64_t ended(const struct tt_direct_words *words, bool numbered)
{
    if (numbered)
        return __atomic_load_n(&words->over, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&words->done, __ATOMIC_ACQUIRE) + __atomic_load_n(&words->left, __ATOMIC_ACQUIRE);
}

struct kernel_run {
    struct tt_emulated_launch launch;
    struct block_run blocks[TT_PAD_BLOCKS];
};

static void start(struct kernel_run *run, const struct tt_emulated_launch *launch)
{
    run->launch = *launch;
    for (uint32_t i = 0; i < launch->grid; i++) {
        run->blocks[i] = (struct block_run){ .launch = &run->launch, .index = i };
        if (pthread_create(&run->blocks[i].thread, NULL, run_block, &run->blocks[i]) != 0)
            abort();
    }
}

/* Waits for a word to say that the kernel is over: the number of its last call, or, if that is 0, another one
 * than before. Its results are there then, though its threads are not joined yet. */
static void await(struct tt_direct_words *words, uint64_t last, uint64_t before)
{
    struct patience patience = patience_of(60000);
    while (last != 0 ? ended(words, true) != last : ended(words, false) == before) {
        usleep(50);
        if (patience_is_over(&patience))
            __atomic_store_n(&words->abort, 1, __ATOMIC_RELAXED);
    }
}

static const void *function_of(enum tt_kernel kernel, const struct tt_rect_call *call, size_t params_bytes)
{
    struct tt_dev_kernel found = { 0 };
    if (!tt_dev_kernel_find(tt_kernel_number(kernel, call->type, call->op), &found) ||
        found.params_bytes != params_bytes)
        abort();
    return found.function;
}

static void join(struct kernel_run *run)
{
    for (uint32_t i = 0; i < run->launch.grid; i++)
        pthread_join(run->blocks[i].thread, NULL);
}

/* A call of one rank, with what it should give. */
struct case_run {
    struct direct_case c;
    struct plan plan;
    struct buffers *b, *want, *before;
    struct tt_direct_params params;
};

static void prepare(struct direct_rig *rig, int rank, const struct direct_case *given, struct case_run *r)
{
    struct buffers *three = aligned_alloc(64, 3 * sizeof *three), *b = three;
    r->c = *given;
    r->b = b;
    r->want = b + 1;
    r->before = b + 2;
    finish(&r->c);
    make_plan(&r->c, &r->plan);
    memset(b, 0xc3, sizeof *b);
    place(b, &r->c, rank);
    b->factor = factor_at(&r->c, rank);
    fill(b->in, &r->c, rank, r->plan.plan.extents.in[rank]);
    memcpy(r->want->memory, b->memory, sizeof b->memory);
    memcpy(r->before->memory, b->memory, sizeof b->memory);
    place(r->want, &r->c, rank);
    for (uint32_t i = 0; i < r->plan.rects.rects; i++)
        if (r->plan.rects.rect[i].dsts >> rank & 1)
            expect_rect(&r->c, &r->plan, &r->plan.rects.rect[i], r->want->out);
    r->params = params_of(rig, rank, &r->c, b, &r->plan);
}

static void come_late(const struct direct_rig *rig, int rank, uint64_t number)
{
    if (rig->late_us > 0 && mixed(number + (uint64_t)rank) % 4 == 0)
        usleep((useconds_t)(mixed(number * 3 + (uint64_t)rank) % rig->late_us));
}

/* `told`: of its end. */
static bool check(const struct direct_rig *rig, int rank, const struct case_run *r, bool told)
{
    const struct direct_case *c = &r->c;
    bool left = rig->words[rank].left != 0;
    if (!told)
        fprintf(stderr, "call %llu: rank %d does not tell of it\n", (unsigned long long)c->seed, rank);
    if (left && !rig->leaves)
        fprintf(stderr, "call %llu stands still at rank %d\n", (unsigned long long)c->seed, rank);
    return compare(c, rank, r->b, r->want, left ? r->before : NULL) && (!left || rig->leaves) && told;
}

static bool run_case(struct direct_rig *rig, int rank, const struct direct_case *given)
{
    struct case_run r;
    struct kernel_run run = { .launch.grid = 0 };
    struct tt_direct_words *words = &rig->words[rank];
    prepare(rig, rank, given, &r);
    struct tt_direct_params *p = &r.params;
    come_late(rig, rank, r.c.seed);
    uint64_t kernels = 1, number = p->call;
    if (p->part > 0 && (r.c.split >> rank & 1) && p->longest > p->part)
        kernels = (p->longest + p->part - 1) / p->part;
    const struct tt_emulated_launch launch = {
        .function =
            r.c.function != NULL
                ? r.c.function
                : function_of(r.plan.folds ? TT_KERNEL_DIRECT : TT_KERNEL_DIRECT_MOVE, &r.c.call, sizeof *p),
        .params = p,
        .grid = r.c.grid,
        .grid_y = 1,
        .block = r.c.block,
        .way = r.c.way,
        .order = (uint32_t)(r.c.seed + p->rank) % 5
    };
    for (uint64_t i = 0; i < kernels && (p->longest > 0 || r.plan.ll); i++) {
        if (i > 0)
            join(&run);
        p->begin = kernels > 1 ? i * p->part : 0;
        p->end = kernels > 1 ? p->begin + p->part : 0;
        p->maps = p->maps && i == 0;
        p->call = number != 0 ? number + i : 0;
        uint64_t before = ended(words, false);
        start(&run, &launch);
        await(words, p->call, before);
    }
    bool runs = run.launch.grid > 0;
    bool told = !runs || p->call == 0 || (words->entered == p->call && words->over == p->call);
    bool right = check(rig, rank, &r, told);
    join(&run);
    free(r.b);
    return right;
}

/* Calls that this rank has in one kernel. */
static bool run_list(struct direct_rig *rig, int rank, const struct direct_case *cases, int count)
{
    struct case_run *runs = calloc((size_t)count, sizeof *runs);
    struct tt_direct_list_params list = { .calls = (uint32_t)count };
    struct kernel_run run;
    struct tt_direct_words *words = &rig->words[rank];
    for (int i = 0; i < count; i++) {
        prepare(rig, rank, &cases[i], &runs[i]);
        const struct tt_direct_params *p = &runs[i].params;
        list.listed[i] = (struct tt_direct_listed){ p->in, p->out, (uint32_t)p->longest, p->signature };
    }
    const struct direct_case *c = &runs[0].c;
    const struct tt_direct_params *p = &runs[0].params;
    memcpy(list.pads, p->pads, sizeof list.pads);
    list.words = p->words;
    list.call = p->call;
    list.ranks = p->ranks;
    list.rank = p->rank;
    list.type = c->call.type;
    list.row = p->row;
    list.shape = p->shape;
    list.divisor = p->divisor;
    come_late(rig, rank, c->seed);
    const struct tt_emulated_launch launch = {
        .function = c->list_function != NULL ? c->list_function
                                             : function_of(TT_KERNEL_DIRECT_LIST, &c->call, sizeof list),
        .params = &list,
        .grid = 1,
        .grid_y = 1,
        .block = c->block,
        .way = c->way,
        .order = (uint32_t)(c->seed + p->rank) % 5
    };
    uint64_t before = ended(words, false), last = list.call != 0 ? list.call + (uint64_t)count - 1 : 0;
    start(&run, &launch);
    await(words, last, before);
    bool right = true, told = last == 0 || (words->entered == last && words->over == last);
    for (int i = 0; i < count; i++)
        right = check(rig, rank, &runs[i], told) && right;
    join(&run);
    for (int i = 0; i < count; i++)
        free(runs[i].b);
    free(runs);
    return right;
}

bool direct_rig_run_rank(struct direct_rig *rig, int rank, const struct direct_case *cases, int count)
{
    bool right = true;
    for (int i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && (cases[next].listed >> rank & 1);)
            next++;
        right = (next > i + 1 ? run_list(rig, rank, cases + i, next - i) : run_case(rig, rank, &cases[i])) &&
                right;
    }
    return right;
}

/* --- All ranks. */

struct rank_run {
    struct direct_rig *rig;
    int rank, count;
    const struct direct_case *cases;
    bool right;
    pthread_t thread;
};

static void *run_rank(void *of)
{
    struct rank_run *run = of;
    run->right = direct_rig_run_rank(run->rig, run->rank, run->cases, run->count);
    return NULL;
}

bool direct_rig_run(struct direct_rig *rig, const struct direct_case *cases, int count)
{
    struct rank_run runs[RANKS];
    bool right = true;
    for (int r = 0; r < rig->n; r++) {
        int calls = rig->absent >> r & 1 ? 0 : count;
        runs[r] = (struct rank_run){ .rig = rig, .rank = r, .count = calls, .cases = cases };
        if (pthread_create(&runs[r].thread, NULL, run_rank, &runs[r]) != 0)
            abort();
    }
    for (int r = 0; r < rig->n; r++) {
        pthread_join(runs[r].thread, NULL);
        right = right && runs[r].right;
    }
    return right;
}

/* --- Calls that are drawn. */

static uint64_t drawn(uint64_t *state, uint64_t below)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mixed(*state) % below;
}

struct direct_case direct_rig_draw(int n, uint64_t number, uint32_t most)
{
    static const enum tt_collective collectives[] = { TT_ALL_REDUCE, TT_REDUCE_SCATTER, TT_ALL_GATHER,
        TT_ALL_TO_ALL, TT_BARRIER, TT_BROADCAST, TT_REDUCE, TT_GATHER, TT_SCATTER, TT_ALL_GATHER_V,
        TT_REDUCE_SCATTER_V };
    uint64_t state = number * 1000;
    struct direct_case c = { .seed = number };
    const struct type *t = &types[drawn(&state, TYPES)];
    c.call.collective = collectives[drawn(&state, sizeof collectives / sizeof collectives[0])];
    c.call.n = n;
    c.call.root = (int)drawn(&state, (uint64_t)n);
    c.call.type = t->type;
    do
        c.call.op = ops[drawn(&state, OPS)].op;
    while (tt_fold_find(t->type, c.call.op, TT_CHAIN) == NULL);
    c.call.exact = drawn(&state, 2) != 0;
    c.call.scaled = c.call.op == TUTTI_SUM && drawn(&state, 2) != 0;
    c.call.total = 1 + drawn(&state, drawn(&state, 2) != 0 ? most / t->bytes : 40);
    if (tt_collectives[c.call.collective].blocks)
        c.call.total = (c.call.total + (uint64_t)n - 1) / (uint64_t)n * (uint64_t)n;
    for (int k = 0; k < n; k++)
        c.counts[k] = drawn(&state, 6) == 0 ? 0 : 1 + drawn(&state, c.call.total) * 2 / (size_t)n;
    c.call.in_place = drawn(&state, 2) != 0 ? (uint32_t)drawn(&state, 256) : 0;
    c.ll = drawn(&state, 3) == 0;
    c.maps = drawn(&state, 3) != 0;
    c.unmapped = drawn(&state, 4) == 0 ? 1U << drawn(&state, (uint64_t)n) : 0;
    c.part = drawn(&state, 2) != 0 ? 16 * (1 + drawn(&state, most / 16)) : 0;
    c.split = c.unmapped; /* what is in cells is reached by none */
    c.grid = 1 + (uint32_t)drawn(&state, 3);
    c.block = 4 + (uint32_t)drawn(&state, 5);
    c.segment = 16 * ((uint64_t)n + drawn(&state, 8 * (uint64_t)n));
    c.in_shift = drawn(&state, 2) != 0 ? (uint32_t)drawn(&state, 16 / t->bytes) : 0;
    c.out_shift = drawn(&state, 2) != 0 ? (uint32_t)drawn(&state, 16 / t->bytes) : 0;
    return c;
}

struct direct_case direct_rig_draw_listed(int n, uint64_t number, uint32_t most)
{
    static const tutti_type kinds[] = { TUTTI_FLOAT16, TUTTI_FLOAT32, TUTTI_BFLOAT16 };
    uint64_t common = number / 8 * 1000, state = number * 1000 + 500;
    struct direct_case c = { .seed = number, .ll = true };
    c.call.collective = TT_ALL_REDUCE;
    c.call.n = n;
    c.call.type = kinds[drawn(&common, 3)];
    c.call.op = drawn(&common, 2) != 0 ? TUTTI_AVG : TUTTI_SUM;
    c.call.exact = drawn(&common, 2) != 0;
    const size_t bytes = type_of(c.call.type)->bytes;
    c.call.total = 1 + drawn(&state, drawn(&state, 3) != 0 ? 24 : most / bytes);
    c.call.in_place = drawn(&state, 2) != 0 ? (uint32_t)drawn(&state, 256) : 0;
    c.grid = 1 + (uint32_t)drawn(&state, 2);
    c.block = 4 + (uint32_t)drawn(&state, 5);
    c.in_shift = drawn(&state, 2) != 0 ? (uint32_t)drawn(&state, 16 / bytes) : 0;
    c.out_shift = drawn(&state, 2) != 0 ? (uint32_t)drawn(&state, 16 / bytes) : 0;
    c.listed = number % 8 != 0 ? (uint32_t)(drawn(&state, 256) | drawn(&state, 256)) : 0;
    return c;
}
