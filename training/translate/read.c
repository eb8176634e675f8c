/* SPDX-License-Identifier: BSD-3-Clause */
/* read.c: flags, JSON or YAML as keys "a.b" with values, and keys as facts. Of YAML it reads what such files
 * consist of: names, indented below each other; lists are passed over, as no fact stands in one. */
#include "training/translate/translate.h"

#include "training/data/data.h"
#include "training/text/json.h"

#include <stdlib.h>
#include <string.h>

bool tr_words_flags(struct tr_words *keys, int n, char **words, struct tr_error *e)
{
    for (int i = 0; i < n; i++) {
        char key[TR_KEY];
        if (strncmp(words[i], "--", 2) != 0)
            continue; /* the program, and what starts it */
        const char *name = words[i] + 2, *equals = strchr(name, '=');
        if (strcspn(name, "=") >= sizeof key)
            return tr_fail(e, "--%.40s...: no flag has so long a name", name);
        snprintf(key, sizeof key, "%.*s", (int)strcspn(name, "="), name);
        bool follows = !equals && i + 1 < n && strncmp(words[i + 1], "--", 2) != 0;
        const char *value = equals ? equals + 1 : follows ? words[++i] : "";
        tr_words_set(keys, key, "%s", value);
    }
    return keys->n > 0 ||
           tr_fail(e, "no flag stands behind --; legal is -- --tensor-model-parallel-size 2 ..");
}

static bool joined(char to[TR_KEY], const char *prefix, const char *name)
{
    return snprintf(to, TR_KEY, "%s%s%s", prefix, *prefix ? "." : "", name) < TR_KEY;
}

/* Behind "{". Keys of sections within, to any depth that a name has room for. */
static bool read_object(struct tr_words *keys, struct tr_json *j, const char *prefix)
{
    if (tr_json_sign(j, '}'))
        return true;
    do {
        char name[TR_SAID], key[TR_KEY], value[TR_SAID];
        struct tr_json before;
        if (!tr_json_string(j, name, sizeof name) || !tr_json_sign(j, ':') || !joined(key, prefix, name))
            return false;
        before = *j;
        if (tr_json_sign(j, '{')) {
            if (!read_object(keys, j, key))
                return false;
        } else if (tr_json_scalar(j, value, sizeof value))
            tr_words_set(keys, key, "%s", value);
        else {
            *j = before; /* a list, or a long text */
            if (!tr_json_skip(j))
                return false;
        }
    } while (tr_json_sign(j, ','));
    return tr_json_sign(j, '}');
}

static bool read_json(struct tr_words *keys, const char *text, const char *path, struct tr_error *e)
{
    struct tr_json j = { text, text + strlen(text) };
    return (tr_json_sign(&j, '{') && read_object(keys, &j, "") && tr_json_over(&j)) ||
           tr_fail(e, "%s is no JSON, or has names that no file of this kind has, behind: %.40s", path,
               j.text < j.end ? j.text : "its end");
}

/* A value without its quotes and the remark behind it. */
static void bare(char to[TR_SAID], const char *from)
{
    char quote = *from == '"' || *from == '\'' ? *from++ : 0;
    size_t length = quote ? strcspn(from, quote == '"' ? "\"" : "'") : strcspn(from, "#");
    while (!quote && length && (from[length - 1] == ' ' || from[length - 1] == '\r'))
        length--;
    snprintf(to, TR_SAID, "%.*s", (int)length, from);
}

static bool read_yaml(struct tr_words *keys, char *text, const char *path, struct tr_error *e)
{
    enum { DEEPEST = 8 };
    struct {
        size_t indent;
        char prefix[TR_KEY];
    } open[DEEPEST + 1] = { { 0, "" } };
    int depth = 0, number = 0;
    size_t list = SIZE_MAX; /* the indent of a list that is passed over */
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        number++;
        size_t indent = strspn(line, " ");
        const char *name = line + indent;
        size_t length = strcspn(name, ":#");
        if (!*name || *name == '#' || *name == '\r' || !strncmp(name, "---", 3))
            continue;
        if (*name == '-')
            list = indent;
        if (list != SIZE_MAX && (indent > list || *name == '-'))
            continue;
        list = SIZE_MAX;
        while (depth && indent < open[depth].indent)
            depth--;
        char alone[TR_SAID], key[TR_KEY], value[TR_SAID];
        snprintf(alone, sizeof alone, "%.*s", (int)length, name);
        if (name[length] != ':' || indent != open[depth].indent || depth == DEEPEST ||
            !joined(key, open[depth].prefix, alone))
            return tr_fail(e, "%s, line %d cannot be read: %.60s; legal are names and values, indented", path,
                number, name);
        const char *from = name + length + 1;
        bare(value, from + strspn(from, " "));
        if (*value) {
            tr_words_set(keys, key, "%s", value);
            continue;
        }
        const char *below = next ? next + strspn(next, " ") : "";
        if (next && (size_t)(below - next) > indent && *below != '-') {
            open[++depth].indent = (size_t)(below - next);
            snprintf(open[depth].prefix, TR_KEY, "%s", key);
        }
    }
    return true;
}

bool tr_words_file(struct tr_words *keys, enum tr_form form, const char *path, struct tr_error *e)
{
    uint8_t *bytes;
    int64_t n;
    if (!tr_read_file(&bytes, &n, path, e))
        return false;
    char *text = tr_new((size_t)n + 1, 1);
    memcpy(text, bytes, (size_t)n);
    bool ok = !memchr(text, 0, (size_t)n) || tr_fail(e, "%s is no text", path);
    ok = ok && (form == TR_JSON ? read_json(keys, text, path, e) : read_yaml(keys, text, path, e));
    free(bytes), free(text);
    return ok;
}

/* Two ways to write a number are one. */
static bool same_value(const char *a, const char *b)
{
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return !strcmp(a, b) || (*a && *b && !*end_a && !*end_b && x == y); // NOLINT
}

void tr_dialect_read(
    const struct tr_dialect *d, const struct tr_words *keys, struct tr_words *facts, struct tr_words *left)
{
    char here[TR_SAID];
    for (int n = 0; n < d->n; n++) {
        const struct tr_phrase *p = &d->phrases[n];
        const char *value = *p->there ? tr_words_get(keys, p->there) : NULL;
        if (value && p->here && tr_phrase_here(p, value, here) && strcmp(value, "null") != 0)
            tr_words_set(
                facts, p->here, "%s", p->values && !strncmp(p->values, "1=", 2) && !*value ? "1" : here);
    }
    for (int n = 0; n < d->n; n++) { /* what is always one way there */
        const struct tr_phrase *p = &d->phrases[n];
        if (!*p->there && p->values && !tr_words_get(facts, p->here))
            tr_words_set(facts, p->here, "%.*s", (int)strcspn(p->values, "="), p->values);
    }
    for (int i = 0; i < keys->n; i++) {
        bool known = false;
        for (int n = 0; n < d->n && !known; n++) {
            const struct tr_phrase *p = &d->phrases[n];
            if (!strcmp(p->there, keys->of[i].name))
                known = p->here ? tr_phrase_here(p, keys->of[i].value, here)
                                : same_value(p->values, keys->of[i].value);
        }
        if (!known)
            tr_words_set(left, keys->of[i].name, "%s", keys->of[i].value);
    }
}
