/* SPDX-License-Identifier: Apache-2.0 */
/* The portable loops with codes of every width. */
#include "test_codec_widths.h"

#define WIDTHS_TARGET
#define ENCODE(format, id, input, count, payload, scales)                                          \
    cshim_encode_portably(format, input, NULL, count, payload, scales)
#define EXPAND(format, id, payload, scales, count, output, mode)                                   \
    cshim_expand_portably(format, payload, scales, count, output, mode)
WIDTHS(32)
WIDTHS(256)

static void widths_from_2_to_8(void **state)
{
    (void)state;
    static const int blocks[] = {32, 256};
    struct loops loops[][WIDTH_COUNT] = {ROWS(32), ROWS(256)};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        for (int w = 0; w < WIDTH_COUNT; w++) {
            loops[b][w].format = cshim_integer_format(NARROWEST + w, blocks[b]);
            for (size_t count = 1; count <= COUNT; count += count < 70 ? 1 : 101) {
                check(&loops[b][w], PATTERN_MIXED, count);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(widths_from_2_to_8)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
