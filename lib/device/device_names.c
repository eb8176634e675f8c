/* SPDX-License-Identifier: BSD-3-Clause */
/* device_names.c: a table that grows by blocks, each twice as long as the last, with a list of idle names. */
#include "device/device_names.h"

#include <stdbool.h>
#include <stdlib.h>

enum { FIRST_BLOCK = 64 };

struct tt_named {
    _Atomic(void *) what;
    uint32_t next_idle;
};

struct place {
    int block;
    uint32_t index;
};

static struct place place_of(uint32_t name)
{
    uint32_t at = name - 1;
    int block = 31 - __builtin_clz(at / FIRST_BLOCK + 1);
    return (struct place){ block, at - FIRST_BLOCK * ((UINT32_C(1) << block) - 1) };
}

static struct tt_named *entry_of(struct tt_names *names, uint32_t name)
{
    struct place p = place_of(name);
    struct tt_named *block =
        p.block < TT_NAME_BLOCKS ? atomic_load_explicit(&names->blocks[p.block], memory_order_acquire) : NULL;
    return block != NULL ? &block[p.index] : NULL;
}

/* The entry of a name that was never given, in a new block where it is the first of one. */
static struct tt_named *extend(struct tt_names *names, uint32_t name)
{
    struct place p = place_of(name);
    if (p.block == TT_NAME_BLOCKS || p.index > 0)
        return entry_of(names, name);
    struct tt_named *block = calloc((size_t)FIRST_BLOCK << p.block, sizeof *block);
    if (block != NULL)
        atomic_store_explicit(&names->blocks[p.block], block, memory_order_release);
    return block;
}

uint32_t tt_names_add(struct tt_names *names, void *what)
{
    bool again = names->idle != TT_NO_NAME;
    uint32_t name = again ? names->idle : names->used + 1;
    struct tt_named *entry = again ? entry_of(names, name) : extend(names, name);
    if (entry == NULL)
        return TT_NO_NAME;
    if (again)
        names->idle = entry->next_idle;
    else
        names->used = name;
    atomic_store(&entry->what, what);
    return name;
}

void *tt_names_find(struct tt_names *names, uint32_t name)
{
    struct tt_named *entry = name != TT_NO_NAME ? entry_of(names, name) : NULL;
    return entry != NULL ? atomic_load(&entry->what) : NULL;
}

void tt_names_drop(struct tt_names *names, uint32_t name)
{
    struct tt_named *entry = entry_of(names, name);
    atomic_store(&entry->what, NULL);
    entry->next_idle = names->idle;
    names->idle = name;
}

void tt_names_free(struct tt_names *names)
{
    for (int k = 0; k < TT_NAME_BLOCKS; k++)
        free(atomic_load_explicit(&names->blocks[k], memory_order_relaxed));
}
