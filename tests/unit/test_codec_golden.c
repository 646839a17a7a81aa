/* SPDX-License-Identifier: Apache-2.0 */
/* Compares encoded bytes with stored ones, to notice changes of the wire format. Each codec has the
 * bytes of a short array, and digests of the results for arrays of 1 to 5000 elements with special
 * values. A new codec needs lines in both tables; the failing tests print them. */
#include "codecs/hash.h"
#include "test_codec_data.h"

enum { MANY = 5000, ROOM = MANY * 8 + 1024, PARTS = 3, MODES = 4 };

static const size_t counts[] = {1, 7, 31, 33, 64, 255, 257, 1000, MANY};

/* Fills an array with the mixed patterns of the other tests, float16 with random values from 0.125
 * to below 2. Runs of 64 elements of float64 and float16 get random bits; the patterns of float32
 * and bfloat16 have such runs already. */
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
        if (dtype == CSHIM_FLOAT64 && i % 640 < 64)
            bits = next_random(&random);
        memcpy(input + i * bytes, &bits, bytes);
    }
}

/* Returns a digest of the codec's results for all counts. Bit 0 of `mode`: stochastic rounding; bit
 * 1: error feedback. */
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
                                                .first = 3 * CSHIM_GRAIN,
                                                .step = 0x1p-9f,
                                                .keep = 5};
        for (size_t i = 0; i < MANY; i++)
            residual[i] = (float)(i % 11) * 0x1p-12f;
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
                                         0x4c36184a5ab78effu, 0x4c36184a5ab78effu},
    [CSHIM_CODEC_FP32][CSHIM_FLOAT64] = {0x76b9241f0f8f0641u, 0x76b9241f0f8f0641u,
                                         0x738ce22d9b2309e8u, 0x738ce22d9b2309e8u},
    [CSHIM_CODEC_FP16][CSHIM_FLOAT32] = {0xd80748f52b62ea33u, 0x5f089606692ee559u,
                                         0xe7cdf1aeb63b4f5du, 0xf6ba7a665e7d2bceu},
    [CSHIM_CODEC_FP16][CSHIM_FLOAT64] = {0xf39e37370618c412u, 0x7d528479eb94806du,
                                         0x158b1573958e185cu, 0xcf96a56cb1b056a3u},
    [CSHIM_CODEC_FP16][CSHIM_FLOAT16] = {0xad1561d70d86b4e5u, 0xbceaab785fe9de80u,
                                         0x28b9437c3b3830f5u, 0x3089b932be03f65fu},
    [CSHIM_CODEC_BF16][CSHIM_FLOAT32] = {0xe7819148ab7d2cdfu, 0xc946878934521577u,
                                         0xe9b09b4b999f26d8u, 0xc7de43e9b78a786fu},
    [CSHIM_CODEC_BF16][CSHIM_FLOAT64] = {0x9ba8bbeda3ccd7cau, 0x5a56c6efbd759dc7u,
                                         0x347560b1c91b7644u, 0x6f77eb4a50c73867u},
    [CSHIM_CODEC_BF16][CSHIM_BFLOAT16] = {0x71e00b6d4944e24au, 0x821c93fe698c938fu,
                                          0x1254b623fbdc9d07u, 0x6c09f24d39f69937u},
    [CSHIM_CODEC_FP8_E4M3][CSHIM_FLOAT32] = {0xfb770ebcab49c8b8u, 0xcea0170b6924aa96u,
                                             0x6503cc2bfce248a0u, 0x8ce36ac0826eb361u},
    [CSHIM_CODEC_FP8_E4M3][CSHIM_FLOAT64] = {0x4d89471340dc0a31u, 0x63b620c272e2d334u,
                                             0x82e27e12c10df619u, 0xc66d2f670248234eu},
    [CSHIM_CODEC_FP8_E4M3][CSHIM_FLOAT16] = {0xecb89019abce57b0u, 0x355c5d1f2fe7761cu,
                                             0x712a680de552e889u, 0xf8dfaf00956a35f3u},
    [CSHIM_CODEC_FP8_E4M3][CSHIM_BFLOAT16] = {0x25f6cf592d9c4746u, 0xf87e94a5d1aa4daau,
                                              0x417732235771eec1u, 0xcf6dc87dcb8d9736u},
    [CSHIM_CODEC_FP8_E5M2][CSHIM_FLOAT32] = {0x5f7b178d1675fe52u, 0xcc946fc1f84517fcu,
                                             0x1c94a5775bf0b3f9u, 0xdb5392913e544d4du},
    [CSHIM_CODEC_FP8_E5M2][CSHIM_FLOAT64] = {0x65e189d77fa9dd49u, 0xac8b188cb1c20ebeu,
                                             0xd765bbee98faa79bu, 0xcc9955b2baa5b5dbu},
    [CSHIM_CODEC_FP8_E5M2][CSHIM_FLOAT16] = {0x330676e42be88e89u, 0xd1fa3ea6323ce721u,
                                             0x1653f01f499367cfu, 0xc158d8ee1dea8d15u},
    [CSHIM_CODEC_FP8_E5M2][CSHIM_BFLOAT16] = {0x148fc4d2c773f153u, 0x14457e84d3cdcba7u,
                                              0x99f0256af615a2f2u, 0x280053c1303b0b2cu},
    [CSHIM_CODEC_INT8][CSHIM_FLOAT32] = {0x945ac80429737214u, 0x30dd351b5ccd1589u,
                                         0xa5d26bb0ffd55cdeu, 0x4b2694c863be6d56u},
    [CSHIM_CODEC_INT8][CSHIM_FLOAT64] = {0xf42cef74ecee8bc9u, 0x91c34ecaf7a5be16u,
                                         0xd9abe001140d204fu, 0x7fceefb08c6deb51u},
    [CSHIM_CODEC_INT8][CSHIM_FLOAT16] = {0xa71c755be2f9f014u, 0x11a8d69592e4c57au,
                                         0x2f12abef59d65b0cu, 0xe176e8625890ba4fu},
    [CSHIM_CODEC_INT8][CSHIM_BFLOAT16] = {0xeffbfb0d0bf0bd30u, 0x006f8a46725cbee7u,
                                          0xab3f4a5d8167d0b8u, 0x93280ea61aef8009u},
    [CSHIM_CODEC_INT4][CSHIM_FLOAT32] = {0x6d1fb99b84b15ecdu, 0xba068ebc272d77a7u,
                                         0xbdba68ff00675e05u, 0x7da8c83a5f9c0cf6u},
    [CSHIM_CODEC_INT4][CSHIM_FLOAT64] = {0x749f02ae23cdbe70u, 0x47143ebb248733d5u,
                                         0x49913719d43201d3u, 0x7c92119539d58bcfu},
    [CSHIM_CODEC_INT4][CSHIM_FLOAT16] = {0x4da0be62c4b056b0u, 0xc0635e06f6100cc3u,
                                         0x82755fea64c7467au, 0x1288e7718acdf94fu},
    [CSHIM_CODEC_INT4][CSHIM_BFLOAT16] = {0x6ffa7158c4594955u, 0xaf71f4845d763031u,
                                          0xed1e2bb4c830ed2fu, 0x74bace86249f13c1u},
    [CSHIM_CODEC_INT6][CSHIM_FLOAT32] = {0xcbd064dd98ed2053u, 0x5a78a6f6819c1c7fu,
                                         0x5fc5fc3b8bb6620du, 0x90cf67262dda0865u},
    [CSHIM_CODEC_INT6][CSHIM_FLOAT64] = {0xb41f8780a1d4b2c0u, 0x026e99fc2d6f1856u,
                                         0xc3ad7ed96118a837u, 0xd193b464324ce80du},
    [CSHIM_CODEC_INT6][CSHIM_FLOAT16] = {0x4f4acf49ee2fac85u, 0x3ac0cc073a21b54eu,
                                         0xf5a09401f0b88dcdu, 0x1c32bd3492454aaeu},
    [CSHIM_CODEC_INT6][CSHIM_BFLOAT16] = {0x071e4b5fc035158fu, 0xae07c869485ada6fu,
                                          0xe212e21359e7e778u, 0x9abfbf6ea2d594bdu},
    [CSHIM_CODEC_INT5][CSHIM_FLOAT32] = {0x7ef18dc86ffad301u, 0x8d228573152fecb2u,
                                         0xd04a992e4c9754b1u, 0xf7c151c80992bd6eu},
    [CSHIM_CODEC_INT5][CSHIM_FLOAT64] = {0xe52ea1fad87b5fbau, 0x1037d8220fc22196u,
                                         0x7c5aca34e61bedfdu, 0xce53d2fb8680c846u},
    [CSHIM_CODEC_INT5][CSHIM_FLOAT16] = {0x1b1e57245470d4c9u, 0x0670b4f04b691411u,
                                         0xb2ac1aa4fd7b7eafu, 0x89655584645b2ef9u},
    [CSHIM_CODEC_INT5][CSHIM_BFLOAT16] = {0x7e8b3b643b75ee7du, 0x05b69c122e819baeu,
                                          0x4d8fcfa95c7a3fcau, 0x37cbbe00d2fd619bu},
    [CSHIM_CODEC_LOSSLESS][CSHIM_FLOAT32] = {0x0ed209a032e13db6u, 0x0ed209a032e13db6u,
                                             0x0ed209a032e13db6u, 0x0ed209a032e13db6u},
    [CSHIM_CODEC_LOSSLESS][CSHIM_FLOAT64] = {0xcd9bcdd2c4ee77ceu, 0xcd9bcdd2c4ee77ceu,
                                             0xcd9bcdd2c4ee77ceu, 0xcd9bcdd2c4ee77ceu},
    [CSHIM_CODEC_LOSSLESS][CSHIM_FLOAT16] = {0x83f7d431461c4b3cu, 0x83f7d431461c4b3cu,
                                             0x83f7d431461c4b3cu, 0x83f7d431461c4b3cu},
    [CSHIM_CODEC_LOSSLESS][CSHIM_BFLOAT16] = {0xc79c9ec9b1a99583u, 0xc79c9ec9b1a99583u,
                                              0xc79c9ec9b1a99583u, 0xc79c9ec9b1a99583u},
    [CSHIM_CODEC_INT3][CSHIM_FLOAT32] = {0xfa5aff31d3ea090eu, 0x45421a94648568f9u,
                                         0x66c8a14a08000a90u, 0x36e92387d8c7a4f2u},
    [CSHIM_CODEC_INT3][CSHIM_FLOAT64] = {0x4c76307e19c5bcbeu, 0xd54a085f39f45d2du,
                                         0x94be0a3225495d89u, 0x0d1e32a3a8ab88dfu},
    [CSHIM_CODEC_INT3][CSHIM_FLOAT16] = {0x57699c16da632a02u, 0x826d84323623e23au,
                                         0x6592bf11f28dc22cu, 0x852e7383f2e62ed4u},
    [CSHIM_CODEC_INT3][CSHIM_BFLOAT16] = {0x20d9323a623bb97cu, 0xa1bb7fde750e0c96u,
                                          0x488c25657e133b9du, 0x5b161e8f91708c98u},
    [CSHIM_CODEC_BOUNDED][CSHIM_FLOAT32] = {0x60dec9a42f1ecfdbu, 0x60dec9a42f1ecfdbu,
                                            0x60dec9a42f1ecfdbu, 0x60dec9a42f1ecfdbu},
    [CSHIM_CODEC_BOUNDED][CSHIM_FLOAT64] = {0x202b0551c0869b46u, 0x202b0551c0869b46u,
                                            0x202b0551c0869b46u, 0x202b0551c0869b46u},
    [CSHIM_CODEC_TOPK][CSHIM_FLOAT32] = {0x02a70054da9f6907u, 0x02a70054da9f6907u,
                                         0x17a986f8dbd3facbu, 0x17a986f8dbd3facbu},
    [CSHIM_CODEC_MXFP8][CSHIM_FLOAT32] = {0xa2e036a2c9de47d7u, 0xe4d7b840e82a3f11u,
                                          0x5596d7c1da879c2fu, 0x36fea8bb2761d692u},
    [CSHIM_CODEC_MXFP8][CSHIM_FLOAT64] = {0x1ec97dbaa996d624u, 0x87ed0ee7c9b6386cu,
                                          0xec6eb437f2c0920fu, 0x8a1514c6f4f34ba0u},
    [CSHIM_CODEC_MXFP8][CSHIM_FLOAT16] = {0x2db886b394686af3u, 0xf7d87dc6c7654fe1u,
                                          0x7a238ce36e71a4bcu, 0xeae4f43c49bd3828u},
    [CSHIM_CODEC_MXFP8][CSHIM_BFLOAT16] = {0xc4f07a50a29993c2u, 0xf291ff763f2a5b85u,
                                           0xf9de38bd24fe88afu, 0x3ecae41be43673e4u},
    [CSHIM_CODEC_MXFP4][CSHIM_FLOAT32] = {0x6e744fd51abb346fu, 0xdfbb5a6c0f15de30u,
                                          0xeb6e31e254b53b8au, 0x46d95e2f726def93u},
    [CSHIM_CODEC_MXFP4][CSHIM_FLOAT64] = {0x69e63fd19e2dc3c4u, 0xb7037925715dafa8u,
                                          0x36a9d01fe03a2637u, 0x664b3d0d12f77268u},
    [CSHIM_CODEC_MXFP4][CSHIM_FLOAT16] = {0xe01be07cc937b832u, 0x69a7988da9bf22aau,
                                          0xd4e570f54167a50bu, 0x4413b656debf6960u},
    [CSHIM_CODEC_MXFP4][CSHIM_BFLOAT16] = {0xc014908c0e483327u, 0xa1df28894852629du,
                                           0x87e47ad4cb2d67eau, 0xf09448a3a2513453u},
    [CSHIM_CODEC_NVFP4][CSHIM_FLOAT32] = {0x50fcfa0b9f732703u, 0xa0d35a9124caef4cu,
                                          0xd23f5b75a4926d49u, 0x9d94db5f67977204u},
    [CSHIM_CODEC_NVFP4][CSHIM_FLOAT64] = {0xb1b2c61f91fd4423u, 0xc575084d7b1bd2e2u,
                                          0x63d504ed346d208du, 0xdd65a883bf119b60u},
    [CSHIM_CODEC_NVFP4][CSHIM_FLOAT16] = {0x7d68e206586e1b6bu, 0xf0ad3facf89b6502u,
                                          0xf1742496513c3071u, 0xad199a46fbb4bac4u},
    [CSHIM_CODEC_NVFP4][CSHIM_BFLOAT16] = {0x994a572b2ea9fba3u, 0xf56403e140cca230u,
                                           0xe0a1c1be0ae96bdau, 0x19f907f897a87e26u},
};

