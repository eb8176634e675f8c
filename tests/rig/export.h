/* SPDX-License-Identifier: BSD-3-Clause */
/* export.h: a segment's export on its way to another process; see tests/rig/export.c. */
#ifndef TT_TESTS_EXPORT_H
#define TT_TESTS_EXPORT_H
#include <stdbool.h>

#include "base/dev.h"

/* By a socket that keeps messages apart. The descriptor, if there is one, becomes the receiver's own. */
bool export_send(int channel, const struct tt_dev_export *export);
bool export_receive(int channel, struct tt_dev_export *export);

#endif
