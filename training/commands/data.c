/* SPDX-License-Identifier: BSD-3-Clause */
/* data.c: the command `tutti-train data`, which makes one file of tokens out of any text.
 *
 * A token is a byte, unless a vocabulary is named. So none has to be made first or kept beside the model, and
 * a text of any language will do. */
#include "training/commands/commands.h"
#include "training/data/corpus.h"
#include "training/text/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: tutti-train data [-o FILE] [--tokenizer DIRECTORY] [FILES...]\n"
    "\n"
    "Gathers text and writes it as tokens, to learn from with `tutti-train train --data FILE`.\n"
    "\n"
    "  FILES      text files and directories. Of a directory: all regular files below it that are text, in "
    "the\n"
    "             order of their names; links are not followed. None: the documents of this program, and "
    "the\n"
    "             licences in /usr/share/common-licenses\n"
    "  -o FILE    where to write; corpus.bin if not given. The file is replaced when the new one is whole\n"
    "  --tokenizer DIRECTORY\n"
    "             tokens are those of GPT-2's vocab.json and merges.txt there (or encoder.json and "
    "vocab.bpe);\n"
    "             without it a token is a byte\n"
    "  --help     this text\n"
    "\n"
    "The file is what llm.c calls a data file: 256 numbers of 32 bits (20240520, version 1, how many tokens, "
    "and\n"
    "zeros), then one number of 16 bits for each token. The vocabulary is 256, or that of --tokenizer, which "
    "a\n"
    "run is told by --vocabulary. Nothing stands between files, and what a file says is text: <|endoftext|>, "
    "too.\n"
    "\n"
    "  tutti-train data -o c.bin /usr/include      a corpus of C, tens of megabytes on most machines\n"
    "  tutti-train data -o me.bin diary.txt        whatever you have written\n";

static int wrong(const char *text)
{
    fprintf(stderr, "tutti-train data: %s\n", text);
    return 1;
}

/* Tokens of all files together. */
static bool make_tokens(struct tr_corpus *c, const char *folder, int64_t *vocabulary, struct tr_error *e)
{
    struct tr_tokenizer t;
    if (!tr_tokenizer_open(&t, folder, e))
        return false;
    c->tokens = tr_encode(&t, c->bytes, c->count, &c->n_tokens);
    *vocabulary = t.count;
    tr_tokenizer_close(&t);
    return true;
}

static void say_tokens(const struct tr_corpus *c, const char *output, int64_t vocabulary)
{
    const char *files = c->files == 1 ? "file" : "files";
    if (!c->tokens)
        printf("%s: %" PRId64 " tokens, one a byte, of %" PRId64 " %s\n", output, c->count, c->files, files);
    else
        printf("%s: %" PRId64 " tokens of %" PRId64 " that there are, of %" PRId64 " bytes in %" PRId64
               " %s\nto be learned with --data %s --vocabulary %" PRId64 "\n",
            output, c->n_tokens, vocabulary, c->count, c->files, files, output, vocabulary);
}

static int gather(const char *output, const char *tokenizer, int n, char **paths)
{
    struct tr_error e;
    struct tr_corpus c = { 0 };
    int64_t vocabulary = 0;
    bool ok = n > 0 || tr_corpus_add_default(&c, &e);
    for (int i = 0; ok && i < n; i++)
        ok = tr_corpus_add(&c, paths[i], &e);
    if (ok && c.count == 0)
        ok =
            tr_fail(&e, "there is no text in what was named; text files and directories with such are legal");
    ok = ok && (!*tokenizer || make_tokens(&c, tokenizer, &vocabulary, &e));
    ok = ok && tr_corpus_write(&c, output, &e);
    if (ok) {
        say_tokens(&c, output, vocabulary);
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
    const char *output = "corpus.bin", *tokenizer = "";
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
        else if (strcmp(argv[i], "--tokenizer") == 0 && i + 1 < argc)
            tokenizer = argv[++i];
        else {
            fprintf(stderr,
                "tutti-train data: %s %s; legal are -o FILE, --tokenizer DIRECTORY, --help, and files after "
                "--\n",
                argv[i],
                strcmp(argv[i], "-o") == 0            ? "needs a FILE"
                : strcmp(argv[i], "--tokenizer") == 0 ? "needs a DIRECTORY"
                                                      : "is not known");
            status = 2;
        }
    }
    if (status < 0)
        status = gather(output, tokenizer, n, paths);
    free(paths);
    return status;
}
