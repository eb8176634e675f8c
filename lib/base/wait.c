/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.c: spin, yield, sleep; and the bell that ends a sleep.
 *
 * Sleeping takes two calls of tt_wait_idle. The first arms: it remembers the words of the bells, says
 * `sleeping` and fences, and lets the caller poll once more. The second sleeps, unless a word has changed
 * since. Once armed a waiter stays so through any number of wake-ups, because a ringer that sees `sleeping`
 * changes the word after it wrote its data: either the word read before a poll is the old one, and the sleep
 * returns at once, or the poll sees the data. tests/base/test_wait.c walks through all interleavings of this.
 *
 * Whether a wake-up was lost cannot be told at the moment a sleep times out: the ringer may have been
 * preempted between its data and its ring. So the bit stays set and the ring is awaited a while before it
 * counts as lost. */
#include "base/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { SPINNING, YIELDING, ARMED }; /* tt_wait_is_long and _asleep know their order */
enum { TICK_NS = TT_TICK_MS * 1000000, NAP_NS = 1000000, FIRST_NAP_NS = 20000 };
enum { JUDGE_NS = 50 * 1000000, JUDGE_TURNS = 50 };
enum { LOOK_NS = 50000, LOOK_PART = 1000 };
enum { LONG_NS = 2000000 }; /* of a sleep */
enum { MEMORY_NS = 10 }; /* of a poll that finds a line as it was */

/* The system's headers may be older than the call. */
enum { CALL_FUTEX_WAITV = 449, WAITV_32_BITS = 2 };
struct waitv {
    uint64_t value, address;
    uint32_t flags, reserved;
};

/* The time that a yield takes tells who is on the core: nobody else below the first, others that give way, as
 * ranks do that wait, up to the second, and beyond it programs that do not. */
enum { ALONE_NS = 1500, GIVES_WAY_NS = 200000 };

static _Atomic uint64_t lost;
static _Atomic bool no_waitv;

/* The last yield of this thread let a rank run, so spinning would only keep that one from the core. Ranks
 * begin so where the system put them all on the core of who started them, and may be left there. */
static _Thread_local bool shares_core __attribute__((tls_model("initial-exec")));

static void wake(struct tt_doorbell *bell)
{
    atomic_fetch_add(&bell->word, 1);
    syscall(SYS_futex, &bell->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    int event = atomic_load(&bell->event);
    if (event != 0)
        eventfd_write(event - 1, 1);
}

static void wake_sleeper(struct tt_doorbell *bell)
{
    if (atomic_load_explicit(&bell->sleeping, memory_order_relaxed) != 0)
        wake(bell);
}

void tt_doorbell_ring(struct tt_doorbell *bell)
{
    atomic_thread_fence(memory_order_seq_cst); /* the data before the look at `sleeping` */
    wake_sleeper(bell);
}

void tt_doorbell_ring_many(struct tt_doorbell *const *bells, int n)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < n; i++)
        wake_sleeper(bells[i]);
}

void tt_doorbell_ring_always(struct tt_doorbell *bell)
{
    wake(bell);
}

/* Returns how calls wait. Where ranks share cores (`collperf -g 8` on two), spinning only keeps the awaited
 * rank from its core, and a yield is what lets it run. With a core for each, the spin covers what a peer that
 * is awake needs to answer. */
struct tt_wait_policy tt_wait_policy_on(int ranks, int cores)
{
    if (ranks <= cores)
        return (struct tt_wait_policy){ .keen_polls = 32, .spins = 2000, .yield_us = 50 };
    return (struct tt_wait_policy){ .yield_us = 100 };
}

/* Keen polls last as long as those of memory do, so that who shares its core with the rank that it waits for
 * soon yields. */
void tt_wait_poll_takes(struct tt_wait_policy *policy, uint32_t ns)
{
    uint64_t keen_ns = (uint64_t)policy->keen_polls * MEMORY_NS;
    policy->keen_polls = ns > MEMORY_NS ? (uint32_t)(keen_ns / ns) : policy->keen_polls;
}

struct tt_wait_policy tt_wait_policy_for(int ranks)
{
    return tt_wait_policy_on(ranks, tt_cores_granted());
}

void tt_wait_begin(struct tt_wait *w, struct tt_wait_policy policy, struct tt_doorbell *const *bells, int n)
{
    w->policy = policy;
    w->nbells = 0;
    for (int i = 0; i < n && n <= TT_WAIT_BELLS; i++)
        if (bells[i] != NULL)
            w->bells[w->nbells++] = bells[i];
    w->stage = SPINNING;
    w->polls = 0;
    w->checked_ns = 0;
    w->until_ns = INT64_MAX;
    w->nap_ns = FIRST_NAP_NS;
    w->asleep_ns = 0;
    w->looks = false;
    w->timed_out = false;
    w->unsure = false;
    w->polls_by = false;
    w->park = NULL;
}

