/* SPDX-License-Identifier: BSD-3-Clause */
/* test_segments.c: a rank hands memory of its device to the leader of its ranks, which maps it, and takes it
 * back. The leader is another process; what it finds it reads and writes as a kernel would. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "segment_rig.h"

TestSuite(segments, .init = rig_limit_time);

enum { BYTES = 100000, SHORT_MS = 50 };

static struct tt_dev_segment segment_of(size_t bytes)
{
    struct tt_dev_segment segment;
    cr_assert_eq(dev->segment.alloc(bytes, &segment), TT_DEV_OK);
    return segment;
}

static uint8_t *allocate(size_t bytes)
{
    void *memory;
    cr_assert_eq(dev->memory.alloc(bytes, &memory), TT_DEV_OK);
    return memory;
}

static void ask(struct tt_exporter *exporter, const void *ptr)
{
    struct tt_dev_pointer what = what_is(ptr);
    tt_exporter_ask(exporter, &what, TT_EXPORT_GIVEN);
}

/* As calls do, for memory that nobody handed over. */
static bool use(struct tt_exporter *exporter, const void *ptr)
{
    struct tt_dev_pointer what = what_is(ptr);
    uint32_t key;
    uint64_t offset;
    if (tt_exporter_find(exporter, ptr, 1, &what, 0, &key, &offset))
        return true;
    tt_exporter_ask(exporter, &what, TT_EXPORT_USED);
    return false;
}

static bool comes_to_be_used(struct tt_exporter *exporter, const void *ptr)
{
    bool there = false;
    for (int ms = 0; ms < ENOUGH_MS && !(there = use(exporter, ptr)); ms++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return there;
}

static void expect_added(struct tt_exporter *exporter, const void *ptr)
{
    struct tt_dev_pointer what = what_is(ptr);
    char why[TT_EXPORT_WHY] = "?";
    cr_assert(tt_exporter_add(exporter, &what, ENOUGH_MS, why), "%s", why);
    cr_assert_str_eq(why, "");
}

static void expect_refused(struct tt_exporter *exporter, const void *ptr, const char *part)
{
    struct tt_dev_pointer what = what_is(ptr);
    char why[TT_EXPORT_WHY] = "?";
    cr_assert_not(tt_exporter_add(exporter, &what, ENOUGH_MS, why));
    cr_expect_not_null(strstr(why, part), "%s", why);
}

static bool removed(struct tt_exporter *exporter, const void *ptr, int64_t timeout_ms)
{
    struct tt_dev_pointer what = what_is(ptr);
    return tt_exporter_remove(exporter, what.base, what.id, timeout_ms);
}

/* --- Handed over, found, used */

/* What travels as a descriptor is found some time after it was asked for, and both see what either writes. */
Test(segments, asked_for_in_a_call)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment segment = segment_of(BYTES);
    uint8_t *base = segment.base, *mine = stub->look(base + 1234);
    uint32_t key = 0;
    uint64_t offset = 0;
    cr_expect_not(found(exporter, base, BYTES, &key, &offset));
    *mine = 3;
    ask(exporter, base);
    cr_assert(comes_to_be_found(exporter, base + 1234, &key, &offset));
    cr_expect_eq(offset, 1234);
    cr_expect_eq(leader_peek(&leader, FOLLOWER, key, offset), 3);
    cr_expect(leader_poke(&leader, FOLLOWER, key, offset, 4));
    cr_expect_eq(*mine, 4);
    for (int i = 0; i < 3; i++)
        ask(exporter, base); /* it was */
    cr_expect_eq(stub->calls("segment_export_of"), 1);
    cr_expect(leader_comes_to_map(&leader, 1));
    tt_exporter_close(exporter);
    cr_expect(leader_comes_to_map(&leader, 0));
    leader_close_importer(&leader);
    leader_exit(&leader);
}

