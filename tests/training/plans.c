/* SPDX-License-Identifier: BSD-3-Clause */
/* plans.c: prints all that planning decides, so that a change that should change no plan can be shown to
 * change none: the graph, the shards and steps of the placed graph, and each rank's values, instructions,
 * states, buckets, memory and messages.
 *
 *     plans                a line for each case of `verify --all`, for each planted error, and for each
 *                          hundred of 5,000 drawn option sets: a hash of its text, or of the words that
 *                          refuse it
 *     plans -t OPTIONS     that text of one set of options
 *
 * Equal texts give the executor equal work, with the same messages in the same memory. They say nothing of
 * what kernels compute. They have numbers and no names, but for tensors: so a rename changes none. */
#include "training/commands/prepare.h"
#include "training/verify/verify.h"
#include "training/errors/inject.h"
#include "training/account/ledger.h"
#include "training/tape/tape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWN = 5000, DRAWN_A_LINE = 100 };

static void put_list(FILE *f, const int *list, int n)
{
    for (int i = 0; i < n; i++)
        fprintf(f, " %d", list[i]);
}

static void put_ends(FILE *f, const int *in, int ins, const int *out, int outs)
{
    put_list(f, in, ins);
    fprintf(f, " ->");
    put_list(f, out, outs);
    fprintf(f, "\n");
}

static void put_graph(FILE *f, const struct tr_graph *g)
{
    fprintf(f,
        "graph %s L%" PRId64 " C%" PRId64 " H%" PRId64 " T%" PRId64 " V%" PRId64 " in%" PRId64 " grid%" PRId64
        " gr%" PRId64 " E%" PRId64 " k%" PRId64 " split%d cap%a bal%a col%d leaves%d parts%d scores%d win%d "
        "fwd%d units%d %d %d %d\n",
        g->model, g->layers, g->channels, g->heads, g->context, g->vocabulary, g->inputs, g->grid, g->groups,
        g->experts, g->choices, g->cut.split, g->capacity, g->balance, g->cut.columns, g->leaves,
        g->attention.parts, g->attention.scores, g->attention.windows, g->n_forward, g->units, g->tokens,
        g->targets, g->loss);
    for (int i = 0; i < g->n_tensors; i++) {
        const struct tr_tensor *t = &g->tensors[i];
        fprintf(f,
            "T%d %s role%d u%d %s %" PRId64 ",%" PRId64 ",%" PRId64 " rows%" PRId64
            " st%d wide%d of%d counts%d dev%a first%a val%d\n",
            i, t->name, t->role, t->unit, t->letter, t->size[0], t->size[1], t->size[2], t->rows, t->stream,
            t->wide, t->of, t->counts, t->deviation, (double)t->first, t->values_of);
    }
    for (int i = 0; i < g->n_nodes; i++) {
        const struct tr_node *n = &g->nodes[i];
        fprintf(f, "N%d op%d ph%d u%d turn%d", i, n->op, n->phase, n->unit, n->shift);
        put_ends(f, n->in, n->ins, n->out, n->outs);
    }
}

static void put_placed(FILE *f, const struct tr_placed *p)
{
    char text[3];
    for (int i = 0; i < p->n_shards; i++) {
        const struct tr_shard *s = &p->shards[i];
        fprintf(f, "S%d t%d un%d", i, s->tensor, s->unrounded);
        for (int a = 0; a < TR_AXES; a++)
            fprintf(f, " [%s]", tr_placement_text(s->on[a], text));
        fprintf(f, " count%" PRId64 " elem%d sizes", tr_shard_count(p, i, 1), tr_shard_element(p, i));
        for (int d = 0; d < p->g->tensors[s->tensor].dims; d++)
            fprintf(f, " %" PRId64, tr_shard_size(p, i, d));
        fprintf(f, "\n");
    }
    for (int i = 0; i < p->n_steps; i++) {
        const struct tr_step *s = &p->steps[i];
        fprintf(
            f, "P%d c%d op%d ph%d u%d ax%d turn%d", i, s->code, s->op, s->phase, s->unit, s->axis, s->shift);
        put_ends(f, s->in, s->ins, s->out, s->outs);
    }
}

static void put_value(FILE *f, const struct tr_value *v, int n)
{
    fprintf(f,
        "V%d sh%d mi%d mem%d el%d b%" PRId64 " %d-%d @%" PRId64 " takes%d lasts%d host%d within%d+%" PRId64
        "\n",
        n, v->shard, v->micro, v->memory, v->element, v->bytes, v->first, v->last, v->offset, v->takes,
        v->lasts, v->host, v->within, v->inside);
}

static void put_instr(FILE *f, const struct tr_instr *i, int n)
{
    fprintf(f,
        "I%d c%d op%d scr%d st%d mi%d pa%d u%d p%d axes%d ax%d turn%d edge%d fold%d cnt%" PRId64
        " times%" PRId64 " place%" PRId64 " first%" PRId64 " second%" PRId64 " str%d valid%" PRId64
        " scale%a flops%a beside%d",
        n, i->code, i->op, i->scratch, i->stage, i->micro, i->part, i->unit, i->parameter, i->axes, i->axis,
        i->shift + i->peer, i->edge, (int)i->fold, i->count, i->times, i->place, i->first, i->second,
        i->striped, i->valid, i->scale, i->flops, i->beside);
    if (i->code == TR_LOAD || i->code == TR_UPDATE)
        fprintf(f, " up%d", i->update);
    if (i->code == TR_UPDATE)
        fprintf(f, " sgd%d rate%a decay%a clip%a", i->optimizer.sgd, i->optimizer.rate, i->optimizer.decay,
            i->optimizer.clip);
    put_ends(f, i->in, i->ins, i->out, i->outs);
}

