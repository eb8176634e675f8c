/* SPDX-License-Identifier: BSD-3-Clause */
/* plot.c: write a script for gnuplot into a file without a name, and let gnuplot read it.
 *
 * No shell takes part, so a file name may hold any character but a line's end; and a gnuplot that dies cannot
 * end this process, as it could at the other end of a pipe. */
#include "plot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record.h"

/* Lengths in points of the picture. */
enum { WIDTH = 900, TITLE = 60, PANE = 360, AXIS = 56, ROW = 18, LETTER = 9, SAMPLE = 60 };
enum { TICKS_MAX = 12 };

/* Exit code of "gnuplot ARGUMENT", reading `input`; negative if it could not be started. It gets no
 * variables: a picture depends on nobody's settings. */
static int run_gnuplot(const char *argument, int input)
{
    char *const words[] = { "gnuplot", (char *)argument, NULL }, *const variables[] = { NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(&pid, words[0], &actions, NULL, words, variables);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* True if gnuplot obeys all of it. */
static bool draws(FILE *script)
{
    return script != NULL && fflush(script) == 0 && lseek(fileno(script), 0, SEEK_SET) == 0 &&
           run_gnuplot("-", fileno(script)) == 0;
}

/* The kind of picture that this gnuplot can make of what the file's name ends in; NULL: none. */
static const char *terminal_of(const char *file)
{
    static const char *const pngs[] = { "pngcairo", "png" };
    const char *dot = strrchr(file, '.');
    if (dot != NULL && strcmp(dot, ".svg") == 0)
        return "svg dynamic";
    for (int i = 0; i < 2; i++) {
        FILE *script = tmpfile();
        if (script == NULL)
            break;
        fprintf(script, "set terminal %s\n", pngs[i]);
        bool known = draws(script);
        fclose(script);
        if (known)
            return pngs[i];
    }
    return NULL;
}

bool perf_plot_possible(const char *file)
{
    const char *why = NULL;
    if (run_gnuplot("--version", STDIN_FILENO) != 0)
        why = "gnuplot draws it and is not here; install gnuplot (Debian: gnuplot-nox), or use --csv";
    else if (terminal_of(file) == NULL)
        why = "this gnuplot cannot write PNG; legal is a file name that ends in .svg";
    else if (strpbrk(file, "\n\r") != NULL)
        why = "a line's end in its name; legal is a file that can be written";
    FILE *probe =
        why == NULL ? fopen(file, "ae") : NULL; /* an older picture stays until the new one is there */
    if (why != NULL)
        fprintf(stderr, "collperf: --plot %s: %s\n", file, why);
    else if (probe == NULL)
        fprintf(
            stderr, "collperf: --plot %s: %s; legal is a file that can be written\n", file, strerror(errno));
    if (probe != NULL)
        fclose(probe);
    return probe != NULL;
}

static void append(char *text, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, PERF_LABEL_BYTES - used, "%s%s", used > 0 ? " " : "", word);
}

/* Writes the label of a line. What is the same for all lines stands in the title, so a label has only what
 * was asked as "all". */
static void print_label(
    char *text, const struct perf_options *o, const struct perf_point *p, const char *algorithm)
{
    char root[24];
    text[0] = 0;
    if (o->collective == NULL)
        append(text, p->collective->name);
    if (o->algorithm != NULL && strcmp(algorithm, "-") != 0)
        append(text, algorithm);
    if (o->type == NULL)
        append(text, p->type->name);
    if (o->op == NULL && p->op)
        append(text, p->op->name);
    snprintf(root, sizeof root, "root %d", p->root);
    if (o->root == PERF_ALL && p->root >= 0)
        append(text, root);
    if (text[0] == 0)
        append(text, p->collective->name);
}

/* The series of a label; a new one if no mark has it yet. */
static int find_series(struct perf_plot *plot, const char *label)
{
    for (long i = plot->count; i > 0; i--)
        if (strcmp(plot->marks[i - 1].label, label) == 0)
            return plot->marks[i - 1].series;
    return plot->series++;
}

void perf_plot_add(struct perf_plot *plot, const struct perf_options *o, const struct perf_point *p,
    const char *algorithm, bool in_place, const struct perf_result *result)
{
    if (p->bytes == 0 || !result->rated)
        return; /* no place on a logarithmic axis; nothing was done */
    if (plot->count == plot->room) {
        long room = plot->room > 0 ? 2 * plot->room : 64;
        struct perf_mark *marks = realloc(plot->marks, (size_t)room * sizeof *marks);
        if (marks == NULL)
            return; /* a gap in the picture; the report has the row */
        plot->marks = marks;
        plot->room = room;
    }
    struct perf_mark *mark = &plot->marks[plot->count];
    print_label(mark->label, o, p, algorithm);
    mark->in_place = in_place;
    mark->series = find_series(plot, mark->label);
    plot->count++;
    mark->bytes = (double)p->bytes;
    mark->time_us = 1e6 * result->seconds;
    mark->busbw = perf_busbw(p, result);
}

/* A text between single quotes, as gnuplot reads it. */
static void print_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text != 0; text++)
        fprintf(script, *text == '\'' ? "''" : "%c", *text);
    fputc('\'', script);
}