/* Memory of the user's is found as soon as it was added, at its offset, up to its last byte. */
Test(segments, registered)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *other = allocate(500), *memory = allocate(BYTES), *mine = stub->look(memory + BYTES - 1);
    uint32_t key = 0;
    uint64_t offset = 0;
    *mine = 3;
    expect_added(exporter, memory + 77);
    cr_expect(found(exporter, memory + 1, BYTES - 1, &key, &offset));
    cr_expect_eq(offset, 1);
    cr_expect_not(found(exporter, memory + 1, BYTES, &key, &offset));
    cr_expect_not(found(exporter, other, 1, &key, &offset));
    cr_expect_eq(leader_peek(&leader, FOLLOWER, key, BYTES - 1), 3);
    cr_expect(leader_find(&leader, FOLLOWER, key, 0, BYTES));
    cr_expect(leader_find(&leader, FOLLOWER, key, BYTES, 0));
    cr_expect_not(leader_find(&leader, FOLLOWER, key, 0, BYTES + 1));
    cr_expect_not(leader_find(&leader, FOLLOWER, key, BYTES + 1, 0));
    cr_expect_not(leader_find(&leader, FOLLOWER, key, UINT64_MAX, 2));
    cr_expect_not(leader_find(&leader, FOLLOWER, key + 1, 0, 1));
    cr_expect_not(leader_find(&leader, FOLLOWER, 0, 0, 0));
    cr_expect_not(leader_find(&leader, 0, key, 0, 1), "it is of another rank");
    cr_expect_not(leader_find(&leader, LEADER_RANKS, key, 0, 1));
    cr_expect_not(leader_find(&leader, -1, key, 0, 1));
    cr_expect(removed(exporter, memory, ENOUGH_MS));
    cr_expect_not(found(exporter, memory, 1, &key, &offset));
    cr_expect_eq(leader_mapped(&leader), 0);
    cr_expect_eq(dev->memory.free(memory), TT_DEV_OK, "%s", dev->why());
    tt_exporter_close(exporter);
    leader_close_importer(&leader);
    leader_exit(&leader);
}

/* Registered twice, it is there until it was taken back twice. */
Test(segments, registered_twice)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate(BYTES);
    uint32_t key, again;
    uint64_t offset;
    expect_added(exporter, memory);
    cr_expect(found(exporter, memory, 1, &key, &offset));
    expect_added(exporter, memory + 5);
    cr_expect(removed(exporter, memory, ENOUGH_MS));
    cr_expect(found(exporter, memory, 1, &again, &offset) && again == key);
    cr_expect(leader_comes_to_map(&leader, 1));
    cr_expect(removed(exporter, memory, ENOUGH_MS));
    cr_expect_eq(leader_mapped(&leader), 0);
    cr_expect(removed(exporter, memory, ENOUGH_MS), "there is nothing left to do");
}

/* What travels by a handle dies with its owner's free, so it is handed over only by who registers it. */
Test(segments, handles_want_to_be_registered)
{
    struct leader leader = leader_start("fds=0");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment segment = segment_of(BYTES);
    uint32_t key;
    uint64_t offset;
    for (int i = 0; i < 3; i++)
        ask(exporter, segment.base);
    cr_expect_eq(stub->calls("segment_export_of"), 1, "it is asked for once, and refused");
    cr_expect_not(found(exporter, segment.base, 1, &key, &offset));
    expect_added(exporter, segment.base);
    cr_expect(found(exporter, segment.base, 1, &key, &offset));
    cr_expect(removed(exporter, segment.base, ENOUGH_MS));
    cr_expect_eq(dev->segment.free(&segment), TT_DEV_OK, "%s", dev->why());
}

Test(segments, what_cannot_be_handed_over)
{
    struct leader leader = leader_start("exports=0,devices=2");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment segment = segment_of(BYTES);
    void *managed, *pinned;
    uint32_t key;
    uint64_t offset;
    expect_added(exporter, segment.base);
    cr_assert_eq(dev->memory.alloc_managed(BYTES, &managed), TT_DEV_OK);
    cr_assert_eq(dev->memory.alloc_pinned(BYTES, &pinned), TT_DEV_OK);
    expect_refused(exporter, managed, "no memory of the communicator's device alone");
    expect_refused(exporter, pinned, "no memory of the communicator's device alone");
    expect_refused(exporter, &leader, "no memory of the communicator's device alone");
    expect_refused(exporter, allocate(BYTES), "of a pool");
    dev->use(1);
    expect_refused(exporter, segment_of(BYTES).base, "no memory of the communicator's device alone");
    dev->use(0);
    cr_expect(found(exporter, segment.base, BYTES, &key, &offset), "it has gone with the others");
    cr_expect(leader_comes_to_map(&leader, 1));
}

