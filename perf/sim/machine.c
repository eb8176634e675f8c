/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.c: the machines that tutti-sim knows, and how such a text is read. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What GPUs charge for their own memory: an H100 moves 3.35 TB/s, NVIDIA's data sheet. */
#define H100_MEMORY "fold_byte 3350 GB/s\ncopy_byte 1675 GB/s\n"
/* NCCL's model of a hop over NVLink, protocol LL: 0.6 us, of which the ends do half. 370 GB/s of the 450 of
 * NVLink 4 are what NVIDIA's engineers say is to be expected. */
#define NVLINK_4                                                                                             \
    "latency_near 300 ns   # NCCL src/graph/tuning.cc: 0.6 us a hop, half of it here\n"                      \
    "message_near 150 ns\n"                                                                                  \
    "byte_near 370 GB/s    # nccl-tests issue 212\n"

#define GPUS                                                                                                 \
    "no launch, protocol or proxy is priced, and the transport between GPUs of several hosts is not Tutti's"

const struct sim_preset sim_presets[] = {
    { "dgx-h100", "8 H100 with NVLink 4 in each host, InfiniBand NDR 400G for each",
        "ranks_per_host 8\n" NVLINK_4 "latency_away 1500 ns  # openucx/ucx issue 9908: tag_lat of 8 bytes\n"
        "message_away 200 ns\n"
        "byte_away 47 GB/s     # nccl-tests issue 290: 46 to 48 GB/s a card\n"
        "link 376 GB/s         # 8 cards\n" H100_MEMORY "eager 1024 bytes\n",
        GPUS },
    { "roce-400", "8 H100 with NVLink 4 in each host, 400G RoCE for each",
        "ranks_per_host 8\n" NVLINK_4 "latency_away 3000 ns  # 2 to 10 us are reported; secondary source\n"
        "message_away 200 ns\n"
        "byte_away 46 GB/s     # line rate 50\n"
        "link 368 GB/s         # 8 cards\n" H100_MEMORY "eager 1024 bytes\n",
        GPUS },
    { "slingshot-11", "4 H100 with NVLink 4 in each host, Slingshot-11 for each, as on Alps",
        "ranks_per_host 4\n" NVLINK_4
        "latency_away 3700 ns  # LogGOPS of Alps, ATLAHS: L 3700, o 200, G 0.04\n"
        "message_away 200 ns\n"
        "byte_away 24.3 GB/s   # libfabric issue 11392 and uccl issue 956: 22.6 to 24.3\n"
        "link 97.2 GB/s        # 4 cards\n" H100_MEMORY "eager 1024 bytes\n",
        GPUS },
    { "ethernet", "two ranks in each host, TCP, as between network namespaces of one machine",
        "ranks_per_host 2\n"
        "latency_away 4000 ns  # measured: L + 2 o is 8 to 10 us\n"
        "message_away 3000 ns\n"
        "byte_away 1.6 GB/s    # measured: 1.3 to 2 a connection\n"
        "link 1.3 GB/s         # measured by collperf --tune, of two ranks together\n",
        NULL },
};
const int sim_preset_count = (int)(sizeof sim_presets / sizeof sim_presets[0]);

/* Reads "name value [unit] [# comment]". */
static bool read_line(char *line, struct sim_machine *machine, const char **wrong)
{
    char *rest = NULL, *end;
    line[strcspn(line, "#\n")] = '\0';
    const char *name = strtok_r(line, " \t", &rest), *value = strtok_r(NULL, " \t", &rest);
    if (name == NULL)
        return true;
    *wrong = name;
    double number = value != NULL ? strtod(value, &end) : -1;
    if (value == NULL || *end != '\0')
        return false;
    if (strcmp(name, "ranks_per_host") == 0) {
        machine->ranks_per_host = (int)number;
        return number >= 1 && number <= 65536 && number == (int)number;
    }
    return tt_costs_set(&machine->costs, name, number);
}

static bool read_text(const char *name, char *text, struct sim_machine *machine, char *why)
{
    char *rest = NULL;
    int number = 1;
    for (char *line = text; line != NULL; line = rest, number++) {
        const char *wrong = "";
        rest = strchr(line, '\n');
        if (rest != NULL)
            *rest++ = '\0';
        if (!read_line(line, machine, &wrong)) {
            snprintf(why, SIM_WHY_BYTES,
                "%s, line %d: \"%s\" is no cost, or its value is none; legal are the names of `tutti-sim "
                "--costs`, and ranks_per_host",
                name, number, wrong);
            return false;
        }
    }
    return true;
}

static char *text_of_file(const char *path)
{
    enum { MOST = 1 << 16 };
    FILE *file = fopen(path, "r");
    char *text = file != NULL ? calloc(1, MOST) : NULL;
    if (text != NULL && fread(text, 1, MOST - 1, file) == 0) {
        free(text);
        text = NULL;
    }
    if (file != NULL)
        fclose(file);
    return text;
}

bool sim_machine_read(const char *name, struct sim_machine *machine, char *why)
{
    struct sim_machine read = { .costs = tt_costs_default() };
    char *text = NULL;
    for (int i = 0; i < sim_preset_count; i++)
        if (strcmp(sim_presets[i].name, name) == 0) {
            text = strdup(sim_presets[i].text);
            read.omits = sim_presets[i].omits;
        }
    if (text == NULL)
        text = text_of_file(name);
    if (text == NULL) {
        snprintf(why, SIM_WHY_BYTES, "there is no machine, and no file, \"%s\" (tutti-sim --machines)", name);
        return false;
    }
    bool good = read_text(name, text, &read, why);
    free(text);
    if (good)
        *machine = read;
    return good;
}
