/* SPDX-License-Identifier: BSD-3-Clause */
/* op.c: creating operators, finding them, and folding with a user's function.
 *
 * An id is a serial number of the process and a place in the communicator's table: looking it up is one
 * comparison, an id of another communicator or of a destroyed operator is told from all others, and none
 * comes again before a million operators were created. */
#include "op.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "handle.h"
#include "call.h"
#include "device.h"

enum { PLACE_BITS = 12, MOST = 1 << PLACE_BITS /* at a time */, FIRST_CAPACITY = 8 };
enum { ELEMENT_BYTES_MAX = 4096 }; /* half of the smallest slot, so that slices stay long */
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

static tutti_status add(
    const char *call, struct tt_operator_table *table, const struct tt_operator *created, tutti_op *op)
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
    *op = table->slots[place].id;
    return TUTTI_OK;
}

tutti_status tutti_op_create_pre_mul_sum(
    tutti_comm *comm, const void *scalar, tutti_type type, int on_device, tutti_op *op)
{
    struct tt_comm *c = tt_handle_find(comm);
    if (c == NULL)
        return tt_shell_fault(comm);
    if (scalar == NULL || op == NULL)
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "op_create_pre_mul_sum: %s is NULL", scalar == NULL ? "scalar" : "op");
    if (on_device != 0 && on_device != 1)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "op_create_pre_mul_sum: on_device is %d; legal: 0, a factor in host memory, or 1, in a device's",
            on_device);
    if (tutti_type_bytes(type) == 0)
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "op_create_pre_mul_sum: type is %d; legal: 0 to 11", (int)type);
    if (tt_fold_find(type, TUTTI_SUM, TT_CHAIN) == NULL)
        return tt_fail(TUTTI_UNSUPPORTED, "op_create_pre_mul_sum: no kernel sums %s", tt_type_name(type));
    tutti_status status = tt_comm_check(c);
    if (status != TUTTI_OK)
        return status;
    struct tt_operator created = { .kind = TT_OPERATOR_PRE_MUL_SUM,
        .shared = SHARED_PRE_MUL_SUM,
        .element_bytes = (uint32_t)tutti_type_bytes(type),
        .commutes = true,
        .type = type,
        .scalar = on_device ? scalar : NULL };
    if (on_device)
        status = tt_device_check_scalar(c, "op_create_pre_mul_sum", &created);
    else
        memcpy(created.factor, scalar, created.element_bytes);
    return status != TUTTI_OK ? status : add("op_create_pre_mul_sum", &c->operators, &created, op);
}

tutti_status tutti_op_create(
    tutti_comm *comm, tutti_reduce_fn fn, void *context, size_t element_bytes, int commutes, tutti_op *op)
{
    struct tt_comm *c = tt_handle_find(comm);
    if (c == NULL)
        return tt_shell_fault(comm);
    if (fn == NULL || op == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "op_create: %s is NULL", fn == NULL ? "fn" : "op");
    if (element_bytes < 1 || element_bytes > ELEMENT_BYTES_MAX)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "op_create: element_bytes is %zu; legal: 1 to %d",
            element_bytes, ELEMENT_BYTES_MAX);
    tutti_status status = tt_comm_check(c);
    if (status != TUTTI_OK)
        return status;
    struct tt_operator created = { .kind = TT_OPERATOR_USER,
        .element_bytes = (uint32_t)element_bytes,
        .commutes = commutes != 0,
        .fn = fn,
        .context = context };
    created.shared = SHARED_USER | created.element_bytes | (created.commutes ? SHARED_COMMUTES : 0);
    return add("op_create", &c->operators, &created, op);
}

tutti_status tutti_op_destroy(tutti_comm *comm, tutti_op op)
{
    struct tt_comm *c = tt_handle_find(comm);
    if (c == NULL)
        return tt_shell_fault(comm);
    if (tt_operator_find(&c->operators, op) == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "op_destroy: op is %u; legal: what was created on this communicator, once", op);
    c->operators.slots[op % MOST].id = 0;
    return TUTTI_OK;
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

/* Where the combination of operands [first, first + k) is: an operand itself if it is alone, else block
 * `block`, with the blocks behind it used up. */
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
