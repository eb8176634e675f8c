/* SPDX-License-Identifier: BSD-3-Clause */
/* commands_main.c: the commands data and demo as a program, for commands.sh. */
#include <stdio.h>
#include <string.h>

#include "training/commands/commands.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "data") == 0)
        return tr_command_data(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "demo") == 0)
        return tr_command_demo(argc - 1, argv + 1);
    fprintf(stderr, "usage: commands_main data|demo ...\n");
    return 2;
}
