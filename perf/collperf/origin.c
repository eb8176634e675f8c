/* SPDX-License-Identifier: BSD-3-Clause */
/* origin.c: asked of the system once, before anything is measured. */
#include "origin.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "clock.h"
#include "perf/info/machine.h"
#include "tutti.h"

/* Puts a space for each character that would end a text or a field where it is written. */
static void clean(char *text)
{
    for (; *text != 0; text++)
        if (*text == '"' || *text == '\\' || *text == ',' || (unsigned char)*text < ' ')
            *text = ' ';
}

static void read_host(char *text, size_t bytes)
{
    if (gethostname(text, bytes) != 0)
        snprintf(text, bytes, "unknown");
    text[bytes - 1] = 0;
    clean(text);
}

void perf_version(char *text, size_t bytes)
{
    int version = tutti_get_version();
    snprintf(text, bytes, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

void perf_origin_read(struct perf_origin *origin)
{
    struct utsname system = { 0 };
    perf_version(origin->version, sizeof origin->version);
    read_host(origin->host, sizeof origin->host);
    perf_machine_cpu(origin->cpu, sizeof origin->cpu);
    uname(&system);
    snprintf(origin->kernel, sizeof origin->kernel, "%.15s %.47s", system.sysname, system.release);
    perf_clock_date(origin->date, sizeof origin->date);
    clean(origin->cpu);
    clean(origin->kernel);
}

void perf_place_read(struct perf_place *place)
{
    place->pid = (int)getpid();
    read_host(place->host, sizeof place->host);
    perf_machine_places(place->cores, sizeof place->cores);
}
