/* SPDX-License-Identifier: Apache-2.0 */
/* Factors that kernels multiply by, and the products that are expected of them. */
#ifndef KERNELS_PRODUCTS_H
#define KERNELS_PRODUCTS_H

#include "tests/nccl/kernels/arrays.h"

/* Not a short number in float64 nor in float32. */
extern const double third;
/* That, or one that is rare: subnormal in some type, too large for some, none at all. */
double any_factor(void);

/* A factor that is one element in the machine's memory, and as the kernels read it there. */
struct array make_factor(enum cshim_dtype dtype, double factor);
double factor_of(enum cshim_dtype dtype, const struct array *factor);

/* Products as the kernels make them, in float32 and in float64; 1 leaves the bits alone. */
void multiply(float *values, uint64_t count, double factor);
void multiply_doubles(void *values, uint64_t count, double factor);
/* Rounds to a type. */
void narrow(enum cshim_dtype dtype, const float *values, uint64_t count, void *output);

#endif
