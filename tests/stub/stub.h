/* SPDX-License-Identifier: BSD-3-Clause */
/* stub.h: the controls of the stub, a GPU runtime without a GPU behind the device table (lib/base/dev.h).
 *
 * It is pessimistic on purpose: whatever a runtime may do to a program that relies on more than it is
 * promised, the stub does, so that the program hangs or fails here and not only on somebody's machine. Each
 * file says which part of the hardware it models; tests/device/test_stub*.c shows each hazard.
 *
 * Programs that cannot call the controls are configured by the environment: STUB_GPU is a list of
 * key=value with commas between:
 *   devices=2     how many; 0: no device, and the calls say so
 *   queues=8      hardware queues of each device, which streams share
 *   depth=1024    what a queue holds; an enqueue beyond that waits, and keeps others from enqueueing
 *   lock=process  who enqueues, allocates or frees keeps all others of the process from it, on any device;
 *                 lock=device: on the same device
 *   memory=1024   MiB of each device
 *   sms=8 blocks_per_sm=2     places for blocks, each kept until its block ends
 *   launch_blocking=0         1: a launch returns when its kernel is over
 *   share=PATH    processes with the same file are on the same devices, on which two of them never run
 *                 kernels at once; without it all run at once, as with a shared context (MPS)
 *   slice=2000    microseconds after which a process gives way to others; 0: it never does
 *   yield=1       0: a stream that waits for a word keeps its process running
 *   delay=0       microseconds at most, by chance, before each piece of work; copy_delay=, word_delay=,
 *                 host_delay=, event_delay= and launch_delay= say it for one class
 *   seed=1        of that chance
 *   words=1 managed=1 fds=1   0: the devices lack it
 *   exports=1     0: what programs allocate is of a pool: nothing but segments can be exported
 *   words_fault=0 what is wrong with words that devices seem to have: 1: the functions are refused, 2: writes
 *                 are not seen, 3: a wait passes at once, 4: a wait never ends
 *   one_address=1 0: devices know pinned memory of the user's by an address of their own, which alone is
 *                 legal for words and kernels
 *   peers=1       0: no device reaches the memory of another one
 *   fail=FUNCTION:K[:ERROR]   the K-th call of that function of the table fails: invalid (if none is named),
 *                 no_memory, unsupported, or broken, which the device then stays */
#ifndef TT_STUB_H
#define TT_STUB_H
#include "base/dev.h"

struct tt_stub_kernels { /* what kernels do */
    /* 0: there is no such kernel, or no multiprocessor has room for one block. */
    int (*blocks_per_sm)(uint32_t kernel, uint32_t block, uint32_t shared_bytes);
    /* One block, on a thread of its own. The parameters' pointers into device memory are such that a host
     * can follow; others, which it finds in memory, it gives to tt_stub.reach. In loops that wait it calls
     * tt_stub.pause. */
    void (*run)(const struct tt_dev_launch *launch, uint32_t block);
};

struct tt_stub {
    /* A text as in STUB_GPU, over what that says. False after the first call of the table, or if the text
     * is wrong. */
    bool (*configure)(const char *text);

    /* Calls of a function of the table so far, by all threads. UINT64_MAX: there is none of that name. */
    uint64_t (*calls)(const char *function);
    /* The k-th call from now on (1: the next) of `function` returns `error` and does nothing. 0: none does.
     * TT_DEV_BROKEN breaks the device that is current then. */
    bool (*fail)(const char *function, uint64_t k, enum tt_dev_error error);

    /* What users' programs make, and the table does not: a stream that waits for the legacy default stream,
     * as that does for it. */
    enum tt_dev_error (*stream_create_blocking)(void **stream);
    /* And what they can do: true: this thread goes into a context of the user's own on its device, beside the
     * primary one; false: back, as `use` of another device does. */
    void (*own_context)(bool own);

    /* And a range of addresses of this thread's device in which so many parts are mapped side by side, as
     * allocators do whose memory grows; in place of number `hole` (-1: none) is nothing. */
    void *(*map_parts)(size_t part_bytes, int parts, int hole);

    /* Once, before the first launch. The module has kernels: a plugin's, where there is a C++ compiler. */
    void (*kernels)(const struct tt_stub_kernels *kernels);
    void (*pause)(void);
    /* NULL, and the device is broken, if it has nothing at this address. */
    void *(*reach)(const void *ptr);

    /* Where the stub itself sees the byte at a device's address, NULL if there is none: tests look at device
     * memory and fill it by this, with no work in between. */
    void *(*look)(const void *ptr);
};

/* Exported by the module, beside tutti_device_table. */
typedef const struct tt_stub *(*tt_stub_fn)(void);
const struct tt_stub *tt_stub(void);
const struct tt_dev *tutti_device_table(uint32_t version);

#endif
