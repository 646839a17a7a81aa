/* SPDX-License-Identifier: Apache-2.0 */
/* Factors that kernels multiply by, and the expected products. */
#ifndef KERNELS_PRODUCTS_H
#define KERNELS_PRODUCTS_H

#include "tests/nccl/kernels/arrays.h"

/* -1/3, which float32 and float64 round. */
extern const double third;
/* Returns -1/3 or, in a quarter of the calls, 1, 0, a factor that is tiny or huge in some type, Inf
 * or NaN. */
double any_factor(void);

/* Makes an array of one element in the machine's memory: the factor, rounded to `dtype`. */
struct array make_factor(enum cshim_dtype dtype, double factor);
double factor_of(enum cshim_dtype dtype, const struct array *factor);

/* Multiply as the kernels do, in float32 and in float64; a factor of 1 changes no bit. */
void multiply(float *values, uint64_t count, double factor);
void multiply_doubles(void *values, uint64_t count, double factor);
/* Rounds values to a type. */
void narrow(enum cshim_dtype dtype, const float *values, uint64_t count, void *output);

#endif
