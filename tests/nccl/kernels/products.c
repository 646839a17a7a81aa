/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/products.h"

#include <math.h>
#include <string.h>

#include "codecs/scalar.h"

const double third = -1.0 / 3;

double any_factor(void)
{
    static const double rare[] = {1, 0, 0x1.4p-22, 0x1.4p-130, 0x1p-1070, 0x1.4p100, HUGE_VAL, NAN};
    return next_random() % 4 != 0 ? third : rare[next_random() % (sizeof rare / sizeof *rare)];
}

struct array make_factor(enum cshim_dtype dtype, double factor)
{
    const float value = (float)factor;
    struct array array = make_array(cshim_dtype_bytes(dtype), 0);
    if (dtype == CSHIM_FLOAT64)
        memcpy(array.host, &factor, sizeof factor);
    else
        cshim_decode(CSHIM_CODEC_FP32, dtype, &value, 1, array.host);
    give_array(&array);
    return array;
}

double factor_of(enum cshim_dtype dtype, const struct array *factor)
{
    double value;
    float values[CSHIM_WIRE_ALIGN / sizeof(float)];
    if (dtype == CSHIM_FLOAT64) {
        memcpy(&value, factor->host, sizeof value);
        return value;
    }
    cshim_encode(CSHIM_CODEC_FP32, dtype, factor->host, 1, values);
    return values[0];
}

void multiply(float *values, uint64_t count, double factor)
{
    for (uint64_t i = 0; i < count && factor != 1; i++)
        values[i] = cshim_canonical(values[i] * (float)factor);
}

void multiply_doubles(void *values, uint64_t count, double factor)
{
    double *const value = values;
    for (uint64_t i = 0; i < count && factor != 1; i++)
        value[i] = cshim_sum_double(value[i] * factor, -0.0);
}

void narrow(enum cshim_dtype dtype, const float *values, uint64_t count, void *output)
{
    cshim_decode(CSHIM_CODEC_FP32, dtype, values, count, output);
}
