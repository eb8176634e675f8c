/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_memory.c: memory, as the devices' runtime has it.
 *
 * A device's memory has two addresses: the one that its users hold, in a window of addresses that nobody may
 * touch, so that a host that reads or writes device memory is killed; and the stub's own, at a distance that
 * is the same for all of it.
 *
 *     low                         low + WINDOW                       low + 2 WINDOW
 *      | users' addresses: no access | the stub's: pages where allocated |
 *
 * An address that was freed is given out again at once, as the runtimes do: who remembers things by address
 * is found out. Fresh memory holds rubbish. Allocating and freeing waits for all streams of the device,
 * holding its lock.
 *
 * Behind the stub's own half is one file, in which memory lies as there, so that another process can map what
 * is exported by a handle; what lies behind that says which memory that is. Who maps it holds a lock on its
 * first byte. Memory that is freed while somebody does is spoilt, and shows what is allocated there next; who
 * freed it is told so. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stub_internal.h"

#define WINDOW ((size_t)64 << 30)
enum { PAGE = 4096, RUBBISH = 0xcb, RUBBISH_BYTES = 1 << 20, SPOILT = 0xdb };

static uintptr_t low;
static int window_file = -1;
static uint64_t ids;

bool tt_stub_memory_open(void)
{
    void *window = mmap(NULL, 2 * WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (window == MAP_FAILED)
        return false;
    low = (uintptr_t)window;
    window_file = memfd_create("stub memory", MFD_CLOEXEC);
    if (window_file >= 0 && ftruncate(window_file, 2 * (off_t)WINDOW) != 0) {
        close(window_file);
        window_file = -1;
    }
    return true;
}

int tt_stub_window_file(void)
{
    return window_file;
}

uint64_t tt_stub_window_at(const struct stub_memory *m)
{
    return m->base - low;
}

uint64_t tt_stub_window_says(const struct stub_memory *m)
{
    return WINDOW + tt_stub_window_at(m) / PAGE * STUB_SAYS_BYTES;
}

static bool in_window(uintptr_t at)
{
    return at >= low && at < low + WINDOW;
}

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* --- The list of what there is. */

static void list_add(struct stub_memory *memory)
{
    struct stub_memory **at = &tt_stub_runtime.memory;
    while (*at != NULL && (*at)->base < memory->base)
        at = &(*at)->next;
    memory->next = *at;
    memory->id = ++ids;
    *at = memory;
}

static void list_remove(struct stub_memory *memory)
{
    struct stub_memory **at = &tt_stub_runtime.memory;
    while (*at != memory)
        at = &(*at)->next;
    *at = memory->next;
}

static const struct stub_memory *find_any(const void *ptr)
{
    uintptr_t at = (uintptr_t)ptr;
    for (const struct stub_memory *m = tt_stub_runtime.memory; m != NULL && m->base <= at; m = m->next)
        if (at - m->base < m->bytes)
            return m;
    return NULL;
}

const struct stub_memory *tt_stub_memory_find(const void *ptr)
{
    const struct stub_memory *m = find_any(ptr);
    return m != NULL && !m->hole ? m : NULL;
}

static bool goes_on(const struct stub_memory *m)
{
    const struct stub_memory *next = m->next;
    return m->range != 0 && next != NULL && next->range == m->range && !next->hole;
}

void *tt_stub_memory_look(const void *ptr, size_t bytes)
{
    const struct stub_memory *m = tt_stub_memory_find(ptr), *last = m;
    uintptr_t at = (uintptr_t)ptr;
    while (last != NULL && bytes > last->base + last->bytes - at)
        last = goes_on(last) ? last->next : NULL;
    if (last == NULL)
        return NULL;
    if (m->host != NULL)
        return (char *)m->host + (at - m->base);
    return (void *)(in_window(at) ? at + WINDOW : at);
}

uintptr_t tt_stub_memory_alias(uintptr_t at)
{
    void *found = in_window(at) ? tt_stub_memory_look((void *)at, 1) : NULL;
    return found != NULL ? (uintptr_t)found : in_window(at) ? at + WINDOW : at;
}

void *tt_stub_look(const void *ptr)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    void *at = tt_stub_memory_look(ptr, 1);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return at;
}

