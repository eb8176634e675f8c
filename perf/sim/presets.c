/* SPDX-License-Identifier: BSD-3-Clause */
/* presets.c: the machines that tutti-sim knows: of each what Tutti does there, and what NCCL does.
 *
 * Of NCCL are meant: NCCL's own model of itself, src/graph/tuning.cc of version 2.30, "tuning.cc" below; the
 * threads of its issues; and those of nccl-tests. One figure is fitted, and says so.
 * tests/tools/nccl_published.txt has what others have measured, which tests/tools/test_published.c
 * compares. */
#include <string.h>

#include "machine.h"

/* --- NCCL */

/* A hop is the latency and the work at both ends. Where tuning.cc has one figure for trees and another one
 * for rings, it is the ring's inside a host, and the tree's between hosts, which tuning.cc takes, too, where
 * latencies are not hidden. A kernel reduces as it receives, and the rates are measured with that. */
#define NCCL(links, rate_ll128, rate_simple)                                                                 \
    "library NCCL\n"                                                                                         \
    "algorithms all_reduce ring away tree double_tree # its tree is a chain inside a host\n"                 \
    "algorithms reduce_scatter ring\n"                                                                       \
    "algorithms all_gather ring\n"                                                                           \
    "algorithms all_to_all direct\n"                                                                         \
    "algorithms gather direct\n"                                                                             \
    "algorithms scatter direct\n"                                                                            \
    "algorithms broadcast  # its ring is none of Tutti's algorithms\n"                                       \
    "algorithms reduce\n"                                                                                    \
    "algorithms barrier    # it has none\n"                                                                  \
    "algorithms all_gather_v\n"                                                                              \
    "algorithms reduce_scatter_v\n"                                                                          \
    "algorithms all_to_all_v direct\n"                                                                       \
    "algorithms gather_v direct\n"                                                                           \
    "algorithms scatter_v direct\n"                                                                          \
    "proxy 20000 ns        # fitted, to 8 bytes in NCCL issues 1244 and 1469\n"                              \
    "message_near 50 ns    # so that many messages of a slice take what its bytes take\n"                    \
    "message_away 50 ns\n"                                                                                   \
    "fold_byte inf\n"                                                                                        \
    "copy_byte 1675 GB/s   # an H100 moves 3.35 TB/s, NVIDIA's data sheet\n"                                 \
    "eager 1024 bytes\n" links "protocol LL\n"                                                               \
    "launch 6800 ns        # tuning.cc baseLatencies\n"                                                      \
    "latency_near 500 ns   # tuning.cc hwLatencies: a hop is 0.6 us over NVLink ...\n"                       \
    "latency_away 4900 ns  # ... and 5.0 over a network\n"                                                   \
    "byte_near 141 GB/s    # tuning.cc llMaxBws, of a host with Hopper ...\n"                                \
    "byte_away 39 GB/s     # ... and of two hosts\n"                                                         \
    "protocol LL128\n"                                                                                       \
    "launch 14000 ns\n"                                                                                      \
    "latency_near 1800 ns  # 1.9\n"                                                                          \
    "latency_away 8400 ns  # 8.5\n" rate_ll128 "protocol Simple\n"                                           \
    "launch 8400 ns\n"                                                                                       \
    "latency_near 3300 ns  # 3.4\n"                                                                          \
    "latency_away 13900 ns # 14\n" rate_simple
#define NCCL_OMITS                                                                                           \
    "NVLink SHARP and the network's own reductions are left out: long all_reduces are up to 1.3 times "      \
    "faster"

/* --- Tutti */

/* Buffers of a device that go by the host's memory (executor H). Of one host's devices kernels meet, if there
 * are no more than eight. */
#define TUTTI                                                                                                \
    "library Tutti\n"                                                                                        \
    "launch 18400 ns       # perf/results, On GPUs: 8 bytes out, two words, 8 bytes back, on an H200\n"      \
    "staging 27.4 GB/s     # the same: copies from the device 55.0, to it 54.7 GB/s\n"                       \
    "meets 8               # their price, spin_call and spin_byte, is the library's guess\n"
