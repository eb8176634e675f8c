/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.h: what the programs of tests/gpu share: they look at a device through the device table of a plugin, on
 * a machine where there is one (or on the stub, which shows that the programs themselves work).
 *
 * Each check runs in processes of its own, one or two: a device that hangs or breaks ends one check and not
 * the others, and the runtime is started only after the fork. What it finds out it notes in shared memory;
 * the parent prints one JSON object for each check, and never touches the device. */
#ifndef TT_TESTS_GPU_H
#define TT_TESTS_GPU_H
#include <stdbool.h>
#include <stdint.h>

#include "base/dev.h"

enum { GPU_NUMBERS = 16, GPU_TEXT = 400, GPU_SHARED_BYTES = 65536 };

struct gpu_notes { /* of a check */
    bool failed, skipped;
    bool dies; /* one of the check's processes is killed, by itself */
    char why[GPU_TEXT];
    int count;
    struct {
        char name[40];
        double value;
    } numbers[GPU_NUMBERS];
};

struct gpu_me { /* one process of a check */
    const struct tt_dev *dev;
    int device; /* is current */
    int side; /* of two processes: 0 or 1 */
    int channel; /* a socket to the other one */
    uint8_t *shared; /* GPU_SHARED_BYTES that both see, zero */
    struct gpu_notes *notes;
};

struct gpu_check {
    const char *name;
    int processes;
    void (*run)(struct gpu_me *me);
};

/* `PROGRAM LIBRARY [DEVICE [CHECK]]`: the exit code is 0 if none failed, 1 if one did, 2 for bad usage.
 * `PROGRAM --list`: the names of the checks. */
int gpu_main(const char *program, const struct gpu_check *checks, int count, int argc, char **argv);

/* The first that does not hold ends the check, which failed. */
void gpu_fine(struct gpu_me *me, enum tt_dev_error error, const char *what);
void gpu_expect(struct gpu_me *me, bool holds, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What cannot be looked at here: the check ends. */
_Noreturn void gpu_skip(struct gpu_me *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gpu_number(struct gpu_me *me, const char *name, double value); /* the unit is last in the name */

double gpu_seconds(void);
double gpu_median(double *values, int count); /* which it sorts */
void gpu_meet(struct gpu_me *me); /* the two processes of a check */
void gpu_send(struct gpu_me *me, const struct tt_dev_export *export);
void gpu_receive(struct gpu_me *me, struct tt_dev_export *export); /* *export->fd is the receiver's own */

/* Shorthands; what fails ends the check. */
void *gpu_stream(struct gpu_me *me);
void *gpu_alloc(struct gpu_me *me, enum tt_dev_kind kind, uint64_t bytes);
void gpu_sync(struct gpu_me *me, void *stream);
uint32_t *gpu_words(struct gpu_me *me, uint32_t **seen); /* the shared bytes, pinned: *seen for the device */
void gpu_store(uint32_t *word, uint32_t value); /* by the processor, */
uint32_t gpu_load(const uint32_t *word);
void gpu_await(struct gpu_me *me, const uint32_t *word, uint32_t value, const char *what); /* until it is */
/* Launch the kernel that copies; UNSUPPORTED or INVALID where the library has no kernels. */
enum tt_dev_error gpu_launch_copy(
    struct gpu_me *me, void *dst, const void *src, uint64_t bytes, uint32_t grid, void *stream);

#endif
