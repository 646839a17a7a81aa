/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/rng.h"

uint64_t rng_stream(uint64_t seed, enum rng_purpose purpose, uint64_t index)
{
    return rng_bits(rng_bits(seed, (uint64_t)purpose), index);
}

double rng_uniform(uint64_t stream, uint64_t counter, double low, double high)
{
    return low + (high - low) * (double)(rng_bits(stream, counter) >> 11) * 0x1p-53;
}
