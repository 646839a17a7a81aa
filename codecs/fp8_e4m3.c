/* SPDX-License-Identifier: Apache-2.0 */
/* fp8_e4m3: 4 exponent and 3 mantissa bits, no infinity; one power-of-two scale per 128 elements.
 */
#define FP8_IS_E4M3 1
#define FP8_BLOCK CSHIM_E4M3_BLOCK
#define FP8_MANTISSA_BITS 3
#define FP8_MIN_EXPONENT (-6)
#define FP8_MAX_EXPONENT CSHIM_E4M3_MAX_EXPONENT
#define FP8_MIN_SCALE CSHIM_E4M3_MIN_SCALE
#define FP8_BUMP CSHIM_E4M3_BUMP
#define fp8_encode cshim_e4m3_encode
#define fp8_decode cshim_e4m3_decode
#include "codecs/fp8.h"

CSHIM_DEFINE_KERNELS(cshim_e4m3_kernels)
