/* SPDX-License-Identifier: BSD-3-Clause */
/* json.h: is a text JSON, and what does an object say? For tests of what the library writes for programs. */
#ifndef TT_TESTS_JSON_H
#define TT_TESTS_JSON_H
#include <stdbool.h>
#include <stddef.h>

/* Behind one JSON value that begins here; NULL if there is none. Strings have no control characters. */
const char *json_end(const char *text);
/* One value, and nothing but blanks behind it. */
bool json_is_one(const char *text);

/* The member of the object that begins at `object`, as text, cut to fit; false if it has none. */
bool json_member(const char *object, const char *name, char *value, size_t bytes);
/* The same as a number; -1 if there is none, or it is null. */
long long json_number(const char *object, const char *name);
/* Has the object this member, and is that this text? */
bool json_has(const char *object, const char *name, const char *expected);

/* Of a recorder's answer: the k-th operation from the end, NULL if there are fewer; how many there are. */
const char *json_operation(const char *json, int from_end);
int json_operations(const char *json);

#endif
