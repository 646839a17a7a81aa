/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the wire, written down: a change of any of them is a change of the wire format. Each
 * codec has a short vector with its very bytes, and digests of what becomes of long arrays with all
 * special values. A new codec needs a line in each table; the failing test prints it. */
#include "codecs/hash.h"
#include "test_codec_data.h"

enum { MANY = 5000, ROOM = MANY * 8 + 1024, PARTS = 3, MODES = 4 };

static const size_t counts[] = {1, 7, 31, 33, 64, 255, 257, 1000, MANY};

/* Elements of every kind: any bits, and the patterns of the other tests. */
static void make_input(enum cshim_dtype dtype, unsigned seed, uint8_t *input)
{
    static float values[MANY];
    const size_t bytes = cshim_dtype_bytes(dtype);
    uint64_t random = seed;
    fill(PATTERN_MIXED, seed, values, MANY);
    for (size_t i = 0; i < MANY; i++) {
        uint64_t bits = bits_of(values[i]);
        if (dtype == CSHIM_FLOAT64) {
            double wide = isfinite(values[i]) ? (double)values[i] * (i % 9 == 0 ? 1e20 : 1.1) : 0;
            memcpy(&bits, &wide, sizeof bits);
        } else if (dtype == CSHIM_FLOAT16) {
            bits = i % 512 < 64 ? next_random(&random) : 0x3000 + next_random(&random) % 0x1000;
        } else if (dtype == CSHIM_BFLOAT16) {
            bits >>= 16;
        }
        if (dtype == CSHIM_FLOAT64 && i % 640 < 64) {
            bits = next_random(&random);
        }
        memcpy(input + i * bytes, &bits, bytes);
    }
}

/* Everything that the codec makes of all counts. mode: bit 0 stochastic, bit 1 error feedback. */
static uint64_t digest_of(enum cshim_codec_id id, enum cshim_dtype dtype, unsigned mode)
{
    static uint8_t input[ROOM], parts[PARTS][ROOM], output[ROOM], reencoded[ROOM];
    static float residual[MANY];
    const void *const pointers[PARTS] = {parts[0], parts[1], parts[2]};
    uint64_t hash = CSHIM_HASH_EMPTY;
    for (size_t c = 0; c < COUNT_OF(counts); c++) {
        const size_t count = counts[c], bytes = cshim_encoded_bytes(id, dtype, count);
        const struct cshim_encoding encoding = {.residual = mode & 2 ? residual : NULL,
                                                .stochastic = (mode & 1) != 0,
                                                .key = 1000 + count,
                                                .first = 3 * CSHIM_GRAIN};
        for (size_t i = 0; i < MANY; i++) {
            residual[i] = (float)(i % 11) * 0x1p-12f;
        }
        for (unsigned part = 0; part < PARTS; part++) {
            make_input(dtype, part + 1, input);
            cshim_encode_with(id, dtype, input, count, &encoding, parts[part]);
            hash = cshim_hash_bytes(hash, parts[part], bytes);
            cshim_decode(id, dtype, parts[part], count, output);
            hash = cshim_hash_bytes(hash, output, count * cshim_dtype_bytes(dtype));
        }
        cshim_reduce_with(id, dtype, pointers, PARTS, count, output, reencoded, &encoding);
        hash = cshim_hash_bytes(hash, output, count * cshim_dtype_bytes(dtype));
        hash = cshim_hash_bytes(hash, reencoded, bytes);
        hash = cshim_hash_bytes(hash, residual, sizeof residual);
    }
    return hash;
}

