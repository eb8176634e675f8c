/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_count.c: how many instructions one small collective takes, where the clock is too noisy to tell.
 *
 * usage: bench_count [COLLECTIVE [on|off]]   one of `forms` below (default: all_reduce), of 8 bytes, two
 *                                            ranks; with the fused paths (default: on), or without
 *
 * Most virtual machines hide the processor's counters, so two rank processes are stepped: an instruction of
 * rank 0, one of rank 1, and so on, from the moment when both are about to call until both are back. Neither
 * waits for the other then, and that is the way that must be short. It needs no right beyond that of tracing
 * one's own children. A system call is one instruction. Prints a JSON line with the figure of the rank that
 * takes more. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tutti.h"

enum { RANKS = 2, WARM = 2000, CALLS = 5, POLLS = 1000000, LONGEST = 1000000, FAILED = 3 };

struct rank {
    pid_t pid;
    bool running; /* a step was begun and its end not seen */
    bool marked;
    long steps; /* since the mark before */
};

typedef tutti_status (*form_fn)(tutti_comm *comm, const float *send, float *recv);

static tutti_status all_reduce(tutti_comm *comm, const float *send, float *recv)
{
    return tutti_all_reduce(send, recv, 2, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
}

static tutti_status broadcast(tutti_comm *comm, const float *send, float *recv)
{
    return tutti_broadcast(send, recv, 2, TUTTI_FLOAT32, 0, comm, tutti_no_stream());
}

static tutti_status barrier(tutti_comm *comm, const float *send, float *recv)
{
    (void)send;
    (void)recv;
    return tutti_barrier(comm, tutti_no_stream());
}

static tutti_status all_gather_v(tutti_comm *comm, const float *send, float *recv)
{
    const size_t counts[RANKS] = { 1, 1 };
    return tutti_all_gather_v(send, 1, recv, counts, NULL, TUTTI_FLOAT32, comm, tutti_no_stream());
}

static tutti_status sendrecv(tutti_comm *comm, const float *send, float *recv)
{
    int peer = 1 - tutti_comm_rank(comm);
    tutti_group_start();
    tutti_send(send, 2, TUTTI_FLOAT32, peer, comm, tutti_no_stream());
    tutti_recv(recv, 2, TUTTI_FLOAT32, peer, comm, tutti_no_stream());
    return tutti_group_end();
}

static const struct form {
    const char *name;
    form_fn call;
} forms[] = {
    { "all_reduce", all_reduce },
    { "broadcast", broadcast },
    { "barrier", barrier },
    { "all_gather_v", all_gather_v },
    { "sendrecv", sendrecv },
};
enum { FORMS = sizeof forms / sizeof forms[0] };

/* The tracer sees the signal; this process never does. */
static void mark(void)
{
    raise(SIGUSR1);
}

static tutti_status run_calls(tutti_comm *comm, form_fn call)
{
    float send[2] = { 1, 2 }, recv[2];
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < WARM && status == TUTTI_OK; i++)
        status = call(comm, send, recv);
    mark();
    mark(); /* what lies between two marks with nothing between them is taken off */
    for (int i = 0; i < CALLS; i++) {
        mark();
        status = status == TUTTI_OK ? call(comm, send, recv) : status;
        mark();
    }
    return status;
}

/* Rank 0 makes the id, so that nothing of the library is in the process that traces. */
static int run_rank(int rank, const int ends[2], form_fn call, const char *options)
{
    tutti_config config = { .size = sizeof config, .options = options };
    tutti_id id;
    tutti_comm *comm;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    if (rank == 0 && (tutti_get_id(&id) != TUTTI_OK || write(ends[1], &id, sizeof id) != sizeof id))
        return FAILED;
    if (rank != 0 && read(ends[0], &id, sizeof id) != sizeof id)
        return FAILED;
    if (tutti_comm_init_rank(RANKS, rank, &id, &config, &comm) != TUTTI_OK)
        return FAILED;
    tutti_status status = run_calls(comm, call);
    tutti_comm_destroy(comm);
    return status == TUTTI_OK ? 0 : FAILED;
}

/* True if a rank has stopped again within a moment. One that sleeps in the kernel has not, and is left
 * alone. */
