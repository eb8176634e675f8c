/* SPDX-License-Identifier: BSD-3-Clause */
/* own.c: calls that one rank makes by itself: questions, plain functions, local reductions. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 3000, GUARD = 0x5a, SOURCES = 6, ELEMENTS = 200 };

static uint32_t below(struct fuzz_rank *me, uint32_t bound)
{
    return ranks_below(&me->random, bound);
}

/* --- Questions */

static const char *any_word(struct fuzz_rank *me)
{
    static const char *const words[] = { "", " ", "all_reduce", "reduce", "barrier", "all_gather_v", "ring",
        "tree", "direct", "nothing", "0", "1", "2", "3", "4", "-1", "64K", "8T", "99999999999999999999",
        "in_place", "out_of_place", "exact", "json", "2x2", "0-1/2-3", "%s%n", "\n", "\xff\xfe" };
    return words[below(me, sizeof words / sizeof words[0])];
}

static const char *any_question(struct fuzz_rank *me, char *text, size_t bytes)
{
    static const char *const heads[] = { "version", "config", "variables", "transports", "cpu", "algorithms",
        "choice", "price", "memory", "why", "schedule", "paths", "executor", "lost_wakeups", "recorder",
        "attach", "devices", "", "Version", "recorder json ", "what" };
    int words = (int)below(me, 7);
    int length = snprintf(text, bytes, "%s", heads[below(me, sizeof heads / sizeof heads[0])]);
    for (int i = 0; i < words && (size_t)length < bytes; i++)
        length += snprintf(text + length, bytes - (size_t)length, " %s", any_word(me));
    if (below(me, 6) == 0)
        snprintf(text, bytes, "schedule %s %s %u %u %u %s", any_word(me), any_word(me), below(me, 9),
            below(me, 4), below(me, 4), below(me, 2) == 0 ? "in_place" : "out_of_place");
    if (below(me, 100) == 0)
        memset(text, 'a', bytes - 1);
    return text;
}

static void ask(struct fuzz_rank *me)
{
    static const uint32_t rooms[] = { 0, 1, 2, 80, ROOM };
    char question[1024] = "", text[ROOM + 1];
    size_t room = below(me, rooms[below(me, 5)] + 1);
    const char *what = below(me, 50) == 0 ? NULL : any_question(me, question, sizeof question);
    const tutti_comm *comm = below(me, 4) == 0 ? fuzz_junk(me) : below(me, 2) == 0 ? NULL : me->ends[0].comm;
    memset(text, GUARD, sizeof text);
    fuzz_at(
        me, "query \"%.900s\", %zu bytes, comm %p", what == NULL ? "NULL" : what, room, (const void *)comm);
    size_t length = tutti_query(comm, what, room == 0 && below(me, 2) == 0 ? NULL : text, room);
    fuzz_expect(me, "query", TUTTI_OK, FUZZ_OK);
    if (length == 0 && tutti_get_last_error(NULL)[0] == '\0')
        fuzz_fail(me, "there is no answer and no error");
    size_t written = room == 0 ? 0 : length < room ? length + 1 : room;
    if (room > 0 && memchr(text, 0, written) == NULL)
        fuzz_fail(me, "the text has no end; the answer has %zu bytes", length);
    for (size_t i = written; i < sizeof text; i++)
        if (text[i] != GUARD)
            fuzz_fail(me, "byte %zu behind %zu was written", i, written);
}

/* --- Plain functions */

static void ask_plain(struct fuzz_rank *me)
{
    int any = (int)below(me, 40) - 20;
    void *junk = fuzz_junk(me);
    tutti_type type;
    memcpy(&type, &any, sizeof any);
    fuzz_at(me, "plain functions, of %d and the handle %p", any, junk);
    fuzz_right(me, "type_bytes", (tutti_type_bytes(type) == 0) == (any < 0 || any > 11));
    fuzz_right(me, "status_string", tutti_status_string((tutti_status)any) != NULL);
    fuzz_right(me, "get_version", tutti_get_version() == TUTTI_VERSION);
    fuzz_right(me, "comm_rank", tutti_comm_rank(junk) == -1);
    fuzz_right(me, "comm_size", tutti_comm_size(junk) == -1);
    fuzz_right(me, "comm_device", tutti_comm_device(junk) == -1);
    fuzz_expect(me, "comm_state", tutti_comm_state(junk), FUZZ_ARGUMENT);
    fuzz_right(me, "get_last_error", tutti_get_last_error(junk) != NULL);
    for (int i = 0; i < FUZZ_ENDS; i++) {
        const struct fuzz_end *end = &me->ends[i];
        if (end->comm == NULL)
            continue;
        fuzz_right(me, "comm_rank", tutti_comm_rank(end->comm) == end->rank);
        fuzz_right(me, "comm_size", tutti_comm_size(end->comm) == end->n);
        fuzz_right(me, "comm_device", tutti_comm_device(end->comm) == -1);
        fuzz_expect(me, "comm_state", tutti_comm_state(end->comm), FUZZ_OK);
        fuzz_right(me, "get_last_error", tutti_get_last_error(end->comm)[0] == '\0');
    }
}

