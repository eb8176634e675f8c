/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate.c: the lists of all ranks, run by the clock of a machine that has a core for each.
 *
 * As check/order.c runs lists without numbers, this runs them without data. A rank goes on until it stands at
 * a call that others have not come to, or waits for what was not sent; then the next one does. Lists were
 * checked, so that somebody can always go on, but for those of servers that take whoever comes first. */
#include "training/compare/timeline.h"

#include "training/account/flows.h"
#include "training/advice/network.h"
#include "training/advice/price.h"

#include <stdlib.h>

struct message {
    int from, to, value;
    enum tr_edge edge; /* of who sends */
    double left, arrives; /* the rank that sends; where it goes */
    double seconds; /* that it takes to pass a link */
    bool taken;
};

/* A call beside the list: of which value, when it could begin, and when it was over; < 0: it is not. */
struct beside {
    const struct tr_instr *i;
    double from, over;
};

struct standing {
    const struct tr_tape *t;
    int at; /* in the list */
    double now, out, in; /* its links are free from then on */
    struct beside *beside;
    int n_beside, settled;
    double free; /* its stream beside the list */
    struct tr_chart_span *spans;
    int n_spans, room;
};

struct simulation {
    struct standing *ranks;
    int n;
    struct message *messages;
    int n_messages, room, first; /* before that one all are taken */
    const struct tr_machine *m;
    const struct tr_core *core;
};

static const struct tr_instr *standing_at(const struct standing *s)
{
    return s->at < s->t->n_instrs ? &s->t->instrs[s->at] : NULL;
}

static void spend(struct standing *s, const struct tr_instr *i, double until)
{
    struct tr_chart_span x = { (int)tr_does_of(i), s->now, until };
    s->spans = tr_span_add(s->spans, &s->n_spans, &s->room, &x);
    s->now = until > s->now ? until : s->now;
}

static bool is_together(const struct tr_instr *i)
{
    return (tr_codes[i->code].grouped || (i->code == TR_TIE && i->edge == TR_HOME)) && !i->beside;
}

/* Whether rank r takes part in the call at which rank q stands. */
static bool takes_part(const struct simulation *s, int q, const struct tr_instr *i, int r)
{
    return i->code == TR_TIE ? r == q || r == tr_peer_of(s->ranks[q].t, i)
                             : tr_in_group(s->ranks[q].t->mesh, q, r, i->axes);
}

static double seconds_of(const struct simulation *s, const struct tr_tape *t, const struct tr_instr *i, int n)
{
    double times = i->times > 0 ? (double)i->times : 1, bytes = tr_bytes_of_call(t, i);
    bool pair = i->code == TR_TIE || i->code == TR_SHIFT || i->code == TR_HALO || i->code == TR_SEND;
    return times * (pair ? tr_message_seconds(s->m, bytes, TR_INSIDE)
                         : tr_call_seconds(s->m, i->code, bytes, (struct tr_spread){ n, 1 }));
}

/* All of a group go on together, once the last has come. */
static bool meet(struct simulation *s, int q)
{
    const struct tr_instr *i = standing_at(&s->ranks[q]);
    double from = 0;
    int n = 0;
    for (int r = 0; r < s->n; r++) {
        const struct tr_instr *x = standing_at(&s->ranks[r]);
        if (!takes_part(s, q, i, r))
            continue;
        if (!x || !is_together(x) || (x->code == TR_TIE) != (i->code == TR_TIE) || x->axes != i->axes)
            return false;
        from = s->ranks[r].now > from ? s->ranks[r].now : from;
        n++;
    }
    double until = from + seconds_of(s, s->ranks[q].t, i, n);
    for (int r = 0; r < s->n; r++)
        if (takes_part(s, q, i, r)) {
            spend(&s->ranks[r], standing_at(&s->ranks[r]), until);
            s->ranks[r].at++;
        }
    return true;
}

static void send(struct simulation *s, int q)
{
    struct standing *x = &s->ranks[q];
    const struct tr_instr *i = standing_at(x);
    double bytes = (double)tr_least_sent(x->t, i), whole = tr_message_seconds(s->m, bytes, TR_INSIDE),
           begun = x->now > x->out ? x->now : x->out;
    double pass = bytes / tr_machine_rate(s->m, TR_INSIDE);
    x->out = begun + pass;
    s->messages = tr_grow(s->messages, s->n_messages, &s->room, sizeof *s->messages);
    s->messages[s->n_messages++] =
        (struct message){ q, tr_peer_of(x->t, i), i->in[0], i->edge, x->out, begun + whole, pass, false };
}

/* The oldest message of the edge passes the receiver's link after those before it. */
static bool receive(struct simulation *s, int q)
{
    struct standing *x = &s->ranks[q];
    const struct tr_instr *i = standing_at(x);
    int from = tr_peer_of(x->t, i);
    for (int n = s->first; n < s->n_messages; n++) {
        struct message *m = &s->messages[n];
        bool same =
            tr_edge_kinds[i->edge].served ? tr_edge_kinds[m->edge].served : m->edge == tr_other_end(i->edge);
        if (m->taken || m->to != q || m->from != from || !same)
            continue;
        double passed = x->in + m->seconds;
        x->in = passed > m->arrives ? passed : m->arrives;
        m->taken = true;
        while (s->first < s->n_messages && s->messages[s->first].taken)
            s->first++;
        spend(x, i, x->in);
        return true;
    }
    return false;
}

