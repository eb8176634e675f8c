/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c: collectives, sends and receives, and operators. Types, built-in operators and arguments are
 * Tutti's, so each is one call of Tutti's between entering and leaving the communicator. */
#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include "nccl/shim.h"

enum { COLLECTIVE = -1, CONFIG_MAGIC = (int)0xcafebeef, DEFAULT_STREAMS = 2 };

struct call {
    tutti_stream stream;
    tutti_op op;
};

/* Refused here, so peers that wait in this call are told; peer: of a message. */
static ncclResult_t refuse(ncclComm_t comm, int peer, const char *why, ncclResult_t result)
{
    if (peer < comm->n)
        tutti_comm_refuse(comm->tutti, peer, why);
    tt_nccl_leave(comm);
    return result;
}

/* Enters comm. Only a communicator with a device has streams but the default one. */
static ncclResult_t begin_message(
    struct call *c, const char *call, int peer, ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = tt_nccl_enter(call, comm);
    if (result != ncclSuccess)
        return result;
    if (comm->device == TT_NCCL_DEVICE_UNKNOWN && tutti_comm_state(comm->tutti) == TUTTI_OK)
        comm->device = tutti_comm_device(comm->tutti);
    c->stream = comm->device >= 0 ? tutti_cuda_stream(stream) : tutti_no_stream();
    if (comm->device < 0 && (uintptr_t)stream > DEFAULT_STREAMS)
        return refuse(comm, peer, "a call on a stream, of a communicator without a device",
            tt_nccl_fail(ncclInvalidArgument,
                "%s: stream is %p, and comm has no device; legal: NULL, the default stream", call,
                (void *)stream));
    return ncclSuccess;
}

static ncclResult_t begin(struct call *c, const char *call, ncclComm_t comm, cudaStream_t stream)
{
    return begin_message(c, call, COLLECTIVE, comm, stream);
}

static ncclResult_t end(ncclComm_t comm, tutti_status status)
{
    ncclResult_t result = status == TUTTI_OK ? ncclSuccess : tt_nccl_answer(status);
    tt_nccl_leave(comm);
    return result;
}

/* --- Averages. NCCL multiplies by 1 / n and then adds; Tutti adds and then divides, which is closer, but
 * leaves the range of the narrow types. Of these the average is a sum of products. */
static const struct {
    ncclDataType_t type;
    int codes, mantissa_bits, bias;
} narrow[TT_NCCL_NARROW_TYPES] = {
    { ncclFloat16, 0x7c00, 10, 15 },
    { ncclFloat8e4m3, 0x7f, 3, 7 },
    { ncclFloat8e5m2, 0x7c, 2, 15 },
};

/* The code of the number of this type that is nearest to 1 / n. */
static uint16_t reciprocal(int of, int n)
{
    double least = 1;
    int nearest = 0;
    for (int code = 0; code < narrow[of].codes; code++) {
        int bits = narrow[of].mantissa_bits, exponent = code >> bits, fraction = code & ((1 << bits) - 1);
        double value = exponent == 0 ? ldexp(fraction, 1 - narrow[of].bias - bits)
                                     : ldexp(fraction | 1 << bits, exponent - narrow[of].bias - bits);
        double off = fabs(value - 1.0 / n);
        if (off < least || (off == least && code % 2 == 0)) {
            least = off;
            nearest = code;
        }
    }
    return (uint16_t)nearest;
}

static tutti_op average(ncclComm_t comm, ncclDataType_t type)
{
    int of = 0;
    while (of < TT_NCCL_NARROW_TYPES && narrow[of].type != type)
        of++;
    if (of == TT_NCCL_NARROW_TYPES || comm->n == 1)
        return TUTTI_AVG;
    uint16_t factor = comm->average[of] == 0 ? reciprocal(of, comm->n) : 0;
    uint8_t byte = (uint8_t)factor;
    if (factor != 0) /* else it is there, or 1 / n is none of this type */
        tutti_op_create_pre_mul_sum(comm->tutti,
            tutti_type_bytes((tutti_type)type) == 1 ? &byte : (void *)&factor, (tutti_type)type, 0,
            &comm->average[of]);
    return comm->average[of] != 0 ? comm->average[of] : TUTTI_AVG;
}

