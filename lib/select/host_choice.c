/* SPDX-License-Identifier: BSD-3-Clause */
/* host_choice.c: the word of a question, which is claimed, answered, and slept on. */
#include "select/host_choice.h"

#include "base/clock.h"
#include "base/wait.h"

/* What a word holds besides a rank, or an answer. */
#define CLAIMED UINT32_C(0x40000000)
#define ANSWERED UINT32_C(0x80000000)
#define VALUE UINT32_C(0x3fffffff)

enum { TICK_NS = TT_TICK_MS * 1000000 };

static uint32_t claim_of(const struct tt_host_choice *host)
{
    return CLAIMED | (uint32_t)host->rank;
}

/* Sleeps until another rank's claim has become something else. False: it will not, or not in time. */
static bool await(
    const struct tt_host_choice *host, const _Atomic uint32_t *word, uint32_t claim, int64_t end_ns)
{
    int64_t now = tt_now_ns();
    while (atomic_load_explicit(word, memory_order_acquire) == claim) {
        if (now >= end_ns || host->in_vain(host->context, (int)(claim & VALUE)))
            return false;
        tt_word_await(word, claim, end_ns - now < TICK_NS ? end_ns - now : TICK_NS);
        now = tt_now_ns();
    }
    return true;
}

int tt_host_choice_ask(const struct tt_host_choice *host, size_t question)
{
    if (host->words == NULL)
        return -1;
    _Atomic uint32_t *word = &host->words[question];
    int64_t end_ns = tt_deadline_ns(host->patience_ms);
    uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
    while (seen < ANSWERED) {
        bool others = seen >= CLAIMED && seen != claim_of(host);
        if (others && await(host, word, seen, end_ns))
            seen = atomic_load_explicit(word, memory_order_acquire);
        else if (atomic_compare_exchange_strong(word, &seen, claim_of(host)))
            return -1;
    }
    return (int)(seen & VALUE);
}

void tt_host_choice_tell(const struct tt_host_choice *host, size_t question, int answer)
{
    if (host->words == NULL)
        return;
    uint32_t claim = claim_of(host);
    if (answer >= 0)
        atomic_store_explicit(&host->words[question], ANSWERED | (uint32_t)answer, memory_order_release);
    else /* unless another one has answered meanwhile */
        atomic_compare_exchange_strong(&host->words[question], &claim, 0);
    tt_word_wake(&host->words[question]);
}