static const uint64_t golden[CSHIM_CODEC_COUNT][CSHIM_DTYPE_COUNT][MODES] = {
    [CSHIM_CODEC_RAW][CSHIM_FLOAT32] = {0x372c3951493ca642u, 0x372c3951493ca642u,
                                        0x372c3951493ca642u, 0x372c3951493ca642u},
    [CSHIM_CODEC_RAW][CSHIM_FLOAT64] = {0xe0f52fb6c1523fe2u, 0xe0f52fb6c1523fe2u,
                                        0xe0f52fb6c1523fe2u, 0xe0f52fb6c1523fe2u},
    [CSHIM_CODEC_RAW][CSHIM_FLOAT16] = {0x815a47ccf4b2489eu, 0x815a47ccf4b2489eu,
                                        0x815a47ccf4b2489eu, 0x815a47ccf4b2489eu},
    [CSHIM_CODEC_RAW][CSHIM_BFLOAT16] = {0x0e5e0bea08697872u, 0x0e5e0bea08697872u,
                                         0x0e5e0bea08697872u, 0x0e5e0bea08697872u},
    [CSHIM_CODEC_FP32][CSHIM_FLOAT32] = {0x372c3951493ca642u, 0x372c3951493ca642u,
                                         0x44611b73ebc8accfu, 0x01d8fa818b99c96fu},
    [CSHIM_CODEC_FP32][CSHIM_FLOAT64] = {0x76b9241f0f8f0641u, 0x76b9241f0f8f0641u,
                                         0xec337dce000bb026u, 0xee9913e0fd12392du},
    [CSHIM_CODEC_FP16][CSHIM_FLOAT32] = {0xd80748f52b62ea33u, 0x5f089606692ee559u,
                                         0xc9c85cb63d8ca485u, 0xff583a650bd17a1fu},
    [CSHIM_CODEC_FP16][CSHIM_FLOAT64] = {0xf39e37370618c412u, 0x7d528479eb94806du,
                                         0xdb9ec29736d3b67fu, 0x70479babdf16bd4du},
    [CSHIM_CODEC_FP16][CSHIM_FLOAT16] = {0xad1561d70d86b4e5u, 0xbceaab785fe9de80u,
                                         0x28b9437c3b3830f5u, 0x3089b932be03f65fu},
    [CSHIM_CODEC_BF16][CSHIM_FLOAT32] = {0xe7819148ab7d2cdfu, 0xc946878934521577u,
                                         0x52b798fc1228c5beu, 0x5af0553a34cf1589u},
    [CSHIM_CODEC_BF16][CSHIM_FLOAT64] = {0x9ba8bbeda3ccd7cau, 0x5a56c6efbd759dc7u,
                                         0xd67a2a3984d3563eu, 0x1bd0d01a0fc00b76u},
    [CSHIM_CODEC_BF16][CSHIM_BFLOAT16] = {0x71e00b6d4944e24au, 0x821c93fe698c938fu,
                                          0x9423f2ccb72170f3u, 0x16896802a3a37677u},
    [CSHIM_CODEC_FP8_E4M3][CSHIM_FLOAT32] = {0xfb770ebcab49c8b8u, 0xcea0170b6924aa96u,
                                             0xef38000b655c244du, 0x1ea2ee8f9344dfe4u},
    [CSHIM_CODEC_FP8_E4M3][CSHIM_FLOAT64] = {0x4d89471340dc0a31u, 0x63b620c272e2d334u,
                                             0xc8c6a1b1eb599cd1u, 0xec16446a9c037e3cu},
    [CSHIM_CODEC_FP8_E4M3][CSHIM_FLOAT16] = {0xecb89019abce57b0u, 0x355c5d1f2fe7761cu,
                                             0x6f153d1e6f200574u, 0xa92790d4e2291ee3u},
    [CSHIM_CODEC_FP8_E4M3][CSHIM_BFLOAT16] = {0x25f6cf592d9c4746u, 0xf87e94a5d1aa4daau,
                                              0x9a39d72471264f22u, 0xe274abcee477b1c5u},
    [CSHIM_CODEC_FP8_E5M2][CSHIM_FLOAT32] = {0x5f7b178d1675fe52u, 0xcc946fc1f84517fcu,
                                             0x72cbb063279f7661u, 0x97747052b2e67541u},
    [CSHIM_CODEC_FP8_E5M2][CSHIM_FLOAT64] = {0x65e189d77fa9dd49u, 0xac8b188cb1c20ebeu,
                                             0x53d2a225b153cc3eu, 0x8fb64a692339af90u},
    [CSHIM_CODEC_FP8_E5M2][CSHIM_FLOAT16] = {0x330676e42be88e89u, 0xd1fa3ea6323ce721u,
                                             0x589bef238b72d507u, 0x4ae2f8218e887c41u},
    [CSHIM_CODEC_FP8_E5M2][CSHIM_BFLOAT16] = {0x148fc4d2c773f153u, 0x14457e84d3cdcba7u,
                                              0x44af58dcc052b4e0u, 0x8c99fe6c597a2ac7u},
    [CSHIM_CODEC_INT8][CSHIM_FLOAT32] = {0x945ac80429737214u, 0x30dd351b5ccd1589u,
                                         0xdf4c7c872c6067e2u, 0x1a46b013f2d96832u},
    [CSHIM_CODEC_INT8][CSHIM_FLOAT64] = {0xf42cef74ecee8bc9u, 0x91c34ecaf7a5be16u,
                                         0xc1284c941fb1475fu, 0x9ebbf379f8a80d64u},
    [CSHIM_CODEC_INT8][CSHIM_FLOAT16] = {0xa71c755be2f9f014u, 0x11a8d69592e4c57au,
                                         0xe3ae89b1f6db7e19u, 0xe7e80a855bc52579u},
    [CSHIM_CODEC_INT8][CSHIM_BFLOAT16] = {0xeffbfb0d0bf0bd30u, 0x006f8a46725cbee7u,
                                          0xec25919e2feba537u, 0xea660552e0394b0du},
    [CSHIM_CODEC_INT4][CSHIM_FLOAT32] = {0x6d1fb99b84b15ecdu, 0xba068ebc272d77a7u,
                                         0x863be0ed375fcdffu, 0xb36ff496aecde017u},
    [CSHIM_CODEC_INT4][CSHIM_FLOAT64] = {0x749f02ae23cdbe70u, 0x47143ebb248733d5u,
                                         0x9b4e94bd3bafd50fu, 0x9525940a3c69b83cu},
    [CSHIM_CODEC_INT4][CSHIM_FLOAT16] = {0x4da0be62c4b056b0u, 0xc0635e06f6100cc3u,
                                         0x1c82b6405f081ef5u, 0x672eee856f32ca6cu},
    [CSHIM_CODEC_INT4][CSHIM_BFLOAT16] = {0x6ffa7158c4594955u, 0xaf71f4845d763031u,
                                          0x57d25f208e9d4b6cu, 0x6b3b5172a842dd57u},
    [CSHIM_CODEC_INT6][CSHIM_FLOAT32] = {0xcbd064dd98ed2053u, 0x5a78a6f6819c1c7fu,
                                         0xcab59e811de7410cu, 0x409118066c447a2du},
    [CSHIM_CODEC_INT6][CSHIM_FLOAT64] = {0xb41f8780a1d4b2c0u, 0x026e99fc2d6f1856u,
                                         0x22d56b3e9fe837cfu, 0x1757ffec60d50f9bu},
    [CSHIM_CODEC_INT6][CSHIM_FLOAT16] = {0x4f4acf49ee2fac85u, 0x3ac0cc073a21b54eu,
                                         0x56bc0b861a1d5e30u, 0x2c61547c70b3dac3u},
    [CSHIM_CODEC_INT6][CSHIM_BFLOAT16] = {0x071e4b5fc035158fu, 0xae07c869485ada6fu,
                                          0xc4a6859e90421454u, 0x8964ad1e16002176u},
    [CSHIM_CODEC_INT5][CSHIM_FLOAT32] = {0x7ef18dc86ffad301u, 0x8d228573152fecb2u,
                                         0x01a2502ee4072293u, 0x3bac5c021a84e12au},
    [CSHIM_CODEC_INT5][CSHIM_FLOAT64] = {0xe52ea1fad87b5fbau, 0x1037d8220fc22196u,
                                         0xe999fb42a2589ae5u, 0xf09752bbe05fedeeu},
    [CSHIM_CODEC_INT5][CSHIM_FLOAT16] = {0x1b1e57245470d4c9u, 0x0670b4f04b691411u,
                                         0xe8de228c2946fd06u, 0x86da103be9f4a5dau},
    [CSHIM_CODEC_INT5][CSHIM_BFLOAT16] = {0x7e8b3b643b75ee7du, 0x05b69c122e819baeu,
                                          0x9e5d4933cce96970u, 0x1b7fbe561fccc771u},
};