static bool has_stopped(struct rank *r)
{
    int status;
    pid_t got = 0;
    for (int i = 0; i < POLLS && got == 0; i++)
        got = waitpid(r->pid, &status, WNOHANG);
    if (got == 0)
        return false;
    if (got < 0 || !WIFSTOPPED(status)) {
        fprintf(stderr, "bench_count: a rank failed\n");
        exit(FAILED);
    }
    r->running = false;
    r->marked = WSTOPSIG(status) == SIGUSR1;
    return true;
}

static void begin(struct rank ranks[RANKS], int request)
{
    for (int i = 0; i < RANKS; i++) {
        ranks[i].running = true;
        ranks[i].marked = false;
        ranks[i].steps = 0;
        ptrace(request, ranks[i].pid, NULL, NULL);
    }
}

/* Runs both ranks from one mark to the next at full speed. */
static void run_to_mark(struct rank ranks[RANKS])
{
    begin(ranks, PTRACE_CONT);
    for (int i = 0; i < RANKS; i++)
        while (!ranks[i].marked)
            if (has_stopped(&ranks[i]) && !ranks[i].marked) {
                ranks[i].running = true;
                ptrace(PTRACE_CONT, ranks[i].pid, NULL, NULL);
            }
}

/* Runs both ranks from one mark to the next by turns, an instruction each; returns how many the rank that
 * took more took. */
static long step_to_mark(struct rank ranks[RANKS])
{
    begin(ranks, PTRACE_SINGLESTEP);
    while (!ranks[0].marked || !ranks[1].marked) {
        for (int i = 0; i < RANKS; i++) {
            struct rank *r = &ranks[i];
            if (r->marked || !has_stopped(r) || r->marked)
                continue;
            if (++r->steps > LONGEST) {
                fprintf(stderr, "bench_count: a call does not end\n");
                exit(FAILED);
            }
            r->running = true;
            ptrace(PTRACE_SINGLESTEP, r->pid, NULL, NULL);
        }
    }
    return ranks[0].steps > ranks[1].steps ? ranks[0].steps : ranks[1].steps;
}

static int compare(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

/* NULL: there is none of this name. */
static const struct form *find_form(const char *name)
{
    for (int i = 0; i < FORMS; i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    fprintf(stderr, "bench_count: %s: legal are", name);
    for (int i = 0; i < FORMS; i++)
        fprintf(stderr, " %s", forms[i].name);
    fputs("\n", stderr);
    return NULL;
}

int main(int argc, char **argv)
{
    struct rank ranks[RANKS] = { 0 };
    long counts[CALLS];
    int ends[2];
    const char *fused = argc > 2 ? argv[2] : "on";
    const struct form *form = find_form(argc > 1 ? argv[1] : forms[0].name);
    bool off = strcmp(fused, "off") == 0;
    if (form == NULL || argc > 3 || (!off && strcmp(fused, "on") != 0)) {
        fprintf(stderr, "usage: bench_count [COLLECTIVE [on|off]]\n");
        return 2;
    }
    if (pipe(ends) != 0)
        return FAILED;
    for (int i = 0; i < RANKS; i++) {
        ranks[i].pid = fork();
        if (ranks[i].pid == 0)
            exit(run_rank(i, ends, form->call, off ? "fused=off" : "fused=on"));
    }
    for (int i = 0; i < RANKS; i++)
        while (!ranks[i].marked)
            has_stopped(&ranks[i]);
    long bare = step_to_mark(ranks);
    for (int i = 0; i < CALLS; i++) {
        run_to_mark(ranks);
        counts[i] = step_to_mark(ranks) - bare;
    }
    qsort(counts, CALLS, sizeof counts[0], compare);
    printf(
        "{\"instructions\": %ld, \"least\": %ld, \"most\": %ld, \"collective\": \"%s\", \"fused\": \"%s\", "
        "\"ranks\": %d, \"size\": %d}\n",
        counts[CALLS / 2], counts[0], counts[CALLS - 1], form->name, fused, RANKS,
        form->call == barrier ? 0 : 8);
    for (int i = 0; i < RANKS; i++)
        ptrace(PTRACE_DETACH, ranks[i].pid, NULL, NULL);
    for (int i = 0; i < RANKS; i++)
        waitpid(ranks[i].pid, NULL, 0);
    return 0;
}
