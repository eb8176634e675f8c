/* SPDX-License-Identifier: BSD-3-Clause */
/* write.c: facts as flags of a command line, as JSON, or as YAML. The phrases of a section of a file stand
 * together in their table, so that one pass over it writes the nested text. */
#include "training/translate/translate.h"

#include <stdlib.h>
#include <string.h>

/* Numbers, lists, true and false stand as they are. */
static bool is_bare(const char *value)
{
    char *end;
    strtod(value, &end);
    return (*value && !*end) || *value == '[' || !strcmp(value, "true") || !strcmp(value, "false");
}

static void flag(FILE *to, const char *key, const char *value)
{
    fprintf(to, " \\\n    --%s%s%s", key, *value ? " " : "", value);
}

/* How many of the sections "a.b." of two keys are the same, and how many the second one has. */
static int sections(const char *before, const char *key, int *all)
{
    int same = 0;
    *all = 0;
    for (const char *dot = key; (dot = strchr(dot, '.')); dot++) {
        size_t length = (size_t)(dot + 1 - key);
        same += *all == same && !strncmp(before, key, length);
        ++*all;
    }
    return same;
}

/* The key's own name in its section, and that of section n. */
static const char *section(const char *key, int n)
{
    for (; n > 0; n--)
        key = strchr(key, '.') + 1;
    return key;
}

struct nested {
    FILE *to;
    bool json;
    char before[TR_KEY]; /* the key that was written last */
    int depth;
    bool begun; /* the section has an entry */
};

static void line(struct nested *n, int depth)
{
    const char *end = !*n->before && !n->depth && !n->json ? "" : "\n"; /* of the line before */
    fprintf(n->to, "%s%s%*s", n->json && n->begun ? "," : "", end, (depth + n->json) * (n->json ? 4 : 2), "");
}

static void close_to(struct nested *n, int depth)
{
    for (; n->depth > depth; n->depth--) {
        n->begun = false;
        if (n->json) {
            line(n, n->depth - 1);
            fputc('}', n->to);
        }
        n->begun = true;
    }
}

static void entry(struct nested *n, const char *key, const char *value)
{
    int all, same = sections(n->before, key, &all);
    const char *quote = n->json ? "\"" : "", *text = n->json && !is_bare(value) ? "\"" : "";
    close_to(n, same);
    for (; n->depth < all; n->depth++) {
        const char *name = section(key, n->depth);
        line(n, n->depth);
        fprintf(n->to, "%s%.*s%s:%s", quote, (int)strcspn(name, "."), name, quote, n->json ? " {" : "");
        n->begun = false;
    }
    line(n, all);
    fprintf(n->to, "%s%s%s: %s%s%s", quote, section(key, all), quote, text, value, text);
    n->begun = true;
    snprintf(n->before, sizeof n->before, "%s", key);
}

/* The value that a phrase gives; false: it says nothing of these facts. */
static bool say(const struct tr_phrase *p, const struct tr_words *facts, char value[TR_SAID])
{
    const char *here = p->here ? tr_words_get(facts, p->here) : NULL;
    if (!p->here)
        snprintf(value, TR_SAID, "%s", p->values);
    return !p->here || (here && tr_phrase_there(p, here, value));
}

void tr_dialect_write(
    FILE *to, const struct tr_dialect *d, const struct tr_words *facts, struct tr_words *left)
{
    struct nested nested = { .to = to, .json = d->form == TR_JSON };
    char value[TR_SAID];
    for (int i = 0; i < facts->n; i++) {
        bool said = tr_fact_is_plain(&facts->of[i]);
        for (int n = 0; n < d->n && !said; n++)
            said = d->phrases[n].here && !strcmp(d->phrases[n].here, facts->of[i].name) &&
                   tr_phrase_there(&d->phrases[n], facts->of[i].value, value);
        if (!said)
            tr_words_set(left, facts->of[i].name, "%s", facts->of[i].value);
    }
    fprintf(to, "%s", d->form == TR_FLAGS ? d->program : nested.json ? "{" : "");
    for (int n = 0; n < d->n; n++) {
        const struct tr_phrase *p = &d->phrases[n];
        if (!*p->there || !say(p, facts, value))
            continue;
        if (d->form == TR_FLAGS)
            flag(to, p->there, value);
        else
            entry(&nested, p->there, value);
    }
    close_to(&nested, 0);
    fprintf(to, "%s\n", nested.json ? "\n}" : "");
}
