/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how type and operation of a reduction function are found: from its results on a few
 * elements. */
#include "codecs/codec.h"
#include "shim/core/reduction.h"
#include "tests/unit/unit.h"

/* A reduction function of a library. */
struct function {
    enum cshim_dtype dtype;
    enum { SUM, PRODUCT, LARGER, FAILS } does;
};

static double number_of(enum cshim_dtype dtype, const void *elements, size_t i)
{
    double wide;
    float narrow[4]; /* encodings are padded to 16 bytes */
    const uint8_t *element = (const uint8_t *)elements + i * cshim_dtype_bytes(dtype);
    if (dtype == CSHIM_FLOAT64) {
        memcpy(&wide, element, sizeof wide);
        return wide;
    }
    cshim_encode(CSHIM_CODEC_FP32, dtype, element, 1, narrow);
    return (double)narrow[0];
}

static int reduce(const void *of, void *output, const void *a, const void *b, size_t elements)
{
    const struct function *function = of;
    const enum cshim_dtype dtype = function->dtype;
    for (size_t i = 0; i < elements; i++) {
        const double left = number_of(dtype, a, i), right = number_of(dtype, b, i);
        const double wide = function->does == SUM       ? left + right
                            : function->does == PRODUCT ? left * right
                            : left > right              ? left
                                                        : right;
        const float narrow = (float)wide;
        if (dtype == CSHIM_FLOAT64)
            memcpy((double *)output + i, &wide, sizeof wide);
        else
            cshim_decode(CSHIM_CODEC_FP32, dtype, &narrow, 1,
                         (uint8_t *)output + i * cshim_dtype_bytes(dtype));
    }
    return function->does == FAILS;
}

static int add_integers(const void *of, void *output, const void *a, const void *b, size_t elements)
{
    const uint32_t *left = a, *right = b;
    (void)of;
    for (size_t i = 0; i < elements; i++)
        ((uint32_t *)output)[i] = left[i] + right[i];
    return 0;
}

TEST(every_type_and_operation)
{
    for (unsigned type = 0; type < CSHIM_DTYPE_COUNT; type++)
        for (unsigned does = SUM; does <= LARGER; does++) {
            const struct function function = {(enum cshim_dtype)type, does};
            enum cshim_dtype dtype;
            enum cshim_op op;
            cshim_reduction_describe(reduce, &function, cshim_dtype_bytes(function.dtype), &dtype,
                                     &op);
            assert_int_equal(dtype, type);
            assert_int_equal(op, does == SUM ? CSHIM_SUM : CSHIM_OP_OTHER);
        }
}

TEST(what_is_not_known)
{
    const struct function fails = {CSHIM_FLOAT32, FAILS};
    enum cshim_dtype dtype;
    enum cshim_op op;
    cshim_reduction_describe(reduce, &fails, sizeof(float), &dtype, &op);
    assert_int_equal(dtype, CSHIM_DTYPE_OTHER);
    cshim_reduction_describe(add_integers, NULL, sizeof(uint32_t), &dtype, &op);
    assert_int_equal(dtype, CSHIM_DTYPE_OTHER);
    assert_int_equal(op, CSHIM_OP_OTHER);
    cshim_reduction_describe(add_integers, NULL, 3, &dtype, &op);
    assert_int_equal(dtype, CSHIM_DTYPE_OTHER);
}
