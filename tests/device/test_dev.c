/* SPDX-License-Identifier: BSD-3-Clause */
/* test_dev.c: finding a device table: what is loaded, when, and what is said where there is nothing to load.
 *
 * The table comes from the stub's module. Run in the build directory. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "device/dev.h"
#include "tests/rig/json.h"

static const char stub[] = "tests/.libs/libtutti_stub.so";

/* It fails with this status, and the text says that. */
static void fails(const char *library, tutti_status status, const char *text)
{
    const struct tt_dev *dev = (const struct tt_dev *)&stub, *before = dev;
    cr_expect_eq(tt_dev_find(library, &dev), status);
    cr_expect_not_null(strstr(tt_last_error(), text), "'%s' is not in: %s", text, tt_last_error());
    cr_expect_eq(dev, before, "an output is set");
}

static const struct tt_dev *finds(const char *library)
{
    const struct tt_dev *dev = NULL;
    cr_assert_eq(tt_dev_find(library, &dev), TUTTI_OK, "%s", tt_last_error());
    return dev;
}

Test(dev, stub)
{
    int n = 0;
    setenv("STUB_GPU", "devices=2", 1);
    const struct tt_dev *dev = finds(stub);
    cr_expect(dev->count(&n) == TT_DEV_OK && n == 2);
    cr_expect_eq(finds(stub), dev);
    cr_expect_eq(finds(""), dev, "no wish is what is there");
}

Test(dev, one_library_for_a_process)
{
    const struct tt_dev *dev = finds(stub);
    fails("other.so", TUTTI_INVALID_USAGE, "device_library is \"other.so\", but");
    cr_expect_not_null(strstr(tt_last_error(), stub));
    cr_expect_eq(finds(stub), dev);
}

Test(dev, absent_stays_absent)
{
    fails("nowhere/none.so", TUTTI_UNSUPPORTED, "nowhere/none.so");
    fails("nowhere/none.so", TUTTI_UNSUPPORTED, "nowhere/none.so");
    fails("", TUTTI_UNSUPPORTED, "nowhere/none.so");
    fails(stub, TUTTI_INVALID_USAGE, "nowhere/none.so");
}

Test(dev, own_plugin_is_named_where_it_is_not)
{
    if (access(TT_PKGLIBDIR "/libtutti_cuda.so", F_OK) == 0)
        cr_skip_test("a Tutti with CUDA is installed where this one would be");
    fails("", TUTTI_UNSUPPORTED, "built without CUDA, or its plugin is not installed");
    cr_expect_not_null(strstr(tt_last_error(), TT_PKGLIBDIR "/libtutti_cuda.so"), "%s", tt_last_error());
}

Test(dev, not_a_plugin)
{
    fails("libm.so.6", TUTTI_UNSUPPORTED, "tutti_device_table");
}

Test(dev, plugin_of_another_version)
{
    fails("tests/.libs/libother_version.so", TUTTI_UNSUPPORTED, "another version of Tutti");
}

Test(dev, no_device)
{
    setenv("STUB_GPU", "devices=0", 1);
    fails(stub, TUTTI_UNSUPPORTED, "libtutti_stub.so: count: ");
    fails(stub, TUTTI_UNSUPPORTED, "libtutti_stub.so: count: ");
}

Test(dev, count_fails)
{
    setenv("STUB_GPU", "fail=count:1", 1);
    fails(stub, TUTTI_UNSUPPORTED, "count: told to fail");
    fails(stub, TUTTI_UNSUPPORTED, "count: told to fail");
}

static pthread_barrier_t gate;

static void *find_at_once(void *dev)
{
    pthread_barrier_wait(&gate);
    *(const struct tt_dev **)dev = finds(stub);
    return NULL;
}

Test(dev, many_threads_find_one_table)
{
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    const struct tt_dev *dev[THREADS] = { NULL };
    pthread_barrier_init(&gate, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, find_at_once, &dev[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        cr_expect(dev[i] != NULL && dev[i] == dev[0]);
    }
}

/* The status that a forked child gets. */
static int find_in_child(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        const struct tt_dev *dev;
        _exit(-tt_dev_find(stub, &dev));
    }
    cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return -WEXITSTATUS(status);
}

