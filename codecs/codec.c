/* SPDX-License-Identifier: Apache-2.0 */
/* The table of codecs and element types, and what follows from it alone: names, sizes, hash. */
#include <string.h>

#include "codecs/codec.h"
#include "codecs/scalar.h"

/* Changes whenever the same table would mean other bytes. */
#define WIRE_VERSION 1u

/* Bounds: docs/wire-format.md, "Error". */
static const struct cshim_codec_info codecs[CSHIM_CODEC_COUNT] = {
    [CSHIM_CODEC_RAW] = {CSHIM_CODEC_RAW, "raw", 0, 1, 0, 0.0, 0.0, 0.0},
    [CSHIM_CODEC_FP32] = {CSHIM_CODEC_FP32, "fp32", 32, 1, 0, 0x1p-24, 0.0, 2.4e-8},
    [CSHIM_CODEC_FP16] = {CSHIM_CODEC_FP16, "fp16", 16, CSHIM_FP16_BLOCK, 1, 0x1p-11, 0x1.01p-40,
                          2.0e-4},
    [CSHIM_CODEC_BF16] = {CSHIM_CODEC_BF16, "bf16", 16, 1, 0, 0x1p-8, 0.0, 1.7e-3},
    [CSHIM_CODEC_FP8_E4M3] = {CSHIM_CODEC_FP8_E4M3, "fp8_e4m3", 8, CSHIM_E4M3_BLOCK, 1, 0x1p-4,
                              0x1.25p-18, 2.6e-2},
    [CSHIM_CODEC_FP8_E5M2] = {CSHIM_CODEC_FP8_E5M2, "fp8_e5m2", 8, CSHIM_E5M2_BLOCK, 1, 0x1p-3,
                              0x1.25p-32, 5.2e-2},
    [CSHIM_CODEC_INT8] = {CSHIM_CODEC_INT8, "int8", 8, CSHIM_INT8_BLOCK, 2, 0.0, 0.00397, 5.7e-3},
    [CSHIM_CODEC_INT4] = {CSHIM_CODEC_INT4, "int4", 4, CSHIM_INT4_BLOCK, 2, 0.0, 0.072, 9.6e-2},
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
    if (id == CSHIM_CODEC_NONE) {
        return "none";
    }
    const struct cshim_codec_info *info = cshim_codec_info(id);
    return info != NULL ? info->name : "?";
}

bool cshim_codec_by_name(const char *name, enum cshim_codec_id *id)
{
    for (int candidate = 0; candidate < CSHIM_CODEC_COUNT; candidate++) {
        if (strcmp(name, cshim_codec_name((enum cshim_codec_id)candidate)) == 0) {
            *id = (enum cshim_codec_id)candidate;
            return true;
        }
    }
    return false;
}

const char *cshim_dtype_name(enum cshim_dtype dtype)
{
    return (unsigned)dtype < CSHIM_DTYPE_COUNT ? dtypes[dtype].name : "other";
}

bool cshim_dtype_by_name(const char *name, enum cshim_dtype *dtype)
{
    for (int candidate = 0; candidate < CSHIM_DTYPE_COUNT; candidate++) {
        if (strcmp(name, dtypes[candidate].name) == 0) {
            *dtype = (enum cshim_dtype)candidate;
            return true;
        }
    }
    return false;
}

size_t cshim_dtype_bytes(enum cshim_dtype dtype)
{
    return (unsigned)dtype < CSHIM_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

bool cshim_codec_carries(enum cshim_codec_id id, enum cshim_dtype dtype)
{
    const struct cshim_codec_info *info = cshim_codec_info(id);
    if (info == NULL || (unsigned)dtype >= CSHIM_DTYPE_COUNT) {
        return false;
    }
    if (id == CSHIM_CODEC_RAW || dtype == CSHIM_FLOAT32 || dtype == CSHIM_FLOAT64) {
        return true;
    }
    enum cshim_codec_id own = dtype == CSHIM_FLOAT16 ? CSHIM_CODEC_FP16 : CSHIM_CODEC_BF16;
    return id == own || info->element_bits <= 8;
}

static size_t align_up(size_t bytes)
{
    return (bytes + CSHIM_WIRE_ALIGN - 1) / CSHIM_WIRE_ALIGN * CSHIM_WIRE_ALIGN;
}

size_t cshim_encoded_bytes(enum cshim_codec_id id, enum cshim_dtype dtype, size_t count)
{
    const struct cshim_codec_info *info = cshim_codec_info(id);
    if (info == NULL) {
        return 0;
    }
    size_t bits = info->element_bits != 0 ? info->element_bits : 8 * cshim_dtype_bytes(dtype);
    size_t payload = count * (bits / 8) + (count * (bits % 8) + 7) / 8;
    size_t blocks = count / info->block + (count % info->block != 0);
    return align_up(payload) + align_up(blocks * info->scale_bytes);
}

/* FNV-1a, by Fowler, Noll and Vo. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

static uint64_t hash_number(uint64_t hash, uint32_t number)
{
    const unsigned char bytes[4] = {(unsigned char)number, (unsigned char)(number >> 8),
                                    (unsigned char)(number >> 16), (unsigned char)(number >> 24)};
    return hash_bytes(hash, bytes, sizeof bytes);
}

uint64_t cshim_codec_table_hash(void)
{
    uint64_t hash = hash_number(0xcbf29ce484222325u, WIRE_VERSION);
    for (int id = CSHIM_CODEC_NONE + 1; id < CSHIM_CODEC_COUNT; id++) {
        const struct cshim_codec_info *info = &codecs[id];
        hash = hash_number(hash, (uint32_t)id);
        hash = hash_bytes(hash, info->name, strlen(info->name) + 1);
        hash = hash_number(hash, info->element_bits);
        hash = hash_number(hash, info->block);
        hash = hash_number(hash, info->scale_bytes);
    }
    return hash;
}
