/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fake.h: a CUDA runtime and driver that do nothing but note how they are called.
 *
 * The files of transports/cuda are linked with these functions in place of the real ones, so that what the
 * device table asks of CUDA, and what it makes of the answers, can be tested where no GPU is. */
#ifndef TT_TESTS_CUDA_FAKE_H
#define TT_TESTS_CUDA_FAKE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake {
    char calls[2000]; /* since the last fake_calls: "cudaMalloc(64) cudaFree(0x1000)" */
    const char *failing; /* this function returns that error */
    int code;
    const char *missing; /* the driver has no such function */
    int driver_version; /* which has the forms up to it */
    bool no_fds; /* descriptors cannot be exported */
    bool integrated; /* the devices are */
    bool shared; /* by MPS */
    int devices; /* there are so many; the driver's count */
    int owner; /* of any memory behind a handle; -1: of a device that this process does not see */
    int context_device; /* of the context of this thread; -1: it has none */
    uintptr_t pushed; /* the context that is over that; 0: none */
    int capture; /* the status of all streams */
    struct { /* what any pointer is */
        unsigned type, managed;
        int device, mapped;
        uintptr_t base, mapping_base;
        size_t bytes, mapping_bytes;
        unsigned long long id;
        int legacy; /* a legacy handle can be had */
    } pointer;
    unsigned long long handle; /* behind any pointer; 0: none */
    int handle_types; /* that it was made with */
    int exported_fd;
    void (*release)(void *); /* of the last user object */
};
extern struct fake fake;

/* A call of this function with these arguments; the error that it returns. */
int fake_note(const char *function, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What was called since the last time; valid until the next call of anything. */
const char *fake_calls(void);

/* The kernels 0 and 2, whose parameters have 24 bytes. */
extern const char fake_kernels[3];

#endif