static ncclResult_t begin_reduction(struct call *c, const char *call, ncclDataType_t type, ncclRedOp_t op,
    ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = begin(c, call, comm, stream);
    if (result != ncclSuccess)
        return result;
    c->op = (tutti_op)op;
    if (op == ncclAvg)
        c->op = average(comm, type);
    else if (c->op >= ncclNumOps && c->op <= TUTTI_BIT_XOR)
        return refuse(comm, COLLECTIVE, "an operator that there is not",
            tt_nccl_fail(ncclInvalidArgument,
                "%s: op is %u; legal: ncclSum to ncclAvg, and what ncclRedOpCreatePreMulSum made for comm",
                call, c->op));
    return ncclSuccess;
}

PUBLIC(ncclResult_t, AllReduce,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
        cudaStream_t stream))
{
    struct call c;
    ncclResult_t result = begin_reduction(&c, "ncclAllReduce", type, op, comm, stream);
    if (result != ncclSuccess)
        return result;
    return end(comm, tutti_all_reduce(send, recv, count, (tutti_type)type, c.op, comm->tutti, c.stream));
}

PUBLIC(ncclResult_t, Reduce,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
        ncclComm_t comm, cudaStream_t stream))
{
    struct call c;
    ncclResult_t result = begin_reduction(&c, "ncclReduce", type, op, comm, stream);
    if (result != ncclSuccess)
        return result;
    return end(comm, tutti_reduce(send, recv, count, (tutti_type)type, c.op, root, comm->tutti, c.stream));
}

PUBLIC(ncclResult_t, ReduceScatter,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
        cudaStream_t stream))
{
    struct call c;
    ncclResult_t result = begin_reduction(&c, "ncclReduceScatter", type, op, comm, stream);
    if (result != ncclSuccess)
        return result;
    return end(comm, tutti_reduce_scatter(send, recv, count, (tutti_type)type, c.op, comm->tutti, c.stream));
}

static ncclResult_t broadcast(const char *call, const void *send, void *recv, size_t count,
    ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
    struct call c;
    ncclResult_t result = begin(&c, call, comm, stream);
    if (result != ncclSuccess)
        return result;
    return end(comm, tutti_broadcast(send, recv, count, (tutti_type)type, root, comm->tutti, c.stream));
}

PUBLIC(ncclResult_t, Broadcast,
    (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
        cudaStream_t stream))
{
    return broadcast("ncclBroadcast", send, recv, count, type, root, comm, stream);
}

PUBLIC(ncclResult_t, Bcast,
    (void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))
{
    return broadcast("ncclBcast", buffer, buffer, count, type, root, comm, stream);
}

PUBLIC(ncclResult_t, AllGather,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))
{
    struct call c;
    ncclResult_t result = begin(&c, "ncclAllGather", comm, stream);
    if (result != ncclSuccess)
        return result;
    return end(comm, tutti_all_gather(send, recv, count, (tutti_type)type, comm->tutti, c.stream));
}

PUBLIC(ncclResult_t, AlltoAll,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))
{
    struct call c;
    ncclResult_t result = begin(&c, "ncclAlltoAll", comm, stream);
    if (result != ncclSuccess)
        return result;
    return end(comm, tutti_all_to_all(send, recv, count, (tutti_type)type, comm->tutti, c.stream));
}

PUBLIC(ncclResult_t, Gather,
    (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
        cudaStream_t stream))
{
    struct call c;
    ncclResult_t result = begin(&c, "ncclGather", comm, stream);
    if (result != ncclSuccess)
        return result;
    return end(comm, tutti_gather(send, recv, count, (tutti_type)type, root, comm->tutti, c.stream));
}

