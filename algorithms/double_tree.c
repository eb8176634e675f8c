/* SPDX-License-Identifier: BSD-3-Clause */
/* double_tree.c: two trees, each for half of the vector; who is a leaf of one is an inner node of the
 * other. So every rank sends and receives at most about twice the vector, in 2 log2(n) rounds that slices
 * fill: a pipeline with the latency of a tree and the bandwidth of a ring.
 *
 *     n = 4, chunk 0: 0         chunk 1, mirrored:     3       inner nodes 0, 2 and 3, 1
 *                      \                              /
 *                       2                            1
 *                      / \                          / \
 *                     1   3                        0   2
 *
 * Trees are in order: left of a node is before it, right of it behind, so operands stand in rank order:
 * a0 + ((a1 + a2) + a3). Where n is odd, the last rank hangs from both roots. Up and down are queues of
 * their own, so that the next slice may go up while this one comes down.
 *
 * P. Sanders, J. Speck, J. L. Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan.
 * Parallel Computing 35(12), 2009. */
#include "algorithms/generators.h"

enum { NOBODY = -1, CHILDREN = 3 };

struct node {
    int parent, left, right; /* positions, or NOBODY */
};

/* The position of the root of the in-order tree over low + 1 .. high - 1. */
static int middle(int low, int high)
{
    int power = 1;
    while (2 * power < high - low)
        power *= 2;
    return high - low > 1 ? low + power : NOBODY;
}

/* Position 0 is the root and has a right side only; even positions are inner nodes, odd ones leaves. */
static struct node find(int position, int n)
{
    int low = 0, high = n, parent = 0, at = middle(low, high);
    if (position == 0)
        return (struct node){ NOBODY, NOBODY, at };
    while (at != position) {
        parent = at;
        if (position < at)
            high = at;
        else
            low = at;
        at = middle(low, high);
    }
    return (struct node){ parent, middle(low, at), middle(at, high) };
}

/* Those below one rank in one tree: the first `lefts` hold operands before its own. */
struct family {
    int parent; /* index in the team, or NOBODY */
    int children[CHILDREN];
    int count, lefts;
};

static void add_child(struct family *f, int child)
{
    if (child != NOBODY)
        f->children[f->count++] = child;
}

static int mirrored(int position, int n, bool mirror)
{
    return position == NOBODY || !mirror ? position : n - 1 - position;
}

static struct family family_of(int me, int n, bool mirror)
{
    int even = n - n % 2, root = mirror ? even - 1 : 0;
    struct family f = { .parent = root };
    if (me == even) /* the last of an odd number */
        return f;
    struct node node = find(mirrored(me, even, mirror), even);
    f.parent = mirrored(node.parent, even, mirror);
    add_child(&f, mirrored(mirror ? node.right : node.left, even, mirror));
    f.lefts = f.count;
    add_child(&f, mirrored(mirror ? node.left : node.right, even, mirror));
    if (me == root && n % 2 != 0)
        add_child(&f, even);
    return f;
}

static void send_up(struct tt_schedule *s, const struct tt_team *team, const struct family *f, uint32_t c)
{
    tt_queue(s, 2 * (int)c);
    tt_final(s, f->parent == NOBODY);
    tt_fold_begin(s, false);
    for (int i = 0; i < f->count; i++)
        tt_recv_reduce(s, tt_team_rank(team, f->children[i]), tt_out(c), tt_in(c), i < f->lefts);
    tt_fold_end(s);
    tt_final(s, false);
    if (f->parent != NOBODY)
        tt_send(s, tt_team_rank(team, f->parent), f->count > 0 ? tt_out(c) : tt_in(c));
}

static void send_down(struct tt_schedule *s, const struct tt_team *team, const struct family *f, uint32_t c)
{
    tt_queue(s, 2 * (int)c + 1);
    if (f->parent != NOBODY)
        tt_recv(s, tt_team_rank(team, f->parent), tt_out(c));
    for (int i = 0; i < f->count; i++)
        tt_send(s, tt_team_rank(team, f->children[i]), tt_out(c));
}

void tt_all_reduce_double_tree(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 2);
    if (team->n == 1) {
        tt_copy(s, tt_range(TT_OUT, 0, 2), tt_range(TT_IN, 0, 2));
        return;
    }
    struct family families[2] = { family_of(team->me, team->n, false), family_of(team->me, team->n, true) };
    for (uint32_t c = 0; c < 2; c++)
        send_up(s, team, &families[c], c);
    for (uint32_t c = 0; c < 2; c++)
        send_down(s, team, &families[c], c);
    tt_queue(s, 0);
}