Test(segments, import_that_fails_is_told)
{
    struct leader leader = leader_start("fail=segment_import:1:no_memory");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate(BYTES);
    uint32_t key;
    uint64_t offset;
    expect_refused(exporter, memory, "told to fail");
    cr_expect_not(found(exporter, memory, 1, &key, &offset));
    expect_added(exporter, memory); /* which asks again */
    cr_expect(found(exporter, memory, 1, &key, &offset));
}

/* --- Freed, and allocated again */

/* The leader still has what was there before; a call never finds that. */
Test(segments, another_allocation_at_the_address)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment segment = segment_of(BYTES), again;
    uint32_t key, other;
    uint64_t offset;
    ask(exporter, segment.base);
    cr_assert(comes_to_be_found(exporter, segment.base, &key, &offset));
    cr_assert_eq(dev->segment.free(&segment), TT_DEV_OK);
    again = segment_of(BYTES);
    *(uint8_t *)stub->look(again.base) = 9;
    ask(exporter, again.base);
    cr_assert(comes_to_be_found(exporter, again.base, &other, &offset));
    cr_expect_neq(other, key);
    cr_expect_eq(leader_peek(&leader, FOLLOWER, other, 0), 9);
    cr_expect(leader_comes_to_map(&leader, 1), "what was freed is unmapped");
    cr_expect_not(leader_find(&leader, FOLLOWER, key, 0, 1));
}

Test(segments, another_allocation_is_not_found_by_itself)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment segment = segment_of(BYTES);
    void *base = segment.base;
    uint32_t key;
    uint64_t offset;
    ask(exporter, base);
    cr_assert(comes_to_be_found(exporter, base, &key, &offset));
    cr_assert_eq(dev->segment.free(&segment), TT_DEV_OK);
    cr_assert_eq(segment_of(BYTES).base, base, "else this shows nothing");
    cr_expect_not(found(exporter, base, 1, &key, &offset));
    cr_expect_not(found(exporter, base, 1, &key, &offset));
    for (int ms = 0; ms < ENOUGH_MS && leader_mapped(&leader) > 0; ms++) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        cr_expect_not(found(exporter, base, 1, &key, &offset));
    }
    cr_expect_eq(leader_mapped(&leader), 0);
}

/* A large one lies where many were that were freed, and next to one that was not. */
Test(segments, larger_allocation_over_several)
{
    enum { SMALL = 1 << 16, MANY = 20 };
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment small[MANY], large;
    const uint8_t *bases[MANY];
    uint32_t key, keys[MANY];
    uint64_t offset;
    for (int i = 0; i < MANY; i++) {
        small[i] = segment_of(SMALL);
        bases[i] = small[i].base;
        expect_added(exporter, bases[i]);
        cr_assert(found(exporter, bases[i], 1, &keys[i], &offset));
    }
    for (int i = 0; i < MANY - 1; i++)
        cr_assert_eq(dev->segment.free(&small[i]), TT_DEV_OK);
    large = segment_of(MANY * SMALL); /* between the small ones were gaps */
    cr_assert_eq(large.base, bases[0], "else this shows nothing");
    expect_added(exporter, large.base);
    for (int i = 0; i < MANY - 1; i++) {
        cr_expect(found(exporter, bases[i], 1, &key, &offset), "what was number %d hides it", i);
        cr_expect(key != keys[i] && offset == (uint64_t)(bases[i] - bases[0]));
    }
    cr_expect(found(exporter, bases[MANY - 1], 1, &key, &offset) && key == keys[MANY - 1]);
    for (int ms = 0; ms < ENOUGH_MS && leader_mapped(&leader) > 2; ms++)
        found(exporter, bases[0], 1, &key, &offset); /* which tells the leader of what is left to tell */
    cr_expect(leader_comes_to_map(&leader, 2));
}