/* Each series is two blocks of data in the order of its sizes: out of place, in place. gnuplot draws nothing
 * of a block without a row, but wants one: what is not a number is none. */
static void print_data(FILE *script, const struct perf_plot *plot)
{
    for (int line = 0; line < 2 * plot->series; line++) {
        fprintf(script, "$line%d << END\nNaN NaN NaN\n", line);
        for (long i = 0; i < plot->count; i++) {
            const struct perf_mark *mark = &plot->marks[i];
            if (2 * mark->series + mark->in_place == line)
                fprintf(script, "%.17g %.6g %.6g\n", mark->bytes, mark->time_us, mark->busbw);
        }
        fprintf(script, "END\n");
    }
}

/* "8 B", "64 KiB" at powers of two, so few of them that they stand apart. */
static void print_ticks(FILE *script, const struct perf_plot *plot)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int low = 63, high = 0;
    double least = plot->marks[0].bytes, most = least;
    for (long i = 0; i < plot->count; i++) {
        least = plot->marks[i].bytes < least ? plot->marks[i].bytes : least;
        most = plot->marks[i].bytes > most ? plot->marks[i].bytes : most;
        int power = 63 - __builtin_clzll((unsigned long long)plot->marks[i].bytes);
        low = power < low ? power : low;
        high = power > high ? power : high;
    }
    int step = 1 + (high - low) / TICKS_MAX;
    fprintf(script, "set xrange [%.17g:%.17g]\nset xtics (", 0.8 * least, 1.25 * most);
    for (int power = low; power <= high; power += step)
        fprintf(script, "%s'%d %s' %llu", power > low ? ", " : "", 1 << power % 10, units[power / 10],
            1ULL << power);
    fprintf(script, ")\n");
}

/* One pane: `column` of every line over the size. Colour and point tell the series: of either there is
 * another number, so that the pairs repeat late. Lines in place are dashed and have no label of their own. */
static void print_pane(FILE *script, const struct perf_plot *plot, int column, const char *axis)
{
    static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00",
        "#7f3c8d", "#000000" };
    static const int points[] = { 7, 5, 9, 11, 13, 4, 6, 8, 10 };
    enum { COLOURS = sizeof colours / sizeof colours[0], POINTS = sizeof points / sizeof points[0] };
    int line = 0;
    fprintf(script, "set ylabel '%s'\nplot", axis);
    for (long i = 0; i < plot->count; i++) {
        const struct perf_mark *mark = &plot->marks[i];
        if (2 * mark->series != line)
            continue;
        for (int in_place = 0; in_place < 2; in_place++, line++) {
            fprintf(script, "%s $line%d using 1:%d with linespoints lc rgb '%s' lw 1.5 dt %d pt %d ps 0.6 ",
                line > 0 ? "," : "", line, column, colours[mark->series % COLOURS], 1 + in_place,
                points[mark->series % POINTS]);
            fprintf(script, in_place ? "notitle" : "title ");
            if (!in_place)
                print_quoted(script, mark->label);
            fprintf(script, in_place ? "" : " noenhanced");
        }
    }
    fprintf(script, "\n");
}

