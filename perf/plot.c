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

bool perf_plot_possible(const char *file)
{
    if (run_gnuplot("--version", STDIN_FILENO) != 0) {
        fprintf(stderr,
            "collperf: --plot %s: gnuplot draws it and is not here; install gnuplot (Debian: gnuplot-nox), "
            "or "
            "use --csv\n",
            file);
        return false;
    }
    FILE *probe = fopen(file, "ae"); /* an older picture stays until the new one is there */
    if (probe == NULL || strpbrk(file, "\n\r") != NULL) {
        fprintf(stderr, "collperf: --plot %s: %s; legal is a file that can be written\n", file,
            probe == NULL ? strerror(errno) : "a line's end in its name");
        return false;
    }
    fclose(probe);
    return true;
}

/* What is the same for all lines stands in the title, so a label has only what was asked as "all". */
static void print_label(char *text, const struct perf_options *o, const struct perf_point *p,
    const char *algorithm, bool in_place)
{
    char root[24] = "";
    if (o->root == PERF_ALL && p->root >= 0)
        snprintf(root, sizeof root, " root %d", p->root);
    bool forced = o->algorithm != NULL;
    snprintf(text, PERF_LABEL_BYTES, "%s%s%s%s%s%s%s%s%s", p->collective->name, forced ? " " : "",
        forced ? algorithm : "", o->type == NULL ? " " : "", o->type == NULL ? p->type->name : "",
        o->op == NULL && p->op ? " " : "", o->op == NULL && p->op ? p->op->name : "", root,
        in_place ? ", in place" : "");
}

/* The line of a label; a new one if no mark has it yet. */
static int find_line(struct perf_plot *plot, const char *label)
{
    for (long i = plot->count; i > 0; i--)
        if (strcmp(plot->marks[i - 1].label, label) == 0)
            return plot->marks[i - 1].line;
    return plot->lines++;
}

void perf_plot_add(struct perf_plot *plot, const struct perf_options *o, const struct perf_point *p,
    const char *algorithm, bool in_place, const struct perf_result *result)
{
    if (p->bytes == 0)
        return; /* no place on a logarithmic axis */
    if (plot->count == plot->room) {
        long room = plot->room > 0 ? 2 * plot->room : 64;
        struct perf_mark *marks = realloc(plot->marks, (size_t)room * sizeof *marks);
        if (marks == NULL)
            return; /* a gap in the picture; the report has the row */
        plot->marks = marks;
        plot->room = room;
    }
    struct perf_mark *mark = &plot->marks[plot->count];
    print_label(mark->label, o, p, algorithm, in_place);
    mark->in_place = in_place;
    mark->line = find_line(plot, mark->label);
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

/* Each line is a block of data, in the order of its sizes, and a label. */
static void print_lines(FILE *script, const struct perf_plot *plot)
{
    for (int line = 0; line < plot->lines; line++) {
        fprintf(script, "$line%d << END\n", line);
        for (long i = 0; i < plot->count; i++)
            if (plot->marks[i].line == line)
                fprintf(script, "%.17g %.6g %.6g\n", plot->marks[i].bytes, plot->marks[i].time_us,
                    plot->marks[i].busbw);
        fprintf(script, "END\n");
    }
}

/* One pane: `column` of every line over the size; lines in place are dashed. */
static void print_pane(FILE *script, const struct perf_plot *plot, int column, const char *axis)
{
    fprintf(script, "set ylabel '%s'\nplot", axis);
    int line = 0, colour = 0;
    for (long i = 0; i < plot->count; i++) {
        const struct perf_mark *mark = &plot->marks[i];
        if (mark->line != line)
            continue;
        colour += !mark->in_place;
        fprintf(script, "%s $line%d using 1:%d with linespoints lc %d dt %d pt 7 ps 0.4 title ",
            line > 0 ? "," : "", line, column, colour, mark->in_place ? 2 : 1);
        print_quoted(script, mark->label);
        fprintf(script, " noenhanced");
        line++;
    }
    fprintf(script, "\n");
}

static void print_script(FILE *script, const struct perf_plot *plot, const struct perf_options *o, int n)
{
    print_lines(script, plot);
    fprintf(script, "set terminal svg size 900,900 dynamic background rgb 'white'\nset output ");
    print_quoted(script, o->plot);
    fprintf(script, "\nset multiplot layout 2,1 title 'Tutti, %d ranks, %s memory%s%s%s' noenhanced\n", n,
        perf_memory_names[o->memory], o->type ? ", " : "", o->type ? o->type->name : "",
        o->exact ? ", exact" : "");
    fprintf(script, "set logscale x 2\nset format x '%%.0b %%BB'\nset lmargin 10\nset grid\n"
                    "set key outside right top\nset logscale y\nset xlabel 'size'\n");
    print_pane(script, plot, 2, "time of one call (us)");
    fprintf(script, "unset logscale y\nset yrange [0:*]\n");
    print_pane(script, plot, 3, "bus bandwidth (GB/s)");
    fprintf(script, "unset multiplot\n");
}

bool perf_plot_draw(struct perf_plot *plot, const struct perf_options *o, int n)
{
    FILE *script = tmpfile();
    bool drawn = false;
    if (script != NULL && plot->count > 0) {
        print_script(script, plot, o, n);
        drawn = fflush(script) == 0 && lseek(fileno(script), 0, SEEK_SET) == 0 &&
                run_gnuplot("-", fileno(script)) == 0;
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
