/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/layers.h"

#include <cblas.h>
#include <string.h>

#include "examples/mnist/model.h"
#include "examples/mnist/rng.h"
#include "examples/mnist/simd.h"

void dense_forward(const struct dense *layer, int rows, const float *values, float *results)
{
    for (int row = 0; row < rows; row++)
        memcpy(results + (size_t)row * (size_t)layer->outputs, layer->bias,
               (size_t)layer->outputs * sizeof *results);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, layer->outputs, layer->inputs, 1.0F,
                values, layer->inputs, layer->weights, layer->inputs, 1.0F, results,
                layer->outputs);
}

void dense_backward(const struct dense *layer, const struct dense *gradients, int rows,
                    const float *values, const float *result_gradient, float *value_gradient)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, layer->outputs, layer->inputs, rows, 1.0F,
                result_gradient, layer->outputs, values, layer->inputs, 0.0F, gradients->weights,
                layer->inputs);
    for (int output = 0; output < layer->outputs; output++) {
        float sum = 0;
        for (int row = 0; row < rows; row++)
            sum += result_gradient[(size_t)row * (size_t)layer->outputs + (size_t)output];
        gradients->bias[output] = sum;
    }
    if (value_gradient != NULL)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, layer->inputs, layer->outputs,
                    1.0F, result_gradient, layer->outputs, layer->weights, layer->inputs, 0.0F,
                    value_gradient, layer->inputs);
}

SIMD_CLONES void relu(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] > 0 ? values[i] : 0;
}

SIMD_CLONES void dropout(float *values, size_t count, unsigned drop_chance_256, uint64_t stream,
                         uint64_t first_counter)
{
    float scale = model_dropout_scale(drop_chance_256);
    for (size_t i = 0; i < count; i += DROPOUT_UNITS_PER_DRAW) {
        uint64_t bits = rng_bits(stream, first_counter + i / DROPOUT_UNITS_PER_DRAW);
        size_t end = count - i < DROPOUT_UNITS_PER_DRAW ? count - i : DROPOUT_UNITS_PER_DRAW;
        for (size_t j = 0; j < end; j++)
            values[i + j] *= ((bits >> 8 * j) & 255) < drop_chance_256 ? 0 : scale;
    }
}

SIMD_CLONES void relu_dropout_backward(const float *values, float *gradient, size_t count,
                                       unsigned drop_chance_256)
{
    float scale = model_dropout_scale(drop_chance_256);
    for (size_t i = 0; i < count; i++)
        gradient[i] = values[i] > 0 ? gradient[i] * scale : 0;
}
