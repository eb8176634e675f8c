/* report.c: two renderings of the same results.
 *
 * The table keeps the columns of nccl-tests so that scripts which read those read this; the path is the one
 * column more, at the end of the line. The names of the JSON fields are an interface: they never change. */
#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* Four digits that matter, in a column of 8. */
static void print_time(char *text, size_t bytes, double us)
{
    snprintf(text, bytes, us < 10 ? "%8.3f" : us < 100 ? "%8.2f" : us < 10000 ? "%8.1f" : "%8.0f", us);
}

static void print_rate(char *text, size_t bytes, double rate)
{
    snprintf(text, bytes, rate > 0 && rate < 1 ? "%7.4f" : rate < 100 ? "%7.2f" : "%7.1f", rate);
}

/* GB/s, as everywhere 1e9 bytes a second. */
static double algbw(const struct perf_point *p, const struct perf_result *result)
{
    return result->seconds > 0 ? 1e-9 * (double)p->bytes / result->seconds : 0;
}

static double busbw(const struct perf_point *p, const struct perf_result *result)
{
    return algbw(p, result) * p->collective->factor(p->n);
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

static void print_result(FILE *file, const struct perf_point *p, const struct perf_result *result)
{
    char time[32], alg[32], bus[32];
    if (!result->measured) {
        fprintf(file, "  %8s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    print_time(time, sizeof time, 1e6 * result->seconds);
    print_rate(alg, sizeof alg, algbw(p, result));
    print_rate(bus, sizeof bus, busbw(p, result));
    fprintf(file, "  %s %s %s", time, alg, bus);
    if (result->checked)
        fprintf(file, " %6" PRIu64, result->wrong);
    else
        fprintf(file, " %6s", "N/A");
}

static void table_row(struct perf_report *r, const struct perf_point *p, const char *algorithm,
    const struct perf_result results[2])
{
    char paths[2][40], both[96];
    for (int i = 0; i < 2; i++)
        print_paths(paths[i], sizeof paths[i], &results[i]);
    fprintf(r->file, "%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6d", p->bytes, p->count,
        p->collective->moves ? p->type->name : "none", p->op ? p->op->name : "none", p->root);
    print_result(r->file, p, &results[0]);
    print_result(r->file, p, &results[1]);
    if (results[1].measured && strcmp(paths[0], paths[1]) != 0)
        snprintf(both, sizeof both, "%s/%s", paths[0], paths[1]);
    else
        snprintf(both, sizeof both, "%s", paths[0]);
    fprintf(r->file, "  %-8s %s\n", both, algorithm);
}

static void json_result(struct perf_report *r, const struct perf_point *p, const char *algorithm,
    bool in_place, const struct perf_result *result)
{
    char paths[64];
    print_paths(paths, sizeof paths, result);
    fprintf(r->file,
        "{\"collective\": \"%s\", \"algorithm\": \"%s\", \"type\": \"%s\", \"op\": \"%s\", \"root\": %d",
        p->collective->name, algorithm, p->collective->moves ? p->type->name : "none",
        p->op ? p->op->name : "none", p->root);
    fprintf(r->file, ", \"in_place\": %s, \"bytes\": %" PRIu64 ", \"count\": %" PRIu64 ", \"ranks\": %d",
        in_place ? "true" : "false", p->bytes, p->count, p->n);
    fprintf(r->file,
        ", \"time_us\": %.4f, \"algbw\": %.5g, \"busbw\": %.5g, \"wrong\": ", 1e6 * result->seconds,
        algbw(p, result), busbw(p, result));
    if (result->checked)
        fprintf(r->file, "%" PRIu64, result->wrong);
    else
        fprintf(r->file, "null");
    fprintf(r->file,
        ", \"path\": \"%s\", \"limit\": null, \"iterations\": %ld, \"memory\": \"%s\", \"exact\": %s", paths,
        result->calls, r->options->registered ? "registered" : "malloc",
        r->options->exact ? "true" : "false");
    if (r->flag_round_trip >= 0)
        fprintf(r->file, ", \"flag_us\": %.3f, \"class\": \"%s\"}\n", 1e6 * r->flag_round_trip,
            perf_flag_class(r->flag_round_trip));
    else
        fprintf(r->file, ", \"flag_us\": null, \"class\": null}\n");
}

void perf_report_row(struct perf_report *r, const struct perf_point *p, const char *algorithm,
    const struct perf_result results[2])
{
    for (int i = 0; i < 2; i++) {
        if (!results[i].measured)
            continue;
        r->wrong += results[i].wrong;
        r->busbw_sum += busbw(p, &results[i]);
        r->busbw_count++;
        if (r->options->json)
            json_result(r, p, algorithm, i == 1, &results[i]);
    }
    if (!r->options->json)
        table_row(r, p, algorithm, results);
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
    fprintf(r->file, "; check %" PRId64 "; memory %s%s\n", o->check, o->registered ? "registered" : "malloc",
        o->exact ? "; exact" : "");
}

void perf_report_begin(struct perf_report *r)
{
    const struct perf_options *o = r->options;
    if (o->json)
        return;
    int version = tutti_get_version();
    fprintf(r->file, "# collperf: Tutti %d.%d.%d, %d ranks", version / 10000, version / 100 % 100,
        version % 100, r->n);
    if (o->launcher != NULL)
        fprintf(r->file, " of a launcher's job\n");
    else
        fprintf(r->file, " (processes %" PRId64 ", threads in each %" PRId64 ")\n", o->processes, o->threads);
    print_range(r);
    if (r->flag_round_trip >= 0)
        fprintf(r->file, "# flag round trip %.3f us: %s\n", 1e6 * r->flag_round_trip,
            perf_flag_class(r->flag_round_trip));
    else
        fprintf(r->file, "# flag round trip: not measured (it needs two ranks started by collperf)\n");
}

void perf_report_table(struct perf_report *r, const struct perf_collective *collective, const char *algorithm)
{
    if (r->options->json)
        return;
    fprintf(r->file, "#\n# %s, algorithm: %s\n", collective->name,
        algorithm ? algorithm : "the library's choice");
    fprintf(r->file, "#%56s %-32s %s\n", "", "out-of-place", "in-place");
    fprintf(r->file, "#%11s  %12s  %8s  %6s  %6s  %8s %7s %7s %6s  %8s %7s %7s %6s  %-8s %s\n", "size",
        "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
        "#wrong", "path", "algorithm");
    fprintf(r->file, "#%11s  %12s  %8s  %6s  %6s  %8s %7s %7s %6s  %8s %7s %7s\n", "(B)", "(elements)", "",
        "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)");
    fflush(r->file);
}

void perf_report_note(struct perf_report *r, const char *format, ...)
{
    if (r->options->json)
        return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(r->file, "# ");
    vfprintf(r->file, format, arguments);
    fprintf(r->file, "\n");
    va_end(arguments);
}

bool perf_report_end(struct perf_report *r)
{
    if (!r->options->json) {
        fprintf(r->file, "#\n# Out of bounds values : %" PRIu64 " %s\n", r->wrong,
            r->wrong > 0        ? "FAILED"
            : r->options->check ? "OK"
                                : "(not checked)");
        fprintf(r->file, "# Avg bus bandwidth    : %.6g\n",
            r->busbw_count > 0 ? r->busbw_sum / (double)r->busbw_count : 0.0);
    }
    return fflush(r->file) == 0 && ferror(r->file) == 0;
}
