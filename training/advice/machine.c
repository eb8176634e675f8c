/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.c: the machines that plans are priced for, and how such a text is read. */
#include "training/advice/machine.h"

#include <stdlib.h>
#include <string.h>

/* Of GPUs: NVIDIA's data sheets. NVLink 3 has 300 GB/s a direction; that a call gets 235 of it is assumed, by
 * the share that NVLink 4 is reported to give. An HDR card has 25 GB/s. */
#define A100                                                                                                 \
    "peak_bfloat16 312 TFLOP/s\n"                                                                            \
    "peak_float32 156 TFLOP/s  # TF32\n"                                                                     \
    "memory 80 GB\n"                                                                                         \
    "ranks_per_host 8\n"                                                                                     \
    "latency_near 3300 ns      # NCCL src/graph/tuning.cc, a hop of Simple: 3.4 us\n"                        \
    "message_near 50 ns\n"                                                                                   \
    "byte_near 235 GB/s\n"                                                                                   \
    "latency_away 13900 ns     # the same: 14 us\n"                                                          \
    "message_away 50 ns\n"                                                                                   \
    "byte_away 23 GB/s         # 25 on the line\n"
#define H100                                                                                                 \
    "peak_bfloat16 989 TFLOP/s # without sparsity\n"                                                         \
    "peak_float32 495 TFLOP/s  # TF32\n"                                                                     \
    "memory 80 GB\n"                                                                                         \
    "ranks_per_host 8\n"                                                                                     \
    "latency_near 3300 ns\n"                                                                                 \
    "message_near 50 ns\n"                                                                                   \
    "byte_near 370 GB/s        # nccl-tests issue 212\n"                                                     \
    "latency_away 13900 ns\n"                                                                                \
    "message_away 50 ns\n"                                                                                   \
    "byte_away 47 GB/s         # nccl-tests issue 290: 46 to 48 a card\n"

static const struct {
    const char *name, *about, *text;
} presets[] = {
    { "host", "ranks on the cores of one machine, each its own",
        "peak_float32 98 GFLOP/s   # products of 1024 x 1024 on a core with AVX-512: perf/results\n"
        "peak_bfloat16 98 GFLOP/s  # computed in float32\n"
        "efficiency 0.7            # assumed: small products beside that large one\n"
        "overlap 0                 # the cores copy messages\n"
        "latency_near 100 ns       # the defaults of the library\n"
        "message_near 40 ns\n"
        "byte_near 50 GB/s\n" },
    { "selene", "8 A100 of 80 GB and 8 cards of HDR InfiniBand in each host, software of 2021",
        A100 "efficiency 0.52  # the most that table 1 of Narayanan et al. 2021 has: 530B and 1T\n" },
    { "a100", "8 A100 of 80 GB and 1600 Gbit/s of RoCE in each host, software of 2023",
        A100
        "efficiency 0.6   # llm-foundry, scripts/train/benchmarking: 1b, 2048 tokens, 8 GPUs: 59.9 %\n" },
    { "dgx-h100", "8 H100 of 80 GB with NVLink 4 and 8 cards of NDR InfiniBand in each host",
        H100
        "efficiency 0.42  # llm-foundry, scripts/train/benchmarking: 1b, 2048 tokens, 8 GPUs: 41.8 %\n" },
};
enum { PRESETS = sizeof presets / sizeof *presets };

void tr_machine_list(FILE *to)
{
    for (int i = 0; i < PRESETS; i++)
        fprintf(to, "# %s: %s\n%s%s", presets[i].name, presets[i].about, presets[i].text,
            i + 1 < PRESETS ? "\n" : "");
}

/* What a line may say, and what one of its unit is here. Latencies of tutti-sim are in ns. */
static const struct {
    const char *name;
    size_t offset;
    double unit;
} rows[] = {
#define ROW(name, member, unit)                                                                              \
    {                                                                                                        \
        name, offsetof(struct tr_machine, member), unit                                                      \
    }
    ROW("efficiency", efficiency, 1),
    ROW("peak_float32", peak[0], 1),
    ROW("peak_bfloat16", peak[1], 1),
    ROW("latency_near", latency[TR_INSIDE], 1e-9),
    ROW("latency_away", latency[TR_ACROSS], 1e-9),
    ROW("message_near", message[TR_INSIDE], 1e-9),
    ROW("message_away", message[TR_ACROSS], 1e-9),
    ROW("byte_near", rate[TR_INSIDE], 1e9),
    ROW("byte_away", rate[TR_ACROSS], 1e9),
    ROW("link", link, 1e9),
#undef ROW
};
enum { ROWS = sizeof rows / sizeof *rows };

void tr_machine_say(const struct tr_machine *m, FILE *to)
{
    fprintf(to, "# %s\n", m->name);
    for (int i = 0; i < ROWS; i++) {
        double value = *(const double *)(const void *)((const char *)m + rows[i].offset) / rows[i].unit;
        bool peak = !strncmp(rows[i].name, "peak", 4), away = strstr(rows[i].name, "_away");
        if (strcmp(rows[i].name, "link") != 0 && !away)
            fprintf(to, "%s %.6g%s\n", rows[i].name, peak ? value * 1e-9 : value,
                peak                                ? " GFLOP/s"
                : !strncmp(rows[i].name, "byte", 4) ? " GB/s"
                : rows[i].unit < 1                  ? " ns"
                                                    : "");
    }
    fprintf(to, "overlap %d\n", m->covers);
    if (m->memory)
        fprintf(to, "memory %.6g GB\n", 1e-9 * (double)m->memory);
    fprintf(to, "\n");
}

