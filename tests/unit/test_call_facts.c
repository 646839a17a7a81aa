/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of a call: the nodes of its ranks, the headers of its messages, and the codecs that
 * adaptive precision moves it to. */
#include <math.h>

#include "shim/core/header.h"
#include "shim/core/layout.h"
#include "shim/core/tolerance.h"
#include "tests/unit/unit.h"

TEST(layouts)
{
    static const struct {
        int ids[8];
        int ranks;
        uint32_t nodes, fewest;
        int rank, node, local_rank, local_ranks;
    } cases[] = {
        {{0}, 1, 1, 1, 0, 0, 0, 1},
        {{4, 4, 4}, 3, 1, 3, 2, 0, 2, 3},
        {{2, 1, 0}, 3, 3, 1, 1, 1, 0, 1},
        {{0, 0, 3, 3}, 4, 2, 2, 3, 1, 1, 2},
        {{5, 2, 5, 2, 5}, 5, 2, 2, 4, 0, 2, 3},
        {{0, 1, 1, 2, 2, 2, 1}, 7, 3, 1, 6, 1, 2, 3},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cshim_layout layout;
        assert_true(cshim_layout_make(&layout, cases[i].ids, cases[i].ranks, 8, cases[i].rank));
        assert_int_equal(layout.nodes, cases[i].nodes);
        assert_int_equal(layout.ranks_per_node, cases[i].fewest);
        assert_int_equal(layout.node, cases[i].node);
        assert_int_equal(layout.local_rank, cases[i].local_rank);
        assert_int_equal(layout.local_ranks, cases[i].local_ranks);
        for (int a = 0; a < cases[i].ranks; a++)
            for (int b = 0; b < cases[i].ranks; b++)
                assert_int_equal(layout.node_of[a] == layout.node_of[b],
                                 cases[i].ids[a] == cases[i].ids[b]);
        cshim_layout_free(&layout);
    }
}

/* The check compares every byte of a header except the error field, which it returns, as 0 if it is
 * negative or not finite. */
TEST(headers)
{
    const struct cshim_plan plan = {.codec = CSHIM_CODEC_INT4,
                                    .gather_codec = CSHIM_CODEC_INT8,
                                    .dtype = CSHIM_FLOAT64,
                                    .algorithm = CSHIM_ALGORITHM_TWO_SHOT,
                                    .count = 123456};
    const struct cshim_header want = cshim_header_make(&plan, 7, 3, CSHIM_MESSAGE_SUMS, 512, 0.25f);
    unsigned char message[CSHIM_HEADER_BYTES + 1];
    char text[CSHIM_MISMATCH_MAX];
    float error = -1;
    memcpy(message + 1, &want, sizeof want);
    assert_true(cshim_header_check(&want, message + 1, &error, text));
    assert_true(error == 0.25f);
    for (size_t i = 0; i < CSHIM_HEADER_BYTES; i++) {
        message[1 + i] ^= 0x20;
        const bool same = cshim_header_check(&want, message + 1, &error, text);
        assert_int_equal(same, i >= offsetof(struct cshim_header, error));
        message[1 + i] ^= 0x20;
        if (!same) {
            assert_non_null(
                strstr(text, "here: call 7, allreduce of 123456 x float64 in int8 by two_shot"));
            assert_non_null(strstr(text, i < 4 ? "there: no message" : "there: call "));
        }
    }
    const float odd[] = {NAN, INFINITY, -1.0f};
    for (size_t i = 0; i < 3; i++) {
        memcpy(message + 1 + offsetof(struct cshim_header, error), &odd[i], sizeof odd[i]);
        assert_true(cshim_header_check(&want, message + 1, &error, text));
        assert_true(error == 0);
    }
}

/* Adaptive precision steps from int4 through more precise codecs that carry the type up to raw,
 * where it ends. */
