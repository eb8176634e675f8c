/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.c: the arena of this process, and those of its peers.
 *
 * All that is process-wide stands in one structure behind a mutex. The mutex lies in a page that fork()
 * wipes in the child, next to a word that says whether the structure means anything: in a child both read
 * as zeros, which is "unlocked, begin anew". No handler runs and no call asks for its process id. (A
 * mutex of zeros is an unlocked one in every C library for Linux.) */
#include "transports/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "transports/life.h"
#include "transports/ranges.h"

#define ARENA_MAGIC 0x616e657261697475u /* "utiarena" */
enum { ARENA_VERSION = 3, LARGE = 2 << 20, NO_EXEC_SEAL = 8, COLORS = 128, STEP = 13 };
static const uint64_t smallest = 64u << 20, largest = (uint64_t)1 << 38;

struct header { /* the first page of an arena */
    uint64_t magic;
    uint32_t version;
    _Atomic uint32_t exited; /* 1: its process has returned from main, or called exit */
    uint64_t bytes;
    uint8_t uuid[TT_UUID_BYTES];
    _Atomic uint64_t visible; /* so much of it, from its beginning, every peer has mapped: these lower it */
};

struct held {
    struct held *next;
    pthread_t thread;
    struct tt_arena *arena;
};

static struct {
    struct tt_arena own; /* base NULL: not made yet */
    struct tt_ranges ranges;
    uint64_t mapped; /* arenas so far */
    struct tt_arena *peers;
    struct tt_deferred_free *deferred;
    struct held *held;
} process;

struct guard { /* wiped by fork */
    pthread_mutex_t mutex;
    bool begun;
};
static struct guard *_Atomic guard;

static bool map_guard(void)
{
    struct guard *none = NULL;
    void *page = mmap(NULL, sizeof *none, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    if (madvise(page, sizeof *none, MADV_WIPEONFORK) != 0 ||
        !atomic_compare_exchange_strong(&guard, &none, page))
        munmap(page, sizeof *none);
    return guard != NULL;
}

static bool lock(void)
{
    if ((guard == NULL && !map_guard()) || pthread_mutex_lock(&guard->mutex) != 0)
        return false;
    if (!guard->begun)
        memset(&process, 0, sizeof process);
    guard->begun = true;
    return true;
}

static void unlock(void)
{
    pthread_mutex_unlock(&guard->mutex);
}

static tutti_status no_process(void)
{
    if (errno == ENOMEM)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the arena's lock");
    return tt_fail(TUTTI_UNSUPPORTED, "this kernel lacks MADV_WIPEONFORK; Linux 4.14 or later is needed");
}

/* --- Making the own arena */

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Where the address space is limited, an arena leaves it to others: more arenas, and the program. */
static uint64_t share_of_space(uint64_t bytes)
{
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        while (bytes > space.rlim_cur / 16 && bytes > smallest)
            bytes /= 2;
    return bytes;
}

/* Twice the memory leaves room for holes. The largest is such that 256 processes map each other in half of an
 * address space of 47 bits. */
static uint64_t wanted_bytes(void)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * page_bytes(), bytes = smallest;
    while (bytes < 2 * memory && bytes < largest)
        bytes *= 2;
    return share_of_space(bytes);
}

int tt_arena_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | NO_EXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* an older kernel */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

/* Room at an address that is a multiple of LARGE, and `color` of those beyond a multiple of COLORS; NULL: the
 * address space is too small for that. */
static void *find_room(uint64_t bytes, uint64_t color)
{
    const uint64_t span = (uint64_t)COLORS * LARGE, all = bytes + 2 * span;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uint8_t *whole = mmap(NULL, all, PROT_NONE, flags, -1, 0);
    if (whole == MAP_FAILED)
        return NULL;
    uint8_t *room = whole + (span - (uintptr_t)whole % span) + color * LARGE;
    munmap(whole, (uint64_t)(room - whole));
    munmap(room + bytes, (uint64_t)(whole + all - (room + bytes)));
    return room;
}

/* Maps the file at an address of a color of its own. What two ranks allocate in the same order lies at the
 * same place in the arena of each, and is read side by side. Processors that look a line up by a hash of its
 * address (the microtags of AMD's, of bits 12 to 27) take two lines whose addresses differ in higher bits
 * only for one, and lose one for the other (perf/results/README.md, "What cache lines cost"). */
