/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises a reduction by its results on a few elements: as float32, 1 and 2 become 0x40400000 by
 * a sum and 0x40000000 by a maximum; the sum of the same bits as integers is 0x7f800000. */
#include "shim/core/reduction.h"

#include <string.h>

#include "codecs/arithmetic.h"
#include "codecs/codec.h"

enum { PAIRS = 4 };

/* Operands whose sums, products and extremes are exact in every type. Negative ones distinguish
 * floats from integers by their order. Sums of their bits as signed integers do not overflow. */
static const double left[PAIRS] = {1, -2, 0.75, -96};
static const double right[PAIRS] = {2, -2.5, -0.125, 40};

/* Stores numbers as elements of a type. */
static void store_elements(enum cshim_dtype dtype, const double numbers[PAIRS],
                           uint64_t elements[PAIRS])
{
    float narrow[PAIRS];
    for (unsigned i = 0; i < PAIRS; i++)
        narrow[i] = (float)numbers[i];
    if (dtype == CSHIM_FLOAT64)
        memcpy(elements, numbers, PAIRS * sizeof *numbers);
    else /* decodes from the payload of codec fp32, an array of float32 */
        cshim_decode(CSHIM_CODEC_FP32, dtype, narrow, PAIRS, elements);
}

enum operation { SUM, PRODUCT, LARGER, SMALLER, OPERATIONS };

static double combine(enum operation operation, double a, double b)
{
    if (operation == SUM || operation == PRODUCT)
        return operation == SUM ? a + b : a * b;
    return (a > b) == (operation == LARGER) ? a : b;
}

/* Returns true if the results are those of an operation on elements of a type. */
static bool is_operation(enum cshim_dtype dtype, enum operation operation, const uint64_t *results)
{
    double numbers[PAIRS];
    uint64_t want[PAIRS];
    for (unsigned i = 0; i < PAIRS; i++)
        numbers[i] = combine(operation, left[i], right[i]);
    store_elements(dtype, numbers, want);
    return memcmp(want, results, PAIRS * cshim_dtype_bytes(dtype)) == 0;
}

/* Returns true if the elements are bfloat16 rather than float16. Minima and maxima of both types
 * are the same, except for bits that are NaNs in float16. For two of these NaNs, in either order,
 * only bfloat16 gives the same extreme. */
static bool is_bfloat16(cshim_reduction *reduction, const void *of)
{
    static const uint16_t a[2] = {0x7f01, 0x7e81}, b[2] = {0x7e81, 0x7f01};
    uint16_t results[2] = {0};
    /* The program may have enabled traps, and NaNs would trap. */
    const cshim_arithmetic saved = cshim_arithmetic_begin();
    reduction(of, results, a, b, 2);
    cshim_arithmetic_end(&saved);
    return results[0] == results[1] && (results[0] == a[0] || results[0] == a[1]);
}

/* Calls the reduction on elements of a type, and returns its operation; CSHIM_OP_COUNT if it fails
 * or its results are those of no operation on this type. */
static enum cshim_op find_operation(cshim_reduction *reduction, const void *of,
                                    enum cshim_dtype dtype)
{
    uint64_t a[PAIRS], b[PAIRS], results[PAIRS] = {0};
    store_elements(dtype, left, a);
    store_elements(dtype, right, b);
    if (reduction(of, results, a, b, PAIRS) != 0)
        return CSHIM_OP_COUNT;
    for (enum operation operation = SUM; operation < OPERATIONS; operation++)
        if (is_operation(dtype, operation, results))
            return operation == SUM                                       ? CSHIM_SUM
                   : dtype == CSHIM_FLOAT16 && is_bfloat16(reduction, of) ? CSHIM_OP_COUNT
                                                                          : CSHIM_OP_OTHER;
    return CSHIM_OP_COUNT;
}

void cshim_reduction_describe(cshim_reduction *reduction, const void *of, size_t element_bytes,
                              enum cshim_dtype *dtype, enum cshim_op *op)
{
    for (unsigned type = 0; type < CSHIM_DTYPE_COUNT; type++) {
        *dtype = (enum cshim_dtype)type;
        if (cshim_dtype_bytes(*dtype) != element_bytes)
            continue;
        *op = find_operation(reduction, of, *dtype);
        if (*op != CSHIM_OP_COUNT)
            return;
    }
    *dtype = CSHIM_DTYPE_OTHER;
    *op = CSHIM_OP_OTHER;
}
