/* fold.c: which fold runs.
 *
 * The instruction set is chosen by what this CPU has, never by what the compiler was told for the whole
 * library: one binary runs everywhere and gives the same bits everywhere. */
#include "kernels/fold_table.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const struct tt_fold_table *const tables[TT_ISAS] = { &tt_folds_generic, &tt_folds_avx2 };

/* clang 14 has no name for F16C, so cpuid is asked; that the system saves wide registers is in "avx2". */
static enum tt_isa isa_of_cpu(void)
{
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx;
    __builtin_cpu_init();
    if (tt_folds_avx2.fold[TUTTI_FLOAT32][TUTTI_SUM][TT_CHAIN] && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C))
        return TT_ISA_AVX2;
#endif
    return TT_ISA_GENERIC;
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

const char *tt_isa_name(enum tt_isa isa)
{
    static const char *const names[TT_ISAS] = { "generic", "avx2" };
    return (unsigned)isa < TT_ISAS ? names[isa] : "unknown";
}

tt_fold_fn tt_fold_find_isa(tutti_type type, tutti_op op, enum tt_shape shape, enum tt_isa isa)
{
    if (op == TUTTI_AVG)
        op = TUTTI_SUM;
    if ((unsigned)type >= TT_FOLD_TYPES || op >= TT_FOLD_OPS || (unsigned)shape >= TT_SHAPES)
        return NULL;
    if ((unsigned)isa >= TT_ISAS || isa > tt_isa_best())
        return NULL;
    return tables[isa]->fold[type][op][shape];
}

tt_fold_fn tt_fold_find(tutti_type type, tutti_op op, enum tt_shape shape)
{
    return tt_fold_find_isa(type, op, shape, tt_isa_best());
}

void tt_copy_bytes(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}