/* The lowest free addresses of the window with a page of distance, which catches who runs over; 0: none. */
static uintptr_t window_place(size_t mapped)
{
    uintptr_t at = low;
    for (const struct stub_memory *m = tt_stub_runtime.memory; m != NULL; m = m->next) {
        if (!in_window(m->base))
            continue;
        if (m->base >= at && m->base - at >= mapped + PAGE) /* parts of a range have no page between them */
            break;
        at = m->base + m->mapped + PAGE;
    }
    return low + WINDOW - at >= mapped + PAGE ? at : 0;
}

/* --- Making and freeing it. */

static struct stub_memory *map_at(
    uintptr_t base, struct stub_device *device, size_t bytes, struct stub_file file)
{
    size_t mapped = pages(bytes);
    uint64_t counted = file.imported ? 0 : bytes;
    if (counted > tt_stub_runtime.config.memory_bytes - device->used_bytes)
        return NULL;
    void *own = (void *)(base + WINDOW);
    int fd = file.is ? file.fd : window_file;
    int flags = MAP_FIXED | (fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
    off_t at = fd < 0 ? 0 : (off_t)(file.is ? file.at : base - low);
    if (base == 0 || mmap(own, mapped, PROT_READ | PROT_WRITE, flags, fd, at) != own)
        return NULL;
    madvise(own, mapped, MADV_DONTFORK); /* a child does not have a device's memory */
    if (!file.imported)
        memset(own, RUBBISH, bytes < RUBBISH_BYTES ? bytes : RUBBISH_BYTES);
    struct stub_memory *m = tt_stub_new(sizeof *m);
    *m = (struct stub_memory){ .kind = TT_DEV_DEVICE,
        .device = device->number,
        .base = base,
        .bytes = bytes,
        .mapped = mapped,
        .file = file };
    device->used_bytes += counted;
    list_add(m);
    return m;
}

struct stub_memory *tt_stub_memory_map(struct stub_device *device, size_t bytes, struct stub_file file)
{
    return map_at(window_place(pages(bytes)), device, bytes, file);
}

void *tt_stub_map_parts(size_t part_bytes, int parts, int hole)
{
    struct stub_device *device = tt_stub_current();
    size_t part = pages(part_bytes);
    tt_stub_device_seize(device);
    uintptr_t base = window_place(part * (size_t)parts);
    bool there = base != 0;
    for (int i = 0; i < parts && there; i++) {
        struct stub_memory *m;
        if (i == hole) {
            m = tt_stub_new(sizeof *m);
            *m = (struct stub_memory){
                .base = base + (size_t)i * part, .bytes = part, .mapped = part, .hole = true
            };
            list_add(m);
        } else {
            m = map_at(base + (size_t)i * part, device, part, (struct stub_file){ 0 });
        }
        there = m != NULL;
        if (there)
            m->range = base;
    }
    tt_stub_device_release(device);
    return there ? (void *)base : NULL;
}

static struct stub_memory *make_host_memory(enum tt_dev_kind kind, int device, size_t bytes)
{
    size_t mapped = pages(bytes);
    void *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    memset(base, RUBBISH, bytes < RUBBISH_BYTES ? bytes : RUBBISH_BYTES);
    struct stub_memory *m = tt_stub_new(sizeof *m);
    *m = (struct stub_memory){
        .kind = kind, .device = device, .base = (uintptr_t)base, .bytes = bytes, .mapped = mapped
    };
    list_add(m);
    return m;
}

static enum tt_dev_error allocate(
    enum stub_function function, enum tt_dev_kind kind, size_t bytes, void **ptr)
{
    enum tt_dev_error error = tt_stub_enter(function);
    if (error != TT_DEV_OK)
        return error;
    if (bytes == 0)
        return tt_stub_fail(TT_DEV_INVALID, function, "bytes is 0; at least 1 is legal");
    if (kind == TT_DEV_MANAGED && !tt_stub_runtime.config.managed)
        return tt_stub_fail(TT_DEV_UNSUPPORTED, function, "the devices have no managed memory");
    struct stub_device *device = tt_stub_current();
    tt_stub_device_seize(device);
    struct stub_memory *m = kind == TT_DEV_DEVICE
                                ? tt_stub_memory_map(device, bytes, (struct stub_file){ 0 })
                                : make_host_memory(kind, kind == TT_DEV_PINNED ? -1 : device->number, bytes);
    if (m != NULL)
        *ptr = (void *)m->base;
    tt_stub_device_release(device);
    return m != NULL ? TT_DEV_OK : tt_stub_fail(TT_DEV_NO_MEMORY, function, "no room for %zu bytes", bytes);
}

bool tt_stub_memory_lent(const struct stub_memory *m)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
    int fd = m->file.is ? m->file.fd : window_file;
    if (m->kind != TT_DEV_DEVICE || m->file.imported || fd < 0)
        return false;
    lock.l_start = m->file.is ? 0 : (off_t)tt_stub_window_at(m);
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

enum tt_dev_error tt_stub_memory_freed_lent(enum stub_function function)
{
    return tt_stub_fail(TT_DEV_INVALID, function,
        "another process has it mapped by a handle, and had to free that before; what it finds there is "
        "spoilt");
}

/* The file has nothing of it any more, unless somebody else does, who is to notice. */
static void take_from_file(const struct stub_memory *m)
{
    static const uint8_t nothing[STUB_SAYS_BYTES];
    if (m->exported && pwrite(window_file, nothing, sizeof nothing, (off_t)tt_stub_window_says(m)) < 0)
        abort();
    if (tt_stub_memory_lent(m))
        memset((void *)(m->base + WINDOW), SPOILT, m->bytes);
    else if (!m->file.is && window_file >= 0)
        fallocate(window_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)tt_stub_window_at(m),
            (off_t)m->mapped);
}

