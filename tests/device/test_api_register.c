/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_register.c: memory that a user registers with a communicator: what the calls check, what a handle
 * is, and, where the communicator has a leader, that memory comes to it. The leader is that of segment_rig.h;
 * it is given to a communicator of one rank. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/handle.h"
#include "device/dev.h"
#include "device/device.h"
#include "graph_rig.h"
#include "segment_rig.h"
#include "tests/rig/plugin.h"

TestSuite(api_register, .timeout = 120);

enum { LONG = 100000 };

/* --- Arguments and handles: local matters */

static void arguments(struct ranks_me *me)
{
    static char bytes[LONG], here;
    tutti_comm *comm = ranks_join(me, NULL), *other = ranks_join(me, NULL);
    tutti_registration *one = NULL, *two = NULL;
    ranks_refused(
        me, tutti_mem_register(NULL, bytes, LONG, &one), TUTTI_INVALID_ARGUMENT, "register", "comm");
    ranks_refused(
        me, tutti_mem_register(comm, NULL, LONG, &one), TUTTI_INVALID_ARGUMENT, "register", "ptr is NULL");
    ranks_refused(me, tutti_mem_register(comm, bytes, LONG, NULL), TUTTI_INVALID_ARGUMENT, "register",
        "registration is NULL");
    ranks_refused(
        me, tutti_mem_register(comm, bytes, 0, &one), TUTTI_INVALID_ARGUMENT, "register", "bytes is 0|legal");
    ranks_refused(me, tutti_mem_register(comm, bytes, SIZE_MAX, &one), TUTTI_INVALID_ARGUMENT, "register",
        "bytes is 18446744073709551615|legal");
    ranks_expect(me, one == NULL, "a failed call has set its output");
    ranks_ok(me, tutti_mem_register(comm, bytes, LONG, &one), "register");
    ranks_ok(me, tutti_mem_register(comm, bytes + 5, 1, &two), "register a part again");
    ranks_expect(me, one != NULL && two != NULL && one != two, "two registrations have one handle");
    void *there = &here;
    ranks_ok(me, tutti_mem_address_at(comm, two, me->rank, &there), "where this rank has it");
    ranks_expect(me, there == bytes + 5, "it has it at %p, not %p", there, (void *)(bytes + 5));
    ranks_ok(me, tutti_mem_address_at(comm, one, 1 - me->rank, &there), "where the other rank has it");
    ranks_expect(me, there == NULL, "another process has memory of the host at %p", there);
    there = bytes;
    ranks_refused(me, tutti_mem_address_at(NULL, one, 0, &there), TUTTI_INVALID_ARGUMENT, "where", "comm");
    ranks_refused(
        me, tutti_mem_address_at(comm, one, 2, &there), TUTTI_INVALID_ARGUMENT, "where", "rank is 2|legal");
    ranks_refused(
        me, tutti_mem_address_at(comm, one, -1, &there), TUTTI_INVALID_ARGUMENT, "where", "rank is -1");
    ranks_refused(
        me, tutti_mem_address_at(comm, one, 0, NULL), TUTTI_INVALID_ARGUMENT, "where", "there is NULL");
    ranks_refused(
        me, tutti_mem_address_at(comm, NULL, 0, &there), TUTTI_INVALID_ARGUMENT, "where", "registration");
    ranks_refused(me, tutti_mem_address_at(other, one, 0, &there), TUTTI_INVALID_ARGUMENT, "where",
        "mem_address_at|another communicator's");
    ranks_expect(me, there == bytes, "a failed call has set its output");
    ranks_refused(me, tutti_mem_deregister(comm, NULL), TUTTI_INVALID_ARGUMENT, "deregister", "registration");
    ranks_refused(me, tutti_mem_deregister(comm, (tutti_registration *)comm), TUTTI_INVALID_ARGUMENT,
        "deregister", "registration");
    ranks_refused(me, tutti_mem_deregister(NULL, one), TUTTI_INVALID_ARGUMENT, "deregister", "comm");
    ranks_refused(
        me, tutti_mem_deregister(other, one), TUTTI_INVALID_ARGUMENT, "deregister", "another communicator's");
    ranks_ok(me, tutti_mem_deregister(comm, one), "deregister");
    ranks_refused(
        me, tutti_mem_deregister(comm, one), TUTTI_INVALID_ARGUMENT, "deregister again", "registration");
    ranks_ok(me, tutti_mem_register(other, bytes, LONG, &one), "register with the other");
    ranks_ok(me, tutti_all_reduce(bytes, bytes, 10, TUTTI_INT8, TUTTI_SUM, comm, tutti_no_stream()), "call");
    ranks_meet(me);
    tutti_comm_abort(comm);
    ranks_ok(me, tutti_mem_deregister(comm, two), "deregister where the communicator has failed");
    ranks_refused(me, tutti_mem_register(comm, bytes, LONG, &two), TUTTI_ABORTED, "register", "abort");
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
    ranks_part(me, other);
    ranks_refused(me, tutti_mem_deregister(other, one), TUTTI_INVALID_ARGUMENT, "deregister", "comm");
    comm = ranks_join(me, NULL);
    ranks_refused(me, tutti_mem_deregister(comm, one), TUTTI_INVALID_ARGUMENT,
        "deregister what went with its communicator", "registration");
    ranks_expect(me, strstr(tutti_get_last_error(NULL), "another") == NULL, "it lives on: %s",
        tutti_get_last_error(NULL));
    ranks_part(me, comm);
}

