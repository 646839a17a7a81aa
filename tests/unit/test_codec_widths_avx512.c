/* SPDX-License-Identifier: Apache-2.0 */
/* The loops with AVX-512 and codes of every width: whole blocks of ordinary numbers, because what
 * they leave to the scalar loops is for formats of the table only. */
#define cshim_level_avx512 level_of_this_test
#include "codecs/level_avx512.c" // NOLINT(bugprone-suspicious-include)

#include "test_codec_widths.h"

#if CSHIM_X86
#define WIDTHS_TARGET TARGET
WIDTHS(64)
WIDTHS(128)

static void widths_from_2_to_8(void **state)
{
    (void)state;
    static const int blocks[] = {64, 128};
    struct loops loops[][WIDTH_COUNT] = {ROWS(64), ROWS(128)};
    if (cshim_simd_level() < CSHIM_SIMD_AVX512) {
        skip();
    }
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        for (int w = 0; w < WIDTH_COUNT; w++) {
            loops[b][w].format = cshim_integer_format(NARROWEST + w, blocks[b]);
            for (size_t count = (size_t)blocks[b]; count <= COUNT; count += (size_t)blocks[b]) {
                check(&loops[b][w], PATTERN_NORMAL, count);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(widths_from_2_to_8)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 0;
}
#endif
