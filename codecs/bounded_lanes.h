/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/bounded.h: subtracts predictions from multiples (encoding) and adds them
 * (decoding). Included for lanes of 16 bits, which process twice as many elements per vector, and
 * for lanes of 32 bits. Arithmetic wraps around.
 *
 * The including file defines, before:
 *   LANE, SIGNED_LANE    the types of a lane
 *   OF_LANES(name)       the name of this file's function for these lanes
 *
 * All are undefined at the end. */

/* Sets widths[1] and widths[2] to the width of the widest difference of order 1 and of order 2.
 * Uses d ^ 2 * d, which has the same highest bit as sign_last(d). The first multiple is
 * multiples[2], after the two that predict it. */
CSHIM_INLINE void OF_LANES(find_widths)(const LANE *restrict multiples, size_t count,
                                        unsigned widths[BOUNDED_ORDERS])
{
    LANE first = 0, second = 0;
    for (size_t i = 2; i < count + 2; i++) {
        const LANE before = (LANE)(multiples[i - 1] - multiples[i - 2]);
        const LANE own = (LANE)(multiples[i] - multiples[i - 1]);
        const LANE change = (LANE)(own - before);
        first = (LANE)(first | (own ^ own << 1));
        second = (LANE)(second | (change ^ change << 1));
    }
    widths[1] = width_of(first);
    widths[2] = width_of(second);
}

/* Writes the differences of an order (0: from the base, 1: from the previous multiple, 2: from the
 * previous difference), each d as 2d, or as -2d - 1 if it is negative. The first multiple is
 * multiples[2]; the two before it precede the first one. */
CSHIM_INLINE void OF_LANES(subtract)(unsigned order, LANE base, const LANE *restrict multiples,
                                     size_t count, LANE *restrict differences)
{
    for (size_t i = 0; i < count; i++) {
        const LANE own = multiples[i + 2], last = multiples[i + 1], before = multiples[i];
        const LANE difference = (LANE)(order == 0   ? own - base
                                       : order == 1 ? own - last
                                                    : own - last - (LANE)(last - before));
        const LANE sign = (LANE)(0 - ((SIGNED_LANE)difference < 0));
        differences[i] = (LANE)(difference << 1 ^ sign);
    }
}

/* Writes the differences of an order in `width` bits each. The first multiple is multiples[2]. */
CSHIM_INLINE void OF_LANES(put_differences)(unsigned order, LANE base, const LANE *multiples,
                                            size_t count, unsigned width, uint8_t *restrict output)
{
    LANE differences[CSHIM_GRAIN];
    uint8_t codes[CSHIM_GRAIN + 8];
    if (order == 0)
        OF_LANES(subtract)(0, base, multiples, count, differences);
    else if (order == 1)
        OF_LANES(subtract)(1, base, multiples, count, differences);
    else
        OF_LANES(subtract)(2, base, multiples, count, differences);
    if (order == 1) /* the start of order 1 is the first multiple */
        differences[0] = 0;
    for (unsigned shift = 0; shift < width / 8 * 8; shift += 8, output += count)
        for (size_t i = 0; i < count; i++)
            output[i] = (uint8_t)(differences[i] >> shift);
    for (size_t i = 0; i < count && width % 8 != 0; i++)
        codes[i] = (uint8_t)(differences[i] >> width / 8 * 8);
    memset(codes + count, 0, 8);
    put_codes(codes, count, width % 8, output);
}

/* Reads differences, which are stored with their signs last: their lower bytes from `planes` planes
 * at `input`, their other bits from `codes`. */
CSHIM_INLINE void OF_LANES(take_planes)(unsigned planes, const uint8_t *restrict input,
                                        const uint8_t *restrict codes, size_t count,
                                        SIGNED_LANE *restrict differences)
{
    for (size_t i = 0; i < count; i++) {
        LANE bits = (LANE)(planes < sizeof bits ? (LANE)codes[i] << 8 * planes : 0);
        for (unsigned plane = 0; plane < planes; plane++)
            bits = (LANE)(bits | (LANE)input[plane * count + i] << 8 * plane);
        differences[i] = (SIGNED_LANE)(bits >> 1 ^ (0 - (bits & 1)));
    }
}

/* Adds the predictions of an order to differences. `number` is, for order 0, the base; for order 1,
 * the first multiple (the first difference is 0); for order 2, the multiple before the first.
 * `slope` is, for order 2, the difference of order 1 before the first. */
CSHIM_INLINE void OF_LANES(add)(unsigned order, uint32_t number, uint32_t slope,
                                const SIGNED_LANE *restrict differences, size_t count,
                                uint32_t *restrict multiples)
{
    for (size_t i = 0; i < count && order == 0; i++)
        multiples[i] = number + (uint32_t)differences[i];
    for (size_t i = 0; i < count && order == 1; i++)
        multiples[i] = number += (uint32_t)differences[i];
    for (size_t i = 0; i < count && order == 2; i++)
        multiples[i] = number += slope += (uint32_t)differences[i];
}

#undef LANE
#undef SIGNED_LANE
#undef OF_LANES