/* Lines of tutti-sim's machines that say nothing of what is priced here. */
static const char *const passed_over[] = { "latency_far", "message_far", "byte_far", "fold_byte", "copy_byte",
    "switch", "eager", "hosts", "cores", "library", "algorithms", "protocol", "proxy", "launch", "staging",
    "meets" };

static bool is_passed_over(const char *name)
{
    const char *rest = strchr(name, '_');
    for (size_t i = 0; i < sizeof passed_over / sizeof *passed_over; i++)
        if (!strcmp(name, passed_over[i]))
            return true;
    return rest && (!strcmp(rest, "_call") || (!strcmp(rest, "_byte") && strcmp(name, "link_byte")));
}

static double factor(const char *unit)
{
    static const struct {
        const char *unit;
        double factor;
    } of[] = { { "GFLOP/s", 1e9 }, { "TFLOP/s", 1e12 }, { "MB", 1e6 }, { "GB", 1e9 }, { "bytes", 1 } };
    for (size_t i = 0; unit && i < sizeof of / sizeof *of; i++)
        if (!strcmp(unit, of[i].unit))
            return of[i].factor;
    return 0;
}

static bool set(struct tr_machine *m, const char *name, double value, const char *unit)
{
    double scale = factor(unit);
    if (!strcmp(name, "ranks_per_host")) {
        m->ranks_per_host = (int)value;
        return value >= 1 && value <= 65536 && value == (int)value;
    }
    if (!strcmp(name, "overlap")) {
        m->covers = value == 1;
        return value == 0 || value == 1;
    }
    if (!strcmp(name, "memory")) {
        m->memory = (int64_t)(value * scale);
        return scale > 0 && value > 0 && value < 1e6;
    }
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) != 0)
            continue;
        bool peak = !strncmp(name, "peak", 4), positive = peak || strncmp(name, "byte", 4) == 0;
        *(double *)(void *)((char *)m + rows[i].offset) = value * (peak ? scale : rows[i].unit);
        return value >= 0 && value < 1e9 && (!positive || value > 0) && (!peak || scale > 0) &&
               (strcmp(name, "efficiency") != 0 || (value > 0 && value <= 1));
    }
    return is_passed_over(name);
}

/* Reads "name value [unit] [# comment]". */
static bool read_line(struct tr_machine *m, char *line, const char **wrong)
{
    char *rest = NULL, *end = NULL;
    line[strcspn(line, "#\r\n")] = 0;
    const char *name = strtok_r(line, " \t", &rest), *value = strtok_r(NULL, " \t", &rest);
    if (!name)
        return true;
    *wrong = name;
    if (is_passed_over(name))
        return true;
    double number = value ? strtod(value, &end) : 0;
    if (value && !strcmp(name, "link") && !strcmp(value, "inf"))
        number = 0;
    else if (!value || *end || end == value)
        return false;
    return set(m, name, number, strtok_r(NULL, " \t", &rest));
}

static bool read_text(struct tr_machine *m, const char *name, char *text, struct tr_error *e)
{
    char *rest = NULL;
    int number = 1;
    for (char *line = text; line; line = rest, number++) {
        const char *wrong = "";
        rest = strchr(line, '\n');
        if (rest)
            *rest++ = 0;
        if (!read_line(m, line, &wrong))
            return tr_fail(e,
                "--machine %s, line %d: \"%s\" is no line of a machine, or its value is none; legal are "
                "peak_float32 and peak_bfloat16 with GFLOP/s or TFLOP/s, efficiency up to 1, overlap 0 or 1, "
                "memory with GB, and the lines of tutti-sim --costs",
                name, number, wrong);
    }
    return true;
}

static char *text_of(const char *name)
{
    enum { MOST = 1 << 16 };
    for (int i = 0; i < PRESETS; i++)
        if (!strcmp(name, presets[i].name)) {
            char *text = tr_new(strlen(presets[i].text) + 1, 1);
            return strcpy(text, presets[i].text);
        }
    FILE *file = fopen(name, "r");
    if (!file)
        return NULL;
    char *text = tr_new(MOST, 1);
    size_t read = fread(text, 1, MOST - 1, file);
    fclose(file);
    text[read] = 0;
    return text;
}

bool tr_machine_read(struct tr_machine *m, const char *name, struct tr_error *e)
{
    struct tr_machine read = {
        .rate = { 50e9, 1e9 }, .latency = { 1e-7, 4e-6 }, .message = { 4e-8, 3e-6 }, .covers = true
    };
    char *text = text_of(name), names[160] = "";
    for (int i = 0; i < PRESETS; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", presets[i].name);
    if (!text)
        return tr_fail(e, "--machine %.200s: there is no such file, and the machines that have a name are %s",
            name, names);
    bool ok = read_text(&read, name, text, e);
    free(text);
    if (!ok)
        return false;
    if (!(read.peak[0] > 0 || read.peak[1] > 0) || !(read.efficiency > 0))
        return tr_fail(e,
            "--machine %.200s says nothing of how fast it computes; there must be lines as peak_bfloat16 312 "
            "TFLOP/s, and efficiency 0.5",
            name);
    for (int i = 0; i < 2; i++)
        read.peak[i] = read.peak[i] > 0 ? read.peak[i] : read.peak[!i];
    snprintf(read.name, sizeof read.name, "%s", name);
    *m = read;
    return true;
}

double tr_machine_rate(const struct tr_machine *m, enum tr_reach reach)
{
    double shared = m->link > 0 && m->ranks_per_host ? m->link / m->ranks_per_host : m->rate[reach];
    return reach == TR_INSIDE || m->rate[reach] < shared ? m->rate[reach] : shared;
}
