/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises the element type and the operation of a reduction function by calling it, for
 * libraries (gloo) that do not pass them. Pure except for the function. */
#ifndef CSHIM_REDUCTION_H
#define CSHIM_REDUCTION_H

#include "policy/policy.h"

/* Reduces the elements of `a` and `b` into `output`. Returns 0, or nonzero on an error. */
typedef int cshim_reduction(const void *of, void *output, const void *a, const void *b,
                            size_t elements);

/* Determines type and operation of a function by calling it on a few elements of `element_bytes`
 * bytes each. For a product, minimum or maximum sets the type and CSHIM_OP_OTHER. If the function
 * fits no operation on a type that codecs encode, sets CSHIM_DTYPE_OTHER and CSHIM_OP_OTHER. Passes
 * `of` to the function. */
void cshim_reduction_describe(cshim_reduction *reduction, const void *of, size_t element_bytes,
                              enum cshim_dtype *dtype, enum cshim_op *op);

#endif
