/* SPDX-License-Identifier: BSD-3-Clause */
/* dev.h: the device table of this process, found when it is first needed.
 *
 * Look for it only where a device is asked for: a runtime that has been started cannot be used in processes
 * that are forked later, and some programs fork first and use devices in their children only. */
#ifndef TT_DEV_H
#define TT_DEV_H
#include "base/dev.h"
#include "base/text.h"
#include "tutti.h"

/* `library` is the setting device_library; "" means Tutti's own plugin, or what was loaded before. Who asks
 * first decides for the process. From any thread. Errors: UNSUPPORTED, and the text says what is missing: a
 * plugin, a driver, a newer one, a device; INVALID_USAGE: the process looked in another library before, or
 * was forked after it had found devices; OUT_OF_MEMORY. */
tutti_status tt_dev_find(const char *library, const struct tt_dev **dev);

/* How many devices there are; 0, with a last error that says what is missing, where tt_dev_find is
 * UNSUPPORTED. Its other errors are errors here. */
tutti_status tt_dev_count(const char *library, int *count);

/* True if this process uses devices: it has looked for them, or their driver is loaded. */
bool tt_dev_is_used(void);

/* The library, and a line for each device; or why there is none. As JSON, one object in a line. */
void tt_dev_put(struct tt_text *t, const char *library, bool json);

#endif
