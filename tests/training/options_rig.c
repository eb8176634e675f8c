/* SPDX-License-Identifier: BSD-3-Clause */
/* options_rig.c: options as a user writes them, for tests. */
#include "tests/training/options_rig.h"

#include <criterion/criterion.h>
#include <string.h>

bool rig_options(struct tr_options *o, const char *line, struct tr_error *e)
{
    char text[512], *words[64], *rest = text;
    int n = 0;
    cr_assert(strlen(line) < sizeof text, "%s", line);
    snprintf(text, sizeof text, "%s", line);
    for (char *word; n < 64 && (word = strtok_r(rest, " ", &rest)) != NULL;)
        words[n++] = word;
    tr_options_default(o);
    return tr_options_parse(o, n, words, e);
}

void rig_prepare(struct tr_prepared *p, const char *line)
{
    struct tr_options o;
    struct tr_error e = { .text = "" };
    cr_assert(rig_options(&o, line, &e) && tr_prepare(p, &o, &e), "%s: %s", line, e.text);
}
