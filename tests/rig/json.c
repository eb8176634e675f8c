/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c: a parser of JSON that keeps nothing, in one function for each kind of value. */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *blanks(const char *at)
{
    return at != NULL ? at + strspn(at, " \t\r\n") : NULL;
}

static const char *string_end(const char *at)
{
    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 32)
            return NULL;
        if (*at == '\\' && strchr("\"\\/bfnrt", *++at) == NULL)
            return NULL;
    }
    return at + 1;
}

/* The members of an object or array, from behind its opening bracket. */
static const char *members_end(const char *at, char close)
{
    at = blanks(at);
    if (*at == close)
        return at + 1;
    for (;;) {
        if (close == '}') {
            at = blanks(string_end(blanks(at)));
            if (at == NULL || *at++ != ':')
                return NULL;
        }
        at = blanks(json_end(at));
        if (at == NULL || (*at != ',' && *at != close))
            return NULL;
        if (*at++ == close)
            return at;
    }
}

static const char *number_end(const char *at)
{
    char *end;
    if (*at != '-' && (*at < '0' || *at > '9'))
        return NULL;
    strtod(at, &end);
    return end != at ? end : NULL;
}

const char *json_end(const char *text)
{
    static const char *const words[] = { "true", "false", "null" };
    text = blanks(text);
    for (int i = 0; i < 3; i++)
        if (strncmp(text, words[i], strlen(words[i])) == 0)
            return text + strlen(words[i]);
    switch (*text) {
    case '{':
        return members_end(text + 1, '}');
    case '[':
        return members_end(text + 1, ']');
    case '"':
        return string_end(text);
    default:
        return number_end(text);
    }
}

bool json_is_one(const char *text)
{
    const char *end = blanks(json_end(text));
    return end != NULL && *end == '\0';
}

bool json_member(const char *object, const char *name, char *value, size_t bytes)
{
    const char *at = blanks(object);
    if (*at++ != '{')
        return false;
    for (at = blanks(at); *at == '"';) {
        const char *key = at + 1, *end = string_end(at), *from = blanks(blanks(end) + 1);
        at = json_end(from);
        if (at == NULL)
            return false;
        if ((size_t)(end - 1 - key) == strlen(name) && strncmp(key, name, strlen(name)) == 0) {
            snprintf(value, bytes, "%.*s", (int)(at - from), from);
            return true;
        }
        at = blanks(at);
        at = blanks(at + (*at == ','));
    }
    return false;
}

long long json_number(const char *object, const char *name)
{
    char value[64];
    return json_member(object, name, value, sizeof value) && value[0] != 'n' ? atoll(value) : -1;
}

const char *json_operation(const char *json, int from_end)
{
    const char *last[512] = { 0 };
    int n = 0;
    for (const char *at = strstr(json, "{\"collective\""); at != NULL && n < 512;
         at = strstr(at + 1, "{\"collective\""))
        last[n++] = at;
    return from_end < n ? last[n - 1 - from_end] : NULL;
}

int json_operations(const char *json)
{
    int n = 0;
    for (const char *at = json; (at = strstr(at, "{\"collective\"")) != NULL; at++)
        n++;
    return n;
}

bool json_has(const char *object, const char *name, const char *expected)
{
    char value[64] = "";
    return object != NULL && json_member(object, name, value, sizeof value) && strcmp(value, expected) == 0;
}
