/* SPDX-License-Identifier: BSD-3-Clause */
/* commands_main.c: the command data as a program, for commands.sh. */
#include <stdio.h>
#include <string.h>

#include "training/commands/commands.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "data") == 0)
        return tr_command_data(argc - 1, argv + 1);
    fprintf(stderr, "usage: commands_main data ...\n");
    return 2;
}
