/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_op.c: a user's operators through every reducing collective and algorithm.
 *
 * The operators are associative and, but for one, not commutative, on integers: an operand out of its
 * place, missing or taken twice, or an element that was split, gives other bits. Elements have 16, 24, 32
 * and 4096 bytes in slots of 8 KiB, so messages are cut between them. Each rank makes its operators in an
 * order of its own: ids differ. Under exact the operator need not even be associative: all must get its
 * canonical tree. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"

TestSuite(api_op, .timeout = 240);

enum { SLICE = 8192, MOST_BYTES = 65 * 4096, ROOM = MOST_BYTES + 16, COUNTS = 4 };
enum collective { ALL_REDUCE, REDUCE, REDUCE_SCATTER, COLLECTIVES };
static const char *const names[] = { "all_reduce", "reduce", "reduce_scatter" };

/* --- The operators */

/* Maps x -> a x + b modulo 2^64; left after right. An element is *context / 16 maps. */
static void affine(void *dst, const void *left, const void *right, size_t count, void *context)
{
    size_t maps = *(const size_t *)context / 16 * count;
    for (size_t i = 0; i < maps; i++) {
        uint64_t l[2], r[2];
        memcpy(l, (const uint8_t *)left + i * 16,
            16); /* they may be misaligned: the type of the call is uint8 */
        memcpy(r, (const uint8_t *)right + i * 16, 16);
        uint64_t both[2] = { l[0] * r[0], l[0] * r[1] + l[1] };
        memcpy((uint8_t *)dst + i * 16, both, 16);
    }
}

/* Products of 2 x 2 matrices modulo 2^64. */
static void matrices(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        const uint64_t *l = (const uint64_t *)left + i * 4, *r = (const uint64_t *)right + i * 4;
        uint64_t p[4] = { l[0] * r[0] + l[1] * r[2], l[0] * r[1] + l[1] * r[3], l[2] * r[0] + l[3] * r[2],
            l[2] * r[1] + l[3] * r[3] };
        memcpy((uint64_t *)dst + i * 4, p, sizeof p);
    }
}

/* The largest of three numbers' first, with what stands beside it; commutes. */
static void largest(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        const uint32_t *l = (const uint32_t *)left + i * 6, *r = (const uint32_t *)right + i * 6;
        bool first = memcmp(l, r, 24) > 0;
        memmove((uint32_t *)dst + i * 6, first ? l : r, 24);
    }
}

/* Neither commutative nor associative. */
static void merkle(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((uint64_t *)dst)[i] = ranks_mix(3 * ((const uint64_t *)left)[i] + 5 * ((const uint64_t *)right)[i]);
}

struct operator_row {
    const char *name;
    tutti_reduce_fn fn;
    size_t bytes;
    int commutes;
    tutti_type type;
    size_t offset; /* of the buffers, in bytes */
    size_t counts[COUNTS]; /* in the operator's elements */
};
static const struct operator_row rows[] = {
    { "maps on uint8", affine, 16, 0, TUTTI_UINT8, 3, { 0, 1, 37, 1500 } },
    { "matrices on uint64", matrices, 32, 0, TUTTI_UINT64, 8, { 1, 9, 600, 257 } },
    { "long maps on int32", affine, 4096, 0, TUTTI_INT32, 4, { 1, 2, 7, 65 } },
    { "largest on float32", largest, 24, 1, TUTTI_FLOAT32, 0, { 3, 1, 342, 800 } },
    { "merkle on uint64", merkle, 8, 0, TUTTI_UINT64, 0, { 1, 2, 1025, 5000 } },
};
enum { ROWS = sizeof rows / sizeof rows[0], MERKLE = ROWS - 1 };

/* --- What must come of them */

static void fill(const struct operator_row *o, int rank, size_t elements, uint8_t *dst)
{
    for (size_t at = 0; at < elements * o->bytes; at += 8) {
        uint64_t word =
            ranks_mix((uint64_t)rank * 1000003 + at) | (at % 16 == 0); /* maps that lose nothing */
        memcpy(dst + at, &word, 8);
    }
}

/* Combine `left` with what ranks [first, first + k) give, as a tree or in a row; `left` then holds it. */
static void expect(const struct operator_row *o, bool tree, int first, int k, size_t elements, uint8_t *left)
{
    int split = k - 1;
    if (k == 1) {
        fill(o, first, elements, left);
        return;
    }
    if (tree)
        for (split = 1; 2 * split < k;)
            split *= 2;
    uint8_t *right = malloc(elements * o->bytes + 8);
    if (right == NULL)
        abort();
    size_t bytes = o->bytes;
    expect(o, tree, first, split, elements, left);
    expect(o, tree, first + split, k - split, elements, right);
    o->fn(left, left, right, elements, &bytes);
    free(right);
}

struct rig {
    tutti_comm *comm;
    bool exact;
    tutti_op ops[ROWS];
    size_t bytes[ROWS]; /* their contexts */
    struct ranks_buffer send, recv;
    uint8_t *expected;
};

