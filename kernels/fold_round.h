/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_round.h: rounding in a register, for the inner nodes of trees on processors.
 *
 * Veltkamp's splitting (T. J. Dekker, "A floating-point technique for extending the available precision",
 * 1971): `scaled` less its difference from x is the nearest number of 24 - s bits, for a power 2^s. That ties
 * go to even was tried for the powers below, with every significand of one exponent. It holds where x * 2^s
 * does not overflow. In a sum of two narrow numbers denormals are right, too: they have no more bits than the
 * type. The includer has defined what fold_float.h asks for, f32_at_least and f32_fused_difference. */
#ifndef TT_KERNELS_FOLD_ROUND_H
#define TT_KERNELS_FOLD_ROUND_H
#include "kernels/fold_float.h"

INLINE vec f32_rounded(vec x, float power)
{
    vec_f32 scaled = (vec_f32)x * (power + 1);
    return (vec)(scaled - (vec_f32)f32_fused_difference((vec)scaled, x));
}
INLINE vec bfloat16_rounded(vec x)
{
    return f32_rounded(x, 0x1p16F);
}
INLINE vec saturated(vec x, float most)
{
    vec_f32 all = vec_f32_all(most);
    return f32_at_least((vec)-all, f32_at_most((vec)all, x));
}
INLINE vec float8_e4m3_rounded(vec x)
{
    return f32_rounded(saturated(x, 448), 0x1p20F);
}
INLINE vec float8_e5m2_rounded(vec x)
{
    return f32_rounded(saturated(x, 57344), 0x1p21F);
}

/* Packs numbers that are rounded already. */
INLINE vec bfloat16_pack(struct wide w)
{
    return vec_uppers(w.a, w.b);
}

#endif