void tt_wait_park_by(struct tt_wait *w, tt_park_fn *park, void *parked)
{
    w->park = park;
    w->parked = parked;
}

void tt_wait_look(struct tt_wait *w, bool looks)
{
    w->looks = looks;
}

void tt_wait_be_prompt(void)
{
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

void tt_wait_until(struct tt_wait *w, int64_t until_ns)
{
    w->until_ns = until_ns;
}

static struct timespec to_timespec(int64_t ns)
{
    return (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
}

void tt_nap_ns(int64_t ns)
{
    struct timespec left = to_timespec(ns);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

bool tt_lock_within(pthread_mutex_t *lock, int64_t ns)
{
    int64_t until_ns = tt_now_ns() + ns;
    while (pthread_mutex_trylock(lock) != 0) {
        if (tt_now_ns() >= until_ns)
            return false;
        sched_yield();
    }
    return true;
}

void tt_sleep_ms(int ms)
{
    tt_nap_ns((int64_t)ms * 1000000);
}

static void take_tickets(struct tt_wait *w)
{
    for (int i = 0; i < w->nbells; i++)
        w->tickets[i] = atomic_load_explicit(&w->bells[i]->word, memory_order_acquire);
}

static bool rung(const struct tt_wait *w)
{
    for (int i = 0; i < w->nbells; i++)
        if (atomic_load_explicit(&w->bells[i]->word, memory_order_acquire) != w->tickets[i])
            return true;
    return false;
}

void tt_doorbell_watch(struct tt_doorbell *bell, int event)
{
    atomic_store(&bell->watched, event < 0 ? 0 : (uint32_t)event + 1);
}

bool tt_doorbell_is_watched(const struct tt_doorbell *bell)
{
    return atomic_load(&bell->watched) != 0;
}

static void tell_watcher(struct tt_doorbell *bell)
{
    uint32_t event = atomic_load(&bell->watched) != 0 ? atomic_exchange(&bell->watched, 0) : 0;
    if (event != 0)
        eventfd_write((int)event - 1, 1);
}

static void arm(struct tt_wait *w)
{
    uint32_t nobody = 0;
    take_tickets(w);
    w->polls_by =
        w->park != NULL && w->nbells == 1 && atomic_compare_exchange_strong(&w->bells[0]->polled, &nobody, 1);
    for (int i = 0; i < w->nbells; i++) {
        atomic_fetch_add(&w->bells[i]->sleeping, 1);
        if (!w->polls_by)
            tell_watcher(w->bells[i]);
    }
    w->unsure |=
        !tt_fence_heavy(); /* `sleeping` before the last poll, and the ringers' data before their look */
    w->stage = ARMED;
}

static void sleep_on_one(const struct tt_wait *w, int64_t ns)
{
    struct timespec timeout = to_timespec(ns);
    syscall(SYS_futex, &w->bells[0]->word, FUTEX_WAIT, w->tickets[0], &timeout, NULL, 0);
}

/* False if this kernel, or a filter, does not let us. */
static bool sleep_on_many(const struct tt_wait *w, int64_t ns)
{
    struct waitv waiters[TT_WAIT_BELLS];
    struct timespec until = to_timespec(tt_now_ns() + ns);
    for (int i = 0; i < w->nbells; i++)
        waiters[i] = (struct waitv){
            .value = w->tickets[i], .address = (uint64_t)(uintptr_t)&w->bells[i]->word, .flags = WAITV_32_BITS
        };
    long result = syscall(CALL_FUTEX_WAITV, waiters, (unsigned)w->nbells, 0, &until, CLOCK_MONOTONIC);
    return result >= 0 || errno == ETIMEDOUT || errno == EAGAIN || errno == EINTR;
}

/* Nothing wakes this one: it looks soon, and then less and less often. */
static void doze(struct tt_wait *w, int64_t ns)
{
    tt_nap_ns(ns < w->nap_ns ? ns : w->nap_ns);
    w->nap_ns = 2 * w->nap_ns < NAP_NS ? 2 * w->nap_ns : NAP_NS;
}

/* Until a ring, but not longer than `ns`; may return early. */
static void sleep_on_bells(struct tt_wait *w, int64_t ns)
{
    int64_t short_ns = ns < NAP_NS ? ns : NAP_NS;
    if (w->nbells == 0 || w->unsure)
        doze(w, ns);
    else if (w->polls_by)
        w->park(w->parked, w->tickets[0], ns);
    else if (w->nbells == 1)
        sleep_on_one(w, ns);
    else if (atomic_load_explicit(&no_waitv, memory_order_relaxed))
        sleep_on_one(w, short_ns);
    else if (!sleep_on_many(w, ns))
        atomic_store_explicit(&no_waitv, true, memory_order_relaxed);
}

void tt_word_await(const _Atomic uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec timeout = to_timespec(ns);
    syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

void tt_word_wake(const _Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool check_due(struct tt_wait *w, int64_t now)
{
    if (now - w->checked_ns < TICK_NS)
        return false;
    w->checked_ns = now;
    return true;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t longest_sleep(struct tt_wait *w, int64_t now)
{
    if (w->asleep_ns == 0)
        w->asleep_ns = now;
    if (!w->looks)
        return TICK_NS;
    int64_t part = (now - w->asleep_ns) / LOOK_PART;
    return part < LOOK_NS ? LOOK_NS : smaller(part, NAP_NS);
}

static bool sleep_armed(struct tt_wait *w)
{
    int64_t now = tt_now_ns();
    w->timed_out = false;
    if (check_due(w, now))
        return true;
    int64_t end = smaller(w->until_ns, smaller(w->checked_ns + TICK_NS, now + longest_sleep(w, now)));
    if (end > now)
        sleep_on_bells(w, end - now);
    bool due = check_due(w, tt_now_ns());
    if (rung(w))
        take_tickets(w);
    else
        w->timed_out = due && w->nbells > 0 && !w->looks;
    return due;
}

static void see_who_ran(int64_t yield_ns)
{
    shares_core = yield_ns > ALONE_NS && yield_ns < GIVES_WAY_NS;
}

static bool yield(struct tt_wait *w)
{
    int64_t now = tt_now_ns();
    if (now - w->began_ns < (int64_t)w->policy.yield_us * 1000) {
        sched_yield();
        if (w->policy.spins > 0)
            see_who_ran(tt_now_ns() - now);
    } else {
        arm(w);
    }
    return check_due(w, now);
}

/* True while spins last. They are counted, since a clock takes as long as a poll of memory; but a poll of a
 * network is a system call, so now and then the clock is asked, too. */
static bool may_spin(struct tt_wait *w)
{
    enum { POLLS = 32, SPIN_NS = 60000 };
    if (w->polls >= w->policy.spins || shares_core)
        return false;
    if (w->polls++ % POLLS != 0)
        return true;
    int64_t now = tt_now_ns();
    if (w->polls == 1)
        w->began_ns = now;
    return now - w->began_ns < SPIN_NS;
}

bool tt_wait_idle(struct tt_wait *w)
{
    if (w->stage == SPINNING && may_spin(w)) {
        tt_pause();
        return false;
    }
    if (w->stage == ARMED)
        return sleep_armed(w);
    if (w->stage == SPINNING) {
        w->stage = YIELDING;
        w->began_ns = tt_now_ns();
        if (w->checked_ns == 0)
            w->checked_ns = w->began_ns;
    }
    return yield(w);
}

/* Work was there after a timeout: is its ring on the way? A ringer that was preempted has its turn when all
 * programs of its core have had theirs, so patience is counted in turns of this thread, not in time alone. */
static void judge(struct tt_wait *w)
{
    int64_t until = tt_now_ns() + JUDGE_NS;
    for (int turn = 0; !rung(w); turn++) {
        if (turn >= JUDGE_TURNS && tt_now_ns() >= until) {
            atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
            return;
        }
        sched_yield();
        sleep_on_bells(w, NAP_NS);
    }
}

/* The thread that watches may have come to long naps. */
static void leave_polled(struct tt_wait *w)
{
    w->polls_by = false;
    atomic_store(&w->bells[0]->polled, 0);
    if (w->asleep_ns != 0 && tt_now_ns() - w->asleep_ns > LONG_NS)
        tell_watcher(w->bells[0]);
}

void tt_wait_awake(struct tt_wait *w)
{
    if (w->stage == ARMED) {
        if (w->timed_out)
            judge(w);
        if (w->polls_by)
            leave_polled(w);
        for (int i = 0; i < w->nbells; i++)
            atomic_fetch_sub_explicit(&w->bells[i]->sleeping, 1, memory_order_relaxed);
    }
    w->timed_out = false;
    w->stage = SPINNING;
    w->polls = 0;
    w->nap_ns = FIRST_NAP_NS;
    w->asleep_ns = 0;
}

uint64_t tt_wait_lost(void)
{
    return atomic_load_explicit(&lost, memory_order_relaxed);
}
