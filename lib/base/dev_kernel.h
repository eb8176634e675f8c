/* SPDX-License-Identifier: BSD-3-Clause */
/* dev_kernel.h: how the device table of a plugin finds the plugin's kernels.
 *
 * Both are siblings that do not see each other, so what passes between them is declared below them: the
 * kernels define these two functions, the table calls them. */
#ifndef TT_BASE_DEV_KERNEL_H
#define TT_BASE_DEV_KERNEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tt_dev_kernel {
    const void *function; /* as the runtime launches it */
    size_t params_bytes;
};

/* Numbers are below this; not each of them has a kernel. */
uint32_t tt_dev_kernels(void);
/* False, and *kernel untouched: no kernel has this number. */
bool tt_dev_kernel_find(uint32_t number, struct tt_dev_kernel *kernel);

#ifdef __cplusplus
}
#endif
#endif
