/* SPDX-License-Identifier: BSD-3-Clause */
/* commands.h: the commands of tutti-train. Each gets its own name and what follows it on the command line,
 * and returns the exit status: 0, 1 if what was asked for is wrong, 2 if the command line is. */
#ifndef TRAINING_COMMANDS_COMMANDS_H
#define TRAINING_COMMANDS_COMMANDS_H

int tr_command_train(int argc, char **argv);
int tr_command_explain(int argc, char **argv);
int tr_command_plan(int argc, char **argv);
int tr_command_verify(int argc, char **argv);
int tr_command_compare(int argc, char **argv);
int tr_command_mesh(int argc, char **argv);
int tr_command_devices(int argc, char **argv);
int tr_command_schedule(int argc, char **argv);
int tr_command_simulate(int argc, char **argv);
int tr_command_staleness(int argc, char **argv);
int tr_command_data(int argc, char **argv);
int tr_command_demo(int argc, char **argv);
int tr_command_exercise(int argc, char **argv);
int tr_command_export(int argc, char **argv);
int tr_command_import(int argc, char **argv);
int tr_command_sample(int argc, char **argv);
int tr_command_translate(int argc, char **argv);

#endif
