/* SPDX-License-Identifier: BSD-3-Clause */
/* pages.c: huge pages are found by PAGEMAP_SCAN, which Linux has from 6.7 on. Elsewhere they are timed: to
 * read 64 KiB of this process by process_vm_readv takes two to three times as long on small pages as on a
 * huge one (1.25 times on Linux 6.18), so memory is taken to be huge if it is read much faster than memory
 * that is known not to be.
 * Either takes microseconds, and so the answer is kept for each 2 MiB, the longer the more often it was the
 * same. */
#include "transports/pages.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    SPAN_BITS = 21, /* what one answer stands for */
    ANSWERS = 256,
    USES_FIRST = 16, /* an answer is used so often, for memory may just not have been touched */
    USES_TIMED = 256, /* or so often, if it was timed */
    USES_MORE = 4, /* so many times as often, if it was the same again, */
    USES_MOST = 4096, /* until so often */
    SAMPLE = TT_PAGES_LEAST,
    TRIES = 3
};

struct answer {
    uintptr_t span; /* 1 + the number of these 2 MiB; 0: there is none */
    uint16_t uses, left; /* how often it is used; how often still */
    bool huge;
};

struct tt_pages {
    bool scans;
    uint8_t *samples; /* one to read from, on small pages, and one to read into; NULL: it scans */
    struct answer answers[ANSWERS];
};

/* As <linux/fs.h> has them from 6.7 on. */
struct scan {
    uint64_t size, flags, start, end, walk_end, regions, room, most, inverted, all, any, told;
};
struct region {
    uint64_t start, end, categories;
};
#define SCAN _IOWR('f', 16, struct scan)
#define SCAN_HUGE (UINT64_C(1) << 6)

/* Returns 1 if this page is part of a huge one, 0 if not, -1 if the kernel does not tell. */
static int scan(uintptr_t address)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = address / page * page;
    struct region region;
    struct scan arg = { .size = sizeof arg,
        .start = start,
        .end = start + page,
        .regions = (uintptr_t)&region,
        .room = 1,
        .all = SCAN_HUGE,
        .told = SCAN_HUGE };
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    int found = fd >= 0 ? ioctl(fd, SCAN, &arg) : -1;
    if (fd >= 0)
        close(fd);
    return found > 0 ? 1 : found;
}

/* UINT32_MAX: it cannot be read. */
static int64_t time_sample(const struct tt_pages *pages, uintptr_t from)
{
    struct iovec local = { pages->samples + SAMPLE, SAMPLE }, remote = { (void *)from, SAMPLE };
    int64_t began = tt_now_ns();
    bool whole = process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == SAMPLE;
    return whole ? tt_now_ns() - began : UINT32_MAX;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* True if these bytes are read much faster than small pages: by the best of some tries each, by turns, for
 * this thread may be interrupted. */
static bool is_read_fast(const struct tt_pages *pages, uintptr_t from)
{
    int64_t small = UINT32_MAX, best = UINT32_MAX;
    for (int i = 0; i < TRIES; i++) {
        small = smaller(small, time_sample(pages, (uintptr_t)pages->samples));
        best = smaller(best, time_sample(pages, from));
    }
    return 3 * best < 2 * small;
}

/* False: there is no memory, and nothing is taken to be huge. */
static bool open_samples(struct tt_pages *pages)
{
    void *memory = mmap(NULL, 2 * SAMPLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    (void)madvise(memory, 2 * SAMPLE, MADV_NOHUGEPAGE); /* a kernel that refuses has none */
    memset(memory, 1, 2 * SAMPLE);
    pages->samples = memory;
    return true;
}

struct tt_pages *tt_pages_open(bool scans)
{
    struct tt_pages *pages = calloc(1, sizeof *pages);
    if (pages == NULL)
        return NULL;
    pages->scans = scans && scan((uintptr_t)pages) >= 0;
    if (!pages->scans && !open_samples(pages)) {
        free(pages);
        return NULL;
    }
    return pages;
}

void tt_pages_close(struct tt_pages *pages)
{
    if (pages != NULL && pages->samples != NULL)
        munmap(pages->samples, 2 * SAMPLE);
    free(pages);
}

static bool look(const struct tt_pages *pages, uintptr_t address, uint64_t bytes)
{
    uintptr_t middle = address + bytes / 2;
    return pages->scans ? scan(middle) > 0 : is_read_fast(pages, middle - SAMPLE / 2);
}

bool tt_pages_huge(struct tt_pages *pages, uintptr_t address, uint64_t bytes)
{
    uintptr_t span = ((address + bytes / 2) >> SPAN_BITS) + 1;
    struct answer *a = &pages->answers[span % ANSWERS];
    if (a->span != span || a->left == 0) {
        bool huge = look(pages, address, bytes), same = a->span == span && a->huge == huge;
        unsigned uses = same ? USES_MORE * a->uses : pages->scans ? USES_FIRST : USES_TIMED;
        a->span = span;
        a->huge = huge;
        a->uses = a->left = (uint16_t)(uses < USES_MOST ? uses : USES_MOST);
    }
    a->left--;
    return a->huge;
}