struct one { /* a call */
    enum collective collective;
    const struct operator_row *o;
    tutti_op op;
    size_t elements; /* of the vector, or of a block */
    int root;
    bool in_place;
};

static tutti_status call(struct rig *rig, const struct one *c, const void *send, void *recv)
{
    size_t count = c->elements * c->o->bytes / tutti_type_bytes(c->o->type);
    switch (c->collective) {
    case ALL_REDUCE:
        return tutti_all_reduce(send, recv, count, c->o->type, c->op, rig->comm, tutti_no_stream());
    case REDUCE:
        return tutti_reduce(send, recv, count, c->o->type, c->op, c->root, rig->comm, tutti_no_stream());
    default:
        return tutti_reduce_scatter(send, recv, count, c->o->type, c->op, rig->comm, tutti_no_stream());
    }
}

static tutti_status run_one(struct ranks_me *me, struct rig *rig, const struct one *c)
{
    bool blocks = c->collective == REDUCE_SCATTER, has = c->collective != REDUCE || c->root == me->rank;
    size_t vector = c->elements * (blocks ? (size_t)me->n : 1), bytes = c->elements * c->o->bytes;
    size_t own = blocks ? (size_t)me->rank * bytes : 0;
    uint8_t *send = ranks_buffer_place(&rig->send, vector * c->o->bytes, c->o->offset);
    uint8_t *recv = ranks_buffer_place(&rig->recv, has && !c->in_place ? bytes : 0, c->o->offset);
    ranks_at(me, "n %d rank %d: %s of %zu, %s, root %d, %s", me->n, me->rank, names[c->collective],
        c->elements, c->o->name, c->root, c->in_place ? "in place" : "out of place");
    fill(c->o, me->rank, vector, send);
    if (c->in_place && has)
        recv = send + own;
    tutti_status status = call(rig, c, send, has ? recv : NULL);
    if (status != TUTTI_OK)
        return status;
    expect(c->o, rig->exact, 0, me->n, vector, rig->expected);
    ranks_expect(me, !has || memcmp(recv, rig->expected + own, bytes) == 0, "the result is wrong");
    if (!c->in_place || !has) {
        fill(c->o, me->rank, vector, rig->expected);
        ranks_expect(me, memcmp(send, rig->expected, vector * c->o->bytes) == 0, "send was written");
    }
    ranks_buffer_check(me, &rig->send, "send");
    ranks_buffer_check(me, &rig->recv, "recv");
    return status;
}

/* --- All of it */

static bool rig_open(struct ranks_me *me, struct rig *rig, const char *options, bool exact)
{
    tutti_config config = {
        .size = sizeof config, .options = options, .flags = exact ? TUTTI_COMM_EXACT : 0
    };
    *rig = (struct rig){ .comm = ranks_join(me, &config), .exact = exact };
    if (rig->comm == NULL)
        return false;
    for (int i = 0; i < ROWS; i++) {
        int row = (i + me->rank) % ROWS;
        const struct operator_row *o = &rows[row];
        rig->bytes[row] = o->bytes;
        ranks_ok(me,
            tutti_op_create(rig->comm, o->fn, &rig->bytes[row], o->bytes, o->commutes, &rig->ops[row]),
            "op_create");
    }
    rig->expected = malloc((size_t)me->n * ROOM);
    return ranks_buffer_create(me, &rig->send, (size_t)me->n * ROOM, me->rank % 2 == 1) &&
           ranks_buffer_create(me, &rig->recv, ROOM, me->rank % 3 == 1) && rig->expected != NULL;
}

static void rig_close(struct ranks_me *me, struct rig *rig)
{
    for (int i = 0; i < ROWS; i += 2) /* the others go with the communicator */
        ranks_ok(me, tutti_op_destroy(rig->comm, rig->ops[i]), "op_destroy");
    ranks_part(me, rig->comm);
    ranks_buffer_free(me, &rig->send);
    ranks_buffer_free(me, &rig->recv);
    free(rig->expected);
}

/* What must be refused: an association whose operands do not stand in rank order, and messages of several
 * chunks of which not even one element each fits a slot. NULL: nothing. */
static const char *refusal(const struct operator_row *o, enum collective collective, const char *algorithm,
    const struct rig *rig, int n)
{
    int chunks = 1;
    while (2 * chunks <= n)
        chunks *= 2;
    bool rotates = strcmp(algorithm, "ring") == 0 || strcmp(algorithm, "circulant") == 0 ||
                   (collective == REDUCE && strcmp(algorithm, "tree") == 0);
    if (!rig->exact && !o->commutes && rotates)
        return "rank order|eligible: |direct";
    int longest = chunks == n ? chunks / 2 : chunks; /* the vector of who hands in, else half of it */
    if (strcmp(algorithm, "halving") == 0 && (size_t)longest * o->bytes > SLICE)
        return "4096 bytes|halving|up to";
    return NULL;
}

