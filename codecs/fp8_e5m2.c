/* SPDX-License-Identifier: Apache-2.0 */
/* fp8_e5m2: 5 exponent and 2 mantissa bits, with infinities; one power-of-two scale per 128
 * elements. */
#define FP8_IS_E4M3 0
#define FP8_BLOCK CSHIM_E5M2_BLOCK
#define FP8_MANTISSA_BITS 2
#define FP8_MIN_EXPONENT (-14)
#define FP8_MAX_EXPONENT CSHIM_E5M2_MAX_EXPONENT
#define FP8_MIN_SCALE CSHIM_E5M2_MIN_SCALE
#define FP8_BUMP CSHIM_E5M2_BUMP
#define fp8_encode cshim_e5m2_encode
#define fp8_decode cshim_e5m2_decode
#include "codecs/fp8.h"

CSHIM_DEFINE_KERNELS(cshim_e5m2_kernels)
