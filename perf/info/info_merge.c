/* SPDX-License-Identifier: BSD-3-Clause */
/* info_merge.c: the traces of several processes as one.
 *
 * A trace is an array of JSON with one event in a line, so it is merged by lines. A file whose process was
 * killed has no end, and perhaps a last line that was cut; what is whole counts. Times need no care:
 * processes of one host share the clock. */
#include "info_merge.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum { PROCESSES_MAX = 4096 };

struct merge {
    long processes[PROCESSES_MAX]; /* one of each file */
    int files;
    bool begun;
};

/* The event in a line: without the comma and the end; NULL if it is none. */
static char *event_of(char *line)
{
    size_t length = strcspn(line, "\r\n");
    while (length > 0 && (line[length - 1] == ',' || line[length - 1] == ' '))
        length--;
    line[length] = '\0';
    return line[0] == '{' && line[length - 1] == '}' ? line : NULL;
}

/* The first event tells the process. Each counts once, or its slices would lie over each other. */
static const char *take_process(struct merge *m, const char *event)
{
    long pid;
    const char *at = strstr(event, "\"pid\": ");
    if (at == NULL || sscanf(at, "\"pid\": %ld", &pid) != 1)
        return "it is not a trace of Tutti";
    for (int i = 0; i < m->files; i++)
        if (m->processes[i] == pid)
            return "its process was merged already";
    if (m->files == PROCESSES_MAX)
        return "4096 traces are legal";
    m->processes[m->files++] = pid;
    return NULL;
}

static const char *merge_lines(struct merge *m, FILE *file, int *lines)
{
    const char *wrong = "it is not a trace of Tutti";
    char *line = NULL, *event;
    size_t room = 0;
    *lines = 0;
    while (getline(&line, &room, file) > 0) {
        if (strcmp(line, "[\n") == 0 && *lines == 0) {
            wrong = NULL;
            continue;
        }
        event = event_of(line);
        if (wrong == NULL && event != NULL && *lines == 0)
            wrong = take_process(m, event);
        if (wrong != NULL)
            break;
        if (event == NULL)
            continue;
        printf("%s%s", m->begun ? ",\n" : "[\n", event);
        m->begun = true;
        ++*lines;
    }
    free(line);
    return wrong;
}

int info_merge(const char *const *names, int n)
{
    struct merge *m = calloc(1, sizeof *m);
    int code = m != NULL ? 0 : 3;
    for (int i = 0; i < n && code == 0; i++) {
        int lines = 0;
        FILE *file = fopen(names[i], "r");
        const char *wrong = file != NULL ? merge_lines(m, file, &lines) : "it cannot be opened";
        if (wrong != NULL)
            fprintf(stderr, "tutti-info: merge %s: %s\n", names[i], wrong);
        code = wrong != NULL ? 2 : 0;
        if (file != NULL)
            fclose(file);
    }
    if (code == 0)
        printf("\n]\n");
    free(m);
    return code;
}
