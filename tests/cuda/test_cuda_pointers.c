/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_pointers.c: what the device table makes of what the driver says of an address. Linked as
 * test_cuda_table.c is. */
#include <criterion/criterion.h>
#include <string.h>

#include "table_rig.h"

#include <cuda.h>

static void *const some = (void *)0x7000; /* an address */

TestSuite(cuda_pointers, .init = table_begin);

Test(cuda_pointers, kinds)
{
    struct tt_dev_pointer what;
    fake.context_device = 0;
    fake.pointer.device = -2; /* what the driver says of memory that it does not know */
    cr_assert_eq(dev->memory.classify(some, &what), TT_DEV_OK);
    cr_expect(
        what.kind == TT_DEV_HOST && what.device == -1 && what.base == 0 && what.bytes == 0 && what.id == 0);
    fake.pointer.type = CU_MEMORYTYPE_DEVICE;
    fake.pointer.device = 1;
    fake.pointer.base = 0x6000;
    fake.pointer.bytes = 8192;
    fake.pointer.id = 44;
    fake.pointer.mapped = 1;
    cr_assert_eq(dev->memory.classify(some, &what), TT_DEV_OK);
    cr_expect(what.kind == TT_DEV_DEVICE && what.device == 1 && what.base == 0x6000 && what.bytes == 8192 &&
              what.id == 44 && what.range == 0x6000);
    fake.pointer.mapped = 0; /* what no driver says of memory that is no device's */
    fake.pointer.managed = 1;
    cr_expect(
        dev->memory.classify(some, &what) == TT_DEV_OK && what.kind == TT_DEV_MANAGED && what.device == 1);
    fake.pointer.managed = 0;
    fake.pointer.type = CU_MEMORYTYPE_HOST;
    cr_expect(
        dev->memory.classify(some, &what) == TT_DEV_OK && what.kind == TT_DEV_PINNED && what.device == -1);
    cr_expect_eq(what.id, 44);
}

/* 0x7000 in a range of the driver's, of which some is mapped; cudaMalloc's ranges are allocations. */
Test(cuda_pointers, into_what_is_mapped)
{
    static const struct {
        uintptr_t base;
        size_t bytes;
        uintptr_t mapping_base;
        size_t mapping_bytes;
        uintptr_t found;
        size_t found_bytes;
    } cases[] = {
        { 0x4000, 0x8000, 0x6000, 0x2000, 0x6000, 0x2000 }, /* a part of what was reserved */
        { 0x6800, 0x1000, 0x6000, 0x2000, 0x6800, 0x1000 }, /* an allocation of a larger block */
        { 0x6800, 0x3000, 0x6000, 0x2000, 0x6800, 0x1800 }, /* the first part of one of several blocks */
        { 0x5000, 0x2800, 0x6000, 0x2000, 0x6000, 0x1800 }, /* the last part */
        { 0x6000, 0x2000, 0, 0, 0x6000, 0x2000 }, /* the driver does not tell the mapping */
        { 0x6000, 0x2000, 0x8000, 0x2000, 0x6000, 0x2000 }, /* or not that of this address */
        { 0x6000, 0x2000, 0x5000, 0x2000, 0x6000, 0x2000 },
    };
    struct tt_dev_pointer what;
    fake.context_device = 0;
    fake.pointer.type = CU_MEMORYTYPE_DEVICE;
    fake.pointer.mapped = 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake.pointer.base = cases[i].base;
        fake.pointer.bytes = cases[i].bytes;
        fake.pointer.mapping_base = cases[i].mapping_base;
        fake.pointer.mapping_bytes = cases[i].mapping_bytes;
        cr_assert_eq(dev->memory.classify(some, &what), TT_DEV_OK);
        cr_expect(
            what.base == cases[i].found && what.bytes == cases[i].found_bytes && what.range == cases[i].base,
            "case %zu: %#lx, %#lx bytes, of %#lx", i, (unsigned long)what.base, (unsigned long)what.bytes,
            (unsigned long)what.range);
    }
}

/* A hole is no memory of the host, whatever else the driver says of it. */
Test(cuda_pointers, where_nothing_is_mapped)
{
    struct tt_dev_pointer what = { .bytes = 5 };
    fake.context_device = 0;
    fake.pointer.base = 0x4000;
    fake.pointer.bytes = 0x8000;
    for (unsigned type = 0; type <= CU_MEMORYTYPE_DEVICE; type += CU_MEMORYTYPE_DEVICE) {
        fake.pointer.type = type;
        cr_expect_eq(dev->memory.classify(some, &what), TT_DEV_INVALID, "type %u", type);
        cr_expect_not_null(strstr(dev->why(), "nothing is mapped at this address"), "%s", dev->why());
        cr_expect_eq(what.bytes, 5);
    }
    fake.pointer.managed = 1; /* such is where it was used last */
    cr_expect(dev->memory.classify(some, &what) == TT_DEV_OK && what.kind == TT_DEV_MANAGED);
}
