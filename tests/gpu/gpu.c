/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.c: runs checks in processes of their own and prints what they noted.
 *
 * A process that hangs is ended by its own alarm. Where one of two ends early the other is ended, too: it
 * would wait for a peer that is gone. */
#include "gpu.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cuda/cuda_kernels.h"
#include "tests/rig/export.h"

enum { LIMIT_S = 60, WRONG = 1 };

struct stage {
    struct gpu_notes notes;
    pthread_barrier_t both;
};

static pthread_barrier_t *both; /* of the check of this process */

/* --- Notes. */

static void note(struct gpu_me *me, const char *format, va_list arguments)
{
    if (me->notes->why[0] == '\0')
        vsnprintf(me->notes->why, GPU_TEXT, format, arguments);
}

void gpu_expect(struct gpu_me *me, bool holds, const char *format, ...)
{
    va_list arguments;
    if (holds)
        return;
    va_start(arguments, format);
    note(me, format, arguments);
    va_end(arguments);
    me->notes->failed = true;
    _exit(WRONG);
}

void gpu_fine(struct gpu_me *me, enum tt_dev_error error, const char *what)
{
    gpu_expect(me, error == TT_DEV_OK, "%s: %s", what, error == TT_DEV_OK ? "" : me->dev->why());
}

void gpu_skip(struct gpu_me *me, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    note(me, format, arguments);
    va_end(arguments);
    me->notes->skipped = true;
    _exit(WRONG);
}

void gpu_number(struct gpu_me *me, const char *name, double value)
{
    struct gpu_notes *notes = me->notes;
    gpu_expect(me, notes->count < GPU_NUMBERS, "%s: more than %d numbers", name, GPU_NUMBERS);
    snprintf(notes->numbers[notes->count].name, sizeof notes->numbers[0].name, "%s", name);
    notes->numbers[notes->count++].value = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gpu_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    putchar('"');
}

static void print_notes(const char *program, const char *check, const struct gpu_notes *notes)
{
    printf("{\"program\": \"%s\", \"check\": \"%s\", \"outcome\": \"%s\", \"why\": ", program, check,
        notes->failed    ? "failed"
        : notes->skipped ? "skipped"
                         : "passed");
    print_text(notes->why);
    printf(", \"numbers\": {");
    for (int i = 0; i < notes->count; i++) {
        printf("%s\"%s\": ", i > 0 ? ", " : "", notes->numbers[i].name);
        if (isfinite(notes->numbers[i].value))
            printf("%.6g", notes->numbers[i].value);
        else
            printf("null"); /* JSON has no other word for it */
    }
    printf("}}\n");
    fflush(stdout);
}

/* --- Processes. */

static void open_table(struct gpu_me *me, const char *library)
{
    int n = 0;
    void *module = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *symbol = module != NULL ? dlsym(module, "tutti_device_table") : NULL;
    gpu_expect(me, symbol != NULL, "%s: %s", library, symbol == NULL ? dlerror() : "");
    tt_dev_table_fn table;
    memcpy(&table, &symbol, sizeof table);
    me->dev = table(TT_DEV_VERSION);
    gpu_expect(me, me->dev != NULL, "%s is of another version of Tutti", library);
    gpu_fine(me, me->dev->count(&n), "count");
    gpu_expect(me, me->device < n, "there is no device %d: there are %d", me->device, n);
}

static pid_t start(const struct gpu_check *check, struct gpu_me me, const char *library)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    alarm(LIMIT_S);
    open_table(&me, library);
    check->run(&me);
    _exit(0);
}

static void end(struct gpu_notes *notes, int status)
{
    bool hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && notes->dies)
        return;
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || notes->failed || notes->skipped))
        return;
    notes->failed = true;
    if (notes->why[0] == '\0')
        snprintf(notes->why, GPU_TEXT, hung ? "it hung: no end within %d s" : "it died: status %#x",
            hung ? LIMIT_S : status);
}

static void run_check(const struct gpu_check *check, int device, const char *library, struct stage *stage)
{
    int status, channel[2];
    pid_t pids[2] = { 0, 0 };
    uint8_t *shared = mmap(NULL, GPU_SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attributes;
    *stage = (struct stage){ 0 };
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&stage->both, &attributes, 2);
    both = &stage->both;
    if (shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel) != 0) {
        perror(check->name);
        exit(WRONG);
    }
    for (int side = 0; side < check->processes; side++)
        pids[side] = start(
            check, (struct gpu_me){ NULL, device, side, channel[side], shared, &stage->notes }, library);
    for (int left = check->processes; left > 0; left--) {
        pid_t gone = wait(&status);
        int side = gone == pids[1];
        end(&stage->notes, status);
        pids[side] = 0;
        if (pids[!side] > 0 && (stage->notes.failed || stage->notes.skipped))
            kill(pids[!side], SIGKILL);
    }
    close(channel[0]);
    close(channel[1]);
    munmap(shared, GPU_SHARED_BYTES);
}