TEST(moves)
{
    static const struct {
        enum cshim_dtype dtype;
        const char *way;
    } cases[] = {
        {CSHIM_FLOAT32, "int4 fp8_e5m2 int5 fp8_e4m3 int6 int8 bf16 fp16 fp32 raw "},
        {CSHIM_FLOAT64, "int4 fp8_e5m2 int5 fp8_e4m3 int6 int8 bf16 fp16 fp32 raw "},
        {CSHIM_BFLOAT16, "int4 fp8_e5m2 int5 fp8_e4m3 int6 int8 bf16 raw "},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cshim_tolerance watch = {0};
        struct cshim_plan plan = {
            .codec = CSHIM_CODEC_INT4, .dtype = cases[i].dtype, .count = 1000};
        char way[128] = "";
        int length = 0;
        assert_int_equal(cshim_tolerance_codec(&watch, 2, CSHIM_CODEC_INT4, plan.dtype, 1000),
                         CSHIM_CODEC_NONE);
        for (int step = 0; step < 10; step++) {
            const enum cshim_codec_id before = plan.codec;
            length += snprintf(way + length, sizeof way - (size_t)length, "%s ",
                               cshim_codec_name(before));
            plan.codec = cshim_tolerance_change(&watch, 2, &plan);
            assert_int_equal(cshim_tolerance_codec(&watch, 2, CSHIM_CODEC_INT4, plan.dtype, 1000),
                             plan.codec);
            if (before == CSHIM_CODEC_RAW)
                break;
        }
        assert_int_equal(cshim_tolerance_codec(&watch, 1, CSHIM_CODEC_INT4, plan.dtype, 1000),
                         CSHIM_CODEC_NONE);
        assert_string_equal(way, cases[i].way);
    }
}

/* Two classes of calls share a slot. Neither gets a codec less precise than its rule's. */
TEST(slots_are_shared)
{
    struct cshim_tolerance watch;
    memset(watch.codec, CSHIM_CODEC_FP8_E5M2, sizeof watch.codec);
    assert_int_equal(cshim_tolerance_codec(&watch, 0, CSHIM_CODEC_INT4, CSHIM_FLOAT32, 9),
                     CSHIM_CODEC_FP8_E5M2);
    assert_int_equal(cshim_tolerance_codec(&watch, 0, CSHIM_CODEC_FP16, CSHIM_FLOAT32, 9),
                     CSHIM_CODEC_NONE);
}

/* Classes of bfloat16, which fp16 cannot carry, leave a class of float32 at fp16. */
TEST(types_share_no_slot)
{
    struct cshim_tolerance watch = {0};
    struct cshim_plan plan = {.codec = CSHIM_CODEC_BF16, .dtype = CSHIM_FLOAT32, .count = 1000};
    assert_int_equal(cshim_tolerance_change(&watch, 2, &plan), CSHIM_CODEC_FP16);
    plan.codec = CSHIM_CODEC_INT4;
    plan.dtype = CSHIM_BFLOAT16;
    for (plan.count = 0; plan.count < 10 * CSHIM_WATCH_SLOTS; plan.count++) {
        cshim_tolerance_change(&watch, 2, &plan);
        assert_int_equal(cshim_tolerance_codec(&watch, 2, CSHIM_CODEC_INT4, CSHIM_FLOAT32, 1000),
                         CSHIM_CODEC_FP16);
    }
}

TEST(errors_are_measured)
{
    enum { COUNT = 100000 };
    float *values = calloc(COUNT, sizeof *values);
    assert_non_null(values);
    uint32_t seed = 1;
    for (size_t i = 0; i < COUNT; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(int32_t)seed;
    }
    struct cshim_plan plan = {.codec = CSHIM_CODEC_INT8, .dtype = CSHIM_FLOAT32, .count = COUNT};
    const double typical = cshim_codec_info(CSHIM_CODEC_INT8)->typical;
    /* Uniformly distributed values are closer to the largest magnitude than normally distributed
     * ones, so their relative error is smaller. */
    assert_in_range(1000 * (double)cshim_tolerance_measure(&plan, values, plan.count) / typical,
                    500, 1000);
    plan.codec = CSHIM_CODEC_RAW;
    assert_true(cshim_tolerance_measure(&plan, values, plan.count) == 0);
    plan.codec = CSHIM_CODEC_INT8;
    values[0] = NAN;
    values[1] = INFINITY;
    assert_in_range(1000 * (double)cshim_tolerance_measure(&plan, values, plan.count) / typical,
                    500, 1000);
    plan.count = 1; /* only a NaN */
    assert_true(cshim_tolerance_measure(&plan, values, plan.count) == 0);
    values[2] = 3;
    for (plan.count = 1; plan.count < 2000; plan.count++)
        assert_true(cshim_tolerance_measure(&plan, values + 2, plan.count) < 0.01f);
    free(values);
}
