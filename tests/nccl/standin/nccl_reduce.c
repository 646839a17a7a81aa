/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: element types and reductions. 16- and 8-bit floats are rounded at every step. */
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
    [ncclFloat8e4m3] = {"e4m3", 1}, [ncclFloat8e5m2] = {"e5m2", 1},
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

/* Sums may wrap round: they are made without sign. */
#define COMBINE(type, unsigned_type)                                                               \
    static type combine_##type(ncclRedOp_t op, type a, type b)                                     \
    {                                                                                              \
        return op == ncclProd  ? (type)((unsigned_type)a * (unsigned_type)b)                       \
               : op == ncclMax ? (a > b ? a : b)                                                   \
               : op == ncclMin ? (a < b ? a : b)                                                   \
                               : (type)((unsigned_type)a + (unsigned_type)b);                      \
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

static float small_load(ncclDataType_t dtype, const uint8_t *place)
{
    uint16_t code;
    switch (dtype) {
    case ncclFloat8e4m3:
        return cshim_float_decode(cshim_format(CSHIM_CODEC_FP8_E4M3), *place, 0);
    case ncclFloat8e5m2:
        return cshim_float_decode(cshim_format(CSHIM_CODEC_FP8_E5M2), *place, 0);
    default:
        memcpy(&code, place, sizeof code);
        return dtype == ncclFloat16 ? cshim_fp16_decode(code, 0)
                                    : cshim_bits_float((uint32_t)code << 16);
    }
}

static void small_store(ncclDataType_t dtype, float value, uint8_t *place)
{
    uint16_t code;
    const uint32_t bits = cshim_float_bits(value);
    switch (dtype) {
    case ncclFloat8e4m3:
        *place = (uint8_t)cshim_float_encode(cshim_format(CSHIM_CODEC_FP8_E4M3), value, 0);
        return;
    case ncclFloat8e5m2:
        *place = (uint8_t)cshim_float_encode(cshim_format(CSHIM_CODEC_FP8_E5M2), value, 0);
        return;
    case ncclFloat16:
        code = cshim_half_from_float(value);
        break;
    default:
        code = value != value ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    memcpy(place, &code, sizeof code);
}

/* Applies STATEMENT to values a (total) and b (more) of a type. Buffers may be unaligned. */
#define LOOP(type, expression)                                                                     \
    for (size_t i = 0; i < count; i++) {                                                           \
        type a, b;                                                                                 \
        memcpy(&a, (uint8_t *)total + i * sizeof a, sizeof a);                                     \
        memcpy(&b, (const uint8_t *)more + i * step * sizeof b, sizeof b);                         \
        a = (expression);                                                                          \
        memcpy((uint8_t *)total + i * sizeof a, &a, sizeof a);                                     \
    }

static void small_loop(ncclDataType_t dtype, ncclRedOp_t op, bool multiply, uint8_t *total,
                       const uint8_t *more, size_t step, size_t count)
{
    const size_t bytes = standin_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        const float a = small_load(dtype, total + i * bytes);
        const float b = small_load(dtype, more + i * step * bytes);
        small_store(dtype, multiply ? a * b : combine_float(op, a, b), total + i * bytes);
    }
}

void standin_combine(ncclDataType_t dtype, ncclRedOp_t op, void *total, const void *more,
                     size_t count)
{
    const size_t step = 1;
    switch (dtype) {
    case ncclInt8:
        LOOP(int8_t, combine_int8_t(op, a, b)) break;
    case ncclUint8:
        LOOP(uint8_t, combine_uint8_t(op, a, b)) break;
    case ncclInt32:
        LOOP(int32_t, combine_int32_t(op, a, b)) break;
    case ncclUint32:
        LOOP(uint32_t, combine_uint32_t(op, a, b)) break;
    case ncclInt64:
        LOOP(int64_t, combine_int64_t(op, a, b)) break;
    case ncclUint64:
        LOOP(uint64_t, combine_uint64_t(op, a, b)) break;
    case ncclFloat32:
        LOOP(float, combine_float(op, a, b)) break;
    case ncclFloat64:
        LOOP(double, combine_double(op, a, b)) break;
    default:
        small_loop(dtype, op, false, total, more, step, count);
    }
}

void standin_multiply(ncclDataType_t dtype, void *total, const void *more, size_t count)
{
    const size_t step = 0; /* one scalar for all */
    switch (dtype) {
    case ncclInt8:
        LOOP(int8_t, combine_int8_t(ncclProd, a, b)) break;
    case ncclUint8:
        LOOP(uint8_t, combine_uint8_t(ncclProd, a, b)) break;
    case ncclInt32:
        LOOP(int32_t, combine_int32_t(ncclProd, a, b)) break;
    case ncclUint32:
        LOOP(uint32_t, combine_uint32_t(ncclProd, a, b)) break;
    case ncclInt64:
        LOOP(int64_t, combine_int64_t(ncclProd, a, b)) break;
    case ncclUint64:
        LOOP(uint64_t, combine_uint64_t(ncclProd, a, b)) break;
    case ncclFloat32:
        LOOP(float, a *b) break;
    case ncclFloat64:
        LOOP(double, a *b) break;
    default:
        small_loop(dtype, ncclSum, true, total, more, step, count);
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
        small_store(dtype, single, scalar);
    return true;
}

void standin_divide(ncclDataType_t dtype, void *total, int ranks, size_t count)
{
    const void *more = total; /* not looked at */
    const size_t step = 1;
    switch (dtype) {
    case ncclInt8:
        LOOP(int8_t, ((void)b, (int8_t)(a / ranks))) break;
    case ncclUint8:
        LOOP(uint8_t, ((void)b, (uint8_t)(a / ranks))) break;
    case ncclInt32:
        LOOP(int32_t, ((void)b, a / ranks)) break;
    case ncclUint32:
        LOOP(uint32_t, ((void)b, a / (uint32_t)ranks)) break;
    case ncclInt64:
        LOOP(int64_t, ((void)b, a / ranks)) break;
    default:
        LOOP(uint64_t, ((void)b, a / (uint64_t)ranks)) break;
    }
}
