/* SPDX-License-Identifier: BSD-3-Clause */
/* record.c: fill the fields once, then write them in the form that was asked for. */
#include "record.h"

#include <inttypes.h>
#include <stdarg.h>

enum field {
    COLLECTIVE,
    ALGORITHM,
    TYPE,
    OP,
    ROOT,
    IN_PLACE,
    BYTES,
    COUNT,
    RANKS,
    TIME,
    ALGBW,
    BUSBW,
    WRONG,
    PATH,
    LIMIT,
    ITERATIONS,
    MEMORY,
    EXACT,
    FLAG,
    CLASS,
    MEDIAN,
    P99,
    BLOCKING,
    PROGRAM,
    MODE,
    LIMIT_TIME,
    FLAG_AFTER,
    CLASS_AFTER,
    STARTUP,
    REST,
    REWRITTEN,
    PATH_BYTES, /* one for each path but the last */
    DEVICE = PATH_BYTES + PERF_PATHS - 1,
    DEVICE_NAME,
    EXECUTOR,
    BOUND,
    VERSION,
    HOST,
    CPU,
    KERNEL,
    DATE,
    PULLED, /* the last path */
    FIELDS
};

/* The names of the fields, and which are text, and so stand between quotes in JSON. */
static const struct {
    const char *name;
    bool text;
} fields[FIELDS] = {
    [COLLECTIVE] = { "collective", true },
    [ALGORITHM] = { "algorithm", true },
    [TYPE] = { "type", true },
    [OP] = { "op", true },
    [ROOT] = { "root", false },
    [IN_PLACE] = { "in_place", false },
    [BYTES] = { "bytes", false },
    [COUNT] = { "count", false },
    [RANKS] = { "ranks", false },
    [TIME] = { "time_us", false },
    [ALGBW] = { "algbw", false },
    [BUSBW] = { "busbw", false },
    [WRONG] = { "wrong", false },
    [PATH] = { "path", true },
    [LIMIT] = { "limit", false },
    [ITERATIONS] = { "iterations", false },
    [MEMORY] = { "memory", true },
    [EXACT] = { "exact", false },
    [FLAG] = { "flag_us", false },
    [CLASS] = { "class", true },
    [MEDIAN] = { "median_us", false },
    [P99] = { "p99_us", false },
    [BLOCKING] = { "blocking", false },
    [PROGRAM] = { "program", false },
    [MODE] = { "mode", true },
    [LIMIT_TIME] = { "limit_us", false },
    [FLAG_AFTER] = { "flag_after_us", false },
    [CLASS_AFTER] = { "class_after", true },
    [STARTUP] = { "startup_ms", false },
    [REST] = { "rest_kib", false },
    [REWRITTEN] = { "rewritten_bytes", false },
    [PATH_BYTES] = { "line_bytes", false },
    { "mapped_bytes", false }, /* in the order of perf_path_names */
    { "placed_bytes", false },
    { "copied_bytes", false },
    [DEVICE] = { "device", true },
    [DEVICE_NAME] = { "device_name", true },
    [EXECUTOR] = { "executor", true },
    [BOUND] = { "bound", false },
    [VERSION] = { "version", true },
    [HOST] = { "host", true },
    [CPU] = { "cpu", true },
    [KERNEL] = { "kernel", true },
    [DATE] = { "date", true },
    [PULLED] = { "pulled_bytes", false },
};

/* A record, a text for each field. One that is not set is not known: null in JSON, nothing in CSV. */
struct record {
    char values[FIELDS][64];
};

double perf_algbw(const struct perf_point *p, const struct perf_result *result)
{
    return result->rated && result->seconds > 0 ? 1e-9 * (double)p->bytes / result->seconds : 0;
}

double perf_busbw(const struct perf_point *p, const struct perf_result *result)
{
    return perf_algbw(p, result) * p->collective->factor(p->n);
}

double perf_limit_seconds(const struct perf_report *r, const struct perf_result *result)
{
    double flag = r->flag_before < r->flag_after ? r->flag_before : r->flag_after;
    bool known = perf_flag_undisturbed(flag) && !perf_memory_on_stream(r->options->memory);
    return known && flag > result->bytes_seconds ? flag : result->bytes_seconds;
}

double perf_limit_percent(const struct perf_report *r, const struct perf_result *result)
{
    double limit = perf_limit_seconds(r, result);
    return limit > 0 && result->seconds > 0 ? 100 * limit / result->seconds : -1;
}

/* The paths that carried bytes, as "line" or "mapped+copied"; "-" when nothing was sent. */
static void print_paths(char *text, size_t bytes, const struct perf_result *result)
{
    snprintf(text, bytes, "-");
    size_t used = 0;
    for (int path = 0; path < PERF_PATHS && used < bytes; path++)
        if (result->path_bytes[path] > 0)
            used += (size_t)snprintf(
                text + used, bytes - used, "%s%s", used > 0 ? "+" : "", perf_path_names[path]);
}

__attribute__((format(printf, 3, 4))) static void set(
    struct record *record, enum field field, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(record->values[field], sizeof record->values[field], format, arguments);
    va_end(arguments);
}

static void set_truth(struct record *record, enum field field, bool value)
{
    set(record, field, "%s", value ? "true" : "false");
}

