/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c: copies between the two memories.
 *
 * Here both are memory of this machine. What the tape says of them holds for a device with a memory of its
 * own: nothing but these copies goes from one to the other. */
#include "training/run/host.h"

#include "training/run/compute.h"

#include <string.h>

/* A parameter comes up to where this rank's part of it begins. */
void tr_host_copy(struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_value *from = &r->tape->values[i->in[0]];
    int64_t bytes = from->bytes, place = i->place * tr_element_bytes(from->element);
    memcpy((unsigned char *)tr_at(r, i->out[0]) + place, tr_at(r, i->in[0]), (size_t)bytes);
    tr_ledger_count(&r->copies_counted, r->tape, i, i->code, bytes);
}

void tr_host_follow(struct tr_runner *r)
{
    for (int n = 0; n < r->tape->n_states; n++) {
        const struct tr_param_state *h = &r->tape->states[n];
        if (h->on_host >= 0 && h->master < 0)
            memcpy(tr_at(r, h->on_host), (const float *)tr_at(r, h->values) + h->shard_from,
                (size_t)h->shard_count * sizeof(float));
    }
}