void tt_stub_memory_unmap(struct stub_memory *m)
{
    if (m->kind == TT_DEV_DEVICE) {
        take_from_file(m);
        mmap((void *)(m->base + WINDOW), m->mapped, PROT_NONE,
            MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        tt_stub_runtime.devices[m->device].used_bytes -= m->file.imported ? 0 : m->bytes;
    } else if (m->twin != NULL) {
        tt_stub_memory_unmap(m->twin);
    } else if (!m->pinned_by_user && m->host == NULL) {
        munmap((void *)m->base, m->mapped);
    }
    if (m->file.is)
        close(m->file.fd);
    list_remove(m);
    free(m);
}

/* Whose streams may be using it: pinned memory is anybody's, so that of the thread's own. */
static struct stub_device *device_of(const void *ptr)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    const struct stub_memory *m = tt_stub_memory_find(ptr);
    struct stub_device *device =
        m != NULL && m->device >= 0 ? &tt_stub_runtime.devices[m->device] : tt_stub_current();
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return device;
}

/* `pinned`, `by_user`: what this function frees. */
static enum tt_dev_error release(enum stub_function function, void *ptr, bool pinned, bool by_user)
{
    enum tt_dev_error error = tt_stub_enter(function);
    if (error != TT_DEV_OK || (ptr == NULL && !by_user))
        return error;
    struct stub_device *device = device_of(ptr);
    tt_stub_device_seize(device);
    struct stub_memory *m = (struct stub_memory *)tt_stub_memory_find(ptr);
    bool right = m != NULL && m->base == (uintptr_t)ptr && (m->kind == TT_DEV_PINNED) == pinned &&
                 m->pinned_by_user == by_user && !m->file.is && m->host == NULL;
    bool lent = right && tt_stub_memory_lent(m);
    if (right)
        tt_stub_memory_unmap(m);
    tt_stub_device_release(device);
    if (lent)
        return tt_stub_memory_freed_lent(function);
    return right ? TT_DEV_OK
                 : tt_stub_fail(TT_DEV_INVALID, function, "%p is not what it frees, or it was freed", ptr);
}

/* --- The table's functions. */

enum tt_dev_error tt_stub_alloc(size_t bytes, void **ptr)
{
    return allocate(STUB_alloc, TT_DEV_DEVICE, bytes, ptr);
}

