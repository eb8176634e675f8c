/* test_kernels_edges.c: folds where an instruction set has a way of its own, which could be wrong alone. */
#include <criterion/criterion.h>
#include <string.h>

#include "kernel_reference.h"
#include "kernels/kernels.h"

/* A node of a tree, which is rounded in a register, against the sum of two, which is rounded in memory: all x
 * with some y, and -0 beside the node, which changes nothing. */
static void all_nodes(const struct type *t, enum tt_isa isa)
{
    enum { ALL = 1 << 16 };
    static uint16_t x[ALL], y[ALL], zero[ALL], node[ALL], rounded[ALL];
    tt_fold_fn tree = tt_fold_find_isa(t->type, TUTTI_SUM, TT_TREE, isa);
    tt_fold_fn chain = tt_fold_find_isa(t->type, TUTTI_SUM, TT_CHAIN, isa);
    size_t each = 2 / t->bytes; /* elements in 16 bits */
    for (size_t i = 0; i < ALL; i++)
        x[i] = (uint16_t)i;
    memset(zero, 0, sizeof zero);
    for (size_t i = 0; i < ALL * each; i++)
        ((uint8_t *)zero)[(i + 1) * t->bytes - 1] = 0x80;
    for (uint32_t code = 0; code < ALL; code += t->bytes == 2 ? 331 : 257) {
        for (size_t i = 0; i < ALL; i++)
            y[i] = (uint16_t)code;
        tree(node, (const void *[]){ x, y, zero }, 3, ALL * each, 0);
        chain(rounded, (const void *[]){ x, y }, 2, ALL * each, 0);
        if (memcmp(node, rounded, sizeof node) != 0)
            cr_assert_fail("%s %s: a node with %#x", tt_isa_name(isa), t->name, code);
    }
}

Test(kernels, all_nodes)
{
    for (int isa = 0; isa <= (int)tt_isa_best(); isa++)
        for (int i = 0; i < TYPES; i++)
            if (is_float(&types[i]) && types[i].bytes <= 2)
                all_nodes(&types[i], (enum tt_isa)isa);
}
