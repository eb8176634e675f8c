/* SPDX-License-Identifier: BSD-3-Clause */
/* life.c: a mapping that only a living process has. It is of an empty file and cannot be touched, so it costs
 * an entry in a table. */
#include "transports/life.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transports/arena.h"

/* The mapping is for ever. A child that another thread forks between the two calls would have it, too, and
 * this process would not be known as dead while that child lives: a microsecond, once in a process. */
static bool map_for_ever(int fd)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *mapped = mmap(NULL, page, PROT_NONE, MAP_SHARED, fd, 0);
    return mapped != MAP_FAILED && madvise(mapped, page, MADV_DONTFORK) == 0;
}

int tt_life_begin(void)
{
    int fd = tt_arena_file("tutti-life");
    if (fd < 0)
        return -1;
    if (map_for_ever(fd))
        return fd;
    int wrong = errno;
    close(fd);
    errno = wrong;
    return -1;
}

bool tt_life_over(int fd)
{
    return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;
}
