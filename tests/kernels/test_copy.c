/* SPDX-License-Identifier: BSD-3-Clause */
/* test_copy.c: copies through the caches and past them, of every length to every place. */
#include <criterion/criterion.h>
#include <string.h>

#include "kernels/fold_table.h"
#include "kernels/kernels.h"

enum { LINE = 64, LONGEST = 16 << 10 };

static _Alignas(LINE) uint8_t to[LONGEST + 2 * LINE], from[LONGEST + LINE], wanted[sizeof to];

/* The bytes, and nothing beside them. `place`: where in a line they go; the source lies elsewhere in one. */
static void expect_copied(
    void (*copy)(void *, const void *, uint64_t), size_t bytes, size_t place, const char *name)
{
    const uint8_t *source = from + (place * 5 + bytes) % LINE;
    memset(to, 0xa5, sizeof to);
    memset(wanted, 0xa5, sizeof wanted);
    memcpy(wanted + place, source, bytes);
    copy(to + place, source, bytes);
    tt_copy_fence();
    cr_assert_arr_eq(to, wanted, sizeof to, "%s: %zu bytes to place %zu", name, bytes, place);
}

static void expect_all_copied(void (*copy)(void *, const void *, uint64_t), const char *name)
{
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + i / 64 + 1);
    for (size_t place = 0; place < LINE; place++)
        for (size_t bytes = 0; bytes <= 5 * LINE; bytes++)
            expect_copied(copy, bytes, place, name);
    for (size_t bytes = 2 << 10; bytes <= LONGEST; bytes += bytes % 1000 < 400 ? 1 : 37)
        expect_copied(copy, bytes, bytes * 11 % LINE, name);
}

Test(copy, through_the_caches)
{
    expect_all_copied(tt_copy_bytes, "tt_copy_bytes");
}

Test(copy, past_the_caches)
{
    expect_all_copied(tt_copy_stream, "tt_copy_stream");
}

/* Each instruction set's own loops, which get whole lines to a line, and whole blocks. */
Test(copy, loops_of_each_set)
{
    static const struct tt_fold_table *const tables[TT_ISAS] = { &tt_folds_generic, &tt_folds_avx2,
        &tt_folds_avx512 };
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i + i / 256 + 1);
    for (int isa = 0; isa <= (int)tt_isa_best(); isa++)
        for (int past = 0; past < 2; past++) {
            void (*copy)(uint8_t *, const uint8_t *, uint64_t) =
                past ? tables[isa]->stream : tables[isa]->copy;
            size_t at = past ? LINE : 7, bytes = past ? 5 * LINE : 3 * TT_COPY_BLOCK;
            if (copy == NULL)
                continue;
            memset(to, 0xa5, sizeof to);
            memset(wanted, 0xa5, sizeof wanted);
            memcpy(wanted + at, from + 3, bytes);
            copy(to + at, from + 3, bytes);
            tt_copy_fence();
            cr_expect_arr_eq(to, wanted, sizeof to, "%s", tt_isa_name((enum tt_isa)isa));
        }
}