static int list(const struct gpu_check *checks, int count)
{
    for (int i = 0; i < count; i++)
        puts(checks[i].name);
    return 0;
}

int gpu_main(const char *program, const struct gpu_check *checks, int count, int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list(checks, count);
    int ran = 0, failed = 0, device = argc > 2 ? atoi(argv[2]) : 0;
    struct stage *stage =
        mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stage == MAP_FAILED)
        return WRONG;
    for (int i = 0; i < count && argc > 1; i++) {
        if (argc > 3 && strcmp(argv[3], checks[i].name) != 0)
            continue;
        run_check(&checks[i], device, argv[1], stage);
        print_notes(program, checks[i].name, &stage->notes);
        ran++;
        failed += stage->notes.failed;
    }
    if (ran > 0)
        return failed > 0;
    fprintf(stderr, "usage: %s LIBRARY [DEVICE [CHECK]], or --list, which names the checks\n", program);
    return 2;
}

/* --- What checks use. */

double gpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void gpu_meet(struct gpu_me *me)
{
    (void)me;
    pthread_barrier_wait(both);
}

void gpu_send(struct gpu_me *me, const struct tt_dev_export *export)
{
    gpu_expect(me, export_send(me->channel, export), "the export was not sent");
}

void gpu_receive(struct gpu_me *me, struct tt_dev_export *export)
{
    gpu_expect(me, export_receive(me->channel, export), "no export came");
}

void *gpu_stream(struct gpu_me *me)
{
    void *stream = NULL;
    gpu_fine(me, me->dev->stream.create(&stream), "stream_create");
    return stream;
}

void *gpu_alloc(struct gpu_me *me, enum tt_dev_kind kind, uint64_t bytes)
{
    void *memory = NULL;
    if (kind == TT_DEV_DEVICE)
        gpu_fine(me, me->dev->memory.alloc(bytes, &memory), "alloc");
    else if (kind == TT_DEV_MANAGED)
        gpu_fine(me, me->dev->memory.alloc_managed(bytes, &memory), "alloc_managed");
    else
        gpu_fine(me, me->dev->memory.alloc_pinned(bytes, &memory), "alloc_pinned");
    return memory;
}

void gpu_sync(struct gpu_me *me, void *stream)
{
    gpu_fine(me, me->dev->stream.sync(stream), "stream_sync");
}

uint32_t *gpu_words(struct gpu_me *me, uint32_t **seen)
{
    struct tt_dev_facts facts;
    void *pinned = NULL;
    gpu_fine(me, me->dev->facts(me->device, &facts), "facts");
    if (!facts.words)
        gpu_skip(me, "streams of this device cannot write and wait for words");
    gpu_fine(me, me->dev->memory.pin(me->shared, GPU_SHARED_BYTES, &pinned), "pin");
    *seen = pinned;
    return (uint32_t *)me->shared;
}

void gpu_store(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

uint32_t gpu_load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* It spins, for the time it takes is what some want to know. */
void gpu_await(struct gpu_me *me, const uint32_t *word, uint32_t value, const char *what)
{
    double until = gpu_seconds() + LIMIT_S / 3.0;
    for (uint32_t spins = 1; (int32_t)(gpu_load(word) - value) < 0; spins++) {
        if (spins % 4096 != 0)
            continue;
        sched_yield();
        gpu_expect(me, gpu_seconds() < until, "%s: the word is %u after %d s and not %u", what,
            gpu_load(word), LIMIT_S / 3, value);
    }
}

enum tt_dev_error gpu_launch_copy(
    struct gpu_me *me, void *dst, const void *src, uint64_t bytes, uint32_t grid, void *stream)
{
    struct tt_fused_params params = { .own = { .in = { src }, .out = { dst } },
        .rects = 1,
        .rect = { { .count = bytes, .sources = 1, .dsts = 1 } } };
    struct tt_dev_launch launch = { .kernel = tt_kernel_number(TT_KERNEL_MOVE, 0, 0),
        .grid = grid,
        .grid_y = 1,
        .block = 256,
        .params = &params,
        .params_bytes = sizeof params };
    return me->dev->launch(&launch, stream);
}
