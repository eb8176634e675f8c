/* SPDX-License-Identifier: BSD-3-Clause */
/* test_text.c: what `explain --tape` prints names things as they are. */
#include "tests/training/options_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *printed(const char *line, int rank)
{
    struct tr_prepared p;
    char *text = NULL;
    size_t bytes = 0;
    rig_prepare(&p, line);
    FILE *to = open_memstream(&text, &bytes);
    cr_assert(to != NULL);
    tr_tape_print(&p.tapes->of[rank], to);
    fclose(to);
    tr_prepared_free(&p);
    return text;
}

/* A message says which edge it takes, whichever there are: of a line, of a tie, of a V, of servers. */
Test(text, messages_name_their_edges)
{
    static const struct {
        const char *line;
        int rank;
        const char *words;
    } cases[] = {
        { "--pp 2", 0, "to next, " },
        { "--pp 2", 1, "from previous, " },
        { "--pp 2", 0, "tied, " },
        { "--pp 2 --chunks 2 --micro 4 --schedule dualpipev", 0, "V from next, " },
        { "--pp 2 --chunks 2 --micro 4 --schedule dualpipev", 1, "V to previous, " },
        { "--dp 2 --servers 1", 0, "to server, " },
        { "--dp 2 --servers 1", 2, "from worker, " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = printed(cases[i].line, cases[i].rank);
        cr_expect(strstr(text, cases[i].words) != NULL, "%s: rank %d has no \"%s\"", cases[i].line,
            cases[i].rank, cases[i].words);
        cr_expect(strstr(text, "(null)") == NULL, "%s", cases[i].line);
        free(text);
    }
}
