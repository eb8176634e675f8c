/* SPDX-License-Identifier: BSD-3-Clause */
/* patience.c: how much slower than alone a program runs here, by how many the system says want to run. */
#include "patience.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 200 };

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Those who run now may all have begun just now, and the average may be of a minute ago: the larger counts.
 * Twice that, because no scheduler is quite fair. */
static double slowness(void)
{
    double average = 0;
    int running = 0;
    FILE *file = fopen("/proc/loadavg", "re");
    if (file != NULL && fscanf(file, "%lf %*f %*f %d/", &average, &running) != 2)
        average = 0;
    if (file != NULL)
        fclose(file);
    double programs = average > running ? average : running, cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    return programs > cores ? 2 * programs / cores : 2;
}

struct patience patience_of(int64_t ms)
{
    return (struct patience){ (double)ms, now_ms() };
}

void patience_shorten(struct patience *p, int64_t ms)
{
    if (p->left_ms > (double)ms)
        p->left_ms = (double)ms;
}

bool patience_is_over(struct patience *p)
{
    int64_t passed = now_ms() - p->looked_ms;
    if (passed >= LOOK_MS) {
        p->looked_ms += passed;
        p->left_ms -= (double)passed / slowness();
    }
    return p->left_ms <= 0;
}

unsigned patience_seconds(unsigned seconds)
{
    return (unsigned)(seconds * slowness());
}
