/* SPDX-License-Identifier: BSD-3-Clause */
/* data.c: the command `tutti-train data`, which makes one file of tokens out of any text.
 *
 * A token is a byte. So no vocabulary has to be made first or kept beside the model, and a text of any
 * language will do. */
#include "training/commands/commands.h"
#include "training/data/corpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: tutti-train data [-o FILE] [FILES...]\n"
    "\n"
    "Gathers text and writes it as tokens, one a byte, to learn from with `tutti-train train --data FILE`.\n"
    "\n"
    "  FILES      text files and directories. Of a directory: all regular files below it that are text, in "
    "the\n"
    "             order of their names; links are not followed. None: the documents of this program, and "
    "the\n"
    "             licences in /usr/share/common-licenses\n"
    "  -o FILE    where to write; corpus.bin if not given. The file is replaced when the new one is whole\n"
    "  --help     this text\n"
    "\n"
    "The file is what llm.c calls a data file: 256 numbers of 32 bits (20240520, version 1, how many tokens, "
    "and\n"
    "zeros), then one number of 16 bits for each token. The vocabulary is 256.\n"
    "\n"
    "  tutti-train data -o c.bin /usr/include      a corpus of C, tens of megabytes on most machines\n"
    "  tutti-train data -o me.bin diary.txt        whatever you have written\n";

static int wrong(const char *text)
{
    fprintf(stderr, "tutti-train data: %s\n", text);
    return 1;
}

static int gather(const char *output, int n, char **paths)
{
    struct tr_error e;
    struct tr_corpus c = { 0 };
    bool ok = n > 0 || tr_corpus_add_default(&c, &e);
    for (int i = 0; ok && i < n; i++)
        ok = tr_corpus_add(&c, paths[i], &e);
    if (ok && c.count == 0)
        ok =
            tr_fail(&e, "there is no text in what was named; text files and directories with such are legal");
    ok = ok && tr_corpus_write(&c, output, &e);
    if (ok) {
        printf("%s: %" PRId64 " tokens, one a byte, of %" PRId64 " file%s\n", output, c.count, c.files,
            c.files == 1 ? "" : "s");
        if (c.others > 0)
            printf(
                "left out, for they are no text: %" PRId64 " file%s\n", c.others, c.others == 1 ? "" : "s");
        printf("checksum %016" PRIx64 ": the same bytes give the same number anywhere\n",
            tr_corpus_checksum(&c));
        ok = fflush(stdout) == 0 || tr_fail(&e, "the summary cannot be written");
    }
    tr_corpus_free(&c);
    return ok ? 0 : wrong(e.text);
}

int tr_command_data(int argc, char **argv)
{
    const char *output = "corpus.bin";
    char **paths = tr_new((size_t)argc, sizeof *paths);
    int n = 0, status = -1;
    bool only_paths = false;
    for (int i = 1; i < argc && status < 0; i++) {
        if (only_paths || argv[i][0] != '-')
            paths[n++] = argv[i];
        else if (strcmp(argv[i], "--") == 0)
            only_paths = true;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            status = fputs(help, stdout) < 0;
        else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            output = argv[++i];
        else {
            fprintf(stderr, "tutti-train data: %s %s; legal are -o FILE, --help, and files after --\n",
                argv[i], strcmp(argv[i], "-o") == 0 ? "needs a FILE" : "is not known");
            status = 2;
        }
    }
    if (status < 0)
        status = gather(output, n, paths);
    free(paths);
    return status;
}
