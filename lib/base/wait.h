/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.h: how a rank waits for another. The only file that sleeps, yields or calls futex (and the only
 * place where a spin count stands).
 *
 * Three stages: spin a few microseconds, yield for a while, sleep on the rank's own doorbell. Ranks that
 * outnumber the cores do not spin, nor does one that finds another on its core. A waiter that drives several
 * communicators sleeps on all their doorbells at once.
 *
 * A sleeper adds itself to the bell's `sleeping`, fences, polls once more, then sleeps; a ringer writes its
 * data, fences, and looks at `sleeping`. One of the two sees the other. The sleeper fences for both, where
 * it can (fence.h). The sleep is cut every TT_TICK_MS so
 * that the caller can look at deadlines and at the health of its peers; work found after such a tick, with
 * no ring, would be a lost wake-up: it is counted, and tests demand that the count stays 0. */
#ifndef TT_BASE_WAIT_H
#define TT_BASE_WAIT_H
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fence.h"

enum { TT_TICK_MS = 100, TT_WAIT_BELLS = 64 };

struct tt_doorbell { /* in shared memory, alone in its cache line */
    _Alignas(64) _Atomic uint32_t word;
    _Atomic uint32_t sleeping; /* how many do, or are about to */
    _Atomic uint32_t watched; /* 1 + the eventfd of who waits for the first of them */
    /* Of an owner for whom only threads of its own process ring: it sleeps, or is about to, where descriptors
     * wake it; and 1 + the eventfd that a ring is to write, too. */
    _Atomic uint32_t polled;
    _Atomic int32_t event;
};

/* For a thread that works for the owner of this bell while it does not do so itself, and sleeps on
 * descriptors meanwhile: begins to watch, until the owner sleeps, or is about to. Then this eventfd is
 * written, and the watch is over. -1 ends a watch, and nothing is written. What the thread looks at after it
 * has begun to watch, it cannot miss. */
void tt_doorbell_watch(struct tt_doorbell *bell, int event);
bool tt_doorbell_is_watched(const struct tt_doorbell *bell);

/* Ring whether or not it seems asleep (abort). */
void tt_doorbell_ring_always(struct tt_doorbell *bell);

/* Something was written that the owner of this doorbell may be waiting for. Cheap when it is awake. */
void tt_doorbell_ring(struct tt_doorbell *bell);
/* Rings the bell, by a process that is registered (fence.h), if the bell's owner is, too: cheaper still. */
static inline void tt_doorbell_ring_light(struct tt_doorbell *bell, bool both_registered)
{
    tt_fence_light(both_registered);
    if (atomic_load_explicit(&bell->sleeping, memory_order_relaxed) != 0)
        tt_doorbell_ring_always(bell);
}
/* Rings many bells, with one fence. */
void tt_doorbell_ring_many(struct tt_doorbell *const *bells, int n);

/* Lets one core pause for some 30 ns: what it waits for has not happened yet. */
static inline void tt_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Between two looks at a line that another core is about to write, where a pause would be too long. Looks
 * that run ahead see the line go and are undone, together with what follows them. */
static inline void tt_look_again(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_lfence();
#endif
}

struct tt_wait_policy {
    uint32_t keen_polls; /* before the first pause, of who polls by itself: most answers come sooner, and a
                          * poll of memory takes no longer than a look at the clock */
    uint32_t spins; /* polls before yielding */
    uint32_t yield_us; /* yielding before sleeping */
};
/* `ranks` = how many ranks share these cores; by default, what affinity and the cgroup's quota grant here. */
struct tt_wait_policy tt_wait_policy_on(int ranks, int cores);
struct tt_wait_policy tt_wait_policy_for(int ranks);
/* A poll takes so long here, as one of a network does, which is a system call. */
void tt_wait_poll_takes(struct tt_wait_policy *policy, uint32_t ns);
int tt_cores_granted(void);
struct tt_cores { /* that a rank may run on, by its affinity */
    uint32_t count;
    uint32_t which; /* a hash of their numbers */
};
struct tt_cores tt_cores_mine(void);
/* How many cores these ranks have together: launchers bind each to some of its own. Sets that differ are
 * taken to have none in common, as binding makes them. */
int tt_cores_together(const struct tt_cores *cores, int n);
/* Returns how many cores may run programs here, wherever this process is bound. */
int tt_cores_machine(void);
/* Returns how many cores, at most `cores`, the cgroups in `groups` (as in /proc/self/cgroup), mounted at
 * `root`, grant. */
