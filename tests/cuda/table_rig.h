/* SPDX-License-Identifier: BSD-3-Clause */
/* table_rig.h: the device table of transports/cuda over functions of CUDA that note their calls. */
#ifndef TT_TESTS_CUDA_TABLE_RIG_H
#define TT_TESTS_CUDA_TABLE_RIG_H
#include "base/dev.h"
#include "cuda_fake.h"

const struct tt_dev *tutti_device_table(uint32_t version);
extern const struct tt_dev *dev;

/* Before each test. */
void table_begin(void);
/* This succeeded, and made these calls. */
void called(enum tt_dev_error error, const char *calls);
/* From now on this function of CUDA fails. */
void fail(const char *function, int code);

#endif
