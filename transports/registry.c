/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.c: the table of transports. */
#include "transports/registry.h"

#include "transports/tcp.h"

#include <stddef.h>

const struct tt_transport *const tt_transports[] = { &tt_shm, &tt_tcp, NULL };
_Static_assert(
    sizeof tt_transports / sizeof tt_transports[0] <= TT_PARTS_MAX + 1, "mixed.c has room for all");

const struct tt_transport *tt_transport_for(bool one_host)
{
    return one_host ? tt_transports[0] : &tt_mixed;
}

const struct tt_memory_ops *tt_transport_memory(void)
{
    int i = 0;
    while (tt_transports[i]->memory == NULL && tt_transports[i + 1] != NULL)
        i++;
    return tt_transports[i]->memory;
}
