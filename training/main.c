/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c: tutti-train: which command. */
#include "training/commands/commands.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *what;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "train", "train a model (the default)", tr_command_train },
    { "explain", "placements, messages and tape of a run, without running it", tr_command_explain },
    { "plan", "which paradigms to use for a model, so many ranks and so much memory", tr_command_plan },
    { "verify", "every paradigm and mesh against one device, bit for bit", tr_command_verify },
    { "compare", "the paradigms side by side: bits, time, bytes, memory", tr_command_compare },
    { "mesh", "where each rank stands, the groups, and which meshes are legal", tr_command_mesh },
    { "devices", "processors and GPUs side by side, and which are here", tr_command_devices },
    { "schedule", "show, simulate and check pipeline schedules", tr_command_schedule },
    { "staleness", "how old the weights of asynchronous pipelines are, and the loss", tr_command_staleness },
    { "demo", "a matrix product, or a ring all-reduce, on real ranks", tr_command_demo },
    { "exercise", "questions of a textbook, answered by running", tr_command_exercise },
    { "simulate", "asynchronous parameter servers on one rank, in a given order", tr_command_simulate },
    { "data", "make a file of tokens of any text", tr_command_data },
    { "sample", "text from a trained model, on any mesh", tr_command_sample },
    { "export", "a checkpoint as safetensors, with GPT-2's names", tr_command_export },
    { "import", "safetensors as a checkpoint to begin with", tr_command_import },
    { "translate", "a run in the words of Megatron-LM, DeepSpeed and others, and back",
        tr_command_translate },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *to)
{
    fprintf(to, "usage: tutti-train [COMMAND] [OPTION]...\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].what);
    fprintf(to, "\ntutti-train COMMAND --help tells the options of each. Two to begin with:\n\n"
                "  tutti-train -n 2 --dp 2 --steps 20\n"
                "  tutti-train explain --dp 2 --tp 2\n");
}

int main(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-') {
        if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
            help(stdout);
            return 0;
        }
        return tr_command_train(argc, argv);
    }
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "tutti-train: %s is not a command; legal are:\n", argv[1]);
    help(stderr);
    return 2;
}
