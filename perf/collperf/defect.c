/* SPDX-License-Identifier: BSD-3-Clause */
/* defect.c: see defect.h; each defect changes the lowest bit of what it hits, the least that can be wrong. */
#include "defect.h"

enum where { FIRST, LAST, MIDDLE, EVERY, BEFORE_RECV, AFTER_RECV, INPUT, BEFORE_SEND, AFTER_SEND, NO_RESULT };

const struct perf_defect perf_defects[PERF_DEFECTS] = {
    { "the first element", false, FIRST },
    { "the last element", false, LAST },
    { "the middle element", false, MIDDLE },
    { "every element", false, EVERY },
    { "the byte before recv", false, BEFORE_RECV },
    { "the byte after recv", false, AFTER_RECV },
    { "an element of send", false, INPUT },
    { "the byte before send", false, BEFORE_SEND },
    { "the byte after send", false, AFTER_SEND },
    { "recv of a rank without result", false, NO_RESULT },
    { "the last element", true, LAST },
    { "every element", true, EVERY },
    { "the byte before the buffer", true, BEFORE_RECV },
    { "the byte after the buffer", true, AFTER_RECV },
};

uint64_t perf_defect_count(const struct perf_defect *defect, const struct perf_point *p)
{
    if (defect->in_place && p->collective->in_place == PERF_IN_PLACE_NEVER)
        return 0;
    switch (defect->where) {
    case EVERY:
        return p->recv_count;
    case FIRST:
    case LAST:
    case MIDDLE:
        return p->recv_count > 0;
    case INPUT:
        return p->send_count > 0;
    case NO_RESULT:
        return p->recv_count == 0 && perf_check_length(p) > 0;
    default:
        return 1;
    }
}

void perf_defect_make(const struct perf_defect *defect, const struct perf_buffers *b,
    const struct perf_point *p, const struct perf_pointers *at)
{
    uint64_t width = p->type->bytes, last = p->recv_count - 1;
    switch (defect->where) {
    case LAST:
        at->recv[last * width] ^= 1;
        break;
    case MIDDLE:
        at->recv[last / 2 * width] ^= 1;
        break;
    case EVERY:
        for (uint64_t i = 0; i <= last; i++)
            at->recv[i * width] ^= 1;
        break;
    case BEFORE_RECV:
        b->recv[-1] ^= 1;
        break;
    case AFTER_RECV:
        b->recv[perf_check_length(p)] ^= 1;
        break;
    case INPUT:
        at->send[(p->send_count - 1) * width] ^= 1;
        break;
    case BEFORE_SEND:
        b->send[-1] ^= 1;
        break;
    case AFTER_SEND:
        b->send[p->send_count * width] ^= 1;
        break;
    default:
        at->recv[0] ^= 1;
    }
}
