/* SPDX-License-Identifier: BSD-3-Clause */
/* load.c: loads a library while the program runs, where that can be done.
 *
 * In a program that is linked statically dlopen is there and finds the library, but loads a second C library
 * beneath it, which nobody has initialised: the first thread or lock of it crashes. So such a program is
 * refused before. Only the program itself tells: libtutti.a can stand in a dynamic one, and works there. */
#include "base/load.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The program comes first, and says by PT_INTERP that a loader started it, whichever way the loader came. */
static int look_at_program(struct dl_phdr_info *program, size_t bytes, void *loader)
{
    (void)bytes;
    for (int i = 0; i < program->dlpi_phnum; i++)
        *(bool *)loader = *(bool *)loader || program->dlpi_phdr[i].p_type == PT_INTERP;
    return 1; /* enough */
}

void *tt_load(const char *path, const char **why)
{
    bool loader = false;
    dl_iterate_phdr(look_at_program, &loader);
    if (!loader) {
        *why = "this program is linked statically, and cannot load a library: link it dynamically, if "
               "need be with libtutti.a in it";
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    *why = library == NULL ? dlerror() : NULL;
    return library;
}

/* The folder of the library that holds this code. A program that has it inside may be known by a name without
 * a path: then the kernel knows. False if nobody does. */
static bool own_folder(char *folder, size_t bytes)
{
    Dl_info info;
    char program[4096];
    if (dladdr((void *)(uintptr_t)&tt_find_own, &info) == 0 || info.dli_fname == NULL)
        return false;
    const char *name = info.dli_fname, *slash = strrchr(name, '/');
    if (slash == NULL) {
        ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        program[length > 0 ? length : 0] = '\0';
        name = program;
        slash = strrchr(name, '/');
    }
    if (slash == NULL || (size_t)(slash - name) >= bytes)
        return false;
    snprintf(folder, bytes, "%.*s", (int)(slash - name), name);
    return true;
}

bool tt_find_own(const char *name, char *path, size_t bytes, struct tt_text *looked)
{
    char own[4096];
    bool placed = own_folder(own, sizeof own);
    const char *const folders[] = { placed ? own : NULL, placed ? own : NULL, TT_PKGLIBDIR };
    for (int i = 0; i < 3; i++) {
        struct tt_text text = { path, bytes, 0 };
        if (folders[i] == NULL)
            continue;
        tt_put(&text, "%s%s/%s", folders[i], i == 1 ? "/tutti" : "", name);
        if (text.length < text.capacity && access(path, F_OK) == 0)
            return true;
        tt_put(looked, " %s", path);
    }
    return false;
}
