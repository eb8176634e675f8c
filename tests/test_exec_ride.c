/* test_exec_ride.c: sums that the executor stores where a peer's operand lies, and sends back from there.
 *
 * The results say nothing of it, so this counts what the executor asks of the transport. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "comm.h"
#include "ranks.h"

enum { N = 2, SLICE = 8192, SLICES = 8, COUNT = N * SLICES * SLICE / (int)sizeof(int32_t), CALLS = 3 };

static struct tt_transport counting; /* the communicator's own, but for what follows */
static bool (*ride_of_its_own)(struct tt_endpoint *e, const struct tt_message *m, struct tt_view *place);
static int rides;

static bool count_rides(struct tt_endpoint *e, const struct tt_message *m, struct tt_view *place)
{
    bool found = ride_of_its_own(e, m, place);
    rides += found;
    return found;
}

static void count_from_now(struct tt_comm *c)
{
    counting = *c->endpoint->transport;
    ride_of_its_own = counting.ride;
    counting.ride = count_rides;
    c->endpoint->transport = &counting;
    rides = 0;
}

static void add(void *dst, const void *left, const void *right, size_t count, void *context)
{
    const int32_t *a = left, *b = right;
    int32_t *sum = dst;
    (void)context;
    for (size_t i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
}

struct sum {
    bool in_place, own_operator;
    bool shared; /* where the result goes */
    int rides; /* of each slice */
};

static const struct sum sums[] = {
    { .rides = 1 },
    { .in_place = true, .rides = 1 },
    { .shared = true },
    { .shared = true, .in_place = true },
    { .own_operator = true },
};

static void run(struct ranks_me *me, const struct sum *s)
{
    tutti_config config = { .size = sizeof config, .options = "slice=8K;algo=all_reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    tutti_op op = TUTTI_SUM;
    void *shared = NULL;
    size_t bytes = COUNT * sizeof(int32_t);
    int32_t *private = malloc(2 * bytes);
    if (s->own_operator)
        ranks_ok(me, tutti_op_create(comm, add, NULL, sizeof(int32_t), 1, &op), "tutti_op_create");
    ranks_ok(me, tutti_mem_alloc(bytes, 0, &shared), "tutti_mem_alloc");
    int32_t *recv = s->shared ? shared : private, *send = s->in_place ? recv : private + COUNT;
    count_from_now(tt_handle_find(comm));
    for (int call = 0; call < CALLS; call++) {
        int wrong = 0;
        for (int i = 0; i < COUNT; i++)
            send[i] = i + call + me->rank;
        ranks_ok(me, tutti_all_reduce(send, recv, COUNT, TUTTI_INT32, op, comm, tutti_no_stream()), "sum");
        for (int i = 0; i < COUNT; i++)
            wrong += recv[i] != 2 * (i + call) + 1;
        ranks_expect(me, wrong == 0, "call %d: %d elements are wrong", call, wrong);
    }
    ranks_expect(me, rides == s->rides * SLICES * CALLS, "case %d: %d sums went back where the operand lay",
        (int)(s - sums), rides);
    if (s->own_operator)
        ranks_ok(me, tutti_op_destroy(comm, op), "tutti_op_destroy");
    ranks_part(me, comm);
    tutti_mem_free(shared);
    free(private);
}

static void run_all(struct ranks_me *me)
{
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        run(me, &sums[i]);
}

Test(exec_ride, sums_go_back_where_the_operand_lies)
{
    ranks_run(&(struct ranks_plan){ .n = N, .run = run_all });
}
