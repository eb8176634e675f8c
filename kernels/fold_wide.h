/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_wide.h: one vector of elements on its way through a fold; the includer has defined vec.
 *
 * Halves widen to two vectors of fp32, a and b, quarters to four. Which lane an element takes is free, as
 * long as it comes back to its place. Parts that a type does not have are never looked at. */
#ifndef TT_KERNELS_FOLD_WIDE_H
#define TT_KERNELS_FOLD_WIDE_H

struct wide {
    vec a, b, c, d;
};

INLINE struct wide wide_of_one(vec a)
{
    struct wide w = { a, a, a, a };
    return w;
}
INLINE struct wide wide_of_two(vec a, vec b)
{
    struct wide w = { a, b, a, b };
    return w;
}
INLINE struct wide wide_of_four(vec a, vec b, vec c, vec d)
{
    struct wide w = { a, b, c, d };
    return w;
}

#endif
