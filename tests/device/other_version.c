/* SPDX-License-Identifier: BSD-3-Clause */
/* other_version.c: a module such as another version of Tutti would leave behind: it serves no version. */
#include "base/dev.h"

const struct tt_dev *tutti_device_table(uint32_t version);

const struct tt_dev *tutti_device_table(uint32_t version)
{
    (void)version;
    return NULL;
}