Test(api_register, of_the_host)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = arguments });
}

/* A child has none of its parent's. */
static void forked(struct ranks_me *me)
{
    static char bytes[LONG];
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_registration *registration;
    int status = -1;
    ranks_ok(me, tutti_mem_register(comm, bytes, LONG, &registration), "register");
    pid_t pid = fork();
    if (pid == 0)
        _exit(tutti_mem_register(comm, bytes, LONG, &registration) != TUTTI_INVALID_USAGE ||
              tutti_mem_deregister(comm, registration) != TUTTI_INVALID_USAGE);
    waitpid(pid, &status, 0);
    ranks_expect(me, WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %#x", status);
    ranks_ok(me, tutti_mem_deregister(comm, registration), "deregister");
    ranks_part(me, comm);
}

Test(api_register, in_a_child)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = forked });
}

/* --- On a device */

/* Where nobody maps anything, nothing is exported, but memory is checked as by calls. */
static void without_leader(struct ranks_me *me)
{
    const struct tt_dev *table;
    void *memory[4] = { 0 }, *elsewhere = NULL, *given = NULL;
    static char bytes[LONG];
    tutti_registration *registration[5], *none = NULL;
    tutti_config config = { .size = sizeof config, .device = tutti_device(0), .options = "executor=host" };
    tutti_comm *comm = ranks_join(me, &config);
    if (!ranks_ok(me, tt_dev_find("", &table), "tt_dev_find"))
        return;
    bool made = table->use(1) == TT_DEV_OK && table->memory.alloc(LONG, &elsewhere) == TT_DEV_OK &&
                table->use(0) == TT_DEV_OK && table->memory.alloc(LONG, &memory[0]) == TT_DEV_OK &&
                table->memory.alloc_managed(LONG, &memory[1]) == TT_DEV_OK &&
                table->memory.alloc_pinned(LONG, &memory[2]) == TT_DEV_OK && table->use(-1) == TT_DEV_OK &&
                tutti_mem_alloc(LONG, TUTTI_MEM_CUDA, &given) == TUTTI_OK && table->use(1) == TT_DEV_OK;
    ranks_expect(me, made, "no memory: %s", table->why());
    memory[3] = bytes;
    for (int i = 0; i < 4 && made; i++)
        ranks_ok(me, tutti_mem_register(comm, memory[i], LONG, &registration[i]), "register");
    ranks_ok(me, tutti_mem_register(comm, given, LONG, &registration[4]), "register what Tutti gave");
    ranks_refused(me, tutti_mem_register(comm, elsewhere, LONG, &none), TUTTI_INVALID_ARGUMENT, "register",
        "mem_register: ptr is memory of device 1");
    ranks_refused(me, tutti_mem_register(comm, memory[0], 2 * LONG, &none), TUTTI_INVALID_ARGUMENT,
        "register", "mem_register: ptr is|needs 200000 bytes|ends after 100000");
    ranks_expect(me, none == NULL, "a failed call has set its output");
    int device = -1;
    ranks_expect(me, table->current(&device) == TT_DEV_OK && device == 1, "device %d is current", device);
    for (int i = 0; i < 5 && made; i++)
        ranks_ok(me, tutti_mem_deregister(comm, registration[i]), "deregister");
    ranks_expect(me, plugin_stub()->calls("segment_export_of") == 0, "something was exported");
    ranks_part(me, comm);
}

Test(api_register, without_a_leader)
{
    plugin_must_be_stub();
    graph_run({ "devices=2", 2, RANKS_PROCESSES, without_leader, NULL, 0 });
}

/* --- With a leader */

static struct {
    tutti_comm *comm;
    struct tt_exporter *exporter;
    const struct tt_dev *dev;
} here;

/* The exporter is the communicator's, as where it connects. */
static struct leader open_with_leader(void)
{
    char options[128];
    int device = 0;
    alarm(100);
    struct leader leader = leader_start_alone("devices=2");
    setenv("STUB_GPU", "devices=2", 1);
    snprintf(options, sizeof options, "device_library=%s", PLUGIN_STUB);
    tutti_config config = { .size = sizeof config, .options = options };
    cr_assert_eq(
        tutti_comm_init_all(1, &device, &config, &here.comm), TUTTI_OK, "%s", tutti_get_last_error(NULL));
    struct tt_device *d = tt_comm_find(here.comm)->device;
    here.dev = d->dev;
    cr_assert_eq(
        tt_exporter_open(d->dev, 0, &leader.address, FOLLOWER, &calls_over, ENOUGH_MS, &here.exporter),
        TUTTI_OK);
    d->exporters = &here.exporter;
    cr_assert_eq(here.dev->use(0), TT_DEV_OK);
    return leader;
}