/* The calls beside the lists that all of a group have begun. */
static bool settle(struct simulation *s, int q)
{
    struct standing *x = &s->ranks[q];
    const struct tr_instr *i = x->settled < x->n_beside ? x->beside[x->settled].i : NULL;
    double from = 0;
    int n = 0;
    for (int r = 0; i && r < s->n; r++) {
        const struct standing *y = &s->ranks[r];
        if (!takes_part(s, q, i, r))
            continue;
        if (y->settled == y->n_beside || y->beside[y->settled].i->axes != i->axes)
            return false;
        double begins = y->beside[y->settled].from > y->free ? y->beside[y->settled].from : y->free;
        from = begins > from ? begins : from;
        n++;
    }
    for (int r = 0; i && r < s->n; r++)
        if (takes_part(s, q, i, r)) {
            struct standing *y = &s->ranks[r];
            y->free = y->beside[y->settled++].over = from + seconds_of(s, x->t, i, n);
        }
    return i != NULL;
}

/* When what is waited for is over; < 0: nobody knows yet. */
static double over(const struct simulation *s, int q, const struct tr_instr *i)
{
    const struct standing *x = &s->ranks[q];
    for (int n = x->n_beside - 1; i->beside && n >= 0; n--)
        if (x->beside[n].i->out[0] == i->in[0])
            return x->beside[n].over;
    for (int n = s->n_messages - 1; !i->beside && n >= 0; n--)
        if (s->messages[n].from == q && s->messages[n].edge == i->edge && s->messages[n].value == i->in[0])
            return s->messages[n].left;
    return 0;
}

static void begin_beside(struct standing *x, const struct tr_instr *i)
{
    x->beside[x->n_beside++] = (struct beside){ i, x->now, -1 };
}

static double computing(const struct simulation *s, const struct standing *x, const struct tr_instr *i)
{
    if (i->code == TR_DOWN || i->code == TR_UP)
        return tr_message_seconds(s->m, (double)x->t->values[i->in[0]].bytes, TR_INSIDE);
    return i->code == TR_UPDATE ? (double)i->count / s->core->updates : i->flops / s->core->flops;
}

/* One instruction of the rank; false: it waits. */
static bool advance(struct simulation *s, int q)
{
    struct standing *x = &s->ranks[q];
    const struct tr_instr *i = standing_at(x);
    if (!i)
        return false;
    if (is_together(i))
        return meet(s, q);
    if (i->code == TR_RECV && !receive(s, q))
        return false;
    if (i->code == TR_WAIT) {
        double end = over(s, q, i);
        if (end < 0)
            return false;
        spend(x, i, end);
    }
    if (i->code == TR_SEND)
        send(s, q);
    else if (i->beside && i->code != TR_WAIT)
        begin_beside(x, i);
    else if (i->code != TR_RECV && i->code != TR_WAIT)
        spend(x, i, x->now + computing(s, x, i));
    x->at++;
    return true;
}

static void collect(struct tr_timeline *to, struct simulation *s)
{
    int all = 0;
    for (int r = 0; r < s->n; r++)
        all += s->ranks[r].n_spans;
    *to = (struct tr_timeline){ tr_new((size_t)all + 1, sizeof *to->spans),
        tr_new((size_t)s->n + 1, sizeof *to->begin), s->n, 0 };
    for (int r = 0, n = 0; r < s->n; r++) {
        for (int k = 0; k < s->ranks[r].n_spans; k++)
            to->spans[n++] = s->ranks[r].spans[k];
        to->begin[r + 1] = n;
        to->end = s->ranks[r].now > to->end ? s->ranks[r].now : to->end;
    }
}

static bool all_ended(const struct simulation *s)
{
    bool ended = true;
    for (int r = 0; r < s->n; r++)
        ended = ended && !standing_at(&s->ranks[r]);
    return ended;
}

bool tr_timeline_simulate(
    struct tr_timeline *to, struct tr_tapes *tapes, const struct tr_machine *m, const struct tr_core *core)
{
    struct simulation s = { .n = tapes->n, .m = m, .core = core };
    s.ranks = tr_new((size_t)s.n, sizeof *s.ranks);
    for (int r = 0; r < s.n; r++) {
        s.ranks[r].t = tr_tapes_of(tapes, r);
        s.ranks[r].beside = tr_new((size_t)s.ranks[r].t->n_instrs + 1, sizeof *s.ranks[r].beside);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < s.n; r++) {
            while (advance(&s, r))
                moved = true;
            while (settle(&s, r))
                moved = true;
        }
    }
    bool ok = all_ended(&s);
    if (ok)
        collect(to, &s);
    for (int r = 0; r < s.n; r++)
        free(s.ranks[r].spans), free(s.ranks[r].beside);
    free(s.ranks), free(s.messages);
    return ok;
}
