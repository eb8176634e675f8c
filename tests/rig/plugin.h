/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.h: the device library that a test of calls on a device has: the stub, or a real one. */
#ifndef TT_TESTS_PLUGIN_H
#define TT_TESTS_PLUGIN_H
#include "tests/stub/stub.h"

#define PLUGIN_STUB "tests/.libs/libtutti_stub.so"

/* What TUTTI_DEVICE_LIBRARY names, which is a real plugin on a machine with a GPU (tests/gpu/run). */
const char *plugin_path(void);
/* The stub's controls, once it is loaded; NULL: it is a real one. */
const struct tt_stub *plugin_stub(void);
bool plugin_is_stub(void); /* by its name: also before it is loaded */
/* Some tests count what the stub was asked, make it fail, or want a second device; elsewhere they are
 * skipped. */
void plugin_must_be_stub(void);
/* The stub has kernels where a C++ compiler built it; elsewhere tests of what they do are skipped. */
void plugin_must_have_kernels(void);

#endif
