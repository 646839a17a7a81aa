/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: packs and unpacks a grain of the codec lossless, in portable C that the
 * compiler vectorises at each SIMD level. docs/wire-format.md, "lossless", gives every byte.
 *
 * An element's bits are rotated left by one, so that the exponent comes first and the sign last.
 * Usually most exponents of a grain are near the largest one, so an exponent becomes a code of a
 * few bits: its distance below the top of a window, or an escape. The bits after the exponent are
 * stored unchanged: whole bytes in planes of four, two and one byte, the remaining bits together
 * with the exponent's code. */
#ifndef CSHIM_LOSSLESS_H
#define CSHIM_LOSSLESS_H

#include "codecs/portable.h"

enum {
    PACKED_HEADER = 4, /* bytes: width of an exponent's code, number of escapes, window's top (2) */
    PACKED_MASKED = 128, /* flag in the width: zeros are left out, with a mask */
    WIDEST = 5,          /* largest width of an exponent's code, in bits */
    WINDOWS = 8,         /* tried tops of the window: the largest exponent, and up to 7 below it */
    DISTANCES = 40       /* counters of distances below the largest exponent; last: 39 and more */
};

/* Split of the bits of an element type. */
struct packing {
    unsigned bytes;         /* bytes of an element */
    unsigned exponent_bits; /* number of exponent bits */
    unsigned low_bytes;     /* number of whole bytes, stored in planes */
    unsigned middle_bits;   /* number of remaining bits, stored with the exponent's code */
};

CSHIM_INLINE struct packing packing_of(enum cshim_dtype dtype)
{
    return dtype == CSHIM_FLOAT64   ? (struct packing){8, 11, 6, 5}
           : dtype == CSHIM_FLOAT32 ? (struct packing){4, 8, 3, 0}
           : dtype == CSHIM_FLOAT16 ? (struct packing){2, 5, 1, 3}
                                    : (struct packing){2, 8, 1, 0};
}

/* The exponents of a grain, and their codes. */
struct coded {
    uint16_t exponents[CSHIM_GRAIN];
    uint8_t codes[CSHIM_GRAIN + 8]; /* distance of the exponent below the window's top, or the
                                     * escape, in the upper bits; middle bits below it */
};

/* Reads element `i`, of 2 or 4 bytes, and rotates it left by one bit. */
CSHIM_INLINE uint32_t load_narrow(const struct packing *packing, const uint8_t *input, size_t i)
{
    uint32_t wide;
    uint16_t narrow;
    if (packing->bytes == sizeof wide) {
        memcpy(&wide, input + i * sizeof wide, sizeof wide);
        return wide << 1 | wide >> 31;
    }
    memcpy(&narrow, input + i * sizeof narrow, sizeof narrow);
    return ((uint32_t)narrow << 1 | (uint32_t)narrow >> 15) & 0xffff;
}

/* Splits `count` elements into exponents, middle bits and planes. The planes are, for float64, the
 * lowest four bytes of each element, then the next two; for float32 the lowest two, then the next
 * one; for 16-bit floats the lowest byte. */
CSHIM_INLINE void part(const struct packing *packing, const uint8_t *restrict input, size_t count,
                       struct coded *restrict coded, uint8_t *restrict planes)
{
    const unsigned above = 8 * packing->bytes - packing->exponent_bits;
    uint8_t *const second = planes + (packing->bytes == sizeof(uint64_t) ? 4 : 2) * count;
    for (size_t i = 0; packing->bytes == sizeof(uint64_t) && i < count; i++) {
        uint64_t bits;
        memcpy(&bits, input + i * sizeof bits, sizeof bits);
        bits = bits << 1 | bits >> 63;
        coded->exponents[i] = (uint16_t)(bits >> above);
        coded->codes[i] = (uint8_t)(bits >> 48 & 31);
        memcpy(planes + 4 * i, &(uint32_t){(uint32_t)bits}, 4);
        memcpy(second + 2 * i, &(uint16_t){(uint16_t)(bits >> 32)}, 2);
    }
    for (size_t i = 0; packing->bytes < sizeof(uint64_t) && i < count; i++) {
        const uint32_t bits = load_narrow(packing, input, i);
        coded->exponents[i] = (uint16_t)(bits >> above);
        coded->codes[i] =
            (uint8_t)(bits >> 8 * packing->low_bytes & ((1u << packing->middle_bits) - 1));
        if (packing->low_bytes == 1) {
            planes[i] = (uint8_t)bits;
        } else {
            memcpy(planes + 2 * i, &(uint16_t){(uint16_t)bits}, 2);
            second[i] = (uint8_t)(bits >> 16);
        }
    }
}