/* Nobody comes to the address again; the leader lets go of it when other memory is handed over. */
Test(segments, freed_memory_is_noticed)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment freed[20], last = { 0 };
    uint32_t key;
    uint64_t offset;
    for (int i = 0; i < 20; i++) {
        freed[i] = segment_of(BYTES);
        ask(exporter, freed[i].base);
        cr_assert(comes_to_be_found(exporter, freed[i].base, &key, &offset));
    }
    for (int i = 0; i < 20; i++)
        cr_assert_eq(dev->segment.free(&freed[i]), TT_DEV_OK);
    segment_of(20 * 2 * BYTES); /* the addresses, and nobody uses it in a call */
    for (int i = 0; i < 5; i++) {
        last = segment_of(BYTES);
        ask(exporter, last.base);
        cr_assert(comes_to_be_found(exporter, last.base, &key, &offset));
    }
    for (int ms = 0; ms < ENOUGH_MS && leader_mapped(&leader) > 5; ms++) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        cr_expect(found(exporter, last.base, 1, &key, &offset));
    }
    cr_expect(leader_comes_to_map(&leader, 5));
}

/* Nor is anything else handed over: calls that go on with what is there notice it. */
Test(segments, freed_memory_is_noticed_by_calls)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment segments[3];
    uint32_t key;
    uint64_t offset;
    for (int i = 0; i < 3; i++) {
        segments[i] = segment_of(BYTES);
        expect_added(exporter, segments[i].base);
    }
    cr_assert_eq(dev->segment.free(&segments[0]), TT_DEV_OK);
    cr_assert_eq(dev->segment.free(&segments[1]), TT_DEV_OK);
    for (int i = 0; i < 100; i++)
        cr_expect(found(exporter, segments[2].base, 1, &key, &offset));
    cr_expect(leader_comes_to_map(&leader, 1));
}

/* --- In use */

/* A round has begun that may have found it: it stays mapped until that is over; no later round finds it. */
Test(segments, a_round_keeps_it_mapped)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate(BYTES);
    uint32_t key;
    uint64_t offset;
    *(uint8_t *)stub->look(memory) = 3;
    expect_added(exporter, memory);
    cr_assert(found(exporter, memory, 1, &key, &offset));
    leader_begin(&leader, 1);
    leader_over(&leader, 1);
    leader_begin(&leader, 2);
    cr_expect_eq(leader_peek(&leader, FOLLOWER, key, 0), 3);
    cr_expect_not(removed(exporter, memory, SHORT_MS), "it was told that it may free the memory");
    cr_expect(leader_comes_to_lose(&leader, FOLLOWER, key));
    cr_expect_eq(leader_peek_again(&leader), 3);
    leader_over(&leader, 1); /* the one before */
    rig_sleep();
    cr_expect_eq(leader_peek_again(&leader), 3);
    leader_over(&leader, 2);
    cr_expect(leader_comes_to_map(&leader, 0));
    cr_expect_eq(dev->memory.free(memory), TT_DEV_OK, "%s", dev->why());
}

/* A call of this rank names it that is not over: the leader is not even told. */
Test(segments, a_call_keeps_it_mapped)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate(BYTES);
    struct tt_dev_pointer what = what_is(memory);
    uint32_t key;
    uint64_t offset;
    expect_added(exporter, memory);
    atomic_store(&calls_over, 6);
    cr_assert(tt_exporter_find(exporter, memory, 1, &what, 7, &key, &offset));
    cr_assert(tt_exporter_find(exporter, memory, 1, &what, 0, &key, &offset)); /* one that has no number */
    cr_expect_not(removed(exporter, memory, SHORT_MS));
    cr_expect(leader_find(&leader, FOLLOWER, key, 0, 1));
    cr_expect_not(found(exporter, memory, 1, &key, &offset));
    cr_expect(leader_find(&leader, FOLLOWER, key, 0, 1));
    atomic_store(&calls_over, 7);
    cr_expect_not(found(exporter, memory, 1, &key, &offset)); /* as any call does, it tells the leader */
    cr_expect(leader_comes_to_map(&leader, 0));
}