PUBLIC(ncclResult_t, Scatter,
    (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
        cudaStream_t stream))
{
    struct call c;
    ncclResult_t result = begin(&c, "ncclScatter", comm, stream);
    if (result != ncclSuccess)
        return result;
    return end(comm, tutti_scatter(send, recv, count, (tutti_type)type, root, comm->tutti, c.stream));
}

PUBLIC(ncclResult_t, Send,
    (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))
{
    struct call c;
    ncclResult_t result = begin_message(&c, "ncclSend", peer, comm, stream);
    if (result != ncclSuccess)
        return result;
    return end(comm, tutti_send(send, count, (tutti_type)type, peer, comm->tutti, c.stream));
}

PUBLIC(ncclResult_t, Recv,
    (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))
{
    struct call c;
    ncclResult_t result = begin_message(&c, "ncclRecv", peer, comm, stream);
    if (result != ncclSuccess)
        return result;
    return end(comm, tutti_recv(recv, count, (tutti_type)type, peer, comm->tutti, c.stream));
}

/* --- Operators */

/* PyTorch hands a float32 where the type is bfloat16, of which NCCL reads half: known by who calls. */
static bool is_torch(const void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) != 0 && info.dli_fname != NULL && strstr(info.dli_fname, "libtorch") != NULL;
}

/* The upper half of a float32 is that number as bfloat16, cut. On a device that will do: the number is there
 * when the stream comes to the call, and nobody can round it before. */
static void *upper_half(void *scalar)
{
    static const uint16_t order = 1;
    return (char *)scalar + (*(const uint8_t *)&order == 1 ? sizeof(uint16_t) : 0);
}

ncclResult_t tt_nccl_create_factor(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
    ncclScalarResidence_t residence, ncclComm_t comm, bool of_torch)
{
    uint16_t half;
    tutti_op made = 0;
    if (op == NULL || scalar == NULL)
        return tt_nccl_fail(
            ncclInvalidArgument, "ncclRedOpCreatePreMulSum: %s is NULL", op == NULL ? "op" : "scalar");
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
        return tt_nccl_fail(ncclInvalidArgument,
            "ncclRedOpCreatePreMulSum: residence is %d; legal: ncclScalarDevice, ncclScalarHostImmediate",
            (int)residence);
    bool wide = of_torch && type == ncclBfloat16;
    if (wide && residence == ncclScalarDevice)
        scalar = upper_half(scalar);
    else if (wide && tutti_convert(scalar, TUTTI_FLOAT32, &half, TUTTI_BFLOAT16, 1) == TUTTI_OK)
        scalar = &half;
    tutti_status status = tutti_op_create_pre_mul_sum(
        comm->tutti, scalar, (tutti_type)type, residence == ncclScalarDevice, &made);
    if (status == TUTTI_OK)
        *op = (ncclRedOp_t)made; /* beyond all built-in ones */
    return tt_nccl_answer(status);
}

PUBLIC(ncclResult_t, RedOpCreatePreMulSum,
    (ncclRedOp_t * op, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence, ncclComm_t comm))
{
    ncclResult_t result = tt_nccl_enter("ncclRedOpCreatePreMulSum", comm);
    if (result != ncclSuccess)
        return result;
    result = tt_nccl_create_factor(op, scalar, type, residence, comm, is_torch(__builtin_return_address(0)));
    tt_nccl_leave(comm);
    return result;
}

PUBLIC(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))
{
    if ((tutti_op)op < ncclNumOps)
        return tt_nccl_fail(ncclInvalidArgument,
            "ncclRedOpDestroy: op is %d, which is built in; legal: what ncclRedOpCreatePreMulSum made for "
            "comm",
            (int)op);
    ncclResult_t result = tt_nccl_enter("ncclRedOpDestroy", comm);
    if (result != ncclSuccess)
        return result;
    result = tt_nccl_answer(tutti_op_destroy(comm->tutti, (tutti_op)op));
    tt_nccl_leave(comm);
    return result;
}

