/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/conv.h"

#include <cblas.h>
#include <string.h>

#include "examples/mnist/device.h"
#include "examples/mnist/simd.h"

SIMD_CLONES static void convolve1(const struct layer *layer, const float *image, float *map)
{
    for (int y = 0; y < CONV1_SIDE; y++) {
        for (int x = 0; x < CONV1_SIDE; x++) {
            float *restrict output = map + (y * CONV1_SIDE + x) * CONV1_CHANNELS;
            float inputs[CONV_TAPS];
            for (int tap = 0; tap < CONV_TAPS; tap++)
                inputs[tap] = image[(y + tap / CONV_KERNEL) * IMAGE_SIDE + x + tap % CONV_KERNEL];
            /* Taps inside: unrolled, so that the sums of many channels stay in registers. */
            for (int c = 0; c < CONV1_CHANNELS; c++) {
                float sum = layer->bias[c];
                for (int tap = 0; tap < CONV_TAPS; tap++)
                    sum += inputs[tap] * layer->weights[tap * CONV1_CHANNELS + c];
                output[c] = sum > 0 ? sum : 0;
            }
        }
    }
}

/* Lays out the inputs of each output in a row, so that the convolution is one matrix product. */
static void gather_patches(const float *map, float *patches)
{
    for (int y = 0; y < CONV2_SIDE; y++) {
        for (int x = 0; x < CONV2_SIDE; x++) {
            for (int row = 0; row < CONV_KERNEL; row++) {
                memcpy(patches, map + ((y + row) * CONV1_SIDE + x) * CONV1_CHANNELS,
                       CONV2_ROW * sizeof *patches);
                patches += CONV2_ROW;
            }
        }
    }
}

/* Bias and relu come after the maximum, which they do not change, on a quarter of the values. */
SIMD_CLONES static void pool(const float *map, const float *bias, float *features, uint8_t *winner)
{
    const int down = CONV2_SIDE * CONV2_CHANNELS;
    for (int y = 0; y < POOL_SIDE; y++) {
        for (int x = 0; x < POOL_SIDE; x++) {
            const float *corner = map + (2 * y * CONV2_SIDE + 2 * x) * CONV2_CHANNELS;
            for (int c = 0; c < CONV2_CHANNELS; c++) {
                float right = corner[c + CONV2_CHANNELS];
                float below = corner[c + down], opposite = corner[c + down + CONV2_CHANNELS];
                float best = corner[c];
                int from = 0;
                from = right > best ? 1 : from;
                best = right > best ? right : best;
                from = below > best ? 2 : from;
                best = below > best ? below : best;
                from = opposite > best ? 3 : from;
                best = opposite > best ? opposite : best;
                best += bias[c];
                features[c] = best > 0 ? best : 0;
                winner[c] = (uint8_t)from;
            }
            features += CONV2_CHANNELS;
            winner += CONV2_CHANNELS;
        }
    }
}

void conv_forward(const struct layer *layers, const float *image, struct conv_trace *trace,
                  struct conv_scratch *scratch, float *features)
{
    convolve1(&layers[0], image, trace->map1);
    gather_patches(trace->map1, scratch->patches);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, CONV2_SIDE * CONV2_SIDE, CONV2_CHANNELS,
                CONV2_PATCH, 1.0F, scratch->patches, CONV2_PATCH, layers[1].weights, CONV2_PATCH,
                0.0F, scratch->map2, CONV2_CHANNELS);
    pool(scratch->map2, layers[1].bias, features, trace->winner);
}

/* Only the winner of each maximum has a gradient, so at least three quarters of a matrix product
 * would be multiplications by zero: walk the winners instead. One channel at a time keeps its
 * weights and their gradient in the nearest cache. */
SIMD_CLONES static void backward2(const float *restrict weight, float *restrict weight_gradient,
                                  float *restrict bias_gradient, const struct conv_trace *trace,
                                  const float *restrict feature_gradient,
                                  float *restrict map1_gradient)
{
    for (int c = 0; c < CONV2_CHANNELS; c++) {
        float bias_sum = 0;
        for (int position = 0; position < POOL_SIDE * POOL_SIDE; position++) {
            int feature = position * CONV2_CHANNELS + c;
            float gradient = feature_gradient[feature];
            if (gradient == 0)
                continue;
            int y = 2 * (position / POOL_SIDE) + (trace->winner[feature] >> 1);
            int x = 2 * (position % POOL_SIDE) + (trace->winner[feature] & 1);
            bias_sum += gradient;
            for (int row = 0; row < CONV_KERNEL; row++) {
                int corner = ((y + row) * CONV1_SIDE + x) * CONV1_CHANNELS;
                int tap = c * CONV2_PATCH + row * CONV2_ROW;
                for (int i = 0; i < CONV2_ROW; i++)
                    weight_gradient[tap + i] += gradient * trace->map1[corner + i];
                for (int i = 0; i < CONV2_ROW; i++)
                    map1_gradient[corner + i] += gradient * weight[tap + i];
            }
        }
        bias_gradient[c] += bias_sum;
    }
}

SIMD_CLONES static void backward1(const struct layer *layer, const float *image, const float *map1,
                                  float *map1_gradient)
{
    float bias_sum[CONV1_CHANNELS] = {0};
    float weight_sum[CONV_TAPS][CONV1_CHANNELS] = {{0}};
    for (int y = 0; y < CONV1_SIDE; y++) {
        for (int x = 0; x < CONV1_SIDE; x++) {
            int pixel = (y * CONV1_SIDE + x) * CONV1_CHANNELS;
            float *gradient = map1_gradient + pixel;
            for (int c = 0; c < CONV1_CHANNELS; c++) {
                gradient[c] = map1[pixel + c] > 0 ? gradient[c] : 0;
                bias_sum[c] += gradient[c];
            }
            for (int tap = 0; tap < CONV_TAPS; tap++) {
                float input = image[(y + tap / CONV_KERNEL) * IMAGE_SIDE + x + tap % CONV_KERNEL];
                for (int c = 0; c < CONV1_CHANNELS; c++)
                    weight_sum[tap][c] += input * gradient[c];
            }
        }
    }
    for (int c = 0; c < CONV1_CHANNELS; c++)
        layer->bias_gradients[c] += bias_sum[c];
    for (int i = 0; i < CONV_TAPS * CONV1_CHANNELS; i++)
        layer->weight_gradients[i] += weight_sum[i / CONV1_CHANNELS][i % CONV1_CHANNELS];
}

void conv_backward(const struct layer *layers, const float *image, const struct conv_trace *trace,
                   const float *feature_gradient, struct conv_scratch *scratch)
{
    memset(scratch->map1_gradient, 0, sizeof scratch->map1_gradient);
    backward2(layers[1].weights, layers[1].weight_gradients, layers[1].bias_gradients, trace,
              feature_gradient, scratch->map1_gradient);
    backward1(&layers[0], image, trace->map1, scratch->map1_gradient);
}