static unsigned count_wrong_digests(void)
{
    unsigned wrong = 0;
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        for (int dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++) {
            if (!cshim_codec_carries((enum cshim_codec_id)id, (enum cshim_dtype)dtype))
                continue;
            uint64_t digests[MODES];
            for (unsigned mode = 0; mode < MODES; mode++)
                digests[mode] = digest_of((enum cshim_codec_id)id, (enum cshim_dtype)dtype, mode);
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

/* Encodings of the short array: payload, padding, scales, padding; of a packed codec: lengths,
 * payload, padding. */
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
    [CSHIM_CODEC_LOSSLESS] = "3a00000034000000803f000000bf000050400000e0c000000000000000800000807f0"
                             "00028c06f12833affff7f3f0000c07f000080ff0000e03d000000000000",
    [CSHIM_CODEC_BOUNDED] = "3a00000034000000803f000000bf000050400000e0c000000000000000800000807f0"
                            "00028c06f12833affff7f3f0000c07f000080ff0000e03d000000000000",
    [CSHIM_CODEC_TOPK] = "19000000130000010203060708090a0b0c0193d8108800804a00000000000000",
    [CSHIM_CODEC_MXFP8] = "68e075fe00807ff218687f7f4e00000079000000000000000000000000000000",
    [CSHIM_CODEC_MXFP4] = "01e300b810880000000000000000000080000000000000000000000000000000",
    [CSHIM_CODEC_NVFP4] = "92f500c820880000000000000000000079800000000000800000000000000000",
    [CSHIM_CODEC_INT3] = "400af000090000000000000000000000164b0000000000000000000000000000",
};

TEST(short_messages_stay)
{
    unsigned wrong = 0;
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        uint8_t encoded[128];
        char text[2 * sizeof encoded + 1] = "";
        const size_t bytes = cshim_encoded_bytes((enum cshim_codec_id)id, CSHIM_FLOAT32, SHORT);
        cshim_encode((enum cshim_codec_id)id, CSHIM_FLOAT32, short_vector, SHORT, encoded);
        for (size_t i = 0; i < bytes; i++)
            snprintf(text + 2 * i, 3, "%02x", encoded[i]);
        bool found = messages[id] != NULL && strcmp(messages[id], text) == 0;
        wrong += !found;
        if (!found)
            print_message("%s: \"%s\",\n", cshim_codec_name((enum cshim_codec_id)id), text);
    }
    assert_int_equal(wrong, 0);
}
