/* SPDX-License-Identifier: BSD-3-Clause */
/* clofork.c: one bit for each descriptor. So nothing is allocated, which could fail, and a child
 * looks at a few words only. A descriptor whose number is beyond the bits stays open in children. */
#include "base/clofork.h"

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "base/fork.h"

/* Enough for the largest job beside what the program has open. */
enum { WORDS = 4096, WORD_BITS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { /* behind the lock */
    uint64_t words[WORDS];
    int used; /* words; there is nothing beyond */
} marked;

void tt_clofork_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tt_clofork_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void tt_clofork_add(int fd)
{
    int word = fd / WORD_BITS;
    if (fd < 0 || word >= WORDS)
        return;
    marked.words[word] |= UINT64_C(1) << fd % WORD_BITS;
    marked.used = word >= marked.used ? word + 1 : marked.used;
}

static void forget(int fd)
{
    if (fd >= 0 && fd / WORD_BITS < WORDS)
        marked.words[fd / WORD_BITS] &= ~(UINT64_C(1) << fd % WORD_BITS);
}

void tt_clofork_release(int fd)
{
    pthread_mutex_lock(&lock);
    forget(fd);
    pthread_mutex_unlock(&lock);
}

void tt_clofork_close(int fd)
{
    pthread_mutex_lock(&lock);
    forget(fd);
    close(fd);
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    for (int word = 0; word < marked.used; word++) {
        for (; marked.words[word] != 0; marked.words[word] &= marked.words[word] - 1)
            close(word * WORD_BITS + __builtin_ctzll(marked.words[word]));
    }
    marked.used = 0;
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_DESCRIPTORS, &lock, after_fork_in_child);
}
