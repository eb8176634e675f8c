/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_empty.c: calls without elements and without buffers, before any other call was made.
 *
 * A framework calls so for an empty tensor. Nothing in the library may take such a call for one that it
 * knows: no call is cached, and all that names the call (buffers, count, root) is zero. */
#include <criterion/criterion.h>

#include "tests/rig/ranks.h"

TestSuite(api_empty, .timeout = 60);

static void sum_int64(void *dst, const void *left, const void *right, size_t count, void *context)
{
    int64_t *d = dst;
    const int64_t *l = left, *r = right;
    (void)context;
    for (size_t i = 0; i < count; i++)
        d[i] = l[i] + r[i];
}

/* Operators whose calls are never cached are legal all the same. */
static void with_created_operators(struct ranks_me *me)
{
    tutti_stream none = tutti_no_stream();
    tutti_op op, scaled;
    int64_t factor = 3;
    tutti_comm *comm = ranks_join(me, NULL);
    ranks_ok(me, tutti_op_create(comm, sum_int64, NULL, 8, 1, &op), "op_create");
    ranks_ok(me, tutti_op_create_pre_mul_sum(comm, &factor, TUTTI_INT64, 0, &scaled), "pre_mul_sum");
    for (int again = 0; again < 2; again++) {
        ranks_ok(me, tutti_all_reduce(NULL, NULL, 0, TUTTI_INT64, op, comm, none), "all_reduce");
        ranks_ok(me, tutti_all_reduce(NULL, NULL, 0, TUTTI_INT64, scaled, comm, none), "all_reduce, scaled");
        ranks_ok(me, tutti_reduce(NULL, NULL, 0, TUTTI_INT64, op, 0, comm, none), "reduce");
        ranks_ok(me, tutti_reduce_scatter(NULL, NULL, 0, TUTTI_INT64, op, comm, none), "reduce_scatter");
    }
    ranks_part(me, comm);
}

Test(api_empty, created_operators)
{
    for (int n = 1; n <= 3; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = with_created_operators });
}

/* What is wrong with a call is said of an empty one, too: by every rank alike, so that nobody waits. */
static void wrong_and_empty(struct ranks_me *me)
{
    tutti_stream none = tutti_no_stream();
    tutti_status bad = TUTTI_INVALID_ARGUMENT;
    tutti_type no_type = (tutti_type)99, minus = (tutti_type)-1;
    size_t zeros[RANKS_MAX] = { 0 };
    tutti_comm *c = ranks_join(me, NULL);
    for (int again = 0; again < 2; again++) {
        ranks_refused(me, tutti_all_reduce(NULL, NULL, 0, no_type, TUTTI_SUM, c, none), bad, "type", "type");
        ranks_refused(me, tutti_all_reduce(NULL, NULL, 0, TUTTI_INT8, 1u << 20, c, none), bad, "op", "op");
        ranks_refused(me, tutti_gather(NULL, NULL, 0, minus, 0, c, none), bad, "gather", "type");
        ranks_refused(me, tutti_broadcast(NULL, NULL, 0, TUTTI_INT8, -1, c, none), bad, "root", "root");
        ranks_refused(me, tutti_broadcast(NULL, NULL, 0, TUTTI_INT8, 1 << 30, c, none), bad, "root", "root");
        ranks_refused(me, tutti_send(NULL, 0, no_type, 0, c, none), bad, "send", "type");
        ranks_refused(me, tutti_recv(NULL, 0, TUTTI_INT8, 70000, c, none), bad, "recv", "peer");
        ranks_refused(
            me, tutti_gather_v(NULL, 0, NULL, zeros, NULL, TUTTI_INT8, -1, c, none), bad, "gather_v", "root");
        ranks_refused(
            me, tutti_scatter_v(NULL, zeros, NULL, NULL, 0, no_type, 0, c, none), bad, "scatter_v", "type");
        ranks_refused(me, tutti_all_gather_v(NULL, 0, NULL, zeros, NULL, no_type, c, none), bad,
            "all_gather_v", "type");
        ranks_refused(me, tutti_reduce_scatter_v(NULL, zeros, NULL, no_type, 0, c, none), bad,
            "reduce_scatter_v", "type");
        ranks_refused(me, tutti_all_to_all_v(NULL, zeros, NULL, NULL, zeros, NULL, no_type, c, none), bad,
            "all_to_all_v", "type");
    }
    ranks_part(me, c);
}

Test(api_empty, wrong_arguments)
{
    for (int n = 1; n <= 2; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = wrong_and_empty });
}
