/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_local.c: calls that need no communicator: memory, reductions within the process, and questions;
 * bad arguments of these are refused in words that name the argument. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"

TestSuite(api_local, .timeout = 120);

static void wrong_memory(struct ranks_me *me)
{
    void *ptr = NULL;
    uint8_t *plain = malloc(100);
    ranks_refused(
        me, tutti_mem_alloc(10, TUTTI_MEM_HOST, NULL), TUTTI_INVALID_ARGUMENT, "mem_alloc", "ptr|NULL");
    ranks_refused(me, tutti_mem_alloc(10, 2, &ptr), TUTTI_INVALID_ARGUMENT, "mem_alloc",
        "kind is 2|TUTTI_MEM_HOST (0)|TUTTI_MEM_CUDA (1)");
    ranks_refused(me, tutti_mem_alloc(SIZE_MAX, TUTTI_MEM_HOST, &ptr), TUTTI_OUT_OF_MEMORY,
        "mem_alloc of all", "bytes|legal");
    ranks_refused(me, tutti_mem_alloc((size_t)1 << 60, TUTTI_MEM_HOST, &ptr), TUTTI_OUT_OF_MEMORY,
        "mem_alloc", "bytes|legal");
    ranks_expect(me, ptr == NULL, "a failed mem_alloc has set ptr");
    ranks_ok(me, tutti_mem_free(NULL), "mem_free of NULL");
    ranks_refused(me, tutti_mem_free(plain), TUTTI_INVALID_ARGUMENT, "mem_free of malloc'ed memory", "ptr");
    ranks_ok(me, tutti_mem_alloc(0, TUTTI_MEM_HOST, &ptr), "mem_alloc of nothing");
    ranks_ok(me, tutti_mem_free(ptr), "mem_free");
    ranks_ok(me, tutti_mem_alloc(10000, TUTTI_MEM_HOST, &ptr), "mem_alloc");
    uint8_t *bytes = ptr;
    ranks_expect(me, (uintptr_t)ptr % 4096 == 0, "not page-aligned");
    for (int i = 0; i < 10000; i++)
        ranks_expect(me, bytes[i] == 0, "byte %d is not zero", i);
    memset(ptr, 0xff, 10000);
    ranks_refused(
        me, tutti_mem_free(bytes + 4096), TUTTI_INVALID_ARGUMENT, "mem_free of the middle of memory", "ptr");
    ranks_ok(me, tutti_mem_free(ptr), "mem_free");
    ranks_refused(me, tutti_mem_free(ptr), TUTTI_INVALID_ARGUMENT, "mem_free, twice", "ptr");
    ranks_ok(me, tutti_mem_alloc(10000, TUTTI_MEM_HOST, &ptr),
        "mem_alloc"); /* zeroed also when it is used again */
    for (int i = 0; i < 10000; i++)
        ranks_expect(me, ((uint8_t *)ptr)[i] == 0, "byte %d of memory used again is not zero", i);
    ranks_ok(me, tutti_mem_free(ptr), "mem_free");
    free(plain);
}

Test(api_local, memory)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = wrong_memory });
}

