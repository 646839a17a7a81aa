/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based random numbers: each is a pure function of a stream and a counter, so that any rank
 * can compute any number, and equal runs draw equal numbers. Thread-safe, no state. */
#ifndef MNIST_RNG_H
#define MNIST_RNG_H

#include <stdint.h>

/* Attribute of a function in a header: nvcc compiles it for the GPU, too. */
#ifdef __CUDACC__
#define HOST_AND_DEVICE __host__ __device__
#else
#define HOST_AND_DEVICE
#endif

/* Purpose of a stream: each purpose has streams of its own. */
enum rng_purpose { RNG_INITIAL_WEIGHTS, RNG_SHUFFLE, RNG_DROPOUT, RNG_DIGITS };

/* Returns 64 random bits: SplitMix64 (Steele, Lea, Flood 2014) at a position of its sequence. */
HOST_AND_DEVICE static inline uint64_t rng_bits(uint64_t stream, uint64_t counter)
{
    uint64_t z = stream + (counter + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Returns the stream of a seed, a purpose and an index (of a tensor, a step, ...). */
static inline uint64_t rng_stream(uint64_t seed, enum rng_purpose purpose, uint64_t index)
{
    return rng_bits(rng_bits(seed, (uint64_t)purpose), index);
}

/* Returns a number uniform in [low, high]. */
static inline double rng_uniform(uint64_t stream, uint64_t counter, double low, double high)
{
    return low + (high - low) * (double)(rng_bits(stream, counter) >> 11) * 0x1p-53;
}

#endif
