/* SPDX-License-Identifier: BSD-3-Clause */
/* exact.c: the same bits on 1, 2, 4 and 8 ranks. Section 8 of the tutorial. */
#include "check.h"
#include <string.h>

enum { PARTS = 8 };

int main(void)
{
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT };
    tutti_comm *comm;
    check(tutti_comm_init_env(&config, &comm));
    int rank = tutti_comm_rank(comm), n = tutti_comm_size(comm), each = PARTS / n;

    float parts[PARTS], mine, sum, alone;
    const void *sources[PARTS];
    for (int i = 0; i < PARTS; i++) {
        parts[i] = 1.0f / (float)(3 * i + 1) * (i % 2 ? -1e6f : 1e3f);
        sources[i] = &parts[i];
    }
    check(tutti_reduce_local(sources + each * rank, each, &mine, 1, TUTTI_FLOAT32, TUTTI_SUM));
    check(tutti_all_reduce(&mine, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()));
    check(tutti_reduce_local(sources, PARTS, &alone, 1, TUTTI_FLOAT32, TUTTI_SUM));
    if (rank == 0)
        printf("%d ranks: %a, %s\n", n, sum,
            memcmp(&sum, &alone, sizeof sum) == 0 ? "the same bits" : "DIFFERS");

    check(tutti_comm_finalize(comm));
    check(tutti_comm_destroy(comm));
    return 0;
}