enum tt_dev_error tt_stub_free(void *ptr)
{
    return release(STUB_free, ptr, false, false);
}

enum tt_dev_error tt_stub_alloc_managed(size_t bytes, void **ptr)
{
    return allocate(STUB_alloc_managed, TT_DEV_MANAGED, bytes, ptr);
}

enum tt_dev_error tt_stub_alloc_pinned(size_t bytes, void **ptr)
{
    return allocate(STUB_alloc_pinned, TT_DEV_PINNED, bytes, ptr);
}

enum tt_dev_error tt_stub_free_pinned(void *ptr)
{
    return release(STUB_free_pinned, ptr, true, false);
}

/* Memory that is not mapped cannot be pinned, nor any that is known already. */
static bool can_be_pinned(const void *ptr, size_t bytes)
{
    uintptr_t begin = (uintptr_t)ptr, end = begin + bytes, page = begin / PAGE * PAGE;
    for (const struct stub_memory *m = tt_stub_runtime.memory; m != NULL; m = m->next)
        if (m->base < end && begin < m->base + m->bytes)
            return false;
    return !in_window(begin) && msync((void *)page, end - page, MS_ASYNC) == 0;
}

/* The twin by which devices know what is pinned, if not by the same address; NULL: no addresses are left. */
static struct stub_memory *make_twin(char *host, size_t bytes)
{
    size_t within = (uintptr_t)host % PAGE;
    uintptr_t base = window_place(pages(within + bytes));
    if (base == 0)
        return NULL;
    struct stub_memory *m = tt_stub_new(sizeof *m);
    *m = (struct stub_memory){ .kind = TT_DEV_PINNED,
        .device = -1,
        .base = base + within,
        .bytes = bytes,
        .mapped = pages(within + bytes) - within,
        .host = host };
    list_add(m);
    return m;
}

enum tt_dev_error tt_stub_pin(void *ptr, size_t bytes, void **seen)
{
    enum tt_dev_error error = tt_stub_enter(STUB_pin);
    if (error != TT_DEV_OK)
        return error;
    struct stub_device *device = tt_stub_current();
    tt_stub_device_seize(device);
    bool right = bytes > 0 && can_be_pinned(ptr, bytes), two = right && !tt_stub_runtime.config.one_address;
    struct stub_memory *twin = two ? make_twin(ptr, bytes) : NULL;
    if (right && (twin != NULL || !two)) {
        struct stub_memory *m = tt_stub_new(sizeof *m);
        *m = (struct stub_memory){ .kind = TT_DEV_PINNED,
            .device = -1,
            .base = (uintptr_t)ptr,
            .bytes = bytes,
            .pinned_by_user = true,
            .twin = twin };
        list_add(m);
        *seen = twin != NULL ? (void *)twin->base : ptr;
    }
    tt_stub_device_release(device);
    return right
               ? TT_DEV_OK
               : tt_stub_fail(TT_DEV_INVALID, STUB_pin, "%zu bytes at %p: not mapped, or pinned", bytes, ptr);
}

enum tt_dev_error tt_stub_unpin(void *ptr)
{
    return release(STUB_unpin, ptr, true, true);
}

enum tt_dev_error tt_stub_classify(const void *ptr, struct tt_dev_pointer *what)
{
    enum tt_dev_error error = tt_stub_enter(STUB_classify);
    if (error == TT_DEV_OK && tt_stub_used() < 0)
        error = tt_stub_fail(TT_DEV_INVALID, STUB_classify, "this thread uses no device");
    if (error != TT_DEV_OK)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    const struct stub_memory *m = find_any(ptr);
    bool hole = m != NULL && m->hole;
    if (m == NULL)
        *what = (struct tt_dev_pointer){ .kind = TT_DEV_HOST, .device = -1 };
    else if (!hole)
        *what = (struct tt_dev_pointer){ .kind = m->kind,
            .device = m->device,
            .base = m->base,
            .bytes = m->bytes,
            .range = m->range != 0 ? m->range : m->base,
            .id = m->id };
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return hole ? tt_stub_fail(TT_DEV_INVALID, STUB_classify, "nothing is mapped at %p", ptr) : TT_DEV_OK;
}