static void set_call(struct record *record, const struct perf_point *p, const char *algorithm, bool in_place)
{
    set(record, COLLECTIVE, "%s", p->collective->name);
    set(record, ALGORITHM, "%s", algorithm);
    set(record, TYPE, "%s", p->collective->moves ? p->type->name : "none");
    set(record, OP, "%s", p->op ? p->op->name : "none");
    set(record, ROOT, "%d", p->root);
    set_truth(record, IN_PLACE, in_place);
    set(record, BYTES, "%" PRIu64, p->bytes);
    set(record, COUNT, "%" PRIu64, p->count);
    set(record, RANKS, "%d", p->n);
}

static void set_result(struct record *record, const struct perf_point *p, const struct perf_result *result)
{
    set(record, TIME, "%.4f", 1e6 * result->seconds);
    set(record, MEDIAN, "%.4f", 1e6 * result->median);
    set(record, P99, "%.4f", 1e6 * result->p99);
    if (result->rated) {
        set(record, ALGBW, "%.5g", perf_algbw(p, result));
        set(record, BUSBW, "%.5g", perf_busbw(p, result));
    }
    if (result->checked)
        set(record, WRONG, "%" PRIu64, result->wrong);
    print_paths(record->values[PATH], sizeof record->values[PATH], result);
    for (int path = 0; path < PERF_PATHS; path++)
        set(record, path < PERF_PATHS - 1 ? PATH_BYTES + path : PULLED, "%" PRIu64,
            result->path_bytes[path] / (uint64_t)result->calls);
    set(record, ITERATIONS, "%ld", result->calls);
    set(record, REWRITTEN, "%" PRIu64, result->rewritten / (uint64_t)result->calls);
}

static void set_limit(struct record *record, const struct perf_report *r, const struct perf_result *result)
{
    if (perf_limit_percent(r, result) < 0)
        return;
    set(record, LIMIT, "%.2f", perf_limit_percent(r, result));
    set(record, LIMIT_TIME, "%.4f", 1e6 * perf_limit_seconds(r, result));
}

static void set_origin(struct record *record, const struct perf_origin *origin)
{
    set(record, VERSION, "%s", origin->version);
    set(record, HOST, "%s", origin->host);
    set(record, CPU, "%s", origin->cpu);
    set(record, KERNEL, "%s", origin->kernel);
    set(record, DATE, "%s", origin->date);
}

static void set_run(struct record *record, const struct perf_report *r)
{
    set(record, BOUND, "%s", r->options->bind ? "true" : "false");
    set(record, MODE, "%s", r->options->dirty ? "dirty" : "steady");
    set(record, MEMORY, "%s", perf_memory_names[r->options->memory]);
    set(record, EXECUTOR, "%s", perf_memory_on_stream(r->options->memory) ? r->executor : "host");
    if (perf_memory_on_stream(r->options->memory)) {
        perf_record_devices(r, record->values[DEVICE], sizeof record->values[DEVICE]);
        set(record, DEVICE_NAME, "%s", r->device->name);
    }
    set_truth(record, EXACT, r->options->exact);
    set_truth(record, BLOCKING, r->options->blocking == 1);
    set(record, PROGRAM, "%" PRId64, r->options->program);
    if (r->startup >= 0)
        set(record, STARTUP, "%.3f", 1e3 * r->startup);
    if (r->rest_before >= 0)
        set(record, REST, "%.0f", r->rest_before / 1024);
    if (r->flag_before >= 0) {
        set(record, FLAG, "%.3f", 1e6 * r->flag_before);
        set(record, CLASS, "%s", perf_flag_class(r->flag_before));
        set(record, FLAG_AFTER, "%.3f", 1e6 * r->flag_after);
        set(record, CLASS_AFTER, "%s", perf_flag_class(r->flag_after));
    }
}

void perf_record_devices(const struct perf_report *r, char *text, size_t bytes)
{
    if (r->options->device == PERF_DEVICE_ANY && r->device->count > 1)
        snprintf(text, bytes, "rank%%%d", r->device->count);
    else
        snprintf(text, bytes, "%d", r->device->number);
}

static void print_json(FILE *file, const struct record *record)
{
    for (int i = 0; i < FIELDS; i++) {
        bool known = record->values[i][0] != 0;
        const char *quote = known && fields[i].text ? "\"" : "";
        fprintf(file, "%s\"%s\": %s%s%s", i == 0 ? "{" : ", ", fields[i].name, quote,
            known ? record->values[i] : "null", quote);
    }
    fprintf(file, "}\n");
}

void perf_record_header(struct perf_report *r)
{
    for (int i = 0; i < FIELDS; i++)
        fprintf(r->file, "%s%s", i == 0 ? "" : ",", fields[i].name);
    fprintf(r->file, "\n");
}

void perf_record_print(struct perf_report *r, const struct perf_point *p, const char *algorithm,
    bool in_place, const struct perf_result *result)
{
    struct record record = { 0 };
    set_call(&record, p, algorithm, in_place);
    set_result(&record, p, result);
    set_limit(&record, r, result);
    set_run(&record, r);
    set_origin(&record, &r->origin);
    if (r->options->json) {
        print_json(r->file, &record);
        return;
    }
    for (int i = 0; i < FIELDS; i++)
        fprintf(r->file, "%s%s", i == 0 ? "" : ",", record.values[i]);
    fprintf(r->file, "\n");
}
