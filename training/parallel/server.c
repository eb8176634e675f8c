/* SPDX-License-Identifier: BSD-3-Clause */
/* server.c: what goes with parameter servers; passes/server.c writes what workers and servers do. */
#include "training/parallel/paradigms.h"

bool tr_server_check(const struct tr_plan *p, struct tr_error *e)
{
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