/* Returns the exponent that a code stands for, unless the code is the escape. */
CSHIM_INLINE uint16_t exponent_of(const struct packing *packing, unsigned top, uint8_t code)
{
    return (uint16_t)((top - (code >> packing->middle_bits)) &
                      ((1u << packing->exponent_bits) - 1));
}

/* Joins codes and planes to elements. `top` is the exponent with the distance 0. Elements with an
 * escape get a provisional exponent, which set_exponent() replaces. */
CSHIM_INLINE void join(const struct packing *packing, unsigned top, const uint8_t *restrict codes,
                       const uint8_t *restrict planes, size_t count, uint8_t *restrict output)
{
    const unsigned above = 8 * packing->bytes - packing->exponent_bits;
    const uint8_t middle = (uint8_t)((1u << packing->middle_bits) - 1);
    const uint8_t *const second = planes + (packing->bytes == sizeof(uint64_t) ? 4 : 2) * count;
    for (size_t i = 0; packing->bytes == sizeof(uint64_t) && i < count; i++) {
        uint32_t low;
        uint16_t next;
        memcpy(&low, planes + 4 * i, sizeof low);
        memcpy(&next, second + 2 * i, sizeof next);
        uint64_t bits = (uint64_t)exponent_of(packing, top, codes[i]) << above |
                        (uint64_t)(codes[i] & middle) << 48 | (uint64_t)next << 32 | low;
        bits = bits >> 1 | bits << 63;
        memcpy(output + i * sizeof bits, &bits, sizeof bits);
    }
    for (size_t i = 0; packing->bytes < sizeof(uint64_t) && i < count; i++) {
        const uint32_t upper = (uint32_t)exponent_of(packing, top, codes[i]) << above |
                               (uint32_t)(codes[i] & middle) << 8 * packing->low_bytes;
        if (packing->low_bytes == 1) {
            const uint32_t bits = upper | planes[i];
            memcpy(output + 2 * i, &(uint16_t){(uint16_t)(bits >> 1 | bits << 15)}, 2);
        } else {
            uint16_t low;
            memcpy(&low, planes + 2 * i, sizeof low);
            const uint32_t bits = upper | (uint32_t)second[i] << 16 | low;
            memcpy(output + 4 * i, &(uint32_t){bits >> 1 | bits << 31}, 4);
        }
    }
}

/* Replaces the exponent of an element. */
CSHIM_INLINE void set_exponent(const struct packing *packing, uint8_t *element, unsigned exponent)
{
    const unsigned shift = 8 * packing->bytes - packing->exponent_bits - 1; /* below the sign */
    const uint64_t mask = (1u << packing->exponent_bits) - 1;
    uint64_t bits = 0;
    memcpy(&bits, element, packing->bytes);
    bits = (bits & ~(mask << shift)) | (exponent & mask) << shift;
    memcpy(element, &bits, packing->bytes);
}

/* Returns the bytes of a plane, which holds 8, 4, 2 or 1 bits of each code. This is also its
 * stride: byte i holds codes i, i + stride, i + 2 * stride ... */
CSHIM_INLINE size_t stride_of(size_t count, unsigned bits)
{
    return (count * bits + 7) / 8;
}

/* Writes a plane: the `bits` bits of each code above its lowest `shift` bits. Returns the end of
 * the plane. Shifts eight codes at once as a 64-bit word, because x86's vectors of bytes have no
 * shifts. */
CSHIM_INLINE uint8_t *put_plane(const uint8_t *restrict codes, size_t count, unsigned bits,
                                unsigned shift, uint8_t *restrict output)
{
    const size_t stride = stride_of(count, bits), words = stride / 8;
    const uint64_t mask = 0x0101010101010101u * ((1u << bits) - 1);
    for (size_t i = 0; i < words; i++) {
        uint64_t word, joined = 0;
        for (unsigned k = 0; k < 8 / bits; k++) {
            memcpy(&word, codes + 8 * i + k * stride, sizeof word);
            joined |= (word >> shift & mask) << k * bits;
        }
        memcpy(output + 8 * i, &joined, sizeof joined);
    }
    for (size_t i = 8 * words; i < stride; i++) {
        unsigned joined = 0;
        for (unsigned k = 0; k < 8 / bits; k++)
            joined |= (codes[i + k * stride] >> shift & ((1u << bits) - 1)) << k * bits;
        output[i] = (uint8_t)joined;
    }
    return output + stride;
}

/* Writes the lowest `width` bits of `count` codes. Up to 7 codes beyond the last one are read, and
 * must be 0. */