static void ask_error(struct fuzz_rank *me)
{
    static const uint32_t sizes[] = { 0, 1, 4, 8, 12, 24, 100, sizeof(tutti_error), sizeof(tutti_error) + 8 };
    union {
        tutti_error error;
        uint8_t bytes[sizeof(tutti_error) + 64];
    } box;
    memset(&box, GUARD, sizeof box);
    box.error.size = sizes[below(me, 9)];
    bool exact = box.error.size == sizeof(tutti_error), junk = below(me, 4) == 0;
    tutti_comm *comm = junk ? fuzz_junk(me) : me->ends[0].comm;
    size_t size = box.error.size;
    fuzz_at(me, "get_error of %p, %zu bytes", (void *)comm, size);
    tutti_status status = fuzz_expect(me, "comm_get_error", tutti_comm_get_error(comm, &box.error),
        junk    ? FUZZ_ARGUMENT
        : exact ? FUZZ_OK
                : FUZZ_OK | FUZZ_ARGUMENT);
    size_t from = status == TUTTI_OK ? size : sizeof box.error.size;
    for (size_t i = from < sizeof size ? sizeof size : from; i < sizeof box; i++)
        if (box.bytes[i] != GUARD)
            fuzz_fail(me, "byte %zu was written, status %d", i, status);
    fuzz_right(me, "comm_get_error", status != TUTTI_OK || !exact || box.error.status == TUTTI_OK);
    fuzz_expect(me, "comm_get_error", tutti_comm_get_error(me->ends[0].comm, NULL), FUZZ_ARGUMENT);
}

/* --- A reduction without ranks */

static void spoil_local(struct fuzz_rank *me, const void **sources, int *k, void **dst,
    struct ranks_vector *v, size_t *count, uint32_t *may)
{
    size_t bytes = tutti_type_bytes(v->type);
    int type = below(me, 2) == 0 ? -1 : 12 + (int)below(me, 600);
    *may = FUZZ_ARGUMENT;
    switch (below(me, 8)) {
    case 0:
        *k = -(int)below(me, 3);
        break;
    case 1:
        *dst = NULL;
        break;
    case 2:
        sources[below(me, (uint32_t)*k)] = NULL;
        break;
    case 3:
        *dst = (uint8_t *)*dst + (bytes > 1);
        *may = bytes > 1 ? FUZZ_ARGUMENT : FUZZ_OK;
        break;
    case 4:
        memcpy(&v->type, &type, sizeof type);
        *may = FUZZ_UNSUPPORTED;
        break;
    case 5:
        *count = SIZE_MAX / bytes - below(me, 9);
        break;
    case 6: /* a part of an operand, if there are two elements */
        *dst = *count > 1 ? (uint8_t *)sources[0] + bytes : NULL;
        break;
    default:
        v->op = below(me, 2) == 0 ? 5 + below(me, 11) : 256 + below(me, 5000);
        *may = v->op >= 256 ? FUZZ_ARGUMENT : FUZZ_UNSUPPORTED;
    }
}

static void reduce_local(struct fuzz_rank *me)
{
    static const tutti_op ops[] = { TUTTI_SUM, TUTTI_PROD, TUTTI_MAX, TUTTI_MIN, TUTTI_AVG, TUTTI_BIT_XOR };
    struct ranks_vector v = { (tutti_type)below(me, 12), TUTTI_SUM, ranks_random(&me->random), 0 };
    int k = 1 + (int)below(me, SOURCES);
    size_t count = 1 + below(me, ELEMENTS), bytes = tutti_type_bytes(v.type);
    const void *sources[SOURCES];
    uint32_t may = FUZZ_OK;
    v.op = ops[below(me, v.type >= TUTTI_FLOAT16 ? 5 : 6)];
    v.n = k;
    fuzz_settle(me);
    void *dst = fuzz_place(me, &me->pools[0], count * bytes, bytes);
    for (int i = 0; i < k; i++) {
        void *source = fuzz_place(me, &me->pools[i & 1], count * bytes, bytes);
        ranks_fill(&v, i, 0, count, source);
        memcpy(fuzz_shadow(me, source), source, count * bytes);
        sources[i] = source;
    }
    if (below(me, 4) == 0)
        dst = (void *)sources[below(me, (uint32_t)k)];
    struct ranks_vector right = v;
    if (below(me, 3) == 0)
        spoil_local(me, sources, &k, &dst, &v, &count, &may);
    if (may == FUZZ_OK)
        ranks_reduced(&right, 0, count, fuzz_shadow(me, dst));
    fuzz_at(me, "reduce_local of %d, %zu of type %d, op %u, to %p", k, count, (int)v.type, v.op, dst);
    fuzz_expect(me, "reduce_local", tutti_reduce_local(sources, k, dst, count, v.type, v.op), may);
    fuzz_compare(me);
}

/* --- Which */

void fuzz_own_step(struct fuzz_rank *me)
{
    switch (below(me, 20)) {
    case 0:
        ask(me);
        break;
    case 1:
        ask_plain(me);
        break;
    case 2:
        ask_error(me);
        break;
    case 3:
    case 4:
        reduce_local(me);
        break;
    case 5:
    case 6:
        fuzz_streams(me);
        break;
    case 7:
        fuzz_memory(me);
        break;
    case 8:
    case 9:
        fuzz_operators(me);
        break;
    case 10:
        fuzz_communicators(me);
        break;
    case 11:
        fuzz_programs(me);
        break;
    case 12:
    case 13:
        if (me->n == 1)
            fuzz_wild(me);
        else
            ask(me);
        break;
    default:
        fuzz_refusal(me, &me->ends[0]);
    }
}