static void wrong_local_reductions(struct ranks_me *me)
{
    _Alignas(8) uint8_t a[64] = { 0 }, b[64] = { 0 }, dst[64] = { 0 };
    const void *sources[] = { a, b }, *odd[] = { a, b + 2 }, *null[] = { a, NULL };
    ranks_at(me, "reduce_local");
    ranks_refused(me, tutti_reduce_local(sources, 0, dst, 4, TUTTI_INT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT,
        "k of 0", "k is 0");
    ranks_refused(me, tutti_reduce_local(sources, -3, dst, 4, TUTTI_INT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT,
        "k of -3", "k is -3");
    ranks_refused(me, tutti_reduce_local(NULL, 2, dst, 4, TUTTI_INT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT,
        "sources NULL", "sources|NULL");
    ranks_refused(me, tutti_reduce_local(null, 2, dst, 4, TUTTI_INT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT,
        "one source NULL", "sources[1]");
    ranks_refused(me, tutti_reduce_local(sources, 2, NULL, 4, TUTTI_INT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT,
        "dst NULL", "dst|NULL");
    ranks_refused(me, tutti_reduce_local(odd, 2, dst, 4, TUTTI_INT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT,
        "a misaligned source", "sources[1]|multiple of 4");
    ranks_refused(me, tutti_reduce_local(sources, 2, dst + 1, 4, TUTTI_INT32, TUTTI_SUM),
        TUTTI_INVALID_ARGUMENT, "a misaligned dst", "dst|multiple of 4");
    ranks_refused(me, tutti_reduce_local(sources, 2, dst, 4, TUTTI_FLOAT16, TUTTI_BIT_OR), TUTTI_UNSUPPORTED,
        "bits of float16", "float16|bit_or");
    ranks_refused(me, tutti_reduce_local(sources, 2, dst, 4, (tutti_type)77, TUTTI_SUM), TUTTI_UNSUPPORTED,
        "type 77", "type");
    ranks_refused(
        me, tutti_reduce_local(sources, 2, dst, 4, TUTTI_INT32, 9), TUTTI_UNSUPPORTED, "op 9", "op");
    ranks_ok(me, tutti_reduce_local(sources, 2, NULL, 0, TUTTI_INT32, TUTTI_SUM), "a reduction of nothing");
}

Test(api_local, local_reductions)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = wrong_local_reductions });
}

static void questions(struct ranks_me *me)
{
    char text[8192], small[8] = "......";
    ranks_at(me, "queries");
    ranks_expect(me, tutti_get_version() == TUTTI_VERSION, "version %d", tutti_get_version());
    ranks_expect(me, tutti_query(NULL, "nonsense", text, sizeof text) == 0, "nonsense is answered");
    ranks_refused(me, TUTTI_INVALID_ARGUMENT, TUTTI_INVALID_ARGUMENT, "query",
        "nonsense|version|config|transports|cpu|algorithms|choice|schedule|paths|lost_wakeups");
    ranks_expect(me, tutti_query(NULL, NULL, text, sizeof text) == 0, "NULL is answered");
    ranks_expect(me, tutti_query(NULL, "algorithms nonsense", text, sizeof text) == 0, "it is answered");
    ranks_expect(me, tutti_query(NULL, "paths", text, sizeof text) == 0, "paths without a communicator");
    ranks_expect(me, tutti_query(NULL, "executor", text, sizeof text) == 0, "executor without one");
    ranks_expect(me, tutti_query(NULL, "choice all_reduce 8", text, sizeof text) == 0, "choice without one");
    ranks_expect(me, tutti_query(NULL, "memory", text, sizeof text) == 0, "memory without one");
    ranks_expect(me, tutti_query(NULL, "price all_reduce 8", text, sizeof text) == 0, "price without one");
    size_t length = tutti_query(NULL, "config", NULL, 0);
    ranks_expect(me,
        length > 20 && tutti_query(NULL, "config", text, sizeof text) == length && strlen(text) == length,
        "config: %zu bytes, then \"%s\"", length, text);
    ranks_expect(me, tutti_query(NULL, "config", small, 4) == length && strlen(small) == 3 && small[4] == '.',
        "a short buffer holds \"%s\"", small);
    for (int status = -20; status < 5; status++) {
        const char *name = tutti_status_string((tutti_status)status);
        bool known = status <= 1 && status >= -11;
        ranks_expect(me, name != NULL && (strncmp(name, "TUTTI_", 6) == 0) == known, "status %d is \"%s\"",
            status, name != NULL ? name : "NULL");
    }
    ranks_expect(me, tutti_type_bytes((tutti_type)12) == 0 && tutti_type_bytes((tutti_type)-1) == 0,
        "an unknown type has bytes");
    ranks_expect(me, tutti_type_bytes(TUTTI_BFLOAT16) == 2 && tutti_type_bytes(TUTTI_UINT64) == 8,
        "wrong bytes of a type");
}

Test(api_local, questions)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = questions });
}

/* --- What a communicator costs */

static double price(struct ranks_me *me, const tutti_comm *comm, const char *what)
{
    char text[64] = "", *end;
    ranks_expect(me, tutti_query(comm, what, text, sizeof text) > 0, "%s: no answer", what);
    double us = strtod(text, &end);
    ranks_expect(me, us > 0 && *end == '\0', "%s: \"%s\"", what, text);
    return us;
}

static void costs(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    unsigned long long host = 0, pinned = 1, device = 1;
    char text[128];
    ranks_expect(me, price(me, comm, "price all_reduce 1M") < price(me, comm, "price all_reduce 1.5M"),
        "1.5 MiB cost no more than 1 MiB");
    ranks_expect(me, price(me, comm, "price all_reduce 64M") > 10 * price(me, comm, "price all_reduce 1M"),
        "64 MiB cost little more than 1 MiB");
    price(me, comm, "price barrier 0");
    static float area[2][1 << 18];
    ranks_expect(me, tutti_query(NULL, "price group", text, sizeof text) == 0, "without a group");
    tutti_group_start();
    ranks_expect(me, tutti_query(NULL, "price group", text, sizeof text) > 0 && strcmp(text, "0.000") == 0,
        "nothing costs %s", text);
    tutti_all_reduce(area[0], area[1], 1 << 18, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
    double one = price(me, NULL, "price group"), alone = price(me, comm, "price all_reduce 1M");
    ranks_expect(me, one == alone, "in a group it costs %g, alone %g", one, alone);
    tutti_send(area[0], 1 << 18, TUTTI_FLOAT32, (me->rank + 1) % me->n, comm, tutti_no_stream());
    double two = price(me, NULL, "price group");
    tutti_barrier(comm, tutti_no_stream());
    double three = price(me, NULL, "price group");
    ranks_expect(me, one < two && two < three, "the price is %g, %g, %g", one, two, three);
    ranks_ok(me, tutti_group_cancel(), "cancel");
    price(me, comm, "price all_to_all 4K");
    ranks_expect(me, tutti_query(comm, "price all_reduce", text, sizeof text) == 0, "without bytes");
    ranks_expect(me, tutti_query(comm, "price nothing 8", text, sizeof text) == 0, "of nothing");
    tutti_query(comm, "memory", text, sizeof text);
    int found = sscanf(text, "host=%llu pinned=%llu device=%llu", &host, &pinned, &device);
    ranks_expect(me, found == 3 && host > 100000 && pinned == 0 && device == 0, "memory: \"%s\"", text);
    ranks_part(me, comm);
}

Test(api_local, what_a_communicator_costs)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_PROCESSES, .run = costs });
}
