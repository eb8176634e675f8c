/* SPDX-License-Identifier: BSD-3-Clause */
/* server.c: what goes with parameter servers; passes/server.c writes what workers and servers do. */
#include "training/parallel/registry.h"

static const char *const modes[] = { "sync", "async" };

static const struct tr_option options[] = {
    { "servers", TR_WHOLE, TR_PLAN(sizes.servers),
        "parameter servers among the ranks; the others are workers" },
    { "server-mode", TR_CHOICE, TR_PLAN(servers.async),
        "sync: all gradients, then one update; async: each as it comes", TR_NAMES(modes) },
    { "staleness", TR_WHOLE, TR_PLAN(servers.staleness),
        "async: a worker waits while more than N steps before the slowest" },
    { "arrivals", TR_TEXT, TR_PLAN(servers.arrivals),
        "async: live, seed:N (an order by a seed), or a file of workers" },
    { "arrivals-log", TR_TEXT, TR_PLAN(servers.arrivals_log),
        "async: write who came to this file, which --arrivals reads" },
    { "workers", TR_TEXT, TR_PLAN(servers.workers), "compare server: numbers of workers, as 1..8, or 2,4" },
    { "slow", TR_TEXT, TR_PLAN(servers.slow),
        "RANK:FACTOR, a worker that takes so many times as long to compute" },
};

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    (void)g;
    const int *size = p->mesh.size;
    int servers = p->mesh.servers;
    if (!servers && (p->servers.async || p->servers.staleness >= 0))
        return tr_fail(e, "%s: there is no server; legal with --servers",
            p->servers.async ? "--server-mode async" : "--staleness");
    if (!servers)
        return true;
    if (p->servers.staleness >= 0 && !p->servers.async)
        return tr_fail(e, "--staleness %ld: all workers go on together; legal with --server-mode async",
            p->servers.staleness);
    if (servers > TR_NORM_LEAVES || servers & (servers - 1))
        return tr_fail(e, "--servers %d: a tensor is cut into %d parts, of which each has as many", servers,
                   TR_NORM_LEAVES) ||
               tr_offer_divisors(e, "servers", TR_NORM_LEAVES);
    if (size[TR_PP] > 1 || size[TR_TP] > 1 || size[TR_CP] > 1)
        return tr_fail(e, "--servers %d: a worker is one rank; legal are --pp 1, --tp 1 and --cp 1", servers);
    if (p->offload.what)
        return tr_fail(
            e, "--servers %d: they hold the optimizer's states; --offload is legal without servers", servers);
    if (p->zero.level || p->reduce.overlap || p->reduce.bucket || p->reduce.form != TR_DP_RING)
        return tr_fail(e,
            "--servers %d: gradients are pushed, and not reduced among workers; --zero, --overlap, --bucket "
            "and --dp-reduce are legal without servers",
            servers);
    return true;
}

const struct tr_paradigm tr_parameter_servers = {
    .name = "parameter servers", TR_OPTIONS(options), .check = check
};
