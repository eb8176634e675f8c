/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c: all ranks in one process, and in one thread of it. Section 5 of the tutorial. */
#include "check.h"

enum { N = 3 };

int main(void)
{
    tutti_comm *comms[N];
    check(tutti_comm_init_all(N, NULL, NULL, comms));

    double x[N] = { 1, 2, 4 };
    check(tutti_group_start());
    for (int i = 0; i < N; i++)
        check(tutti_all_reduce(&x[i], &x[i], 1, TUTTI_FLOAT64, TUTTI_MAX, comms[i], tutti_no_stream()));
    check(tutti_group_end());
    printf("%g %g %g\n", x[0], x[1], x[2]);

    for (int i = 0; i < N; i++)
        check(tutti_comm_destroy(comms[i]));
    return 0;
}