static void *map_file(int fd, uint64_t bytes)
{
    void *room = find_room(bytes, process.mapped++ * STEP % COLORS);
    int flags = MAP_SHARED | MAP_NORESERVE | (room != NULL ? MAP_FIXED : 0);
    void *base = mmap(room, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (base == MAP_FAILED) {
        int wrong = errno;
        if (room != NULL)
            munmap(room, bytes);
        errno = wrong;
        return NULL;
    }
    madvise(base, bytes, MADV_DONTDUMP); /* a dump without it is only larger */
    return base;
}

/* Maps as much as the address space and the size of files allow. */
static tutti_status map_largest(int fd, uint64_t *bytes, void **base)
{
    for (uint64_t size = wanted_bytes(); size >= smallest; size /= 2) {
        *base = tt_file_grow(fd, size) ? map_file(fd, size) : NULL;
        *bytes = size;
        if (*base != NULL)
            return TUTTI_OK;
    }
    return tt_fail(TUTTI_SYSTEM_ERROR,
        "no room for the arena: %d MiB of address space and of file size are needed (see ulimit -v and -f)",
        (int)(smallest >> 20));
}

static tutti_status make_own(void)
{
    struct tt_arena made = { .own = true, .life = -1 };
    struct header header = { .magic = ARENA_MAGIC, .version = ARENA_VERSION };
    uint64_t at;
    void *base;
    made.fd = tt_arena_file("tutti");
    if (made.fd < 0)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "no memory file for the arena");
    uint64_t bytes = 0;
    tutti_status status = map_largest(made.fd, &bytes, &base);
    if (status != TUTTI_OK)
        goto close_file;
    made.base = base;
    made.bytes = bytes;
    status = TUTTI_SYSTEM_ERROR;
    if (getrandom(made.uuid, sizeof made.uuid, 0) != sizeof made.uuid) {
        tt_fail_errno(status, "no random bytes for the arena");
        goto unmap;
    }
    process.ranges.end = made.bytes;
    if (tt_ranges_take(&process.ranges, page_bytes(), page_bytes(), &at) != TT_RANGES_TAKEN) {
        status = tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the arena's table");
        goto unmap;
    }
    made.life = tt_life_begin();
    if (made.life < 0) {
        tt_fail_errno(status, "no memory file for the peers to see that this process lives");
        goto forget;
    }
    header.bytes = made.bytes;
    header.visible = made.bytes;
    memcpy(header.uuid, made.uuid, sizeof header.uuid);
    memcpy(made.base, &header, sizeof header);
    if (fcntl(made.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        process.own = made;
        return TUTTI_OK;
    }
    tt_fail_errno(status, "the arena cannot be sealed");
    close(made.life);
forget:
    process.ranges.count = 0;
unmap:
    munmap(base, made.bytes);
close_file:
    close(made.fd);
    return status;
}

static struct header *header_of(const struct tt_arena *arena)
{
    return (struct header *)(void *)arena->base;
}

/* Makes the own arena, unless there is one, and looks how much of it the peers see: what lies behind that is
 * memory like any other from now on, and none of it is given out. The lock is held. */
static tutti_status need_own(void)
{
    if (process.own.base == NULL)
        return make_own();
    uint64_t visible = atomic_load(&header_of(&process.own)->visible);
    if (visible < process.own.bytes && visible >= smallest) {
        atomic_store_explicit(&process.own.bytes, visible, memory_order_relaxed);
        process.ranges.end = visible;
    }
    return TUTTI_OK;
}

tutti_status tt_arena_get(const struct tt_arena **own)
{
    if (!lock())
        return no_process();
    tutti_status status = need_own();
    unlock();
    if (status == TUTTI_OK)
        *own = &process.own;
    return status;
}

/* --- Memory in it */

static void sweep(void)
{
    struct tt_deferred_free *all, *kept = NULL, **end = &kept;
    if (!lock())
        return;
    all = process.deferred;
    process.deferred = NULL;
    unlock();
    while (all != NULL) {
        struct tt_deferred_free *deferred = all;
        void *ptr = deferred->ptr;
        all = all->next;
        if (deferred->idle(deferred)) {
            tt_arena_free(ptr);
        } else {
            *end = deferred;
            end = &deferred->next;
        }
    }
    if (kept == NULL || !lock())
        return;
    *end = process.deferred;
    process.deferred = kept;
    unlock();
}

void tt_arena_free_later(struct tt_deferred_free *deferred)
{
    if (lock()) {
        deferred->next = process.deferred;
        process.deferred = deferred;
        unlock();
    }
    sweep();
}

tutti_status tt_arena_alloc(uint64_t bytes, void **ptr)
{
    uint64_t page = page_bytes(), at = 0;
    if (bytes == 0 || bytes > largest)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "%llu bytes are not to be had; legal: 1 to %llu",
            (unsigned long long)bytes, (unsigned long long)largest);
    sweep();
    if (!lock())
        return no_process();
    tutti_status status = need_own();
    if (status == TUTTI_OK) {
        uint64_t align = bytes >= LARGE ? LARGE : page;
        bytes = (bytes + page - 1) & ~(page - 1);
        enum tt_ranges_result result = tt_ranges_take(&process.ranges, bytes, align, &at);
        if (result != TT_RANGES_TAKEN)
            status =
                tt_fail(TUTTI_OUT_OF_MEMORY, "no stretch of %llu bytes is free in the arena of %llu MiB%s%s",
                    (unsigned long long)bytes, (unsigned long long)process.own.bytes >> 20,
                    process.own.bytes == header_of(&process.own)->bytes
                        ? ""
                        : " that a rank with little address space (ulimit -v) can map",
                    result == TT_RANGES_FULL ? "" : ", or no memory for its table");
        else
            *ptr = process.own.base + at;
    }
    unlock();
    return status;
}

