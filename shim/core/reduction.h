/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises the type and the operation of a function that reduces elements, where no caller passes
 * them. Pure, but for the function. */
#ifndef CSHIM_REDUCTION_H
#define CSHIM_REDUCTION_H

#include "policy/policy.h"

/* Reduces the elements of `a` and `b` into `output`. Returns 0, or anything else if it could not.
 */
typedef int cshim_reduction(const void *of, void *output, const void *a, const void *b,
                            size_t elements);

/* Finds type and operation of a function by trying it on a few elements of so many bytes. The type
 * is CSHIM_DTYPE_OTHER if no codec carries it. `of` is handed on to the function. */
void cshim_reduction_describe(cshim_reduction *reduction, const void *of, size_t element_bytes,
                              enum cshim_dtype *dtype, enum cshim_op *op);

#endif