CSHIM_INLINE void put_codes(const uint8_t *codes, size_t count, unsigned width, uint8_t *output)
{
    if (width == 8)
        memcpy(output, codes, count);
    if ((width & 4) != 0)
        output = put_plane(codes, count, 4, 0, output);
    if ((width & 2) != 0)
        output = put_plane(codes, count, 2, width & 4, output);
    if ((width & 1) != 0)
        put_plane(codes, count, 1, width & 6, output);
}

/* Reads a plane that put_plane() has written, and sets its bits in the codes, where they must be 0.
 * Returns the end of the plane. */
CSHIM_INLINE const uint8_t *take_plane(const uint8_t *restrict input, size_t count, unsigned bits,
                                       unsigned shift, uint8_t *restrict codes)
{
    const size_t stride = stride_of(count, bits), words = stride / 8;
    const uint64_t mask = 0x0101010101010101u * ((1u << bits) - 1);
    for (unsigned k = 0; k < 8 / bits; k++) {
        uint8_t *const own = codes + k * stride;
        for (size_t i = 0; i < words; i++) {
            uint64_t word, known;
            memcpy(&word, input + 8 * i, sizeof word);
            memcpy(&known, own + 8 * i, sizeof known);
            known |= (word >> k * bits & mask) << shift;
            memcpy(own + 8 * i, &known, sizeof known);
        }
        for (size_t i = 8 * words; i < stride; i++)
            own[i] |= (uint8_t)((input[i] >> k * bits & ((1u << bits) - 1)) << shift);
    }
    return input + stride;
}

/* Reads codes that put_codes() has written. Also overwrites 8 codes after the last one. */
CSHIM_INLINE void take_codes(const uint8_t *input, size_t count, unsigned width, uint8_t *codes)
{
    memset(codes, 0, count + 8);
    if (width == 8)
        memcpy(codes, input, count);
    if ((width & 4) != 0)
        input = take_plane(input, count, 4, 0, codes);
    if ((width & 2) != 0)
        input = take_plane(input, count, 2, width & 4, codes);
    if ((width & 1) != 0)
        take_plane(input, count, 1, width & 6, codes);
}

/* Returns the bytes that put_codes() writes. */
CSHIM_INLINE size_t codes_bytes(size_t count, unsigned width)
{
    size_t bytes = 0;
    for (unsigned bits = 8; bits > 0; bits /= 2)
        bytes += (width & bits) != 0 ? stride_of(count, bits) : 0;
    return bytes;
}

/* Window of exponents that have codes. */
struct window {
    unsigned width; /* bits of a code; 0: all exponents are `top`, and there is no escape */
    unsigned top;   /* exponent with the code 0; the largest code is the escape */
};

/* Returns the window, of those tried, that takes the fewest bits, estimated from every fourth
 * element. */
CSHIM_INLINE struct window choose_window(const struct packing *packing, const uint16_t *exponents,
                                         size_t count)
{
    const unsigned escape_bits = packing->exponent_bits > 8 ? 16 : 8;
    const unsigned widest = 8 - packing->middle_bits < WIDEST ? 8 - packing->middle_bits : WIDEST;
    const unsigned judged = (unsigned)(count + 3) / 4;
    uint8_t places[CSHIM_GRAIN / 4];
    /* Histograms of distances, one each for even and odd judged elements: consecutive increments of
     * one counter would stall on its store. */
    int16_t below[2][DISTANCES + 1] = {{0}};
    uint16_t most = 0, least = UINT16_MAX;
    for (size_t i = 0; i < count; i++) {
        most = exponents[i] > most ? exponents[i] : most;
        least = exponents[i] < least ? exponents[i] : least;
    }
    struct window best = {0, most};
    if (most == least)
        return best;
    for (size_t i = 0; i < judged; i++) {
        const uint16_t distance = (uint16_t)(most - exponents[4 * i]);
        places[i] = (uint8_t)(distance < DISTANCES ? distance + 1 : DISTANCES);
    }
    for (size_t i = 0; i < judged; i++)
        below[i % 2][places[i]]++;
    for (size_t i = 0; i <= DISTANCES; i++)
        below[0][i] = (int16_t)(below[0][i] + below[1][i]);
    for (size_t i = 0; i < DISTANCES; i++)
        below[0][i + 1] = (int16_t)(below[0][i + 1] + below[0][i]);
    unsigned fewest = UINT32_MAX;
    for (unsigned width = 1; width <= widest; width++) {
        /* Maximum over the windows: the number of exponents inside, times WINDOWS, plus a rest that
         * is larger for earlier windows. */
        int16_t inside = 0;
        for (int16_t begin = 0; begin < WINDOWS; begin++) {
            const int16_t number = (int16_t)(below[0][begin + (1 << width) - 1] - below[0][begin]);
            const int16_t own = (int16_t)(number * WINDOWS + WINDOWS - 1 - begin);
            inside = own > inside && begin <= most ? own : inside;
        }
        const unsigned bits = width * judged + escape_bits * (judged - (unsigned)inside / WINDOWS);
        if (bits < fewest) {
            fewest = bits;
            best = (struct window){width, most - (WINDOWS - 1 - (unsigned)inside % WINDOWS)};
        }
    }
    return best;
}

