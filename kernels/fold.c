/* SPDX-License-Identifier: BSD-3-Clause */
/* fold.c: which fold runs.
 *
 * The instruction set is chosen by what this CPU has, never by what the compiler was told for the whole
 * library: one binary runs everywhere and gives the same bits everywhere. */
#include "kernels/fold_table.h"

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const struct tt_fold_table *const tables[TT_ISAS] = { &tt_folds_generic, &tt_folds_avx2,
    &tt_folds_avx512 };

#if defined(__x86_64__)
/* Does the system save the registers in `mask` (of XCR0) when it switches threads? */
static bool system_saves(unsigned mask)
{
    unsigned eax, ebx, ecx, edx, xcr0, upper;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE))
        return false;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(upper) : "c"(0));
    return (xcr0 & mask) == mask;
}

static bool cpu_has_avx2(void)
{
    const unsigned features1 = bit_AVX | bit_FMA | bit_F16C;
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & features1) == features1 &&
           __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & bit_AVX2) && system_saves(0x6);
}

static bool cpu_has_avx512(void)
{
    const unsigned features = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & features) == features &&
           system_saves(0xe6);
}
#endif

/* cpuid is asked itself, because clang 14 has no name for F16C. */
static enum tt_isa isa_of_cpu(void)
{
    enum tt_isa best = TT_ISA_GENERIC;
#if defined(__x86_64__)
    if (tt_folds_avx2.fold[TUTTI_FLOAT32][TT_ROW_SUM][TT_CHAIN] && cpu_has_avx2())
        best = TT_ISA_AVX2;
    if (tt_folds_avx512.fold[TUTTI_FLOAT32][TT_ROW_SUM][TT_CHAIN] && best == TT_ISA_AVX2 && cpu_has_avx512())
        best = TT_ISA_AVX512;
#endif
    return best;
}

/* Kept, because a virtual machine traps cpuid. Two threads that ask at once store the same answer. */
enum tt_isa tt_isa_best(void)
{
    static atomic_int kept = TT_ISAS;
    int isa = atomic_load_explicit(&kept, memory_order_relaxed);
    if (isa == TT_ISAS) {
        isa = isa_of_cpu();
        atomic_store_explicit(&kept, isa, memory_order_relaxed);
    }
    return (enum tt_isa)isa;
}

enum tt_isa tt_isa_of(uint64_t setting)
{
    return setting == 0 ? tt_isa_best() : (enum tt_isa)(setting - 1);
}

const char *tt_isa_name(enum tt_isa isa)
{
    static const char *const names[TT_ISAS] = { "generic", "avx2", "avx512" };
    return (unsigned)isa < TT_ISAS ? names[isa] : "unknown";
}

tt_fold_fn tt_fold_find_isa(tutti_type type, tutti_op op, enum tt_shape shape, enum tt_isa isa)
{
    enum tt_fold_row row = tt_fold_row_of(op);
    if ((unsigned)type >= TT_FOLD_TYPES || row == TT_ROWS || (unsigned)shape >= TT_SHAPES)
        return NULL;
    if ((unsigned)isa >= TT_ISAS || isa > tt_isa_best())
        return NULL;
    return tables[isa]->fold[type][row][shape];
}

tt_fold_fn tt_fold_find(tutti_type type, tutti_op op, enum tt_shape shape)
{
    return tt_fold_find_isa(type, op, shape, tt_isa_best());
}

static bool has_sum(tutti_type type, tutti_op op, enum tt_isa isa)
{
    return (unsigned)type < TT_FOLD_TYPES && tt_fold_row_of(op) == TT_ROW_SUM && (unsigned)isa < TT_ISAS &&
           isa <= tt_isa_best();
}

tt_spread_fn tt_spread_find(tutti_type type, tutti_op op, enum tt_isa isa)
{
    return has_sum(type, op, isa) ? tables[isa]->spread[type] : NULL;
}

tt_few_fn tt_few_find(tutti_type type, tutti_op op, enum tt_isa isa)
{
    return has_sum(type, op, isa) ? tables[isa]->few[type] : NULL;
}

tt_convert_fn tt_convert_find(tutti_type from, tutti_type to, enum tt_isa isa)
{
    bool widens = to == TUTTI_FLOAT32;
    tutti_type narrow = widens ? from : to;
    if ((unsigned)narrow >= TT_FOLD_TYPES || (!widens && from != TUTTI_FLOAT32) || (unsigned)isa >= TT_ISAS ||
        isa > tt_isa_best())
        return NULL;
    return widens ? tables[isa]->widen[narrow] : tables[isa]->narrow[narrow];
}

const struct tt_fold_table *tt_fold_table_best(void)
{
    return tables[tt_isa_best()];
}
