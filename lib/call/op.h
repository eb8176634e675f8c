/* SPDX-License-Identifier: BSD-3-Clause */
/* op.h: operators that were created on a communicator.
 *
 * A call that is kept keeps a copy of its operator: destroying the operator does not disturb calls that are
 * queued or under way, and nobody counts references. Ids are this rank's own; what ranks must agree on is
 * `shared`, which goes into the signature and the record of the call. */
#ifndef TT_OP_H
#define TT_OP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "tutti.h"

enum { TT_CREATED_OPS = 256 }; /* ids of created operators are no smaller */
enum tt_operator_kind { TT_OPERATOR_USER, TT_OPERATOR_PRE_MUL_SUM };

struct tt_operator {
    uint32_t kind; /* enum tt_operator_kind */
    uint32_t shared; /* kind, element_bytes and commutes in one word, which is no built-in op */
    uint32_t element_bytes; /* of USER: what its function takes for one element; else that of the type */
    bool commutes;
    tutti_type type; /* of PRE_MUL_SUM */
    uint8_t factor[8]; /* of PRE_MUL_SUM: this rank's */
    const void *scalar; /* of PRE_MUL_SUM: where a device has that, for each call to read it; NULL: here */
    tutti_reduce_fn fn; /* of USER */
    void *context;
};

struct tt_operator_slot;
struct tt_operator_table { /* of a communicator; zeroed: empty */
    struct tt_operator_slot *slots;
    uint32_t capacity;
};

/* NULL if the communicator has no such operator (any more). */
const struct tt_operator *tt_operator_find(const struct tt_operator_table *table, tutti_op op);
/* Enters a copy of `created` in the table, sets the `shared` word of the copy, and returns its new id in *op.
 * `call` is the name of the public function, for errors. */
tutti_status tt_operator_add(
    struct tt_operator_table *table, const char *call, const struct tt_operator *created, tutti_op *op);
/* Removes an operator. False if the communicator has none of this id. */
bool tt_operator_remove(struct tt_operator_table *table, tutti_op op);
void tt_operator_table_free(struct tt_operator_table *table);

/* "sum", "user operator (16-byte elements, commutes)" ...: of a built-in op or of a `shared` word. `op`: what
 * this rank calls it, which is told of a created one; 0: another rank's call. */
void tt_operator_describe(uint32_t shared, tutti_op op, char *text, size_t bytes);

/* Folds as a kernel does (kernels.h), by a user's function, on `count` of its elements: the same operands
 * in the same order and shape. */
void tt_operator_fold(const struct tt_operator *o, enum tt_shape shape, void *dst, const void *const *sources,
    int k, size_t count);

#endif
