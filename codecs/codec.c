/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of codecs and element types, and the functions that only read them: names, sizes, hash. */
#include <string.h>

#include "codecs/codec.h"
#include "codecs/hash.h"
#include "codecs/loops.h"
#include "codecs/scalar.h"

/* Version of the wire format: increment it if the encoded bytes, or the ranks that receive them,
 * change without a change of the table. */
#define WIRE_VERSION 3u

static const struct cshim_codec_info codecs[CSHIM_CODEC_COUNT] = {
#define RAW(ID, NAME, name)                                                                        \
    [ID] = {CSHIM_CODEC_##NAME, #name, 0, 1, 0, 0.0, 0.0, 0x1p-145, 0.0, true, true},
#define SPARSE(ID, NAME, name, TYPICAL)                                                            \
    [ID] = {CSHIM_CODEC_##NAME, #name, 0, 1, 0, 0.0, 1.0, 0x1p-145, TYPICAL, false, false},
#define UPPER(ID, NAME, name, BITS, TYPICAL)                                                       \
    [ID] = {CSHIM_CODEC_##NAME,                                                                    \
            #name,                                                                                 \
            BITS,                                                                                  \
            1,                                                                                     \
            0,                                                                                     \
            BITS == 32 ? 0x1p-24 : 0x1p-8,                                                         \
            0.0,                                                                                   \
            BITS == 32 ? 0x1p-145 : 0x1p-134,                                                      \
            TYPICAL,                                                                               \
            true,                                                                                  \
            true},
/* The floor of E8M0 is half a step of the subnormal codes with the smallest scale, 2^-127. */
#define FLOAT(ID, NAME, name, EXPONENT, MANTISSA, SPECIAL, BLOCK, SCALE, ABSOLUTE, TYPICAL)        \
    [ID] = {CSHIM_CODEC_##NAME,                                                                    \
            #name,                                                                                 \
            1 + EXPONENT + MANTISSA,                                                               \
            CSHIM_SCALE_##SCALE == CSHIM_SCALE_E4M3 ? CSHIM_GRAIN : BLOCK,                         \
            CSHIM_SCALE_##SCALE == CSHIM_SCALE_E4M3 ? CSHIM_GRAIN / BLOCK : 1,                     \
            0.5 / (1 << MANTISSA),                                                                 \
            ABSOLUTE,                                                                              \
            CSHIM_SCALE_##SCALE == CSHIM_SCALE_E8M0                                                \
                ? 0x1p-127 / (1 << ((1 << (EXPONENT - 1)) - 1 + MANTISSA))                         \
                : 0x1p-145,                                                                        \
            TYPICAL,                                                                               \
            CSHIM_SPECIAL_##SPECIAL == CSHIM_SPECIAL_IEEE,                                         \
            CSHIM_SPECIAL_##SPECIAL != CSHIM_SPECIAL_ZERO},
#define INTEGER(ID, NAME, name, BITS, BLOCK, ABSOLUTE, TYPICAL)                                    \
    [ID] = {CSHIM_CODEC_##NAME, #name,    BITS,    BLOCK, 2,    0.0,                               \
            ABSOLUTE,           0x1p-145, TYPICAL, false, false},
#include "codecs/formats.def"
};

static const struct {
    const char *name;
    size_t bytes;
} dtypes[CSHIM_DTYPE_COUNT] = {
    [CSHIM_FLOAT32] = {"float32", 4},
    [CSHIM_FLOAT64] = {"float64", 8},
    [CSHIM_FLOAT16] = {"float16", 2},
    [CSHIM_BFLOAT16] = {"bfloat16", 2},
};

const struct cshim_codec_info *cshim_codec_info(enum cshim_codec_id id)
{
    bool known = (unsigned)id < CSHIM_CODEC_COUNT && id != CSHIM_CODEC_NONE;
    return known ? &codecs[id] : NULL;
}

const char *cshim_codec_name(enum cshim_codec_id id)
{
    if (id == CSHIM_CODEC_NONE)
        return "none";
    const struct cshim_codec_info *info = cshim_codec_info(id);
    return info != NULL ? info->name : "?";
}

const char *cshim_dtype_name(enum cshim_dtype dtype)
{
    return (unsigned)dtype < CSHIM_DTYPE_COUNT ? dtypes[dtype].name : "other";
}

size_t cshim_dtype_bytes(enum cshim_dtype dtype)
{
    return (unsigned)dtype < CSHIM_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

bool cshim_codec_carries(enum cshim_codec_id id, enum cshim_dtype dtype)
{
    const struct cshim_codec_info *info = cshim_codec_info(id);
    if (info == NULL || (unsigned)dtype >= CSHIM_DTYPE_COUNT)
        return false;
    if (dtype == CSHIM_FLOAT32 || dtype == CSHIM_FLOAT64)
        return id != CSHIM_CODEC_TOPK || dtype == CSHIM_FLOAT32;
    if (id == CSHIM_CODEC_TOPK)
        return false;
    if (cshim_codec_is_exact(id))
        return id != CSHIM_CODEC_BOUNDED;
    enum cshim_codec_id own = dtype == CSHIM_FLOAT16 ? CSHIM_CODEC_FP16 : CSHIM_CODEC_BF16;
    return id == own || info->element_bits <= 8;
}

/* A grain of topk has the index and the int4 code of each sent element, and the codes' scales. */
size_t cshim_topk_bytes(size_t kept)
{
    const struct cshim_codec_info *values = &codecs[CSHIM_CODEC_INT4];
    return kept + (kept * values->element_bits + 7) / 8 +
           (kept + values->block - 1) / values->block * values->scale_bytes;
}

size_t cshim_encoded_bytes(enum cshim_codec_id id, enum cshim_dtype dtype, size_t count)
{
    const struct cshim_codec_info *info = cshim_codec_info(id);
    if (info == NULL)
        return 0;
    size_t bits = info->element_bits != 0 ? info->element_bits : 8 * cshim_dtype_bytes(dtype);
    size_t payload = cshim_payload_bytes((unsigned)bits, count);
    size_t blocks = count / info->block + (count % info->block != 0);
    if (id == CSHIM_CODEC_TOPK)
        payload = count / CSHIM_GRAIN * cshim_topk_bytes(CSHIM_GRAIN) +
                  cshim_topk_bytes(count % CSHIM_GRAIN);
    if (cshim_codec_is_packed(id) && count > 0)
        payload += cshim_packed_table(count);
    return cshim_align(payload) + cshim_align(blocks * info->scale_bytes);
}

static uint64_t hash_number(uint64_t hash, uint32_t number)
{
    const unsigned char bytes[4] = {(unsigned char)number, (unsigned char)(number >> 8),
                                    (unsigned char)(number >> 16), (unsigned char)(number >> 24)};
    return cshim_hash_bytes(hash, bytes, sizeof bytes);
}

uint64_t cshim_codec_table_hash(void)
{
    uint64_t hash = hash_number(CSHIM_HASH_EMPTY, WIRE_VERSION);
    for (int id = CSHIM_CODEC_NONE + 1; id < CSHIM_CODEC_COUNT; id++) {
        const struct cshim_codec_info *info = &codecs[id];
        hash = hash_number(hash, (uint32_t)id);
        hash = cshim_hash_bytes(hash, info->name, strlen(info->name) + 1);
        hash = hash_number(hash, info->element_bits);
        hash = hash_number(hash, info->block);
        hash = hash_number(hash, info->scale_bytes);
    }
    return hash;
}
