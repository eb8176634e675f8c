/* SPDX-License-Identifier: BSD-3-Clause */
/* server.c: parameter servers against a ring, as workers grow: what comes to and goes from the rank
 * that has most of it, by the formula, by the tapes' ledgers, and counted by Tutti.
 *
 * The ring is written as its two halves, --dp-reduce sharded, so each rank sends 2 (N - 1) / N of a vector
 * whatever algorithm Tutti chooses; for an all_reduce of few bytes it takes a faster one that sends more. */
#include "training/compare/compare.h"

#include "training/run/traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVER, RING };

/* ---- numbers of workers ---- */

/* "1..8", or "1,2,4", each larger than the one before. */
static bool parse_workers(struct tr_comparison *c, const char *text)
{
    long most = TR_COMPARE_WORKERS;
    char *end;
    for (const char *at = text;; at = end + 1) {
        long first = strtol(at, &end, 10), last = first;
        if (end == at || *at == '-' || *at == '+' || *at == ' ')
            return false;
        if (!strncmp(end, "..", 2)) {
            at = end + 2;
            last = strtol(at, &end, 10);
            if (end == at || *at < '0' || *at > '9')
                return false;
        }
        if (first < 1 || last < first || last > most ||
            (c->n_workers && first <= c->workers[c->n_workers - 1]))
            return false;
        for (; first <= last; first++)
            c->workers[c->n_workers++] = first;
        if (!*end)
            return true;
        if (*end != ',')
            return false;
    }
}

static bool asks_for(const struct tr_comparison *c, int side)
{
    for (int i = 0; i < c->n_words; i++)
        if (c->words[i] == side)
            return true;
    return false;
}

static struct tr_options options_of(const struct tr_comparison *c, int side, long workers)
{
    struct tr_options o = c->base;
    o.plan.sizes.dp = workers;
    if (side == SERVER)
        o.plan.sizes.servers = c->servers;
    else
        o.plan.reduce.form = TR_DP_SHARDED;
    return o;
}

bool tr_compare_workers(struct tr_comparison *c, struct tr_error *e)
{
    struct tr_options *o = &c->base;
    const char *text = *o->plan.servers.workers ? o->plan.servers.workers : "1..8";
    if (o->ranks)
        return tr_fail(e,
            "-n %ld is no option of compare server and ring: --workers says how many workers there are",
            o->ranks);
    if (!parse_workers(c, text))
        return tr_fail(e,
            "--workers %s: legal are numbers from 1 to %d that grow, as 1..8, or 1,2,4, or 1,2..4", text,
            TR_COMPARE_WORKERS);
    if (o->plan.sizes.servers && !asks_for(c, SERVER))
        return tr_fail(
            e, "--servers %ld: no servers are compared; legal with compare server", o->plan.sizes.servers);
    c->servers = o->plan.sizes.servers ? o->plan.sizes.servers : 1;
    o->plan.sizes.servers = 0, *o->plan.servers.workers = 0;
    o->ranks = c->workers[c->n_workers - 1] + (asks_for(c, SERVER) ? c->servers : 0);
    struct tr_options alone = options_of(c, SERVER, 1);
    struct tr_run run;
    alone.ranks = 0;
    if (!tr_run_make(&run, &alone, e))
        return false;
    tr_run_free(&run);
    if (o->ranks < 2)
        return tr_fail(e, "--workers 1: one worker alone has no ring; legal are more workers");
    return true;
}

/* ---- configurations ---- */

/* Numbers that the batch cannot have are named once. */
void tr_compare_add_servers(struct tr_comparison *c)
{
    static const char *const names[] = { "server", "ring" };
    for (int i = 0; i < c->n_words; i++)
        for (int w = 0; w < c->n_workers; w++) {
            struct tr_options o = options_of(c, c->words[i], c->workers[w]);
            char name[40];
            snprintf(name, sizeof name, "%s, %ld worker%s", names[c->words[i]], o.plan.sizes.dp,
                o.plan.sizes.dp == 1 ? "" : "s");
            tr_compare_add(c, name, &o, i > 0);
        }
}

void tr_compare_add_aside(struct tr_comparison *c)
{
    long most = c->base.ranks < 4 ? 8 : 2 * c->base.ranks;
    int before = c->n;
    c->servers = c->servers ? c->servers : 1;
    for (int side = SERVER; side <= RING; side++)
        for (long w = 1; w <= most && w <= TR_COMPARE_WORKERS; w++) {
            struct tr_options o = options_of(c, side, w);
            char name[40];
            o.plan.sizes.pp = o.plan.sizes.cp = o.plan.sizes.tp = o.plan.sizes.ep = 1;
            snprintf(name, sizeof name, "%s, %ld worker%s", side == SERVER ? "server" : "ring", w,
                w == 1 ? "" : "s");
            tr_compare_add(c, name, &o, true);
        }
    for (int i = before; i < c->n; i++)
        c->all[i].aside = true;
}

bool tr_compare_no_workers(const struct tr_comparison *c, struct tr_error *e)
{
    char legal[200] = "", why[400];
    snprintf(why, sizeof why, "%.390s", c->n_left_out ? c->left_out[0].why : "");
    for (long n = 1; n <= TR_COMPARE_WORKERS; n++) {
        struct tr_options o = options_of(c, c->words[0], n);
        struct tr_run run;
        o.ranks = o.plan.sizes.dp + o.plan.sizes.servers;
        if (!tr_run_make(&run, &o, e))
            continue;
        tr_run_free(&run);
        snprintf(legal + strlen(legal), sizeof legal - strlen(legal), "%s%ld", *legal ? ", " : "", n);
    }
    return tr_fail(
        e, "there is nothing to compare: %s. Legal numbers of workers: %s", why, *legal ? legal : "none");
}

