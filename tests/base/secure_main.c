/* SPDX-License-Identifier: BSD-3-Clause */
/* secure_main.c: a program that test_secure.c gives rights that its user lacks, and that says what it takes
 * from the environment: the settings, and what init_env finds. */
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "tutti.h"

int main(void)
{
    static char text[16384];
    tutti_comm *comm;
    tutti_query(NULL, "config", text, sizeof text);
    tutti_status status = tutti_comm_init_env(NULL, &comm);
    printf("secure %lu\ninit_env %d: %s\n%s", getauxval(AT_SECURE), status, tutti_get_last_error(NULL), text);
    fflush(stdout);
    _exit(0); /* LeakSanitizer looks at a process that ends otherwise, and may not look at one with rights */
}
