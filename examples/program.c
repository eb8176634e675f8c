/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c: a group that is bound once and started many times. Section 7 of the tutorial. */
#include "check.h"

int main(void)
{
    tutti_comm *comm;
    tutti_program *step;
    check(tutti_comm_init_env(NULL, &comm));

    int64_t x = 1;
    check(tutti_group_start());
    check(tutti_all_reduce(&x, &x, 1, TUTTI_INT64, TUTTI_SUM, comm, tutti_no_stream()));
    check(tutti_group_keep(&step)); /* nothing has run yet */

    for (int i = 0; i < 10; i++)
        check(tutti_program_start(step)); /* every rank, in the same order */
    if (tutti_comm_rank(comm) == 0)
        printf("4 to the power of 10 is %lld\n", (long long)x);

    check(tutti_program_destroy(step));
    check(tutti_comm_finalize(comm));
    check(tutti_comm_destroy(comm));
    return 0;
}
