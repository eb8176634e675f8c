/* SPDX-License-Identifier: BSD-3-Clause */
/* op.c: the operators of a communicator, and folding with a user's function.
 *
 * An id is a serial number of the process and a place in the communicator's table: looking it up is one
 * comparison, an id of another communicator or of a destroyed operator is told from all others, and none
 * comes again before a million operators were created. */
#include "call/op.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "call/call.h"

enum { PLACE_BITS = 12, MOST = 1 << PLACE_BITS /* at a time */, FIRST_CAPACITY = 8 };
enum { BLOCK_BYTES = 4096, BLOCKS = 3 }; /* partial results of a fold; three suffice for nine operands */
_Static_assert(TT_FOLD_OPERANDS <= 9, "more operands need more blocks");

enum {
    SHARED_USER = 1 << 16,
    SHARED_COMMUTES = 1 << 17,
    SHARED_PRE_MUL_SUM = 1 << 18,
    SHARED_BYTES = SHARED_USER - 1
};

struct tt_operator_slot {
    tutti_op id; /* 0: free */
    struct tt_operator created;
};

static tutti_op next_id(uint32_t place)
{
    static _Atomic uint32_t created;
    uint32_t serial = atomic_fetch_add(&created, 1) % ((1U << (32 - PLACE_BITS)) - 1) + 1;
    return serial << PLACE_BITS | place;
}

const struct tt_operator *tt_operator_find(const struct tt_operator_table *table, tutti_op op)
{
    uint32_t place = op % MOST;
    bool there = op >= TT_CREATED_OPS && place < table->capacity && table->slots[place].id == op;
    return there ? &table->slots[place].created : NULL;
}

void tt_operator_table_free(struct tt_operator_table *table)
{
    free(table->slots);
    *table = (struct tt_operator_table){ 0 };
}

void tt_operator_describe(uint32_t shared, tutti_op op, char *text, size_t bytes)
{
    bool factor = (shared & SHARED_PRE_MUL_SUM) != 0;
    char name[32] = "";
    if (!factor && (shared & SHARED_USER) == 0) {
        snprintf(text, bytes, "%s", tt_op_name(shared));
        return;
    }
    if (op >= TT_CREATED_OPS)
        snprintf(name, sizeof name, " %u", op);
    if (factor)
        snprintf(text, bytes, "pre-mul-sum%s", name);
    else
        snprintf(text, bytes, "user operator%s (%u-byte elements, %s)", name, shared & SHARED_BYTES,
            shared & SHARED_COMMUTES ? "commutes" : "does not commute");
}

static uint32_t shared_of(const struct tt_operator *o)
{
    if (o->kind == TT_OPERATOR_PRE_MUL_SUM)
        return SHARED_PRE_MUL_SUM;
    return SHARED_USER | o->element_bytes | (o->commutes ? SHARED_COMMUTES : 0);
}

tutti_status tt_operator_add(
    struct tt_operator_table *table, const char *call, const struct tt_operator *created, tutti_op *op)
{
    uint32_t place = 0;
    while (place < table->capacity && table->slots[place].id != 0)
        place++;
    if (place == MOST)
        return tt_fail(
            TUTTI_UNSUPPORTED, "%s: the communicator has %d operators; legal: up to as many", call, MOST);
    if (place == table->capacity) {
        uint32_t capacity = place == 0 ? FIRST_CAPACITY : 2 * place;
        struct tt_operator_slot *slots = realloc(table->slots, capacity * sizeof *slots);
        if (slots == NULL)
            return tt_fail(TUTTI_OUT_OF_MEMORY, "%s: no memory for %u operators", call, capacity);
        for (uint32_t i = place; i < capacity; i++)
            slots[i].id = 0;
        table->slots = slots;
        table->capacity = capacity;
    }
    table->slots[place] = (struct tt_operator_slot){ next_id(place), *created };
    table->slots[place].created.shared = shared_of(created);
    *op = table->slots[place].id;
    return TUTTI_OK;
}

bool tt_operator_remove(struct tt_operator_table *table, tutti_op op)
{
    if (tt_operator_find(table, op) == NULL)
        return false;
    table->slots[op % MOST].id = 0;
    return true;
}

/* --- Folding */

struct job { /* one block of a fold */
    const struct tt_operator *o;
    const void *const *sources;
    size_t at, count; /* its first byte in each source; its elements */
    uint8_t (*blocks)[BLOCK_BYTES];
};

static const void *operand(const struct job *job, int i)
{
    return (const uint8_t *)job->sources[i] + job->at;
}

static void apply(const struct job *job, void *dst, const void *left, const void *right)
{
    job->o->fn(dst, left, right, job->count, job->o->context);
}

/* The root of k > 1 operands combines the first so many with the rest. */
static int split_of(enum tt_shape shape, int k)
{
    int split = 1;
    while (2 * split < k)
        split *= 2;
    return shape == TT_TREE ? split : k - 1;
}

/* Returns where the combination of operands [first, first + k) is: an operand itself if it is alone, else
 * block `block`, with the blocks behind it used up. */
static const void *part(const struct job *job, enum tt_shape shape, int first, int k, int block)
{
    if (k == 1)
        return operand(job, first);
    int split = split_of(shape, k);
    const void *left = part(job, shape, first, split, block);
    const void *right = part(job, shape, first + split, k - split, block + 1);
    apply(job, job->blocks[block], left, right);
    return job->blocks[block];
}

/* Partial results wait in blocks on the stack, and dst, which may be a source, is written last. */
void tt_operator_fold(const struct tt_operator *o, enum tt_shape shape, void *dst, const void *const *sources,
    int k, size_t count)
{
    _Alignas(64) uint8_t blocks[BLOCKS][BLOCK_BYTES];
    struct job job = { .o = o, .sources = sources, .count = count, .blocks = blocks };
    size_t most = k > 2 ? BLOCK_BYTES / o->element_bytes : count;
    if (k == 1 && dst != sources[0])
        tt_copy_bytes(dst, sources[0], count * o->element_bytes);
    for (size_t done = 0; k > 1 && done < count; done += job.count) {
        int split = split_of(shape, k);
        job.at = done * o->element_bytes;
        job.count = count - done < most ? count - done : most;
        const void *left = part(&job, shape, 0, split, 0);
        const void *right = part(&job, shape, split, k - split, 1);
        apply(&job, (uint8_t *)dst + job.at, left, right);
    }
}
