/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c: which device library it is, by its name and by what it exports. */
#include "plugin.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const char *plugin_path(void)
{
    const char *named = getenv("TUTTI_DEVICE_LIBRARY");
    return named != NULL ? named : PLUGIN_STUB;
}

const struct tt_stub *plugin_stub(void)
{
    void *module = dlopen(plugin_path(), RTLD_NOW | RTLD_NOLOAD);
    void *symbol = module != NULL ? dlsym(module, "tt_stub") : NULL;
    tt_stub_fn stub;
    memcpy(&stub, &symbol, sizeof stub);
    return symbol != NULL ? stub() : NULL;
}

bool plugin_is_stub(void)
{
    return strstr(plugin_path(), "libtutti_stub") != NULL;
}

void plugin_must_be_stub(void)
{
    if (!plugin_is_stub())
        cr_skip_test("it needs the stub's controls, or two devices");
}

void plugin_must_have_kernels(void)
{
#ifdef STUB_WITHOUT_KERNELS
    if (plugin_is_stub())
        cr_skip_test("no C++ compiler emulates kernels");
#endif
}
