/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the AVX-512 loops with codes of 2 to 8 bits, in whole blocks. */
#define cshim_level_avx512 level_of_this_test
#include "codecs/level_avx512.c" // NOLINT(bugprone-suspicious-include)

#include "test_codec_widths.h"

#if CSHIM_X86
#define WIDTHS_TARGET TARGET
WIDTHS(64)
WIDTHS(128)

TEST(widths_from_2_to_8)
{
    static const struct loops loops[] = {ROWS(64), ROWS(128)};
    check_whole_blocks(CSHIM_SIMD_AVX512, loops, COUNT_OF(loops));
}
#endif