static void put_holding(FILE *f, const struct tr_param_state *h, int n)
{
    fprintf(f,
        "H%d p%d v%d m%d v%d host%d master%d wait%d g%d from%" PRId64 " count%" PRId64 " b%d+%" PRId64
        " levels",
        n, h->parameter, h->values, h->m, h->v, h->on_host, h->master, h->waiting, h->gradient, h->shard_from,
        h->shard_count, h->bucket, h->inside);
    put_list(f, h->level, 32);
    fprintf(f, "\n");
}

static void put_ledger(FILE *f, const char *name, const struct tr_ledger *l)
{
    for (int n = 0; n < l->n; n++) {
        const struct tr_entry *y = &l->entries[n];
        fprintf(f, "%s c%d axes%d edge%d cargo%d calls%" PRId64 " b%" PRId64 " least%" PRId64 "\n", name,
            y->code, y->axes, y->edge, y->cargo, y->calls, y->bytes, y->least);
    }
}

static void put_tape(FILE *f, const struct tr_tape *t)
{
    struct tr_ledger messages, copies;
    fprintf(f, "R%d at", t->rank);
    put_list(f, t->at, TR_AXES);
    fprintf(f, " step up%d seq%d norm%d stoch%d free%d threads%d stale%ld\n", t->step.updates,
        t->step.sequences, t->step.norm, t->step.stochastic, t->step.free_order, t->step.host_threads,
        t->step.staleness);
    for (int n = 0; n < t->n_values; n++)
        put_value(f, &t->values[n], n);
    for (int n = 0; n < t->n_instrs; n++)
        put_instr(f, &t->instrs[n], n);
    for (int n = 0; n < t->n_states; n++)
        put_holding(f, &t->states[n], n);
    for (int n = 0; n < t->n_buckets; n++)
        fprintf(f, "B%d %d+%d v%d\n", n, t->buckets[n].first, t->buckets[n].members, t->buckets[n].value);
    fprintf(f,
        "tape losses%d leaves%d tickets%d server%d arena%" PRId64 " peak%" PRId64 " host%" PRId64 ",%" PRId64
        " way%d peaks",
        t->losses, t->leaves, t->tickets, t->server, t->arena, t->peak_total, t->host.arena,
        t->host.peak_total, t->stage_layout);
    for (int k = 0; k < TR_MEMORIES; k++)
        fprintf(f, " %" PRId64 "/%" PRId64, t->peak[k], t->host.peak[k]);
    fprintf(f, " masks");
    put_list(f, t->needed.groups.of, t->needed.groups.n);
    fprintf(f, " beside");
    put_list(f, t->needed.beside.of, t->needed.beside.n);
    fprintf(f, "\n");
    tr_ledger_predict(&messages, t);
    tr_copies_predict(&copies, t);
    put_ledger(f, "messages", &messages);
    put_ledger(f, "copies", &copies);
}

/* The text of a case, or the words that refuse it. */
static void put_case(FILE *f, const struct tr_verify_case *c)
{
    struct tr_options o;
    struct tr_error e = { .text = "" };
    struct tr_prepared p;
    if (!tr_verify_options(&o, c, &e) || !tr_prepare(&p, &o, &e)) {
        fprintf(f, "refused: %s\n", e.text);
        return;
    }
    put_graph(f, &p.run.graph);
    put_placed(f, &p.placed);
    for (int r = 0; r < p.run.plan.mesh.n; r++)
        put_tape(f, tr_tapes_of(p.tapes, r));
    tr_prepared_free(&p);
}

static uint64_t fnv1a(uint64_t sum, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ (unsigned char)text[i]) * 1099511628211u;
    return sum;
}

static uint64_t sum_case(uint64_t sum, const struct tr_verify_case *c)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        abort();
    put_case(f, c);
    fclose(f);
    sum = fnv1a(sum, text, bytes);
    free(text);
    return sum;
}

static void say_case(const struct tr_verify_case *c)
{
    printf("%016" PRIx64 " %s%s\n", sum_case(14695981039346656037u, c), c->options, c->sgd ? " (sgd)" : "");
}

static void say_all(void)
{
    int n;
    struct tr_verify_case *cases = tr_verify_cases(TR_VERIFY_ALL, &n), c;
    for (int i = 0; i < n; i++)
        say_case(&cases[i]);
    free(cases);
    const struct tr_injection *x;
    for (int i = 0; (x = tr_injection_at(i)); i++) {
        c = (struct tr_verify_case){ .steps = 2 };
        snprintf(c.options, sizeof c.options, "%s --inject %s", x->needs, x->name);
        say_case(&c);
    }
    uint64_t state = 1;
    for (int i = 0; i < DRAWN; i += DRAWN_A_LINE) {
        uint64_t sum = 14695981039346656037u;
        for (int k = 0; k < DRAWN_A_LINE; k++) {
            memset(&c, 0, sizeof c);
            tr_verify_draw(&c, &state);
            sum = sum_case(sum, &c);
        }
        printf("%016" PRIx64 " drawn %d to %d\n", sum, i, i + DRAWN_A_LINE - 1);
    }
}

int main(int argc, char **argv)
{
    struct tr_verify_case c = { .steps = 2 };
    if (argc == 1) {
        say_all();
        return 0;
    }
    if (argc != 3 || strcmp(argv[1], "-t")) {
        fprintf(stderr, "usage: plans [-t OPTIONS]\n");
        return 2;
    }
    snprintf(c.options, sizeof c.options, "%s", argv[2]);
    put_case(stdout, &c);
    return 0;
}
