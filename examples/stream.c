/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.c: sums that run while the next layer is computed. Section 6 of the tutorial. */
#include "check.h"

enum { LAYERS = 3, COUNT = 1000 };

static double gradients[LAYERS][COUNT];

int main(void)
{
    tutti_comm *comm;
    tutti_stream stream;
    check(tutti_comm_init_env(NULL, &comm));
    check(tutti_stream_create(&stream));
    int rank = tutti_comm_rank(comm);

    uint64_t summed[LAYERS];
    for (int layer = LAYERS - 1; layer >= 0; layer--) { /* while one layer is summed, the next is computed */
        double *g = gradients[layer];
        for (int i = 0; i < COUNT; i++)
            g[i] = layer + rank;
        check(tutti_all_reduce(g, g, COUNT, TUTTI_FLOAT64, TUTTI_AVG, comm, stream));
        check(tutti_stream_record(stream, &summed[layer]));
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        check(tutti_stream_wait(stream, summed[layer], -1)); /* -1: as long as it takes */
        if (rank == 0)
            printf("layer %d: %g\n", layer, gradients[layer][COUNT - 1]);
    }
    check(tutti_stream_destroy(stream));
    check(tutti_comm_finalize(comm));
    check(tutti_comm_destroy(comm));
    return 0;
}
