/* SPDX-License-Identifier: BSD-3-Clause */
/* test_caller.c: calls that a thread makes for a rank: in order, each once, also if more are given than its
 * ring holds; who waits for one goes on when it has been made, and not before. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <unistd.h>

#include "training/backend/caller.h"

enum { CALLS = 100 /* more than there is room for */, SLOW_US = 20000 };

struct made {
    _Atomic bool begun;
    _Atomic int count, wrong; /* calls made; those out of order */
    int slow; /* this one takes its time */
};

static void begin(void *context)
{
    atomic_store(&((struct made *)context)->begun, true);
}

static void make(void *context, void *what)
{
    struct made *m = context;
    int number = *(const int *)what;
    if (number == m->slow)
        usleep(SLOW_US);
    if (!atomic_load(&m->begun) || number != atomic_load(&m->count))
        atomic_fetch_add(&m->wrong, 1);
    atomic_fetch_add(&m->count, 1);
}

Test(caller, a_call_that_is_waited_for_has_been_made)
{
    struct tr_error e;
    for (int slow = 0; slow < 3; slow++) {
        struct made m = { .slow = slow };
        struct tr_caller *c = tr_caller_start(begin, make, &m, sizeof(int), &e);
        cr_assert_not_null(c);
        for (int i = 0; i < 3; i++)
            cr_expect_eq(tr_caller_give(c, &i), (uint64_t)i + 1);
        tr_caller_wait(c, (uint64_t)slow + 1);
        cr_expect_geq(atomic_load(&m.count), slow + 1);
        tr_caller_stop(c);
        cr_expect_eq(atomic_load(&m.count), 3);
        cr_expect_eq(atomic_load(&m.wrong), 0);
    }
    tr_caller_stop(NULL);
}

Test(caller, more_calls_than_its_ring_holds)
{
    struct tr_error e;
    struct made m = { .slow = 0 };
    struct tr_caller *c = tr_caller_start(begin, make, &m, sizeof(int), &e);
    cr_assert_not_null(c);
    for (int i = 0; i < CALLS; i++)
        tr_caller_give(c, &i);
    tr_caller_stop(c);
    cr_expect_eq(atomic_load(&m.count), CALLS);
    cr_expect_eq(atomic_load(&m.wrong), 0);
}