/* So does one in a graph, as often as it was captured. */
Test(segments, a_graph_keeps_it_mapped)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate(BYTES);
    uint32_t key, none;
    uint64_t offset;
    expect_added(exporter, memory);
    cr_assert(found(exporter, memory, 1, &key, &offset));
    tt_exporter_hold(exporter, key);
    tt_exporter_hold(exporter, key);
    cr_expect_not(removed(exporter, memory, SHORT_MS));
    tt_exporter_release(exporter, key);
    cr_expect_not(found(exporter, memory, 1, &none, &offset));
    rig_sleep();
    cr_expect(leader_find(&leader, FOLLOWER, key, 0, 1));
    tt_exporter_release(exporter, key);
    cr_expect_not(found(exporter, memory, 1, &none, &offset));
    cr_expect(leader_comes_to_map(&leader, 0));
}

/* --- Many */

Test(segments, hundreds)
{
    enum { MANY = 600 };
    static uint8_t *memory[MANY];
    static uint32_t keys[MANY];
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint64_t offset;
    for (int i = 0; i < MANY; i++) {
        memory[i] = allocate(5000);
        *(uint8_t *)stub->look(memory[i] + 4999) = (uint8_t)(i * 7);
    }
    for (int i = 0; i < MANY; i++)
        expect_added(exporter, memory[i * 37 % MANY]);
    for (int i = 0; i < MANY; i++) {
        cr_assert(found(exporter, memory[i] + 4999, 1, &keys[i], &offset));
        cr_assert_eq(offset, 4999);
        cr_assert_eq(leader_peek(&leader, FOLLOWER, keys[i], 4999), (uint8_t)(i * 7));
    }
    for (int i = 0; i < MANY; i += 2)
        cr_assert(removed(exporter, memory[i], ENOUGH_MS));
    cr_expect(leader_comes_to_map(&leader, MANY / 2));
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(found(exporter, memory[i], 1, &keys[i], &offset), i % 2 == 1);
    tt_exporter_close(exporter);
    cr_expect(leader_comes_to_map(&leader, 0));
}

Test(segments, no_key_comes_again)
{
    enum { TIMES = 300 };
    static uint32_t keys[TIMES];
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory[2] = { allocate(5000), allocate(5000) };
    uint64_t offset;
    for (int i = 0; i < TIMES; i++) {
        expect_added(exporter, memory[i % 2]);
        cr_assert(found(exporter, memory[i % 2], 1, &keys[i], &offset));
        cr_assert(removed(exporter, memory[i % 2], ENOUGH_MS));
        for (int k = 0; k < i; k++)
            cr_assert_neq(keys[k], keys[i]);
    }
}

/* --- What calls use, though nobody has handed it over */

/* Memory of any kind that can be exported; another allocation at its address is another one, and the old
 * import goes; what cannot be exported is asked for once. Who registers it as well takes back only that. */
Test(segments, used)
{
    struct leader leader = leader_start("one_address=1");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate(BYTES), *again;
    uint32_t key, other;
    uint64_t offset;
    cr_expect(comes_to_be_used(exporter, memory));
    cr_expect(found(exporter, memory, BYTES, &key, &offset));
    dev->memory.free(memory); /* which it complains of: as is said of this setting (docs/settings.md) */
    again = allocate(BYTES);
    cr_assert_eq(again, memory, "the test is to have one address twice");
    cr_expect_not(use(exporter, again), "it is found by the key of what was freed");
    cr_expect(comes_to_be_used(exporter, again));
    cr_expect(found(exporter, again, BYTES, &other, &offset));
    cr_expect_neq(other, key);
    cr_expect(leader_comes_to_lose(&leader, FOLLOWER, key));
    cr_expect(leader_comes_to_map(&leader, 1));
    expect_added(exporter, again);
    cr_expect(found(exporter, again, BYTES, &key, &offset));
    cr_expect_eq(other, key, "it is mapped twice");
    cr_expect(removed(exporter, again, ENOUGH_MS));
    cr_expect(leader_comes_to_map(&leader, 0));
    cr_expect(comes_to_be_used(exporter, again));
    tt_exporter_close(exporter);
    cr_expect(leader_comes_to_map(&leader, 0));
}

