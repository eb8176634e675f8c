/* SPDX-License-Identifier: BSD-3-Clause */
/* cublas_stand_in.c: a library that has the functions of cuBLAS by name, for machines without a device: plain
 * loops over matrices of columns, as cuBLAS's manual defines them. It refuses what the manual forbids. */
#include <math.h>
#include <stdint.h>
#include <string.h>

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasSetStream_v2(void *handle, void *stream);
int cublasGemmEx(void *handle, int turn_a, int turn_b, int m, int n, int k, const void *alpha, const void *a,
    int a_type, int a_column, const void *b, int b_type, int b_column, const void *beta, void *c, int c_type,
    int c_column, int compute, int algorithm);

/* CUBLAS_STATUS_*, CUBLAS_OP_T, CUDA_R_32F, CUBLAS_COMPUTE_*, CUBLAS_GEMM_DEFAULT */
enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { TURNED = 1, FLOAT = 0, COMPUTE = 68, FAST_BFLOAT16 = 75, FAST_TF32 = 77, DEFAULT = -1 };

static int handles;
static void *stream_of_handle;

int cublasCreate_v2(void **handle)
{
    *handle = &handles;
    handles++;
    return 0;
}

int cublasDestroy_v2(void *handle)
{
    handles--;
    return handle == &handles ? 0 : NOT_INITIALIZED;
}

int cublasSetStream_v2(void *handle, void *stream)
{
    stream_of_handle = stream;
    return handle == &handles && handles == 1 ? 0 : NOT_INITIALIZED;
}

/* x with so many bits of its mantissa less, to the nearest. */
static float without(float x, int bits)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    word += (1u << bits >> 1);
    word &= ~((1u << bits) - 1);
    memcpy(&x, &word, sizeof x);
    return x;
}

static int refusal(int turn_a, int turn_b, int m, int n, int k, int a_column, int b_column, int c_column)
{
    int a_rows = turn_a == TURNED ? k : m, b_rows = turn_b == TURNED ? n : k;
    if (m < 1 || n < 1 || k < 1 || turn_a < 0 || turn_a > TURNED || turn_b < 0 || turn_b > TURNED)
        return INVALID_VALUE;
    return a_column < a_rows || b_column < b_rows || c_column < m ? INVALID_VALUE : 0;
}

/* c[i + j c_column] = alpha op(a) op(b) + beta c. A stream that is not null lost its device. */
int cublasGemmEx(void *handle, int turn_a, int turn_b, int m, int n, int k, const void *alpha, const void *a,
    int a_type, int a_column, const void *b, int b_type, int b_column, const void *beta, void *c, int c_type,
    int c_column, int compute, int algorithm)
{
    const float *x = a, *y = b, factor = *(const float *)alpha, old = *(const float *)beta;
    float *to = c;
    if (handle != &handles || handles != 1)
        return NOT_INITIALIZED;
    if (a_type != FLOAT || b_type != FLOAT || c_type != FLOAT || algorithm != DEFAULT ||
        (compute != COMPUTE && compute != FAST_BFLOAT16 && compute != FAST_TF32))
        return NOT_SUPPORTED;
    if (stream_of_handle)
        return EXECUTION_FAILED;
    int status = refusal(turn_a, turn_b, m, n, k, a_column, b_column, c_column);
    int bits = compute == FAST_BFLOAT16 ? 16 : compute == FAST_TF32 ? 13 : 0;
    for (int64_t i = 0; i < m && !status; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum = fmaf(without(turn_a == TURNED ? x[l + i * a_column] : x[i + l * a_column], bits),
                    without(turn_b == TURNED ? y[j + l * b_column] : y[l + j * b_column], bits), sum);
            float *at = to + i + j * c_column;
            *at = old == 0 ? factor * sum : factor * sum + old * *at;
        }
    return status;
}