tutti_status tt_arena_free(void *ptr)
{
    uint64_t at = 0, bytes;
    if (!lock())
        return no_process();
    const struct tt_arena *own = &process.own;
    tutti_status status = TUTTI_OK;
    at = (uint64_t)((uintptr_t)ptr - (uintptr_t)own->base); /* also behind what the peers see */
    if (own->base == NULL || at == 0 || !tt_ranges_give(&process.ranges, at, &bytes))
        status = tt_fail(TUTTI_INVALID_ARGUMENT,
            "mem_free: ptr is %p; legal: NULL, or what tutti_mem_alloc gave and nobody freed", ptr);
    else if (fallocate(own->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes) != 0)
        status = tt_fail_errno(TUTTI_SYSTEM_ERROR, "freed memory does not return to the system");
    unlock();
    return status;
}

struct tt_arena_share {
    void *ptr;
    _Atomic int users;
};

struct tt_arena_share *tt_arena_share(void *ptr, int users)
{
    struct tt_arena_share *share = malloc(sizeof *share);
    if (share != NULL)
        *share = (struct tt_arena_share){ ptr, users };
    return share;
}

void tt_arena_drop_share(struct tt_arena_share *share)
{
    if (share == NULL || atomic_fetch_sub(&share->users, 1) > 1)
        return;
    if (share->ptr != NULL)
        tt_arena_free(share->ptr);
    free(share);
}

void tt_arena_keep_share(struct tt_arena_share *share)
{
    if (share != NULL)
        share->ptr = NULL;
    tt_arena_drop_share(share);
}

void tt_arena_empty(void *ptr, uint64_t bytes)
{
    madvise(ptr, bytes, MADV_REMOVE);
}

void tt_arena_want_large_pages(void *ptr, uint64_t bytes)
{
    madvise(ptr, bytes, MADV_HUGEPAGE);
}

/* --- Peers */

static void close_one(int fd)
{
    if (fd >= 0)
        close(fd);
}

static tutti_status read_header(int fd, struct header *header)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &file) != 0 || pread(fd, header, sizeof *header, 0) != (ssize_t)sizeof *header)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "a peer's arena cannot be read");
    if (header->magic != ARENA_MAGIC || header->version != ARENA_VERSION)
        return tt_fail(TUTTI_INVALID_USAGE,
            "a peer's memory is not an arena of version %d (it says %u): is it another release of this "
            "library?",
            ARENA_VERSION, header->version);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || file.st_size < (off_t)smallest ||
        header->bytes != (uint64_t)file.st_size)
        return tt_fail(TUTTI_INTERNAL_ERROR, "a peer's arena is not sealed, or not of the size it says");
    return TUTTI_OK;
}

/* Finds an arena by its name. The lock is held. */
static struct tt_arena *find(const uint8_t *uuid)
{
    struct tt_arena *arena = process.peers;
    if (process.own.base != NULL && memcmp(process.own.uuid, uuid, TT_UUID_BYTES) == 0)
        return &process.own;
    while (arena != NULL && memcmp(arena->uuid, uuid, TT_UUID_BYTES) != 0)
        arena = arena->next;
    return arena;
}

