/* SPDX-License-Identifier: BSD-3-Clause */
/* devices.c: the command `tutti-train devices`: processors and GPUs side by side, and what a back end gives
 * that would add another accelerator. It works where there is no GPU, and says so there. */
#include "training/backend/cuda.h"
#include "training/commands/commands.h"
#include "training/commands/prepare.h"
#include "training/launch.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What a step has, and where it is done for a rank on each. */
static const struct {
    const char *what, *host, *cuda;
} work[] = {
    { "products, attention, norms, updates", "here", "here" },
    { "the router of moe, and its experts", "here", "on the processor, on copies" },
    { "gpt, llama, mlp, cnn", "here", "here" },
    { "collectives and messages", "on shared memory or sockets", "on the device's streams" },
    { "the sums of loss and norm", "here", "on the processor, once a step" },
    { "asynchronous parameter servers", "here", "no: --device host" },
    { "--offload", "a second memory of the host", "copies beside the kernels" },
    { "--order free", "OpenBLAS", "cuBLAS: also --tf32" },
    { "ranks of a machine", "one or more threads each", "GPUs by turns, several on one" },
};

#define GIVES(name) #name, offsetof(struct tr_backend, name)
/* In the order of struct tr_backend. */
static const struct {
    const char *name;
    size_t at;
    const char *what;
} functions[] = {
    { GIVES(open), "what a context needs" },
    { GIVES(close), "its end" },
    { GIVES(enter), "another thread will use its streams" },
    { GIVES(alloc), "memory of the device, or of the host for fast copies" },
    { GIVES(release), "its end" },
    { GIVES(copy), "between any two places, waited for" },
    { GIVES(copy_later), "on a stream" },
    { GIVES(clear), "bytes of one value" },
    { GIVES(sync), "waits for all of a context" },
    { GIVES(stream), "of a context: kernels, copies, Tutti's calls" },
    { GIVES(make_stream), "one beside it" },
    { GIVES(end_stream), "its end" },
    { GIVES(record), "a point in a stream" },
    { GIVES(after), "a stream waits for a point" },
    { GIVES(wait), "the processor does" },
    { GIVES(keep), "graphs, if there are any: begin one" },
    { GIVES(kept), "its end" },
    { GIVES(replay), "all of it again" },
    { GIVES(drop), "free it" },
    { GIVES(make_marks), "times, if the device has a clock: room" },
    { GIVES(mark), "when what a stream has so far is over" },
    { GIVES(times), "all that were set" },
    { GIVES(begin_range), "for profilers, if they see any: an instruction" },
    { GIVES(end_range), "its end" },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };
_Static_assert(
    offsetof(struct tr_backend, open) + FUNCTIONS * sizeof(void (*)(void)) == sizeof(struct tr_backend),
    "each function of a back end has a row");

static bool gives(const struct tr_backend *b, int i)
{
    void (*f)(void);
    memcpy(&f, (const char *)b + functions[i].at, sizeof f);
    return f;
}

static void say_here(void)
{
    struct tr_device device;
    struct tr_error e;
    const struct tr_cuda_library *library = tr_cuda_load(&e);
    int count = 0;
    printf("processor: %d cores, kernels %s\n", tr_cores(), tr_kernels_best()->name);
    if (!library) {
        printf("GPU: none can be used: %s\n", e.text);
    } else if (tutti_device_count(&count) != TUTTI_OK || count == 0) {
        printf("GPU: none: %s\n", tutti_get_last_error(NULL));
    } else {
        for (int i = 0; i < count; i++)
            if (tr_device_use(&device, library, i, &e))
                printf("GPU %d: %s, %d multiprocessors, %" PRId64 " bytes free, %s\n", i, device.facts.name,
                    device.facts.multiprocessors, device.facts.free, device.facts.driver);
            else
                printf("GPU %d: it cannot be used: %s\n", i, e.text);
    }
}

int tr_command_devices(int argc, char **argv)
{
    struct tr_options o;
    struct tr_error e;
    int status;
    if (!tr_begin(&o, argc, argv,
            "devices: processors and GPUs side by side, which of them are here, and what a back end gives",
            false, &status))
        return status;
    if (argc > 1) {
        tr_fail(&e, "devices %s: it has no options; legal is tutti-train devices", argv[1]);
        return tr_refuse(2, &e);
    }
    say_here();
    printf("\n%-38s%-30s%s\n\n", "where a rank computes", "--device host", "--device cuda");
    for (size_t i = 0; i < sizeof work / sizeof *work; i++)
        printf("%-38s%-30s%s\n", work[i].what, work[i].host, work[i].cuda);
    printf("\nAnswer: what both columns have runs on either, and a run has its ranks on one kind; loss, norm "
           "and\nparameters have the same bits on both, unless --order free lets go of them.\n\n"
           "what a back end gives: these functions, and kernels (training/backend/backend.h)\n\n"
           "%-14s%-8s%-8s\n",
        "", tr_backend_host.name, tr_backend_cuda.name);
    for (int i = 0; i < FUNCTIONS; i++)
        printf("%-14s%-8s%-8s%s\n", functions[i].name, gives(&tr_backend_host, i) ? "yes" : "-",
            gives(&tr_backend_cuda, i) ? "yes" : "-", functions[i].what);
    return 0;
}