/* Finds the escapes among eight codes: returns a word with one bit set in the byte of each. The
 * escape is the largest distance, and one less than a power of two, so adding 1 to a distance sets
 * the bit of that power only if it is the escape. */
CSHIM_INLINE uint64_t find_escapes(const struct packing *packing, const uint8_t *codes,
                                   uint8_t escape)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t eight;
    memcpy(&eight, codes, sizeof eight);
    return ((eight >> packing->middle_bits & ones * escape) + ones) & ones * (escape + 1u);
}

/* Packs `count` elements. Returns the packed size, or `limit` if it would be at least that or too
 * many exponents escape. */
CSHIM_INLINE size_t pack_elements(const struct packing *packing, const uint8_t *input, size_t count,
                                  uint8_t *output, size_t limit)
{
    const size_t escape_bytes = packing->exponent_bits > 8 ? 2 : 1;
    struct coded coded;
    uint16_t escaped = 0;
    const size_t planes = PACKED_HEADER + packing->low_bytes * count;
    if (planes > limit)
        return limit;
    part(packing, input, count, &coded, output + PACKED_HEADER);
    const struct window window = choose_window(packing, coded.exponents, count);
    const uint8_t escape = (uint8_t)((1u << window.width) - 1);
    const unsigned width = window.width + packing->middle_bits;
    for (size_t i = 0; i < count; i++) {
        const uint16_t distance = (uint16_t)(window.top - coded.exponents[i]);
        const uint8_t code = (uint8_t)(distance < escape ? distance : escape);
        coded.codes[i] = (uint8_t)(coded.codes[i] | code << packing->middle_bits);
        escaped = (uint16_t)(escaped + (distance >= escape));
    }
    size_t escapes = window.width != 0 ? escaped : 0;
    const size_t bytes = planes + codes_bytes(count, width) + escapes * escape_bytes;
    if (bytes >= limit || escapes > UINT8_MAX)
        return limit;
    memset(coded.codes + count, 0, 8);
    const uint8_t header[PACKED_HEADER] = {(uint8_t)window.width, (uint8_t)escapes,
                                           (uint8_t)window.top, (uint8_t)(window.top >> 8)};
    memcpy(output, header, sizeof header);
    put_codes(coded.codes, count, width, output + planes);
    output += bytes - escapes * escape_bytes;
    for (size_t i = 0; escapes > 0; i += 8)
        for (uint64_t found = find_escapes(packing, coded.codes + i, escape); found != 0;
             found &= found - 1, escapes--, output += escape_bytes)
            memcpy(output, &coded.exponents[i + (size_t)__builtin_ctzll(found) / 8], escape_bytes);
    return bytes;
}

/* Unpacks elements from `bytes` bytes. Returns false if the header is invalid, belongs to
 * another number of bytes, or counts more escapes than the codes have. */
CSHIM_INLINE bool unpack_elements(const struct packing *packing, const uint8_t *input, size_t bytes,
                                  size_t count, uint8_t *output)
{
    const size_t escape_bytes = packing->exponent_bits > 8 ? 2 : 1;
    uint8_t codes[CSHIM_GRAIN + 8];
    if (bytes < PACKED_HEADER || (input[0] & ~PACKED_MASKED) > WIDEST)
        return false;
    const unsigned window = input[0] & ~(unsigned)PACKED_MASKED;
    const unsigned top = input[2] | (unsigned)input[3] << 8, width = window + packing->middle_bits;
    const uint8_t escape = (uint8_t)((1u << window) - 1);
    const uint8_t *const planes = input + PACKED_HEADER;
    size_t escapes = input[1];
    if (width > 8 || (window == 0 && escapes != 0) ||
        bytes != PACKED_HEADER + packing->low_bytes * count + codes_bytes(count, width) +
                     escapes * escape_bytes)
        return false;
    take_codes(planes + packing->low_bytes * count, count, width, codes);
    memset(codes + count, 0, 8);
    join(packing, top, codes, planes, count, output);
    input += bytes - escapes * escape_bytes;
    for (size_t i = 0; escapes > 0 && i < count; i += 8)
        for (uint64_t found = find_escapes(packing, codes + i, escape); found != 0 && escapes > 0;
             found &= found - 1, escapes--, input += escape_bytes) {
            uint16_t exponent = 0;
            memcpy(&exponent, input, escape_bytes);
            set_exponent(packing,
                         output + (i + (size_t)__builtin_ctzll(found) / 8) * packing->bytes,
                         exponent);
        }
    return escapes == 0;
}