/* --- Calls with a config of their own (2.31). */

static ncclResult_t check_config(const char *call, const ncclCollConfig_t *config)
{
    size_t size = 0;
    if (config == NULL)
        return ncclSuccess;
    memcpy(&size, config, sizeof size);
    if ((int)config->magic != CONFIG_MAGIC || size < offsetof(ncclCollConfig_t, ext))
        return tt_nccl_fail(
            ncclInvalidArgument, "%s: config is not as NCCL_COLLCONFIG_INITIALIZER sets it", call);
    if (size >= sizeof *config && config->launchCompletionEvent != NULL)
        return tt_nccl_fail(ncclInvalidUsage,
            "%s: config has a launchCompletionEvent, which Tutti cannot record; what works: cudaEventRecord "
            "on the "
            "stream, after the call",
            call);
    return ncclSuccess;
}

/* Partly: the config is checked, and has no effect. */
PUBLIC(ncclResult_t, AllReduceConfig,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
        cudaStream_t stream, const ncclCollConfig_t *config))
{
    ncclResult_t result = check_config("ncclAllReduceConfig", config);
    return result != ncclSuccess ? result : pncclAllReduce(send, recv, count, type, op, comm, stream);
}

/* Partly: the config is checked, and has no effect. */
PUBLIC(ncclResult_t, ReduceConfig,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
        ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config))
{
    ncclResult_t result = check_config("ncclReduceConfig", config);
    return result != ncclSuccess ? result : pncclReduce(send, recv, count, type, op, root, comm, stream);
}

/* Partly: the config is checked, and has no effect. */
PUBLIC(ncclResult_t, BroadcastConfig,
    (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
        cudaStream_t stream, const ncclCollConfig_t *config))
{
    ncclResult_t result = check_config("ncclBroadcastConfig", config);
    return result != ncclSuccess ? result : pncclBroadcast(send, recv, count, type, root, comm, stream);
}

/* Partly: the config is checked, and has no effect. */
PUBLIC(ncclResult_t, ReduceScatterConfig,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
        cudaStream_t stream, const ncclCollConfig_t *config))
{
    ncclResult_t result = check_config("ncclReduceScatterConfig", config);
    return result != ncclSuccess ? result : pncclReduceScatter(send, recv, count, type, op, comm, stream);
}

/* Partly: the config is checked, and has no effect. */
PUBLIC(ncclResult_t, AllGatherConfig,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
        const ncclCollConfig_t *config))
{
    ncclResult_t result = check_config("ncclAllGatherConfig", config);
    return result != ncclSuccess ? result : pncclAllGather(send, recv, count, type, comm, stream);
}

/* Partly: the config is checked, and has no effect. */
PUBLIC(ncclResult_t, AlltoAllConfig,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
        const ncclCollConfig_t *config))
{
    ncclResult_t result = check_config("ncclAlltoAllConfig", config);
    return result != ncclSuccess ? result : pncclAlltoAll(send, recv, count, type, comm, stream);
}

/* Partly: the config is checked, and has no effect. */
PUBLIC(ncclResult_t, GatherConfig,
    (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
        cudaStream_t stream, const ncclCollConfig_t *config))
{
    ncclResult_t result = check_config("ncclGatherConfig", config);
    return result != ncclSuccess ? result : pncclGather(send, recv, count, type, root, comm, stream);
}

/* Partly: the config is checked, and has no effect. */
PUBLIC(ncclResult_t, ScatterConfig,
    (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
        cudaStream_t stream, const ncclCollConfig_t *config))
{
    ncclResult_t result = check_config("ncclScatterConfig", config);
    return result != ncclSuccess ? result : pncclScatter(send, recv, count, type, root, comm, stream);
}
