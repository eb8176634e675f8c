/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_interleaved.c: blocks of send that lie between those of recv.
 *
 * Programs that keep what they send and what they get side by side, one pair for each rank, name both by
 * places in one array. Nothing overlaps, though each buffer reaches over the other. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/rig/ranks.h"

TestSuite(api_interleaved, .timeout = 120);

enum { LONG = 30000, AGAIN = 4, GAP = 1 };
static const size_t lengths[] = { 1, 3, 700, LONG };

static int32_t value(int from, int to, int round, size_t k)
{
    return (int32_t)(from * 1000003 + to * 10007 + round * 101 + (int)k);
}

/* Of each pair: what goes to rank r, a gap, and what comes from there. */
struct pairs {
    int32_t *memory;
    size_t length, counts[RANKS_MAX], in[RANKS_MAX], out[RANKS_MAX];
};

static void lay(struct pairs *p, int n, size_t length)
{
    p->length = length;
    for (int r = 0; r < n; r++) {
        p->counts[r] = length;
        p->in[r] = (size_t)r * 2 * (length + GAP);
        p->out[r] = p->in[r] + length + GAP;
    }
}

static void fill(const struct ranks_me *me, struct pairs *p, int round)
{
    for (int r = 0; r < me->n; r++)
        for (size_t k = 0; k < p->length + GAP; k++) {
            p->memory[p->in[r] + k] = value(me->rank, r, round, k);
            p->memory[p->out[r] + k] = -1;
        }
}

/* What came from rank r was meant for `to`; nothing else has changed. */
static void look(struct ranks_me *me, const struct pairs *p, int round, bool came, const int *to)
{
    for (int r = 0; r < me->n; r++)
        for (size_t k = 0; k < p->length + GAP; k++) {
            int32_t got = p->memory[p->out[r] + k];
            int32_t expected = came && k < p->length ? value(r, to[r], round, k) : -1;
            if (!ranks_expect(
                    me, got == expected, "element %zu from rank %d is %d, not %d", k, r, got, expected) ||
                !ranks_expect(me, p->memory[p->in[r] + k] == value(me->rank, r, round, k),
                    "what was sent to rank %d has changed", r))
                return;
        }
}

static void exchange(struct ranks_me *me, tutti_comm *comm, struct pairs *p, int round)
{
    tutti_stream none = tutti_no_stream();
    int32_t *m = p->memory;
    int mine[RANKS_MAX], root = round % me->n, roots[RANKS_MAX];
    for (int r = 0; r < me->n; r++) {
        mine[r] = me->rank;
        roots[r] = root;
    }
    fill(me, p, round);
    ranks_ok(me, tutti_all_to_all_v(m, p->counts, p->in, m, p->counts, p->out, TUTTI_INT32, comm, none),
        "all_to_all_v");
    look(me, p, round, true, mine);
    fill(me, p, round);
    ranks_ok(me,
        tutti_all_gather_v(m + p->in[root], p->length, m, p->counts, p->out, TUTTI_INT32, comm, none),
        "all_gather_v");
    look(me, p, round, true, roots);
    fill(me, p, round);
    ranks_ok(me,
        tutti_gather_v(m + p->in[root], p->length, m, p->counts, p->out, TUTTI_INT32, root, comm, none),
        "gather_v");
    look(me, p, round, me->rank == root, roots);
    fill(me, p, round);
    ranks_ok(me,
        tutti_scatter_v(m, p->counts, p->in, m + p->out[root], p->length, TUTTI_INT32, root, comm, none),
        "scatter_v");
    for (size_t k = 0; k < p->length; k++)
        ranks_expect(me, m[p->out[root] + k] == value(root, me->rank, round, k), "scatter_v, element %zu", k);
}

/* One element of a block of recv is one of send. */
static void refuse(struct ranks_me *me, tutti_comm *comm, struct pairs *p)
{
    size_t counts[RANKS_MAX];
    for (int r = 0; r < me->n; r++)
        counts[r] = p->length + (r == me->n - 1 ? 0 : GAP + 1);
    ranks_refused(me,
        tutti_all_to_all_v(p->memory + p->length + GAP, counts, p->in, p->memory, counts, p->in, TUTTI_INT32,
            comm, tutti_no_stream()),
        TUTTI_INVALID_ARGUMENT, "all_to_all_v", "overlap|send|recv");
}

static void interleaved(struct ranks_me *me)
{
    struct pairs p;
    tutti_comm *comm = ranks_join(me, NULL);
    p.memory = malloc(2 * RANKS_MAX * (LONG + GAP) * sizeof *p.memory);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        lay(&p, me->n, lengths[i]);
        for (int round = 0; round < AGAIN; round++)
            exchange(me, comm, &p, round);
        if (me->n > 1)
            refuse(me, comm, &p);
    }
    free(p.memory);
    ranks_part(me, comm);
}

Test(api_interleaved, pairs)
{
    for (int n = 1; n <= 4; n++)
        for (enum ranks_kind kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind += 2)
            ranks_run(&(struct ranks_plan){ .n = n, .kind = kind, .run = interleaved });
}