static void one_algorithm(struct ranks_me *me, enum collective collective, const char *name, bool exact)
{
    struct rig rig;
    char options[96];
    snprintf(options, sizeof options, "slice=%d;algo=%s:%s", SLICE, names[collective], name);
    if (!rig_open(me, &rig, options, exact))
        return;
    for (int i = 0; i < (exact ? ROWS : MERKLE) * COUNTS * 2; i++) {
        struct one c = { .collective = collective, .o = &rows[i / 2 / COUNTS], .in_place = i % 2 == 1 };
        c.op = rig.ops[i / 2 / COUNTS];
        c.elements = c.o->counts[i / 2 % COUNTS];
        if (collective == REDUCE_SCATTER && c.elements > 40)
            c.elements /= 4;
        for (c.root = 0; c.root < (collective == REDUCE && i / 2 % COUNTS < 2 ? me->n : 1); c.root++) {
            tutti_status status = run_one(me, &rig, &c);
            const char *words = refusal(c.o, collective, name, &rig, me->n);
            if (words != NULL)
                ranks_refused(me, status, words[0] == 'r' ? TUTTI_INVALID_USAGE : TUTTI_UNSUPPORTED,
                    names[collective], words);
            else
                ranks_ok(me, status, names[collective]);
        }
    }
    rig_close(me, &rig);
}

static void all_algorithms(struct ranks_me *me)
{
    bool exact = me->context != NULL;
    tutti_config config = { .size = sizeof config, .flags = exact ? TUTTI_COMM_EXACT : 0 };
    tutti_comm *comm = ranks_join(me, &config);
    char name[32];
    int served = 0;
    for (int c = 0; comm != NULL && c < COLLECTIVES; c++)
        for (int k = 0; k < ranks_algorithm(comm, names[c], k, name, sizeof name); k++, served++)
            one_algorithm(me, (enum collective)c, name, exact);
    ranks_expect(me, served >= (exact ? 6 : 11), "only %d algorithms", served);
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_op, processes)
{
    static const int ns[] = { 1, 2, 3, 5, 8, 9 };
    for (int i = 0; i < 6; i++)
        ranks_run(&(struct ranks_plan){ .n = ns[i], .run = all_algorithms });
}

Test(api_op, threads)
{
    static const int ns[] = { 2, 3, 4, 6, 7, 9 };
    for (int i = 0; i < 6; i++)
        ranks_run(&(struct ranks_plan){ .n = ns[i], .kind = RANKS_TOGETHER, .run = all_algorithms });
}

Test(api_op, exact)
{
    for (int n = 1; n <= 9; n++)
        ranks_run(&(struct ranks_plan){ .n = n,
            .kind = n % 2 ? RANKS_PROCESSES : RANKS_THREADS,
            .run = all_algorithms,
            .context = "exact" });
}

/* Blocks of different length, some empty: each is cut between the operator's elements, too. */
static void unequal_blocks(struct ranks_me *me)
{
    struct rig rig;
    if (!rig_open(me, &rig, "slice=8K", false))
        return;
    for (int i = 0; i < MERKLE; i++) {
        const struct operator_row *o = &rows[i];
        size_t counts[RANKS_MAX], unit = o->bytes / tutti_type_bytes(o->type), total = 0, first = 0;
        for (int r = 0; r < me->n; r++) {
            counts[r] = r % 3 == 1 ? 0 : (size_t)(40 + r) * unit;
            first += r < me->rank ? counts[r] / unit : 0;
            total += counts[r] / unit;
        }
        ranks_at(me, "n %d rank %d: reduce_scatter_v, %s", me->n, me->rank, o->name);
        size_t bytes = counts[me->rank] / unit * o->bytes;
        uint8_t *send = ranks_buffer_place(&rig.send, total * o->bytes, o->offset);
        uint8_t *recv = ranks_buffer_place(&rig.recv, bytes, o->offset);
        fill(o, me->rank, total, send);
        tutti_status status =
            tutti_reduce_scatter_v(send, counts, recv, o->type, rig.ops[i], rig.comm, tutti_no_stream());
        expect(o, false, 0, me->n, total, rig.expected);
        ranks_ok(me, status, "reduce_scatter_v");
        ranks_expect(me, memcmp(recv, rig.expected + first * o->bytes, bytes) == 0, "the result is wrong");
        ranks_buffer_check(me, &rig.recv, "recv");
        counts[0]++; /* an element would be split */
        status = tutti_reduce_scatter_v(send, counts, recv, o->type, rig.ops[i], rig.comm, tutti_no_stream());
        ranks_refused(me, status, TUTTI_INVALID_ARGUMENT, "reduce_scatter_v", "count is |a multiple of ");
    }
    rig_close(me, &rig);
}

Test(api_op, blocks_of_different_length)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = unequal_blocks });
    ranks_run(&(struct ranks_plan){ .n = 5, .kind = RANKS_TOGETHER, .run = unequal_blocks });
}
