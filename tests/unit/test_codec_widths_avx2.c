/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the AVX2 loops with codes of 2 to 8 bits, in whole blocks. */
#define cshim_level_avx2 level_of_this_test
#include "codecs/level_avx2.c" // NOLINT(bugprone-suspicious-include)

#include "test_codec_widths.h"

#if CSHIM_X86
#define WIDTHS_TARGET TARGET
WIDTHS(32)
WIDTHS(128)

TEST(widths_from_2_to_8)
{
    static const struct loops loops[] = {ROWS(32), ROWS(128)};
    check_whole_blocks(CSHIM_SIMD_AVX2, loops, COUNT_OF(loops));
}
#endif
