/* SPDX-License-Identifier: BSD-3-Clause */
/* test_planning.c: how long it takes to plan a run, which every rank does before its first message, and that
 * the check of all lists sees a leaf that nobody counts, or two do. Time is that of the processor, and sizes
 * are compared with each other, so a busy machine changes nothing. */
#include "tests/training/options_rig.h"

#include "training/check/check.h"
#include "training/check/talk.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>

static double seconds_of(const char *line)
{
    struct rusage before, after;
    struct tr_prepared p;
    getrusage(RUSAGE_SELF, &before);
    rig_prepare(&p, line);
    getrusage(RUSAGE_SELF, &after);
    tr_prepared_free(&p);
    return (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
           (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) * 1e-6;
}

/* With the square of the tensors this is 16 times, with their cube 64 times. */
Test(planning, of_many_layers_does_not_take_the_cube)
{
    double few = 0, many;
    for (int i = 0; i < 4; i++)
        few += seconds_of("--layers 24") / 4;
    many = seconds_of("--layers 96");
    cr_expect_lt(many, 30 * few + 0.2, "24 layers take %.3f s, and 96 %.3f s", few, many);
}

/* A rank more is its list more, and no other look at all steps for each border of stages. */
Test(planning, of_many_ranks_takes_little_of_each)
{
    double one = 0, many;
    for (int i = 0; i < 4; i++)
        one += seconds_of("--layers 64") / 4;
    many = seconds_of("--layers 64 --pp 32 --dp 8");
    cr_expect_lt(many, 10 * one + 0.2, "1 rank takes %.3f s, and 256 ranks %.3f s", one, many);
}

/* The last instruction with this code; both kinds have leaves of their own on each rank. */
static struct tr_instr *last_of(const struct tr_prepared *p, int rank, enum tr_code code)
{
    const struct tr_tape *t = &p->tapes->of[rank];
    int n = t->n_instrs;
    while (n-- > 0 && t->instrs[n].code != code)
        ;
    cr_assert_geq(n, 0);
    return &t->instrs[n];
}

static void order_says(const struct tr_prepared *p, const char *words)
{
    struct tr_error e = { .text = "" };
    bool ok = tr_check_order(p->tapes->of, 2, &e);
    cr_expect_eq(ok, !words);
    cr_expect(!words || strstr(e.text, words), "not \"%s\" but: %s", words ? words : "", e.text);
}

Test(planning, each_leaf_is_counted_once)
{
    struct tr_prepared p;
    rig_prepare(&p, "--tp 2");
    order_says(&p, NULL);
    const enum tr_code codes[] = { TR_NORM, TR_LOSSES };
    for (int k = 0; k < 2; k++) {
        int owner = codes[k] == TR_NORM ? 1 : 0; /* of the loss, the first rank of tp */
        struct tr_instr *i = last_of(&p, owner, codes[k]), before = *i;
        i->code = TR_LOAD;
        order_says(&p, codes[k] == TR_NORM ? "of the norm" : "of the loss");
        *i = before;
        if (codes[k] == TR_NORM) {
            i->place = last_of(&p, 0, TR_NORM)->place;
            order_says(&p, "is counted twice");
            *i = before;
        }
        order_says(&p, NULL);
    }
    tr_prepared_free(&p);
}

/* Ranks of dp and tp beyond the second are as the second: more of them cost a look at their leaves. */
Test(planning, of_thousands_of_ranks_is_that_of_their_classes)
{
    double few = 0, many;
    for (int i = 0; i < 4; i++)
        few += seconds_of("--layers 16 --pp 16 --micro 16 --batch 16") / 4;
    many = seconds_of("--layers 16 --pp 16 --dp 64 --tp 4 --micro 16 --batch 1024");
    cr_expect_lt(many, 12 * few + 0.2, "16 ranks take %.3f s, and 4096 ranks %.3f s", few, many);
}

/* What may differ between ranks of a class: where tokens, sequences and leaves are, and so what of them is
 * padding or hidden. */
static void forget_places(struct tr_instr *i)
{
    i->place = i->first = i->second = i->valid = 0;
    i->flops = 0;
}

static bool same_instr(struct tr_instr a, struct tr_instr b)
{
    forget_places(&a), forget_places(&b);
    return a.code == b.code && a.op == b.op && a.ins == b.ins && a.outs == b.outs &&
           !memcmp(a.in, b.in, (size_t)a.ins * sizeof(int)) &&
           !memcmp(a.out, b.out, (size_t)a.outs * sizeof(int)) && a.scratch == b.scratch &&
           a.stage == b.stage && a.micro == b.micro && a.part == b.part && a.unit == b.unit &&
           a.parameter == b.parameter && a.axes == b.axes && a.axis == b.axis && a.shift == b.shift &&
           a.peer == b.peer && a.edge == b.edge && a.fold == b.fold && a.count == b.count &&
           a.times == b.times && a.striped == b.striped && fabs(a.scale - b.scale) <= 0 &&
           a.beside == b.beside && a.update == b.update && a.optimizer.sgd == b.optimizer.sgd &&
           fabs(a.optimizer.rate - b.optimizer.rate) <= 0 && fabs(a.optimizer.decay - b.optimizer.decay) <= 0;
}

static bool same_value(const struct tr_value *a, const struct tr_value *b)
{
    return a->shard == b->shard && a->micro == b->micro && a->memory == b->memory &&
           a->element == b->element && a->bytes == b->bytes && a->first == b->first && a->last == b->last &&
           a->offset == b->offset && a->takes == b->takes && a->lasts == b->lasts && a->host == b->host &&
           a->within == b->within && a->inside == b->inside;
}

static void expect_alike(const struct tr_tape *class, const struct tr_tape *own, const char *line)
{
    cr_assert(class->n_instrs == own->n_instrs && class->n_values == own->n_values &&
                  class->n_states == own->n_states && class->needed.groups.n == own->needed.groups.n &&
                  class->needed.beside.n == own->needed.beside.n,
        "%s: rank %d is not as rank %d", line, own->rank, class->rank);
    for (int n = 0; n < own->n_instrs; n++)
        cr_assert(same_instr(class->instrs[n], own->instrs[n]), "%s: instruction %d of ranks %d and %d", line,
            n, class->rank, own->rank);
    for (int v = 0; v < own->n_values; v++)
        cr_assert(same_value(&class->values[v], &own->values[v]), "%s: value %d of ranks %d and %d", line, v,
            class->rank, own->rank);
    cr_assert(class->arena == own->arena && class->peak_total == own->peak_total &&
              !memcmp(class->peak, own->peak, sizeof own->peak) && class->host.arena == own->host.arena);
}

static const char *const large[] = { "--dp 8 --tp 4 --batch 32",
    "--dp 4 --tp 2 --pp 4 --micro 2 --sp --zero 3", "--cp 8 --cp-attention ring --dp 4",
    "--cp 4 --cp-map zigzag --cp-attention ring --tp 2 --dp 4 --zero 1",
    "--cp 4 --cp-attention ulysses --dp 4 --pp 2 --micro 2", "--dp 32 --zero 2 --micro 2 --batch 64",
    "--model moe:nano --dp 8 --ep 4 --pp 4 --batch 32", "--model cnn:nano --cp 4 --dp 8 --batch 16",
    "--dp 32 --batch 32 --offload both --bucket 64K --overlap", "--precision bfloat16 --dp 4 --tp 4 --pp 2",
    "--vocabulary 257 --tp 4 --dp 8", "--async stash --untied --clip 0 --pp 4 --dp 8 --micro 4 --batch 32" };

/* All that is taken for granted of a class, of every rank of meshes that have four ranks and more on an axis:
 * its tape is that of its class, and the lists of groups are those that all tapes need. */
Test(planning, a_rank_does_what_its_class_does)
{
    for (size_t k = 0; k < sizeof large / sizeof *large; k++) {
        struct tr_prepared p;
        struct tr_tapes whole;
        struct tr_error e = { .text = "" };
        bool by_types;
        rig_prepare(&p, large[k]);
        cr_assert(p.tapes->by_class, "%s", large[k]);
        cr_assert(tr_tapes_make(&whole, &p.placed, &p.run.schedule, true, &e), "%s", e.text);
        cr_assert(tr_tapes_check(&whole, &by_types, &e), "%s: %s", large[k], e.text);
        cr_expect_eq(p.tapes->instructions, whole.instructions, "%s", large[k]);
        for (int r = 0; r < whole.n; r++) {
            const struct tr_tape *own = tr_tapes_of(p.tapes, r);
            cr_assert_eq(own->rank, r);
            expect_alike(&whole.of[r], own, large[k]);
            expect_alike(tr_tapes_like(p.tapes, r), own, large[k]);
            cr_assert(!memcmp(&own->needed, &whole.of[r].needed, sizeof own->needed));
        }
        tr_tapes_free(&whole);
        tr_prepared_free(&p);
    }
}

/* The last stage takes its first part after its second one. */
static void all_say(const char *line, bool by_types, const char *words)
{
    struct tr_prepared p;
    struct tr_error e[2];
    rig_prepare(&p, line);
    struct tr_slot *slots = p.run.schedule.slots[1], first = slots[0];
    slots[0] = slots[1], slots[1] = first;
    for (int whole = 0; whole < 2; whole++) {
        struct tr_tapes tapes;
        bool types;
        cr_assert(tr_tapes_make(&tapes, &p.placed, &p.run.schedule, whole, &e[whole]));
        cr_expect_not(tr_tapes_check(&tapes, &types, &e[whole]), "%s", line);
        cr_expect_eq(types, by_types, "%s", e[whole].text);
        tr_tapes_free(&tapes);
    }
    cr_expect_str_eq(e[0].text, e[1].text);
    cr_expect(strstr(e[0].text, words), "%s", e[0].text);
    tr_prepared_free(&p);
}

/* An error that all ranks of a stage make is found by their classes, in the words of the walk of all. */
Test(planning, what_all_ranks_do_wrong_their_classes_do)
{
    all_say("--dp 8 --tp 4 --pp 2 --micro 4 --batch 32 --schedule gpipe", false,
        "sends layer1.out of micro-batch 0");
    all_say("--dp 8 --tp 4 --pp 2 --micro 4 --batch 32 --schedule 1f1b", true, "it was never written");
}

/* What the one rank of a class says of its leaves must be true of itself before it is taken for others'. */
Test(planning, leaves_that_a_class_is_counted_by_are_its_own)
{
    struct tr_prepared p;
    struct tr_error e = { .text = "" };
    struct tr_talk talks[2];
    const struct tr_talk *of[32];
    rig_prepare(&p, "--dp 32 --batch 32 --zero 1");
    for (int x = 0; x < 2; x++)
        tr_talk_of(&talks[x], &p.tapes->of[tr_tapes_of(p.tapes, x)->rank]);
    for (int r = 0; r < 32; r++)
        of[r] = &talks[r > 0];
    cr_expect(tr_check_leaves(&p.placed, of, 32, true, &e), "%s", e.text);
    talks[1].parts[0].place++;
    cr_expect_not(tr_check_leaves(&p.placed, of, 32, true, &e));
    cr_expect(strstr(e.text, "is due"), "%s", e.text);
    for (int x = 0; x < 2; x++)
        tr_talk_free(&talks[x]);
    tr_prepared_free(&p);
}

/* Ranks that give bfloat16 and float32 to one call, and to one message. */
Test(planning, what_is_said_has_one_element_type)
{
    static const struct {
        const char *line;
        enum tr_code code;
        const char *words;
    } cases[] = { { "--tp 2", TR_ALL_REDUCE, "call different things in one group" },
        { "--pp 2 --micro 2", TR_RECV, "where rank 1 receives" } };
    for (int k = 0; k < 2; k++) {
        struct tr_prepared p;
        rig_prepare(&p, cases[k].line);
        order_says(&p, NULL);
        const struct tr_tape *t = &p.tapes->of[1];
        const struct tr_instr *i = t->instrs;
        while (i->code != cases[k].code)
            i++;
        t->values[i->ins ? i->in[0] : i->out[0]].element = TR_BFLOAT16;
        order_says(&p, cases[k].words);
        tr_prepared_free(&p);
    }
}

/* ---- what a list keeps ---- */

/* How many sums of the first parameter wait for other micro-batches, and the most memory of gradients. */
static int sums_of(const char *line, int rank, int64_t *gradients)
{
    struct tr_prepared p;
    int sums = 0;
    rig_prepare(&p, line);
    const struct tr_tape *t = tr_tapes_of(p.tapes, rank);
    while (sums < 32 && t->states[0].level[sums] >= 0)
        sums++;
    *gradients = t->peak[TR_MEM_GRADIENT];
    tr_prepared_free(&p);
    return sums;
}

Test(planning, of_sums_in_any_order_one_waits)
{
    int64_t canonical, free_order, unused;
    cr_expect_eq(sums_of("--batch 16 --micro 16", 0, &canonical), 4);
    cr_expect_eq(sums_of("--batch 16 --micro 16 --order free", 0, &free_order), 1);
    cr_expect_eq(sums_of("--batch 16 --micro 1 --order free", 0, &unused), 0);
    cr_expect_eq(sums_of("--batch 16 --dp 16 --servers 1", 16, &unused), 4);
    cr_expect_eq(sums_of("--batch 16 --dp 16 --servers 1 --order free", 16, &unused), 1);
    cr_expect_gt(
        canonical, 2 * free_order, "%lld bytes, and %lld", (long long)canonical, (long long)free_order);
}

static const struct tr_instr *first_of(const struct tr_tape *t, int op)
{
    for (int n = 0; n < t->n_instrs; n++)
        if (t->instrs[n].code == TR_COMPUTE && t->instrs[n].op == op)
            return &t->instrs[n];
    cr_assert_fail("no operation %d", op);
    return NULL;
}

/* Logits are the largest array of many a model, and their float32 image is twice as large. */
Test(planning, what_is_worked_on_in_place_is_widened_where_the_result_is)
{
    struct tr_prepared p;
    rig_prepare(&p, "--precision bfloat16");
    const struct tr_tape *t = tr_tapes_of(p.tapes, 0);
    cr_expect_eq(first_of(t, TR_SOFTMAX)->scratch, -1, "exp is float32");
    const struct tr_instr *gelu = first_of(t, TR_GELU_DX);
    int64_t elements = tr_count(t, gelu->out[0]);
    cr_expect_eq(t->values[gelu->scratch].bytes, 2 * 4 * elements, "of dy and dx together, and of x");
    tr_prepared_free(&p);
}