/* Writes the title: what was measured. */
static void print_title(FILE *script, const struct perf_options *o, int n)
{
    char text[256];
    const char *stream = perf_memory_on_stream(o->memory) || o->blocking == 1 ? "" : ", on a host stream";
    snprintf(text, sizeof text, "%s, %d ranks, %s memory%s%s%s%s%s%s%s (dashed: in place)",
        o->collective ? o->collective->name : "all collectives", n, perf_memory_names[o->memory],
        o->type ? ", " : "", o->type ? o->type->name : "", o->op ? ", " : "", o->op ? o->op->name : "",
        o->dirty ? ", dirty" : "", stream, o->exact ? ", exact" : "");
    print_quoted(script, text);
}

/* Two panes above each other, each PANE high, and below them one legend for both, as high as it needs. */
static void print_script(
    FILE *script, const struct perf_plot *plot, const struct perf_options *o, int n, const char *origin)
{
    size_t longest = 0;
    for (long i = 0; i < plot->count; i++)
        longest = strlen(plot->marks[i].label) > longest ? strlen(plot->marks[i].label) : longest;
    int columns = (WIDTH - 130) / ((int)longest * LETTER + SAMPLE);
    columns = columns < 1 ? 1 : columns > plot->series ? plot->series : columns;
    int legend = ((plot->series + columns - 1) / columns + 1) * ROW;
    double height = TITLE + 2 * PANE + 2 * AXIS + legend;
    double bottom = (AXIS + legend) / height, pane = PANE / height, between = AXIS / height;
    print_data(script, plot);
    fprintf(script, "set terminal %s size %d,%.0f background rgb 'white'\nset output ", terminal_of(o->plot),
        WIDTH, height);
    print_quoted(script, o->plot);
    fprintf(script, "\nset label 1 ");
    print_title(script, o, n);
    fprintf(script, " at screen 0.5, screen %.5f center noenhanced\nset label 2 ", 1 - 18 / height);
    print_quoted(script, origin);
    fprintf(
        script, " at screen 0.5, screen %.5f center noenhanced textcolor rgb '#606060'\n", 1 - 38 / height);
    fprintf(script, "set multiplot\nset logscale x 2\nset grid\nunset key\nset logscale y\n");
    print_ticks(script, plot);
    fprintf(script, "set lmargin at screen 0.125\nset rmargin at screen 0.96\n");
    fprintf(script, "set bmargin at screen %.5f\nset tmargin at screen %.5f\n", bottom + pane + between,
        bottom + 2 * pane + between);
    print_pane(script, plot, 2, "time of one call (us)");
    fprintf(script, "unset label 1\nunset label 2\nunset logscale y\nset yrange [0:*]\nset xlabel 'size'\n");
    fprintf(script, "set bmargin at screen %.5f\nset tmargin at screen %.5f\n", bottom, bottom + pane);
    fprintf(script,
        "set key at screen 0.54, screen %.5f center top horizontal Left reverse samplen 2 maxcols %d\n",
        legend / height, columns);
    print_pane(script, plot, 3, "bus bandwidth (GB/s)");
    fprintf(script, "unset multiplot\n");
}

bool perf_plot_draw(struct perf_plot *plot, const struct perf_options *o, int n, const char *origin)
{
    FILE *script = tmpfile();
    bool drawn = false;
    if (script != NULL && plot->count > 0) {
        print_script(script, plot, o, n, origin);
        drawn = draws(script);
    }
    if (!drawn)
        fprintf(stderr, "collperf: --plot %s: %s\n", o->plot,
            plot->count == 0 ? "there is nothing to draw" : "gnuplot did not draw it");
    if (script != NULL)
        fclose(script);
    free(plot->marks);
    *plot = (struct perf_plot){ 0 };
    return drawn;
}
