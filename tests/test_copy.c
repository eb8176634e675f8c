/* test_copy.c: copies through the caches and past them, of every length to every place. */
#include <criterion/criterion.h>
#include <string.h>

#include "kernels/fold_table.h"
#include "kernels/kernels.h"

/* A copy of every length to every place in a line, and nothing beside it. */
static void expect_copied(void (*copy)(void *, const void *, uint64_t), const char *name)
{
    enum { LINE = 64, LONGEST = 5 * LINE };
    static _Alignas(LINE) uint8_t to[LONGEST + 2 * LINE], from[LONGEST + LINE], wanted[sizeof to];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + i / 64 + 1);
    for (size_t place = 0; place < LINE; place++)
        for (size_t bytes = 0; bytes <= LONGEST; bytes++) {
            const uint8_t *source = from + (place * 5 + bytes) % LINE;
            memset(to, 0xa5, sizeof to);
            memset(wanted, 0xa5, sizeof wanted);
            memcpy(wanted + place, source, bytes);
            copy(to + place, source, bytes);
            tt_copy_fence();
            cr_assert_arr_eq(to, wanted, sizeof to, "%s: %zu bytes to place %zu", name, bytes, place);
        }
}

Test(copy, through_the_caches)
{
    expect_copied(tt_copy_bytes, "tt_copy_bytes");
}

Test(copy, past_the_caches)
{
    expect_copied(tt_copy_stream, "tt_copy_stream");
}

/* Each instruction set's own loop, which tt_copy_stream gives whole lines only. */
Test(copy, lines_past_the_caches)
{
    static const struct tt_fold_table *const tables[TT_ISAS] = { &tt_folds_generic, &tt_folds_avx2,
        &tt_folds_avx512 };
    static _Alignas(64) uint8_t to[6 * 64];
    static uint8_t from[sizeof to];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i + 1);
    for (int isa = 0; isa <= (int)tt_isa_best(); isa++) {
        memset(to, 0, sizeof to);
        tables[isa]->stream(to + 64, from + 3, sizeof to - 128);
        tt_copy_fence();
        cr_expect_arr_eq(to + 64, from + 3, sizeof to - 128, "%s", tt_isa_name((enum tt_isa)isa));
        cr_expect(to[63] == 0 && to[sizeof to - 64] == 0, "%s", tt_isa_name((enum tt_isa)isa));
    }
}
