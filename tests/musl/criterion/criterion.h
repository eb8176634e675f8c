/* SPDX-License-Identifier: BSD-3-Clause */
/* criterion.h: as much of Criterion as the tests here use, for C libraries that Criterion is not built for.
 *
 * Criterion comes as a library of glibc, and so the suite could not run with another one, where programs of
 * users may. Each test runs in a child of tests/musl/runner.c. A failed cr_assert ends it; a failed cr_expect
 * is counted. */
#ifndef CRITERION_H
#define CRITERION_H
#pragma GCC system_header /* its macros compare what a test gives them */
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct criterion_test_extra_data {
    bool given; /* a list of nothing is none in C11 */
    bool disabled;
    double timeout;
    int signal;
    void (*init)(void), (*fini)(void);
};

struct cr_case {
    const char *suite, *name; /* of TestSuite the name is NULL */
    void (*run)(void);
    struct criterion_test_extra_data data;
    struct cr_case *next;
};

void cr_add(struct cr_case *one);
void cr_skip_test(const char *format, ...) __attribute__((noreturn));
void cr_log_info(const char *format, ...);
/* Tells of a failure; returns unless it is fatal. */
void cr_failed(bool fatal, const char *file, int line, const char *what, const char *format, ...);

#define CR_ADD(id, ...)                                                                                      \
    static struct cr_case cr_case_##id = __VA_ARGS__;                                                        \
    __attribute__((constructor)) static void cr_add_##id(void)                                               \
    {                                                                                                        \
        cr_add(&cr_case_##id);                                                                               \
    }
#define TestSuite(suite, ...) CR_ADD(suite, { #suite, NULL, NULL, { .given = true, __VA_ARGS__ }, NULL })
#define Test(suite, test, ...)                                                                               \
    static void cr_run_##suite##_##test(void);                                                               \
    CR_ADD(suite##_##test, { #suite, #test, cr_run_##suite##_##test, { .given = true, __VA_ARGS__ }, NULL }) \
    static void cr_run_##suite##_##test(void)

#define CR_CHECK(fatal, good, what, ...)                                                                     \
    ((good) ? (void)0 : cr_failed(fatal, __FILE__, __LINE__, what, "" __VA_ARGS__))
#define CR_NEAR(a, b, e) (fabs((double)(a) - (double)(b)) <= (double)(e))

#define cr_assert(c, ...) CR_CHECK(true, c, #c, __VA_ARGS__)
#define cr_assert_not(c, ...) CR_CHECK(true, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_null(p, ...) CR_CHECK(true, (p) == NULL, #p " == NULL", __VA_ARGS__)
#define cr_assert_not_null(p, ...) CR_CHECK(true, (p) != NULL, #p " != NULL", __VA_ARGS__)
#define cr_assert_eq(a, b, ...) CR_CHECK(true, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) CR_CHECK(true, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) CR_CHECK(true, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) CR_CHECK(true, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) CR_CHECK(true, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) CR_CHECK(true, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) CR_CHECK(true, strcmp(a, b) == 0, #a " == " #b, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) CR_CHECK(true, memcmp(a, b, n) == 0, #a " == " #b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, e, ...) CR_CHECK(true, CR_NEAR(a, b, e), #a " near " #b, __VA_ARGS__)
#define cr_assert_fail(...) cr_failed(true, __FILE__, __LINE__, "failed", "" __VA_ARGS__)

#define cr_expect(c, ...) CR_CHECK(false, c, #c, __VA_ARGS__)
#define cr_expect_not(c, ...) CR_CHECK(false, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_null(p, ...) CR_CHECK(false, (p) == NULL, #p " == NULL", __VA_ARGS__)
#define cr_expect_not_null(p, ...) CR_CHECK(false, (p) != NULL, #p " != NULL", __VA_ARGS__)
#define cr_expect_eq(a, b, ...) CR_CHECK(false, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) CR_CHECK(false, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) CR_CHECK(false, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) CR_CHECK(false, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) CR_CHECK(false, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) CR_CHECK(false, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) CR_CHECK(false, strcmp(a, b) == 0, #a " == " #b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...) CR_CHECK(false, strcmp(a, b) != 0, #a " != " #b, __VA_ARGS__)
#define cr_expect_str_empty(a, ...) CR_CHECK(false, *(a) == 0, #a " is empty", __VA_ARGS__)
#define cr_expect_str_not_empty(a, ...) CR_CHECK(false, *(a) != 0, #a " is not empty", __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) CR_CHECK(false, memcmp(a, b, n) == 0, #a " == " #b, __VA_ARGS__)
#define cr_expect_arr_neq(a, b, n, ...) CR_CHECK(false, memcmp(a, b, n) != 0, #a " != " #b, __VA_ARGS__)
#define cr_expect_float_eq(a, b, e, ...) CR_CHECK(false, CR_NEAR(a, b, e), #a " near " #b, __VA_ARGS__)

#endif
