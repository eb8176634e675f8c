/* SPDX-License-Identifier: BSD-3-Clause */
/* golden_write.c: writes the golden texts into the directory that is its one argument.
 *
 * No test runs it: a person does, after a deliberate change of an algorithm, and reads the difference. */
#include <errno.h>
#include <sys/stat.h>

#include "golden.h"

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: golden_write DIRECTORY\n");
        return 2;
    }
    for (int g = 0; g < golden_count(); g++) {
        struct schedule_set set = golden_set(g);
        char *text = golden_text(&set), path[600];
        golden_folder(g, argv[1], path, sizeof path);
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            perror(path);
            return 1;
        }
        golden_path(g, argv[1], path, sizeof path);
        FILE *file = fopen(path, "w");
        if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
            perror(path);
            return 1;
        }
        free(text);
        set_free(&set);
    }
    return 0;
}
