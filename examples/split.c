/* SPDX-License-Identifier: BSD-3-Clause */
/* split.c: the rows and the columns of a mesh, as communicators of their own. Section 4 of the tutorial. */
#include "check.h"

int main(void)
{
    tutti_comm *world, *row, *column;
    check(tutti_comm_init_env(NULL, &world));
    int rank = tutti_comm_rank(world); /* a mesh of 2 x 2: 0 1 above 2 3 */
    check(tutti_comm_split(world, rank / 2, rank, NULL, &row));
    check(tutti_comm_split(world, rank % 2, rank, NULL, &column));

    int32_t in_row, in_column, mine = rank;
    check(tutti_all_reduce(&mine, &in_row, 1, TUTTI_INT32, TUTTI_SUM, row, tutti_no_stream()));
    check(tutti_all_reduce(&mine, &in_column, 1, TUTTI_INT32, TUTTI_SUM, column, tutti_no_stream()));
    printf("rank %d: its row sums to %d, its column to %d\n", rank, in_row, in_column);

    check(tutti_comm_destroy(row));
    check(tutti_comm_destroy(column));
    check(tutti_comm_finalize(world));
    check(tutti_comm_destroy(world));
    return 0;
}
