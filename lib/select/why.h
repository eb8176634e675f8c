/* SPDX-License-Identifier: BSD-3-Clause */
/* why.h: the choice explained, for people. */
#ifndef TT_WHY_H
#define TT_WHY_H
#include "select/choose.h"

/* Every algorithm of the collective in a line, its predicted time with its parts or why it cannot serve, then
 * who decided, and the costs. False, with the thread's last error set, if there is no choice. */
bool tt_why(const struct tt_request *request, struct tt_text *answer);

#endif