static unsigned count_wrong_digests(void)
{
    unsigned wrong = 0;
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        for (int dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++) {
            if (!cshim_codec_carries((enum cshim_codec_id)id, (enum cshim_dtype)dtype)) {
                continue;
            }
            uint64_t digests[MODES];
            for (unsigned mode = 0; mode < MODES; mode++) {
                digests[mode] = digest_of((enum cshim_codec_id)id, (enum cshim_dtype)dtype, mode);
            }
            bool found = memcmp(golden[id][dtype], digests, sizeof digests) == 0;
            wrong += !found;
            if (!found) {
                print_message("%s, %s at level %s: {0x%016llxu, 0x%016llxu, 0x%016llxu, "
                              "0x%016llxu},\n",
                              cshim_codec_name((enum cshim_codec_id)id),
                              cshim_dtype_name((enum cshim_dtype)dtype),
                              cshim_simd_name(cshim_simd_level()), (unsigned long long)digests[0],
                              (unsigned long long)digests[1], (unsigned long long)digests[2],
                              (unsigned long long)digests[3]);
            }
        }
    }
    return wrong;
}

TEST(digests_stay)
{
    for (int level = CSHIM_SIMD_SCALAR; level <= CSHIM_SIMD_AVX512; level++) {
        cshim_simd_limit((enum cshim_simd)level);
        assert_int_equal(count_wrong_digests(), 0);
    }
}

