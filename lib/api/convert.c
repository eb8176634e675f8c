/* SPDX-License-Identifier: BSD-3-Clause */
/* convert.c: arrays of one float type from another: the check of the public function. */
#include "base/status.h"
#include "run/run.h"
#include "kernels/kernels.h"

static tutti_status check_array(const char *name, const void *array, size_t element)
{
    if (array == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "convert: %s is NULL", name);
    if ((uintptr_t)array % element != 0)
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "convert: %s is %p; legal: a multiple of %zu", name, array, element);
    return TUTTI_OK;
}

tutti_status tutti_convert(const void *from, tutti_type from_type, void *to, tutti_type to_type, size_t count)
{
    tt_convert_fn convert = tt_convert_find(from_type, to_type, tt_isa_best());
    if (convert == NULL)
        return tt_fail(TUTTI_UNSUPPORTED,
            "convert: from %s to %s; legal: float32 to float16 or bfloat16, or one of these to float32",
            tt_type_name(from_type), tt_type_name(to_type));
    if (count == 0)
        return TUTTI_OK;
    size_t in = tutti_type_bytes(from_type), out = tutti_type_bytes(to_type);
    tutti_status status = check_array("from", from, in);
    if (status == TUTTI_OK)
        status = check_array("to", to, out);
    if (status != TUTTI_OK)
        return status;
    if (count > TT_VECTOR_BYTES / sizeof(float))
        return tt_fail(TUTTI_INVALID_ARGUMENT, "convert: count is %zu; at most %llu", count,
            (unsigned long long)(TT_VECTOR_BYTES / sizeof(float)));
    uintptr_t a = (uintptr_t)from, b = (uintptr_t)to;
    if (a < b + count * out && b < a + count * in)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "convert: from %p and to %p overlap; legal: apart", from, to);
    convert(to, from, count);
    return TUTTI_OK;
}