/* ---- bytes ---- */

static struct tr_flow larger(struct tr_flow a, struct tr_flow b)
{
    return (struct tr_flow){ a.in > b.in ? a.in : b.in, a.out > b.out ? a.out : b.out };
}

static int64_t elements(const struct tr_tensor *t)
{
    return t->size[0] * (t->dims > 1 ? t->size[1] : 1);
}

/* Parts that do not come out even are whole lines of 16 numbers. */
static int64_t part_of(int64_t count, int64_t n)
{
    return count % n ? (count + 16 * n - 1) / (16 * n) * 16 : count / n;
}

/* A worker gives its gradients to the servers and takes values; each of K servers takes and gives as much of
 * N workers, of its K-th part. In a ring a rank gives away all of a vector's N parts but its own, and then
 * its own, summed, to all others. */
struct tr_flow tr_compare_formula(const struct tr_plan *p, const struct tr_graph *g)
{
    int64_t n = p->mesh.size[TR_DP], servers = p->mesh.servers;
    struct tr_flow worker = { 0, 0 }, ring = { 0, 0 };
    for (int i = 0; i < g->n_tensors; i++) {
        const struct tr_tensor *t = &g->tensors[i];
        if (t->role != TR_PARAMETER)
            continue;
        int64_t count = elements(t), sent = 2 * (n - 1) * part_of(count, n);
        worker.out += 4 * count;
        worker.in += t->values_of == i ? 4 * count : 0; /* a tied head has a gradient and no values */
        ring.in += 4 * sent, ring.out += 4 * sent;
    }
    if (!servers)
        return ring;
    return larger(worker, (struct tr_flow){ n * worker.out / servers, n * worker.in / servers });
}

/* What collectives send comes in as well. */
struct tr_flow tr_compare_ledger(const struct tr_prepared *p)
{
    struct tr_flow most = { 0, 0 };
    for (int r = 0; r < p->run.plan.mesh.n; r++) {
        struct tr_flow flow = { 0, 0 };
        struct tr_ledger l;
        tr_ledger_predict(&l, tr_tapes_like(p->tapes, r));
        for (int i = 0; i < l.n; i++) {
            const struct tr_entry *x = &l.entries[i];
            if (x->cargo == TR_OF_SCALARS)
                continue;
            flow.out += x->least;
            flow.in += x->code == TR_RECV ? x->bytes : x->code == TR_SEND ? 0 : x->least;
        }
        most = larger(most, flow);
    }
    return most;
}

bool tr_compare_read(struct tr_flow *to, const struct tr_groups *g, struct tr_error *e)
{
    struct tr_traffic t;
    *to = (struct tr_flow){ 0, 0 };
    if (!tr_traffic_read(&t, g, e))
        return false;
    for (int i = 0; i < TR_TRAFFICS; i++)
        if (i != TR_WORLD)
            to->in += t.received[i], to->out += t.sent[i];
    return true;
}

bool tr_compare_flows_equal(const struct tr_contender *x)
{
    struct tr_flow formula = tr_compare_formula(&x->prepared.run.plan, &x->prepared.run.graph),
                   ledger = tr_compare_ledger(&x->prepared);
    return formula.in == ledger.in && formula.out == ledger.out &&
           (!x->runs || (formula.in == x->counted.in && formula.out == x->counted.out));
}

/* ---- what is said ---- */

static const struct tr_contender *other_side(const struct tr_comparison *c, const struct tr_contender *x)
{
    for (int i = 0; i < c->n; i++)
        if (!c->all[i].options.plan.sizes.servers &&
            c->all[i].options.plan.sizes.dp == x->options.plan.sizes.dp)
            return &c->all[i];
    return NULL;
}

void tr_compare_ratios(const struct tr_comparison *c, FILE *to)
{
    for (int i = 0; i < c->n; i++) {
        const struct tr_contender *x = &c->all[i], *ring = other_side(c, x);
        if (!x->options.plan.sizes.servers || !ring || ring->options.plan.sizes.dp == 1)
            continue;
        struct tr_flow s = tr_compare_ledger(&x->prepared), r = tr_compare_ledger(&ring->prepared);
        fprintf(to, "# %ld workers: %.2f times the bytes of a rank in the ring\n", x->options.plan.sizes.dp,
            (double)(s.in + s.out) / (double)(r.in + r.out));
    }
}

void tr_compare_flows_json(const struct tr_contender *x, FILE *to)
{
    struct tr_flow f = tr_compare_formula(&x->prepared.run.plan, &x->prepared.run.graph),
                   l = tr_compare_ledger(&x->prepared);
    fprintf(to,
        ", \"workers\": %ld, \"servers\": %ld, \"hottest\": {\"in_formula\": %" PRId64
        ", \"in_ledger\": %" PRId64 ", \"out_formula\": %" PRId64 ", \"out_ledger\": %" PRId64,
        x->options.plan.sizes.dp, x->options.plan.sizes.servers, f.in, l.in, f.out, l.out);
    if (x->runs)
        fprintf(
            to, ", \"in_counted\": %" PRId64 ", \"out_counted\": %" PRId64, x->counted.in, x->counted.out);
    fprintf(to, ", \"equal\": %s}", tr_compare_flows_equal(x) ? "true" : "false");
}