CSHIM_INLINE bool is_zero(const struct packing *packing, const uint8_t *input, size_t i)
{
    uint64_t wide;
    if (packing->bytes < sizeof wide)
        return load_narrow(packing, input, i) == 0;
    memcpy(&wide, input + i * sizeof wide, sizeof wide);
    return wide == 0;
}

CSHIM_INLINE size_t count_zeros(const struct packing *packing, const uint8_t *input, size_t count)
{
    unsigned zeros = 0;
    for (size_t i = 0; i < count; i++)
        zeros += is_zero(packing, input, i);
    return zeros;
}

/* Packs a grain. Returns the packed size: 0 if all elements are +0, the size of the elements if
 * they are stored unchanged. */
CSHIM_INLINE size_t pack_grain_of(const struct packing packing, const uint8_t *input, size_t count,
                                  uint8_t *output)
{
    const size_t element = packing.bytes, raw = count * element;
    const size_t zeros = count_zeros(&packing, input, count);
    const size_t bits = zeros > count / 8 ? (count + 7) / 8 : 0; /* bytes of the mask */
    uint8_t kept[CSHIM_GRAIN * sizeof(double)], mask[CSHIM_GRAIN / 8] = {0};
    const uint8_t *from = input;
    size_t number = count;
    if (zeros == count)
        return 0;
    if (bits != 0) {
        from = kept;
        number = 0;
        for (size_t i = 0; i < count; i++) {
            const bool keeps = !is_zero(&packing, input, i);
            memcpy(kept + number * element, input + i * element, element);
            mask[i / 8] = (uint8_t)(mask[i / 8] | keeps << i % 8);
            number += keeps;
        }
    }
    /* The compiler makes better code for a known count. */
    const size_t packed = number == CSHIM_GRAIN
                              ? pack_elements(&packing, from, CSHIM_GRAIN, output, raw - bits)
                              : pack_elements(&packing, from, number, output, raw - bits);
    if (packed == raw - bits) {
        memcpy(output, input, raw);
        return raw;
    }
    memcpy(output + packed, mask, bits);
    output[0] |= bits != 0 ? PACKED_MASKED : 0;
    return packed + bits;
}

/* Unpacks a grain of `bytes` bytes. Fills the output with NaNs if `bytes` is above the elements'
 * size or too small for the mask, or if unpack_elements() returns false. */
CSHIM_INLINE void unpack_grain_of(const struct packing packing, const uint8_t *input, size_t bytes,
                                  size_t count, uint8_t *output)
{
    const size_t element = packing.bytes, raw = count * element;
    uint8_t kept[CSHIM_GRAIN * sizeof(double)];
    if (bytes == 0) {
        memset(output, 0, raw);
        return;
    }
    if (bytes == raw) {
        memcpy(output, input, raw);
        return;
    }
    const bool is_masked = (input[0] & PACKED_MASKED) != 0;
    const size_t bits = is_masked ? (count + 7) / 8 : 0; /* bytes of the mask */
    bool is_good = bytes < raw && bytes > bits;
    const uint8_t *const mask = input + (is_good ? bytes - bits : 0);
    uint8_t *const to = is_masked ? kept : output;
    size_t number = is_masked ? 0 : count;
    for (size_t i = 0; i < count && is_good && is_masked; i++)
        number += mask[i / 8] >> i % 8 & 1;
    if (is_good)
        is_good = number == CSHIM_GRAIN
                      ? unpack_elements(&packing, input, bytes - bits, CSHIM_GRAIN, to)
                      : unpack_elements(&packing, input, bytes - bits, number, to);
    if (is_good && is_masked) {
        memset(output, 0, raw);
        number = 0;
        for (size_t i = 0; i < count; i++)
            if ((mask[i / 8] >> i % 8 & 1) != 0)
                memcpy(output + i * element, kept + number++ * element, element);
    }
    if (!is_good)
        memset(output, UINT8_MAX, raw);
}

#endif
