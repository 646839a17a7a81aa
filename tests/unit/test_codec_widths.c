/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the portable loops with codes of 2 to 8 bits, in whole and partial blocks. */
#include "test_codec_widths.h"

#define WIDTHS_TARGET
#define ENCODE(format, id, input, count, payload, scales)                                          \
    cshim_encode_portably(format, input, NULL, count, payload, scales)
#define EXPAND(format, id, payload, scales, count, output, mode)                                   \
    cshim_expand_portably(format, payload, scales, count, output, mode)
WIDTHS(32)
WIDTHS(256)

TEST(widths_from_2_to_8)
{
    static const struct loops loops[] = {ROWS(32), ROWS(256)};
    for (size_t i = 0; i < COUNT_OF(loops); i++)
        for (size_t count = 1; count <= COUNT; count += count < 70 ? 1 : 101)
            check(&loops[i], PATTERN_MIXED, count);
}
