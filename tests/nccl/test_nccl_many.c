/* SPDX-License-Identifier: BSD-3-Clause */
/* test_nccl_many.c: what a process holds does not grow with the number of communicators that it has had: a
 * thousand, made and ended in all ways. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nccl_rig.h"
#include "tests/rig/patience.h"

TestSuite(nccl_many, .timeout = 300);

/* A dead handle stays memory until a thousand others have died. The C library keeps some stacks of threads
 * that have ended, each of two mappings. The recorder's file is as long as it was when most communicators
 * were there, with those that linger, on a busy machine some dozens. On a device that is made of threads, two
 * hundred tell as much. */
enum {
    WARM_UP = 50,
    COMMS = 1000,
    ON_DEVICE = 200,
    HANDLE_BYTES = 512,
    FEW = 32,
    FILES_KIB = 16384,
    RESIDENT_KIB = 32768
};

struct holding {
    long descriptors, threads, maps, files_kib, resident_kib;
    size_t heap;
};

static long entries(const char *folder)
{
    long count = 0;
    DIR *directory = opendir(folder);
    while (directory != NULL && readdir(directory) != NULL)
        count++;
    if (directory != NULL)
        closedir(directory);
    return count;
}

/* Segments of shared memory are files without a name. */
static long kib_of_files(void)
{
    long kib = 0;
    DIR *directory = opendir("/proc/self/fd");
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        struct stat about;
        if (fstatat(dirfd(directory), entry->d_name, &about, 0) == 0 && S_ISREG(about.st_mode))
            kib += about.st_blocks / 2;
    }
    if (directory != NULL)
        closedir(directory);
    return kib;
}

static struct holding look(void)
{
    struct holding h = { .descriptors = entries("/proc/self/fd"), .threads = entries("/proc/self/task") };
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c; file != NULL && (c = fgetc(file)) != EOF;)
        h.maps += c == '\n';
    if (file != NULL)
        fclose(file);
    file = fopen("/proc/self/statm", "r");
    if (file != NULL && fscanf(file, "%ld %ld", &pages, &resident) == 2)
        h.resident_kib = resident * (sysconf(_SC_PAGESIZE) / 1024);
    if (file != NULL)
        fclose(file);
    h.files_kib = kib_of_files();
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct mallinfo2 heap = mallinfo2();
    h.heap = heap.uordblks + heap.hblkhd;
#else
    h.resident_kib = 0;
#endif
    return h;
}

static bool is_more(const struct holding *now, const struct holding *before)
{
    return now->descriptors > before->descriptors + FEW || now->threads > before->threads + FEW ||
           now->maps > before->maps + FEW || now->files_kib > before->files_kib + FILES_KIB ||
           now->resident_kib > before->resident_kib + RESIDENT_KIB ||
           now->heap > before->heap + (size_t)COMMS * HANDLE_BYTES;
}

/* A communicator, and sometimes a child of it, which end in one of the ways that there are. */
static void have_one(struct nccl_desk *d, int round)
{
    ncclComm_t comm = nccl_join(d, NULL), child = NULL;
    if (comm == NULL)
        return;
    if (round % 3 == 0)
        nccl_works(d, comm, d->me->n);
    if (round % 8 == 1) {
        OK(ncclCommSplit(comm, 0, 0, &child, NULL));
        OK(ncclCommDestroy(child));
    }
    ranks_meet(d->me);
    if (round % 4 == 1)
        OK(ncclCommFinalize(comm));
    OK(round % 2 == 0 ? ncclCommAbort(comm) : ncclCommDestroy(comm));
}

static void a_thousand(struct nccl_desk *d)
{
    struct patience patience = patience_of(10000);
    int round = 0, rounds = WARM_UP + (d->dev != NULL ? ON_DEVICE : COMMS);
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1); /* mallinfo2 tells of one only */
#endif
    while (round < WARM_UP)
        have_one(d, round++);
    ranks_meet(d->me);
    ranks_sleep_us(100000);
    struct holding before = look();
    while (round < rounds)
        have_one(d, round++);
    ranks_meet(d->me);
    struct holding now = look();
    while (is_more(&now, &before) && !patience_is_over(&patience)) { /* what lingers goes */
        ranks_sleep_us(10000);
        now = look();
    }
    ranks_expect(d->me, !is_more(&now, &before),
        "descriptors %ld, before %ld; threads %ld, %ld; maps %ld, %ld; files %ld, %ld KiB; resident %ld, %ld "
        "KiB; heap %zu, %zu",
        now.descriptors, before.descriptors, now.threads, before.threads, now.maps, before.maps,
        now.files_kib, before.files_kib, now.resident_kib, before.resident_kib, now.heap, before.heap);
}

Test(nccl_many, a_thousand)
{
    nccl_run(&(struct nccl_plan){ "a thousand", NCCL_EVERYWHERE, 2, a_thousand, 0, true });
}