int tt_cores_quota(const char *root, const char *groups, int cores);

/* Binds the calling thread, and so the threads that it starts and the memory that it touches first, to those
 * of its cores that are near the device of this address on the PCI bus, as sysfs at `root` tells. False:
 * nothing is known of that device, or none of the cores is near; then nothing has changed. */
struct tt_cores_kept {
    cpu_set_t cores;
};
bool tt_cores_bind_near(const char *root, const char *address, struct tt_cores_kept *before);
void tt_cores_unbind(const struct tt_cores_kept *before);

/* Sleeps until something comes that this rank can read by itself, or its bell is rung, whose word was
 * `ticket`, but not longer than `ns`; may return early. */
typedef void tt_park_fn(void *parked, uint32_t ticket, int64_t ns);

struct tt_wait {
    struct tt_wait_policy policy;
    struct tt_doorbell *bells[TT_WAIT_BELLS];
    uint32_t tickets[TT_WAIT_BELLS];
    int nbells;
    int stage;
    uint32_t polls;
    int64_t began_ns; /* of the yielding stage */
    int64_t checked_ns;
    int64_t until_ns; /* no sleep goes beyond */
    int64_t nap_ns; /* the next sleep of one that nothing wakes */
    int64_t asleep_ns; /* since when it sleeps */
    bool looks; /* a word ends it, too, for which nobody rings */
    bool timed_out;
    bool unsure; /* a ringer may not see that this one sleeps: only short sleeps */
    bool polls_by; /* it sleeps by `park` */
    tt_park_fn *park;
    void *parked;
};

/* Start a wait over these doorbells (NULL ones are skipped; beyond TT_WAIT_BELLS, or none: short sleeps). */
void tt_wait_begin(struct tt_wait *w, struct tt_wait_policy policy, struct tt_doorbell *const *bells, int n);
/* This wait, which has one bell, sleeps so, if nobody does yet at that bell. */
void tt_wait_park_by(struct tt_wait *w, tt_park_fn *park, void *parked);
/* No sleep of this wait goes beyond this moment of tt_now_ns; the caller looks at the clock itself. */
void tt_wait_until(struct tt_wait *w, int64_t until_ns);
/* True: from now on something may end this wait, too, for which nobody rings, as a device's word. Then no
 * sleep is longer than 50 us, or than a thousandth of the sleep so far, which is up to 1 ms; and work that is
 * found without a ring is no lost wake-up. */
void tt_wait_look(struct tt_wait *w, bool looks);
/* Naps of the calling thread end when they are over. Others the kernel prolongs by some 50 us. */
void tt_wait_be_prompt(void);
/* Spins, yields or sleeps a little, after a poll found nothing. True when the caller should look at
 * deadlines and peers. The caller must poll again after every call. */
bool tt_wait_idle(struct tt_wait *w);
/* True if the wait has come to yielding or sleeping. */
static inline bool tt_wait_is_long(const struct tt_wait *w)
{
    return w->stage > 0;
}
/* It has come to sleeping, or is about to. */
static inline bool tt_wait_is_asleep(const struct tt_wait *w)
{
    return w->stage > 1;
}
/* When it came to be long. */
static inline int64_t tt_wait_long_since(const struct tt_wait *w)
{
    return w->began_ns;
}
/* A poll found something: back to spinning. Also ends a wait. Work found right after a timeout, with no ring
 * in the next 50 ms, is a lost wake-up; who ends a wait for another reason rings first (abort does). */
void tt_wait_awake(struct tt_wait *w);

/* Sleeps while this word of shared memory has this value, but not longer than `ns`; may return early. Any
 * number may sleep on one word. Who changes it wakes them all. */
void tt_word_await(const _Atomic uint32_t *word, uint32_t value, int64_t ns);
void tt_word_wake(const _Atomic uint32_t *word);

/* Wake-ups lost by this process so far. */
uint64_t tt_wait_lost(void);

/* Takes a lock, but waits for it no longer than about so long. */
bool tt_lock_within(pthread_mutex_t *lock, int64_t ns);

/* Sleep, for the few that have nothing to be woken by (connection retries). */
void tt_sleep_ms(int ms);
void tt_nap_ns(int64_t ns);

#endif
