/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: element types and reductions. 16-bit floats are rounded at every step. */
#include <string.h>

#include "codecs/scalar.h"
#include "tests/nccl/standin/nccl_internal.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[ncclNumTypes] = {
    [ncclInt8] = {"int8", 1},       [ncclUint8] = {"uint8", 1},
    [ncclInt32] = {"int32", 4},     [ncclUint32] = {"uint32", 4},
    [ncclInt64] = {"int64", 8},     [ncclUint64] = {"uint64", 8},
    [ncclFloat16] = {"float16", 2}, [ncclFloat32] = {"float32", 4},
    [ncclFloat64] = {"float64", 8}, [ncclBfloat16] = {"bfloat16", 2},
};

size_t standin_dtype_bytes(ncclDataType_t dtype)
{
    return (unsigned)dtype < ncclNumTypes ? dtypes[dtype].bytes : 0;
}

const char *standin_dtype_name(ncclDataType_t dtype)
{
    return (unsigned)dtype < ncclNumTypes ? dtypes[dtype].name : "?";
}

const char *standin_op_name(ncclRedOp_t op)
{
    static const char *const names[] = {"sum", "prod", "max", "min", "avg"};
    return (unsigned)op < ncclNumOps ? names[op] : "premulsum";
}

static float half_load(ncclDataType_t dtype, const uint8_t *place)
{
    uint16_t code;
    memcpy(&code, place, sizeof code);
    return dtype == ncclFloat16 ? cshim_fp16_decode(code, 0)
                                : cshim_bits_float((uint32_t)code << 16);
}

static void half_store(ncclDataType_t dtype, float value, uint8_t *place)
{
    uint16_t code;
    const uint32_t bits = cshim_float_bits(value);
    if (dtype == ncclFloat16)
        code = cshim_half_from_float(value);
    else
        code = value != value ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy(place, &code, sizeof code);
}

/* Sums and products of integers may wrap around, so they are computed unsigned. Buffers may be
 * unaligned. */
#define COMBINE(type, unsigned_type)                                                               \
    static type combine_##type(ncclRedOp_t op, type a, type b)                                     \
    {                                                                                              \
        return op == ncclProd           ? (type)((unsigned_type)a * (unsigned_type)b)              \
               : op == ncclMax          ? (a > b ? a : b)                                          \
               : op == ncclMin          ? (a < b ? a : b)                                          \
               : op == STANDIN_QUOTIENT ? (type)(a / b)                                            \
                                        : (type)((unsigned_type)a + (unsigned_type)b);             \
    }                                                                                              \
    static void combine_all_##type(ncclRedOp_t op, uint8_t *total, const uint8_t *more,            \
                                   size_t step, size_t count)                                      \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            type a, b;                                                                             \
            memcpy(&a, total + i * sizeof a, sizeof a);                                            \
            memcpy(&b, more + i * step * sizeof b, sizeof b);                                      \
            a = combine_##type(op, a, b);                                                          \
            memcpy(total + i * sizeof a, &a, sizeof a);                                            \
        }                                                                                          \
    }
COMBINE(int8_t, uint32_t)
COMBINE(uint8_t, uint32_t)
COMBINE(int32_t, uint32_t)
COMBINE(uint32_t, uint32_t)
COMBINE(int64_t, uint64_t)
COMBINE(uint64_t, uint64_t)
COMBINE(float, float)
COMBINE(double, double)
#undef COMBINE

static void combine_all_halves(ncclDataType_t dtype, ncclRedOp_t op, uint8_t *total,
                               const uint8_t *more, size_t step, size_t count)
{
    const size_t bytes = standin_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        const float a = half_load(dtype, total + i * bytes);
        const float b = half_load(dtype, more + i * step * bytes);
        half_store(dtype, combine_float(op, a, b), total + i * bytes);
    }
}

void standin_combine(ncclDataType_t dtype, ncclRedOp_t op, void *total, const void *more,
                     size_t step, size_t count)
{
    switch (dtype) {
    case ncclInt8:
        combine_all_int8_t(op, total, more, step, count);
        break;
    case ncclUint8:
        combine_all_uint8_t(op, total, more, step, count);
        break;
    case ncclInt32:
        combine_all_int32_t(op, total, more, step, count);
        break;
    case ncclUint32:
        combine_all_uint32_t(op, total, more, step, count);
        break;
    case ncclInt64:
        combine_all_int64_t(op, total, more, step, count);
        break;
    case ncclUint64:
        combine_all_uint64_t(op, total, more, step, count);
        break;
    case ncclFloat32:
        combine_all_float(op, total, more, step, count);
        break;
    case ncclFloat64:
        combine_all_double(op, total, more, step, count);
        break;
    default:
        combine_all_halves(dtype, op, total, more, step, count);
    }
}

bool standin_reciprocal(ncclDataType_t dtype, int ranks, void *scalar)
{
    const double wide = 1.0 / ranks;
    const float single = 1.0f / (float)ranks;
    if (dtype < ncclFloat16)
        return false;
    if (dtype == ncclFloat64)
        memcpy(scalar, &wide, sizeof wide);
    else if (dtype == ncclFloat32)
        memcpy(scalar, &single, sizeof single);
    else
        half_store(dtype, single, scalar);
    return true;
}
