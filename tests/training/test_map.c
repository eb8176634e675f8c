/* SPDX-License-Identifier: BSD-3-Clause */
/* test_map.c: maps of tokens to ranks: nobody's token is missing, no pair of tokens is forgotten or taken
 * twice, and the work of attention is what counting says. */
#include <criterion/criterion.h>
#include <math.h>

#include "training/commands/prepare.h"
#include "training/parallel/map.h"

enum { TOKENS = 48 };

static struct tr_map map_of(int cp, enum tr_cp_map map)
{
    struct tr_plan p = { .tokens.map = map, .mesh = { .size = { 1, 1, cp, 1, 1, 1 }, .n = cp } };
    return tr_map_of(&p);
}

static int64_t token_at(const struct tr_map *m, int64_t place)
{
    return m->striped ? tr_striped_token(TOKENS, place) : place;
}

/* For every cp one order of the sequence will do, so that its ranks have tokens that lie cp apart. */
Test(map, a_stripe_is_every_cp_th_token)
{
    for (int cp = 1; cp <= 8; cp *= 2) {
        struct tr_map m = map_of(cp, TR_CP_STRIPED);
        for (int r = 0; r < cp; r++) {
            struct tr_runs run = tr_runs_of(&m, TOKENS, r);
            int64_t first = token_at(&m, run.first[0]) % cp;
            for (int64_t t = 0; t < run.count; t++)
                cr_expect_eq(token_at(&m, run.first[0] + t) % cp, first, "cp %d, rank %d", cp, r);
        }
    }
}

Test(map, each_token_has_one_rank)
{
    for (int map = 0; map < TR_CP_MAPS; map++)
        for (int cp = 1; cp <= 8; cp *= 2) {
            struct tr_map m = map_of(cp, map);
            int owners[TOKENS] = { 0 };
            for (int r = 0; r < cp; r++) {
                struct tr_runs runs = tr_runs_of(&m, TOKENS, r);
                for (int64_t t = 0; t < runs.n * runs.count; t++)
                    owners[token_at(&m, runs.first[t / runs.count] + t % runs.count)]++;
                for (int n = 0; n < runs.n; n++) {
                    struct tr_owner o = tr_owner_of(&m, (int)(runs.first[n] / runs.count));
                    cr_expect(o.rank == r && o.run == n, "%s, cp %d, rank %d", tr_cp_map_names[map], cp, r);
                }
            }
            for (int t = 0; t < TOKENS; t++)
                cr_expect_eq(owners[t], 1, "%s, cp %d, token %d", tr_cp_map_names[map], cp, t);
        }
}

/* Pairs of a query of rank r and a key of rank k. */
static void count_pairs(const struct tr_map *m, int r, int k, int met[TOKENS][TOKENS], double *seen)
{
    struct tr_runs queries = tr_runs_of(m, TOKENS, r), keys = tr_runs_of(m, TOKENS, k);
    struct tr_pair pairs[TR_PAIRS];
    int n = tr_pairs(m, r, k, pairs);
    for (int x = 0; x < n; x++) {
        int64_t q = queries.first[pairs[x].queries], from = keys.first[pairs[x].keys];
        for (int64_t i = q; i < q + queries.count; i++)
            for (int64_t j = from; j < from + keys.count; j++)
                met[token_at(m, i)][token_at(m, j)]++;
        *seen += tr_seen(m, &(struct tr_places){ TOKENS, q, queries.count, from, keys.count });
    }
}

Test(map, each_query_meets_each_key_it_sees_once)
{
    for (int map = 0; map < TR_CP_MAPS; map++)
        for (int cp = 1; cp <= 8; cp *= 2) {
            struct tr_map m = map_of(cp, map);
            int met[TOKENS][TOKENS] = { { 0 } };
            double seen = 0;
            for (int r = 0; r < cp; r++)
                for (int k = 0; k < cp; k++)
                    count_pairs(&m, r, k, met, &seen);
            for (int i = 0; i < TOKENS; i++)
                for (int j = 0; j <= i; j++)
                    cr_expect_eq(met[i][j], 1, "%s, cp %d, %d %d", tr_cp_map_names[map], cp, i, j);
            cr_expect_float_eq(seen, TOKENS * (TOKENS + 1) / 2, 0.1, "%s, cp %d", tr_cp_map_names[map], cp);
        }
}

/* Of a rank, by counting: keys that its queries see; 4 operations forward and 10 backward for each channel of
 * each layer and sequence. */
static double counted(const struct tr_prepared *p, int rank)
{
    const struct tr_graph *g = &p->run.graph;
    struct tr_map map = tr_map_of(&p->run.plan);
    struct tr_runs runs = tr_runs_of(&map, g->context, rank);
    double keys = 0;
    for (int n = 0; n < runs.n; n++)
        for (int64_t t = 0; t < runs.count; t++)
            keys += 1 + (double)(map.striped ? tr_striped_token(g->context, runs.first[n] + t)
                                             : runs.first[n] + t);
    return keys * 14 * (double)(g->channels * g->layers * p->run.plan.batch);
}

static double in_tape(const struct tr_tape *t)
{
    double sum = 0;
    for (int n = 0; n < t->n_instrs; n++)
        sum += tr_is_masked(&t->instrs[n]) ? t->instrs[n].flops : 0;
    return sum;
}

/* The most of a rank over the least. */
static double spread(char *form, char *map, char *cp, char *context)
{
    char *words[] = { "--cp", cp, "--cp-attention", form, "--cp-map", map, "--micro", "2", "--context",
        context };
    struct tr_prepared p;
    struct tr_options o;
    struct tr_error e;
    double least = INFINITY, most = 0;
    tr_options_default(&o);
    cr_assert(tr_options_parse(&o, 10, words, &e) && tr_prepare(&p, &o, &e), "%s", e.text);
    for (int r = 0; r < p.run.plan.mesh.n; r++) {
        double flops = in_tape(&p.tapes->of[r]);
        cr_expect_float_eq(flops, counted(&p, r), 0.5, "%s %s, rank %d: %.0f", form, map, r, flops);
        least = flops < least ? flops : least;
        most = flops > most ? flops : most;
    }
    tr_prepared_free(&p);
    return most / least;
}

Test(map, zigzag_makes_the_work_of_attention_equal)
{
    static char *const forms[] = { "gather", "ring" };
    for (int f = 0; f < 2; f++) {
        cr_expect_leq(spread(forms[f], "zigzag", "2", "64"), 1.01);
        cr_expect_leq(spread(forms[f], "zigzag", "4", "64"), 1.01);
        cr_expect_geq(spread(forms[f], "contiguous", "4", "64"), 5);
    }
}

/* Of cp neighbours the last sees cp - 1 keys more than the first, which is little of a long context. */
Test(map, stripes_make_the_work_of_attention_nearly_equal)
{
    static char *const forms[] = { "gather", "ring" };
    for (int f = 0; f < 2; f++) {
        cr_expect_float_eq(spread(forms[f], "striped", "2", "64"), 66 / 64.0, 1e-9);
        cr_expect_float_eq(spread(forms[f], "striped", "8", "64"), 72 / 58.0, 1e-9);
        cr_expect_leq(spread(forms[f], "striped", "4", "1024"), 1.01);
    }
}