#define TUTTI_OMITS                                                                                          \
    "between hosts by the host's memory; kernels that meet have not run on several devices yet"

const struct sim_preset sim_presets[] = {
    { "dgx-h100", "8 H100 with NVLink 4 in each host, InfiniBand NDR 400G for each; what Tutti does there",
        TUTTI "ranks_per_host 8\n"
              "latency_away 1500 ns  # openucx/ucx issue 9908: tag_lat of 8 bytes\n"
              "message_away 200 ns\n"
              "byte_away 47 GB/s     # nccl-tests issue 290: 46 to 48 GB/s a card\n"
              "link 376 GB/s         # 8 cards\n",
        TUTTI_OMITS },
    { "dgx-h100-nccl", "the same hosts; what NCCL does there",
        NCCL("ranks_per_host 8\n"
             "link 376 GB/s         # 8 cards, nccl-tests issue 290: 46 to 48 GB/s each\n",
            "byte_near 340 GB/s    # tuning.cc: 0.92 of Simple\n"
            "byte_away 346 GB/s\n",
            "byte_near 370 GB/s    # nccl-tests issue 212\n"
            "byte_away 376 GB/s    # channels go by all cards, and so does a rank\n"),
        NCCL_OMITS },
    { "roce-400", "8 H100 with NVLink 4 in each host, 400G RoCE for each; what Tutti does there",
        TUTTI "ranks_per_host 8\n"
              "latency_away 3000 ns  # 2 to 10 us are reported; secondary source\n"
              "message_away 200 ns\n"
              "byte_away 46 GB/s     # line rate 50\n"
              "link 368 GB/s         # 8 cards\n",
        TUTTI_OMITS },
    { "roce-400-nccl", "the same hosts; what NCCL does there, compared with no figure",
        NCCL("ranks_per_host 8\n"
             "link 368 GB/s         # 8 cards\n",
            "byte_near 340 GB/s    # tuning.cc: 0.92 of Simple\n"
            "byte_away 338 GB/s\n",
            "byte_near 370 GB/s    # nccl-tests issue 212\n"
            "byte_away 368 GB/s    # channels go by all cards, and so does a rank\n"),
        NCCL_OMITS },
    { "slingshot-11",
        "4 H100 with NVLink 4 in each host, Slingshot-11 for each, as on Alps; what Tutti does there",
        TUTTI "ranks_per_host 4\n"
              "latency_away 3700 ns  # LogGOPS of Alps, ATLAHS: L 3700, o 200, G 0.04\n"
              "message_away 200 ns\n"
              "byte_away 24.3 GB/s   # libfabric issue 11392 and uccl issue 956: 22.6 to 24.3\n"
              "link 97.2 GB/s        # 4 cards\n",
        TUTTI_OMITS },
    { "slingshot-11-nccl", "the same hosts; what NCCL does there, compared with no figure",
        NCCL("ranks_per_host 4\n"
             "link 97.2 GB/s        # 4 cards, NCCL issue 1272: 24.2 to 24.3 each\n",
            "byte_near 340 GB/s    # tuning.cc: 0.92 of Simple\n"
            "byte_away 89 GB/s\n",
            "byte_near 370 GB/s    # nccl-tests issue 212\n"
            "byte_away 97.2 GB/s   # channels go by all cards, and so does a rank\n"),
        NCCL_OMITS },
    { "ethernet", "two ranks in each host, TCP, as between network namespaces of one machine",
        "library Tutti\n"
        "ranks_per_host 2\n"
        "latency_away 4000 ns  # measured: L + 2 o is 8 to 10 us\n"
        "message_away 3000 ns\n"
        "byte_away 1.6 GB/s    # measured: 1.3 to 2 a connection\n"
        "link 1.3 GB/s         # measured by collperf --tune, of two ranks together\n",
        NULL },
};
const int sim_preset_count = (int)(sizeof sim_presets / sizeof sim_presets[0]);

const struct sim_preset *sim_preset_find(const char *name)
{
    for (int i = 0; i < sim_preset_count; i++)
        if (strcmp(sim_presets[i].name, name) == 0)
            return &sim_presets[i];
    return NULL;
}
