/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c: the table, and what the last lines sum up.
 *
 * The table keeps the columns of nccl-tests so that scripts which read those read this; what is more stands
 * behind them: how the times out of place spread and how near they come to the limit (the records have those
 * in place, too), the path and the algorithm. */
#include "report.h"
#include "record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

static bool is_table(const struct perf_report *r)
{
    return !r->options->json && !r->options->csv;
}

/* Four digits that matter, in a column of 8. */
static void print_time(char *text, size_t bytes, double us)
{
    snprintf(text, bytes, us < 10 ? "%8.3f" : us < 100 ? "%8.2f" : us < 10000 ? "%8.1f" : "%8.0f", us);
}

static void print_rate(char *text, size_t bytes, double rate)
{
    snprintf(text, bytes, rate > 0 && rate < 1 ? "%7.4f" : rate < 100 ? "%7.2f" : "%7.1f", rate);
}

static void print_result(FILE *file, const struct perf_point *p, const struct perf_result *result)
{
    char time[32], alg[32], bus[32];
    if (!result->measured) {
        fprintf(file, "  %8s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    print_time(time, sizeof time, 1e6 * result->seconds);
    print_rate(alg, sizeof alg, perf_algbw(p, result));
    print_rate(bus, sizeof bus, perf_busbw(p, result));
    fprintf(file, "  %s %7s %7s", time, result->rated ? alg : "N/A", result->rated ? bus : "N/A");
    if (result->checked)
        fprintf(file, " %6" PRIu64, result->wrong);
    else
        fprintf(file, " %6s", "N/A");
}

/* Median, p99 and %limit. */
static void print_spread(const struct perf_report *r, const struct perf_result *result)
{
    char median[32], p99[32];
    double percent = perf_limit_percent(r, result);
    if (!result->measured) {
        fprintf(r->file, "  %8s %8s %6s", "N/A", "N/A", "N/A");
        return;
    }
    print_time(median, sizeof median, 1e6 * result->median);
    print_time(p99, sizeof p99, 1e6 * result->p99);
    fprintf(r->file, "  %s %s", median, p99);
    if (percent >= 0)
        fprintf(r->file, " %6.0f", percent);
    else
        fprintf(r->file, " %6s", "N/A");
}

/* The paths that carried bytes, "line" or "mapped:50%+placed:50%"; "-" when nothing was sent. */
static void print_paths(char *text, size_t bytes, const struct perf_result *result)
{
    uint64_t all = 0;
    size_t used = 0;
    for (int path = 0; path < PERF_PATHS; path++)
        all += result->path_bytes[path];
    snprintf(text, bytes, "-");
    for (int path = 0; path < PERF_PATHS && used < bytes; path++) {
        uint64_t own = result->path_bytes[path];
        if (own > 0)
            used += (size_t)snprintf(
                text + used, bytes - used, "%s%s", used > 0 ? "+" : "", perf_path_names[path]);
        if (own > 0 && own < all && used < bytes)
            used += (size_t)snprintf(
                text + used, bytes - used, own * 100 < all ? ":<1%%" : ":%d%%", (int)(own * 100 / all));
    }
}

static void table_row(struct perf_report *r, const struct perf_point *p, const char *algorithm,
    const struct perf_result results[2])
{
    char paths[2][80], both[168];
    for (int i = 0; i < 2; i++)
        print_paths(paths[i], sizeof paths[i], &results[i]);
    fprintf(r->file, "%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6d", p->bytes, p->count,
        p->collective->moves ? p->type->name : "none", p->op ? p->op->name : "none", p->root);
    print_result(r->file, p, &results[0]);
    print_result(r->file, p, &results[1]);
    print_spread(r, &results[0]);
    if (results[1].measured && strcmp(paths[0], paths[1]) != 0)
        snprintf(both, sizeof both, "%s/%s", paths[0], paths[1]);
    else
        snprintf(both, sizeof both, "%s", paths[0]);
    fprintf(r->file, "  %-12s  %s\n", algorithm, both);
}

/* Notes where the class changes. The flag's round trip after this point is the one before the next. */
static void note_class(struct perf_report *r)
{
    const char *before = perf_flag_class(r->flag_before), *after = perf_flag_class(r->flag_after);
    if (strcmp(before, after) != 0) {
        perf_report_note(r, "the class changed here from %s to %s: %.3f to %.3f us", before, after,
            1e6 * r->flag_before, 1e6 * r->flag_after);
        r->class_changes++;
    }
    r->flag_before = r->flag_after;
}

void perf_report_row(struct perf_report *r, const struct perf_point *p, const char *algorithm,
    const struct perf_result results[2])
{
    for (int i = 0; i < 2; i++) {
        if (!results[i].measured)
            continue;
        r->wrong += results[i].wrong;
        r->busbw_sum += perf_busbw(p, &results[i]);
        r->busbw_count += results[i].rated;
        if (!is_table(r))
            perf_record_print(r, p, algorithm, i == 1, &results[i]);
        if (r->options->plot != NULL)
            perf_plot_add(&r->plot, r->options, p, algorithm, i == 1, &results[i]);
    }
    if (is_table(r))
        table_row(r, p, algorithm, results);
    note_class(r);
    fflush(r->file);
}

static void print_range(struct perf_report *r)
{
    const struct perf_options *o = r->options;
    fprintf(r->file, "# sizes %" PRId64 " to %" PRId64, o->min_bytes, o->max_bytes);
    if (o->step_factor > 0)
        fprintf(r->file, ", times %" PRId64, o->step_factor);
    else
        fprintf(r->file, ", plus %" PRId64, o->step_bytes);
    fprintf(r->file, "; warm-up %" PRId64 "; iterations ", o->warmups);
    if (o->iterations > 0)
        fprintf(r->file, "%" PRId64, o->iterations);
    else
        fprintf(r->file, "by time");
    fprintf(r->file, "; check %" PRId64 "; mode %s; memory %s%s%s%s", o->check, o->dirty ? "dirty" : "steady",
        perf_memory_names[o->memory], o->bind ? "; bound to cores" : "", o->exact ? "; exact" : "",
        o->blocking == 1 || perf_memory_on_stream(o->memory) ? "" : "; on a host stream");
    if (o->program > 0)
        fprintf(r->file, "; %s of %" PRId64 " calls", perf_memory_on_stream(o->memory) ? "graph" : "program",
            o->program);
    fprintf(r->file, "\n");
}

#define MIB (1024.0 * 1024.0)

/* Prints which devices there are, and what of the library serves them. */
static void print_device(struct perf_report *r)
{
    char devices[32];
    perf_record_devices(r, devices, sizeof devices);
    fprintf(r->file,
        "# on streams of device %s (%s at rank 0); executor %s; %%limit of copies within the device\n",
        devices, r->device->name, r->executor);
}

static void print_start(struct perf_report *r)
{
    if (r->link.hosts > 1)
        fprintf(r->file, "# %d hosts; out of each and into it %.3g GB/s; %%limit of that, or of memory\n",
            r->link.hosts, 1e-9 * r->link.bytes_s);
    if (r->network[0] != '\0')
        fprintf(r->file, "# algorithms are chosen for a network of class %s (TUTTI_PROBE)\n", r->network);
    if (r->startup >= 0)
        fprintf(r->file, "# start-up %.1f ms", 1e3 * r->startup);
    else
        fprintf(r->file, "# start-up: not measured");
    if (r->rest_before >= 0)
        fprintf(r->file, "; a rank at rest holds %.2f MiB beyond the bare process", r->rest_before / MIB);
    fprintf(r->file, "\n");
}

/* Prints what ran and where each rank ran, as nccl-tests does. */
static void print_ranks(struct perf_report *r)
{
    fprintf(r->file, "# %s on %s, %s, %s\n", r->origin.date, r->origin.host, r->origin.cpu, r->origin.kernel);
    for (int rank = 0; rank < r->n; rank++)
        fprintf(r->file, "#  Rank %3d Pid %6d on %s cores %s\n", rank, r->places[rank].pid,
            r->places[rank].host, r->places[rank].cores);
}

static void print_flag(struct perf_report *r, double round_trip, const char *when)
{
    fprintf(r->file, "# flag round trip %s %.3f us: %s%s", when, 1e6 * round_trip,
        perf_flag_class(round_trip), perf_flag_hint(round_trip));
}

void perf_report_begin(struct perf_report *r)
{
    const struct perf_options *o = r->options;
    if (o->csv)
        perf_record_header(r);
    if (!is_table(r))
        return;
    fprintf(r->file, "# collperf: Tutti %s, %d rank%s", r->origin.version, r->n, r->n == 1 ? "" : "s");
    if (o->launcher != NULL)
        fprintf(r->file, " of a launcher's job (threads in each process %" PRId64 ")\n", o->threads);
    else
        fprintf(r->file, " (processes %" PRId64 ", threads in each %" PRId64 ")\n", o->processes, o->threads);
    print_ranks(r);
    print_range(r);
    if (perf_memory_on_stream(o->memory))
        print_device(r);
    print_start(r);
    if (r->flag_before >= 0)
        print_flag(r, r->flag_before, "before");
    else
        fprintf(r->file, "# flag round trip: not measured (it needs two ranks that share memory)");
    fprintf(r->file, "\n");
}

void perf_report_table(struct perf_report *r, const struct perf_collective *collective, const char *algorithm)
{
    if (!is_table(r))
        return;
    fprintf(r->file, "#\n# %s, algorithm: %s\n", collective->name,
        algorithm ? algorithm : "the library's choice");
    fprintf(r->file, "#%56s %-32s %-32s %s\n", "", "out-of-place", "in-place", "out-of-place");
    fprintf(r->file, "#%11s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
    for (int i = 0; i < 2; i++)
        fprintf(r->file, "  %8s %7s %7s %6s", "time", "algbw", "busbw", "#wrong");
    fprintf(r->file, "  %8s %8s %6s  %-12s  %s\n", "median", "p99", "%limit", "algorithm", "path");
    fprintf(r->file, "#%11s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
    for (int i = 0; i < 2; i++)
        fprintf(r->file, "  %8s %7s %7s %6s", "(us)", "(GB/s)", "(GB/s)", "");
    fprintf(r->file, "  %8s %8s %6s\n", "(us)", "(us)", "(%)");
    fflush(r->file);
}

void perf_report_note(struct perf_report *r, const char *format, ...)
{
    if (!is_table(r))
        return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(r->file, "# ");
    vfprintf(r->file, format, arguments);
    fprintf(r->file, "\n");
    va_end(arguments);
}

void perf_report_origin(const struct perf_report *r, char *text, size_t bytes)
{
    const char *class = r->flag_after < 0 ? "class unknown" : perf_flag_class(r->flag_after);
    const struct perf_origin *o = &r->origin;
    snprintf(text, bytes, "Tutti %s on %s, %s, %s, %s, %s", o->version, o->host, o->cpu, o->kernel, o->date,
        r->class_changes > 0 ? "class changed" : class);
}

bool perf_report_end(struct perf_report *r)
{
    note_class(r);
    if (is_table(r) && r->flag_after >= 0) {
        print_flag(r, r->flag_after, "after");
        if (r->class_changes == 0)
            fprintf(r->file, "; the class did not change\n");
        else
            fprintf(r->file, "; the class changed %ld times within this run\n", r->class_changes);
    }
    if (is_table(r) && r->rest_after >= 0)
        fprintf(r->file,
            "# a rank at rest holds %.2f MiB in the end, without buffers; the mean of all is %.2f\n",
            r->rest_after / MIB, r->rest_mean / MIB);
    if (is_table(r)) {
        if (r->options->check > 0)
            fprintf(r->file, "#\n# Out of bounds values : %" PRIu64 " %s\n", r->wrong,
                r->wrong > 0 ? "FAILED" : "OK");
        else
            fprintf(r->file, "#\n# Out of bounds values : not checked (-c 0)\n");
        fprintf(r->file, "# Avg bus bandwidth    : %.6g GB/s\n",
            r->busbw_count > 0 ? r->busbw_sum / (double)r->busbw_count : 0.0);
    }
    return fflush(r->file) == 0 && ferror(r->file) == 0;
}