Test(segments, used_of_a_pool)
{
    enum { TIMES = 50 };
    struct leader leader = leader_start("exports=0");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate(BYTES);
    for (int i = 0; i < TIMES; i++)
        cr_expect_not(use(exporter, memory));
    cr_expect_eq(stub->calls("segment_export_of"), 1, "it was asked for %d times",
        (int)stub->calls("segment_export_of"));
    cr_expect_eq(leader_mapped(&leader), 0);
}

/* Who goes through more than are kept has some of them mapped, and those stay; what is not used any more
 * makes room. */
Test(segments, used_are_bounded)
{
    enum { MOST = TT_EXPORT_USED_MOST, MANY = MOST + 40, ROUNDS = 12 };
    static uint8_t *memory[MANY];
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    int there = 0;
    uint8_t *registered = allocate(5000);
    uint32_t key;
    uint64_t offset;
    expect_added(exporter, registered);
    for (int i = 0; i < MANY; i++)
        memory[i] = allocate(5000);
    for (int round = 0; round < ROUNDS; round++) {
        there = 0;
        for (int i = 0; i < MANY; i++)
            there += use(exporter, memory[i]);
        rig_sleep();
        cr_assert_leq(leader_mapped(&leader), MOST + 1);
    }
    cr_expect_eq(there, MOST);
    uint64_t exports = stub->calls("segment_export_of");
    for (int i = 0; i < MANY; i++)
        use(exporter, memory[i]);
    cr_expect_eq(stub->calls("segment_export_of"), exports, "they go and come");
    for (int i = 0; i < 3 * MOST; i++)
        use(exporter, memory[i % 10]);
    cr_expect(comes_to_be_used(exporter, memory[MANY - 1]), "what is not used makes no room");
    use(exporter, memory[0]); /* and tells the leader what has gone */
    cr_expect(leader_comes_to_map(&leader, MOST + 1));
    cr_expect(found(exporter, registered, 5000, &key, &offset), "what was handed over has gone");
}

/* What was freed counts no more among those that are kept. */
Test(segments, used_may_be_freed_for_ever)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    for (int i = 0; i < TT_EXPORT_USED_MOST + 40; i++) {
        struct tt_dev_segment segment = segment_of(5000);
        cr_assert(comes_to_be_used(exporter, segment.base), "number %d is not", i);
        cr_assert_eq(dev->segment.free(&segment), TT_DEV_OK);
    }
}

/* Neither process keeps a descriptor of what it has handed over, or mapped; the stub has one for each. */
Test(segments, descriptors_are_closed)
{
    enum { MANY = 20 };
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    int before = leader_descriptors(&leader), mine;
    struct leader self = { .pid = getpid() };
    struct tt_dev_segment segments[MANY];
    for (int i = 0; i < MANY; i++)
        segments[i] = segment_of(5000);
    mine = leader_descriptors(&self);
    for (int i = 0; i < MANY; i++)
        expect_added(exporter, segments[i].base);
    cr_expect_eq(leader_descriptors(&self), mine);
    for (int i = 0; i < MANY; i++)
        cr_expect(removed(exporter, segments[i].base, ENOUGH_MS));
    cr_expect_eq(leader_descriptors(&leader), before);
}

/* Calls that ask for much do not wait for the leader, which maps all of it in time. */
Test(segments, much_is_asked_for_at_once)
{
    enum { MANY = 200 };
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment segments[MANY];
    uint32_t key;
    uint64_t offset;
    int there = 0;
    for (int i = 0; i < MANY; i++)
        segments[i] = segment_of(5000);
    leader_stop(&leader);
    for (int i = 0; i < MANY; i++)
        if (!found(exporter, segments[i].base, 1, &key, &offset))
            ask(exporter, segments[i].base);
    leader_go_on(&leader);
    for (int ms = 0; ms < ENOUGH_MS && there < MANY; ms++) {
        there = 0;
        for (int i = 0; i < MANY; i++)
            if (found(exporter, segments[i].base, 1, &key, &offset))
                there++;
            else
                ask(exporter, segments[i].base);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    cr_expect_eq(there, MANY);
    cr_expect(leader_comes_to_map(&leader, MANY));
}