Test(dev, forks_before_and_after)
{
    cr_expect_eq(find_in_child(), TUTTI_OK);
    finds(stub);
    cr_expect_eq(find_in_child(), TUTTI_INVALID_USAGE);
}

Test(dev, host_calls_load_nothing)
{
    setenv("TUTTI_DEVICE_LIBRARY", stub, 1);
    tutti_id id;
    tutti_comm *comm;
    float value = 2;
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    cr_assert_eq(tutti_comm_init_rank(1, 0, &id, NULL, &comm), TUTTI_OK, "%s", tutti_get_last_error(NULL));
    cr_assert_eq(
        tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()), TUTTI_OK);
    cr_expect_null(dlopen(stub, RTLD_NOW | RTLD_NOLOAD));
    cr_expect_gt(tutti_query(comm, "devices", NULL, 0), 0);
    cr_expect_not_null(dlopen(stub, RTLD_NOW | RTLD_NOLOAD), "a question is the first need");
    tutti_comm_destroy(comm);
}

/* --- What is told. */

static const char *told(const char *question)
{
    static char text[2000];
    setenv("TUTTI_DEVICE_LIBRARY", stub, 1);
    size_t length = tutti_query(NULL, question, text, sizeof text);
    cr_assert(length > 0 && length < sizeof text, "%s", tutti_get_last_error(NULL));
    return text;
}

Test(dev, told_to_people)
{
    setenv("STUB_GPU", "devices=2,memory=64,words=0", 1);
    const char *text = told("devices");
    cr_expect_not_null(strstr(text, "libtutti_stub.so (stub)\n"), "%s", text);
    cr_expect_not_null(
        strstr(text, "device 0\tStub 0 at stub:00.0, sm_90, 8 multiprocessors, 0.1 GB"), "%s", text);
    cr_expect_not_null(strstr(text, "device 1\tStub 1"), "%s", text);
    cr_expect(strstr(text, "managed") != NULL && strstr(text, "words") == NULL, "%s", text);
}

Test(dev, told_to_programs)
{
    char library[200], devices[1000];
    setenv("STUB_GPU", "devices=2,memory=64,words=0", 1);
    const char *text = told("devices json");
    cr_assert(json_is_one(text), "%s", text);
    cr_expect(json_member(text, "library", library, sizeof library) && strstr(library, "libtutti_stub.so"));
    cr_assert(json_member(text, "devices", devices, sizeof devices));
    const char *second = strstr(devices, "{\"device\": 1");
    cr_assert_not_null(second, "%s", devices);
    cr_expect_eq(json_number(second, "bytes"), 64 << 20);
    cr_expect_eq(json_number(second, "capability"), 90);
    cr_expect(json_member(second, "words", library, sizeof library) && strcmp(library, "false") == 0);
    cr_expect(json_member(second, "managed", library, sizeof library) && strcmp(library, "true") == 0);
}

Test(dev, told_why_there_is_none)
{
    char missing[500], devices[10];
    setenv("STUB_GPU", "devices=0", 1);
    cr_expect_not_null(strstr(told("devices"), "no device can be used: "));
    const char *text = told("devices json");
    cr_assert(json_is_one(text), "%s", text);
    cr_expect(json_member(text, "missing", missing, sizeof missing) && strstr(missing, "count: "));
    cr_expect(json_member(text, "devices", devices, sizeof devices) && strcmp(devices, "[]") == 0);
}

/* One device that does not answer hides no other. */
Test(dev, told_of_a_device_without_facts)
{
    setenv("STUB_GPU", "devices=2,fail=facts:1", 1);
    const char *text = told("devices");
    cr_expect_not_null(strstr(text, "device 0\tfacts: told to fail"), "%s", text);
    cr_expect_not_null(strstr(text, "device 1\tStub 1"), "%s", text);
}