/* Tells the owner how much of its arena is mapped here. All processes of a host have agreed that they have
 * mapped each other before one of them allocates for the communicator that they are about to make. */
static void show_no_more_than(const struct tt_arena *peer, uint64_t bytes)
{
    _Atomic uint64_t *visible = &header_of(peer)->visible;
    uint64_t seen = atomic_load(visible);
    while (bytes < seen && !atomic_compare_exchange_weak(visible, &seen, bytes))
        ;
}

/* Maps the arena, or as much of its beginning as there is room for here. */
static tutti_status map_peer(int fd, const struct header *header, struct tt_arena **arena)
{
    struct tt_arena *made = calloc(1, sizeof *made);
    if (made == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a peer's arena");
    uint64_t bytes = share_of_space(header->bytes);
    while ((made->base = map_file(fd, bytes)) == NULL && bytes / 2 >= smallest)
        bytes /= 2;
    if (made->base == NULL) {
        tutti_status status = tt_fail_errno(TUTTI_SYSTEM_ERROR,
            "no room to map %llu MiB of a peer's arena (see ulimit -v)", (unsigned long long)bytes >> 20);
        free(made);
        return status;
    }
    made->bytes = bytes;
    show_no_more_than(made, bytes);
    memcpy(made->uuid, header->uuid, sizeof made->uuid);
    made->fd = made->life = -1;
    made->next = process.peers;
    process.peers = made;
    *arena = made;
    return TUTTI_OK;
}

tutti_status tt_arena_import(int fd, int life, struct tt_arena **arena)
{
    struct header header;
    struct tt_arena *found = NULL;
    tutti_status status = read_header(fd, &header);
    if (status == TUTTI_OK && !lock())
        status = no_process();
    else if (status == TUTTI_OK) {
        found = find(header.uuid);
        if (found == NULL)
            status = map_peer(fd, &header, &found);
        if (status == TUTTI_OK) {
            found->users++;
            if (found->life < 0 && !found->own) {
                found->life = life;
                life = -1;
            }
            *arena = found;
        }
        unlock();
    }
    close_one(fd);
    close_one(life);
    return status;
}

struct tt_arena *tt_arena_find(const uint8_t *uuid)
{
    if (!lock())
        return NULL;
    struct tt_arena *found = find(uuid);
    if (found != NULL)
        found->users++;
    unlock();
    return found;
}

/* Drops a reference, and unmaps the arena with the last one. The lock is held. */
static void release(struct tt_arena *arena)
{
    if (--arena->users > 0 || arena->own)
        return;
    struct tt_arena **link = &process.peers;
    while (*link != NULL && *link != arena)
        link = &(*link)->next;
    if (*link != NULL)
        *link = arena->next;
    munmap(arena->base, arena->bytes);
    close_one(arena->life);
    free(arena);
}

void tt_arena_release(struct tt_arena *arena)
{
    if (!lock())
        return;
    release(arena);
    unlock();
}

tutti_status tt_arena_hold(struct tt_arena *arena)
{
    struct held *held = malloc(sizeof *held);
    if (held == NULL || !lock()) {
        free(held);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to remember a peer");
    }
    *held = (struct held){ .next = process.held, .thread = pthread_self(), .arena = arena };
    process.held = held;
    unlock();
    return TUTTI_OK;
}

void tt_arena_drop_held(void)
{
    if (!lock())
        return;
    for (struct held **link = &process.held; *link != NULL;) {
        struct held *held = *link;
        if (!pthread_equal(held->thread, pthread_self())) {
            link = &held->next;
            continue;
        }
        *link = held->next;
        release(held->arena);
        free(held);
    }
    unlock();
}

/* A child of fork() has the arena mapped, and is none of its owners: its guard is wiped. */
static void __attribute__((destructor)) tell_exit(void)
{
    if (guard != NULL && guard->begun && process.own.base != NULL)
        atomic_store(&header_of(&process.own)->exited, 1);
}

bool tt_arena_exited(const struct tt_arena *arena)
{
    return atomic_load(&header_of(arena)->exited) != 0;
}

bool tt_arena_alive(const struct tt_arena *arena)
{
    return arena->own || !tt_life_over(arena->life);
}
