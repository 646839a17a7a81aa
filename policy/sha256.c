/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), to name a policy in reports. */
#include "policy/policy.h"

#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES 64u
#define LENGTH_BYTES 8u

static uint32_t rotate_right(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

/* Fractional parts of the cube roots of the first 64 primes (section 4.2.2). */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* The message schedule of one block (section 6.2.2, step 1). */
static void expand_block(const unsigned char block[BLOCK_BYTES], uint32_t words[64])
{
    for (unsigned i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                   (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 64; i++) {
        uint32_t a = words[i - 15], b = words[i - 2];
        uint32_t small_a = rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3;
        uint32_t small_b = rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10;
        words[i] = words[i - 16] + small_a + words[i - 7] + small_b;
    }
}

/* Steps 2 to 4 of section 6.2.2; s[0] to s[7] are the standard's a to h. */
static void hash_block(uint32_t state[8], const unsigned char block[BLOCK_BYTES])
{
    uint32_t words[64], s[8];
    expand_block(block, words);
    memcpy(s, state, sizeof s);
    for (unsigned i = 0; i < 64; i++) {
        uint32_t large_e = rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^ rotate_right(s[4], 25);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t first = s[7] + large_e + choice + round_constants[i] + words[i];
        uint32_t large_a = rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^ rotate_right(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += first;
        s[0] = first + large_a + majority;
    }
    for (unsigned i = 0; i < 8; i++)
        state[i] += s[i];
}

void cshim_policy_sha256(const char *text, size_t length, char digest[65])
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char last[2 * BLOCK_BYTES] = {0};
    size_t whole = length / BLOCK_BYTES * BLOCK_BYTES, rest = length - whole;
    for (size_t at = 0; at < whole; at += BLOCK_BYTES)
        hash_block(state, (const unsigned char *)text + at);
    /* Behind the text come a one bit, zeros, and the text's length in bits (section 5.1.1). */
    size_t padded = rest + 1 + LENGTH_BYTES <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    memcpy(last, text + whole, rest);
    last[rest] = 0x80;
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        last[padded - 1 - i] = (unsigned char)((uint64_t)length * 8 >> 8 * i);
    for (size_t at = 0; at < padded; at += BLOCK_BYTES)
        hash_block(state, last + at);
    for (unsigned i = 0; i < 8; i++)
        snprintf(digest + 8 * i, 9, "%08x", state[i]);
}