static const float short_vector[] = {1.0f,  -0.5f,     3.25f,    -7.0f, 0.0f,
                                     -0.0f, INFINITY,  -2.625f,  1e-3f, 0x1.fffffep-1f,
                                     NAN,   -INFINITY, 0.109375f};
enum { SHORT = COUNT_OF(short_vector) };

/* The message of the short vector: payload, padding, scales, padding. */
static const char *const messages[CSHIM_CODEC_COUNT] = {
    [CSHIM_CODEC_RAW] = "0000803f000000bf000050400000e0c000000000000000800000807f000028c06f12833aff"
                        "ff7f3f0000c07f000080ff0000e03d000000000000000000000000",
    [CSHIM_CODEC_FP32] = "0000803f000000bf000050400000e0c000000000000000800000807f000028c06f12833af"
                         "fff7f3f0000c07f000080ff0000e03d000000000000000000000000",
    [CSHIM_CODEC_FP16] = "007000ec807600fb00000080007c40f519480070007e00fc0063000000000000700000000"
                         "00000000000000000000000",
    [CSHIM_CODEC_BF16] = "803f00bf5040e0c000000080807f28c0833a803fc07f80ffe03d000000000000",
    [CSHIM_CODEC_FP8_E4M3] = "68e075fe00807ff218687f7f4e00000081000000000000000000000000000000",
    [CSHIM_CODEC_FP8_E5M2] = "70ec76fb00807cf548707efc6300000078000000000000000000000000000000",
    [CSHIM_CODEC_INT8] = "12f73b81000080d0001280800200000062480000000000000000000000000000",
    [CSHIM_CODEC_INT4] = "019300d8108800000000000000000000804a0000000000000000000000000000",
    [CSHIM_CODEC_INT6] = "84ef840000d20001820000000000000068490000000000000000000000000000",
    [CSHIM_CODEC_INT5] = "e29f0800d44040080000000000000000ef490000000000000000000000000000",
};

TEST(short_messages_stay)
{
    unsigned wrong = 0;
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        uint8_t encoded[128];
        char text[2 * sizeof encoded + 1] = "";
        const size_t bytes = cshim_encoded_bytes((enum cshim_codec_id)id, CSHIM_FLOAT32, SHORT);
        cshim_encode((enum cshim_codec_id)id, CSHIM_FLOAT32, short_vector, SHORT, encoded);
        for (size_t i = 0; i < bytes; i++) {
            snprintf(text + 2 * i, 3, "%02x", encoded[i]);
        }
        bool found = messages[id] != NULL && strcmp(messages[id], text) == 0;
        wrong += !found;
        if (!found) {
            print_message("%s: \"%s\",\n", cshim_codec_name((enum cshim_codec_id)id), text);
        }
    }
    assert_int_equal(wrong, 0);
}
