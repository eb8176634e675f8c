/* SPDX-License-Identifier: BSD-3-Clause */
/* serve.c: messages between workers and parameter servers: each pair has a communicator of its own, in which
 * the worker is rank 0. */
#include "training/tape/serve.h"

#include "training/tape/compute.h"

bool tr_server_message(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e)
{
    bool sends = i->code == TR_SEND;
    tutti_comm *pair = r->groups.pairs[i->turn];
    float *at = (float *)tr_at(r, sends ? i->in[0] : i->out[0]) + i->place;
    int peer = 1 - tutti_comm_rank(pair);
    size_t count = (size_t)i->count;
    tutti_status s = sends ? tutti_send(at, count, TUTTI_FLOAT32, peer, pair, tutti_no_stream())
                           : tutti_recv(at, count, TUTTI_FLOAT32, peer, pair, tutti_no_stream());
    tr_ledger_count(&r->counted, r->tape, i, i->code, i->count * 4);
    return s == TUTTI_OK || tr_fail(e, "step %lld, %s %d: %s of %s: %s", (long long)r->step,
                                r->tape->server < 0 ? "worker" : "server",
                                r->tape->server < 0 ? r->tape->rank : r->tape->server, tr_code_names[i->code],
                                tr_instr_name(r->tape, i), tutti_get_last_error(pair));
}