static void *allocate_here(void)
{
    void *memory;
    cr_assert_eq(here.dev->memory.alloc(LONG, &memory), TT_DEV_OK);
    return memory;
}

static bool is_found(const void *ptr, uint64_t bytes, uint32_t *key)
{
    struct tt_dev_pointer what;
    uint64_t offset;
    cr_assert_eq(here.dev->memory.classify(ptr, &what), TT_DEV_OK);
    return tt_exporter_find(here.exporter, ptr, bytes, &what, 0, key, &offset);
}

Test(api_register, comes_to_the_leader)
{
    struct leader leader = open_with_leader();
    char *memory = allocate_here();
    tutti_registration *first, *second;
    uint32_t key;
    here.dev->use(1); /* whatever the thread's device is */
    cr_expect_eq(tutti_mem_register(here.comm, memory + 10, 20, &first), TUTTI_OK);
    cr_expect_eq(tutti_mem_register(here.comm, memory + 30, 20, &second), TUTTI_OK);
    int device = -1;
    cr_expect(here.dev->current(&device) == TT_DEV_OK && device == 1);
    cr_expect(is_found(memory, LONG, &key));
    cr_expect(leader_find(&leader, FOLLOWER, key, 0, LONG));
    cr_expect_eq(tutti_mem_deregister(here.comm, first), TUTTI_OK);
    cr_expect(is_found(memory, LONG, &key));
    cr_expect_eq(tutti_mem_deregister(here.comm, second), TUTTI_OK);
    cr_expect_not(is_found(memory, LONG, &key));
    cr_expect_eq(leader_mapped(&leader), 0);
    cr_expect_eq(here.dev->memory.free(memory), TT_DEV_OK, "%s", here.dev->why());
    cr_expect_eq(tutti_comm_destroy(here.comm), TUTTI_OK);
    leader_exit(&leader);
}

Test(api_register, goes_with_the_communicator)
{
    struct leader leader = open_with_leader();
    void *memory = allocate_here();
    tutti_registration *registration;
    cr_expect_eq(tutti_mem_register(here.comm, memory, LONG, &registration), TUTTI_OK);
    cr_expect(leader_comes_to_map(&leader, 1));
    cr_expect_eq(tutti_comm_destroy(here.comm), TUTTI_OK);
    tt_exporter_close(here.exporter);
    cr_expect_eq(tutti_mem_deregister(here.comm, registration), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(here.dev->memory.free(memory), TT_DEV_OK, "%s", here.dev->why());
    cr_expect_eq(leader_mapped(&leader), 0);
    leader_exit(&leader);
}

/* Calls are right all the same, so it is no error; the log says why. */
Test(api_register, without_effect)
{
    char name[] = "/tmp/tutti-register-XXXXXX", text[4096] = "";
    int fd = mkstemp(name);
    setenv("TUTTI_DEBUG", "info", 1);
    setenv("TUTTI_DEBUG_FILE", name, 1);
    struct leader leader = open_with_leader();
    void *managed, *memory = allocate_here();
    tutti_registration *registration[3];
    uint32_t key;
    cr_assert_eq(here.dev->memory.alloc_managed(LONG, &managed), TT_DEV_OK);
    cr_expect_eq(tutti_mem_register(here.comm, memory, LONG, &registration[0]), TUTTI_OK);
    cr_expect_eq(tutti_mem_register(here.comm, managed, LONG, &registration[1]), TUTTI_OK);
    cr_expect_eq(tutti_mem_register(here.comm, &leader, sizeof leader, &registration[2]), TUTTI_OK);
    cr_expect(is_found(memory, LONG, &key), "it is disturbed by the others");
    for (int i = 0; i < 3; i++)
        cr_expect_eq(tutti_mem_deregister(here.comm, registration[i]), TUTTI_OK);
    leader_kill(&leader);
    cr_expect_eq(tutti_mem_register(here.comm, memory, LONG, &registration[0]), TUTTI_OK);
    cr_expect_eq(tutti_mem_deregister(here.comm, registration[0]), TUTTI_OK);
    cr_expect(read(fd, text, sizeof text - 1) > 0);
    const char *of_managed = strstr(text, "mem_register: 100000 bytes at ");
    cr_expect(
        of_managed != NULL && strstr(of_managed, "no memory of the communicator's device alone") != NULL,
        "%s", text);
    cr_expect_not_null(strstr(text, "the leader's process is gone"), "%s", text);
    unlink(name);
    cr_expect_eq(tutti_comm_destroy(here.comm), TUTTI_OK);
}
