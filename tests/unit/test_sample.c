/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the sampled error: the gathered elements fit their memory, and the reported error is right.
 */
#include <math.h>

#include "shim/core/sample.h"
#include "tests/unit/unit.h"

TEST(blocks_fit)
{
    for (uint32_t ranks = 2; ranks < 10000; ranks++) {
        const uint64_t block = cshim_sample_block_bytes(ranks);
        assert_true(ranks * block <= CSHIM_SAMPLE_GATHERED_BYTES);
        assert_int_equal(block % sizeof(double), 0);
        for (int i = CSHIM_FLOAT32; i <= CSHIM_BFLOAT16; i++) {
            const enum cshim_dtype dtype = (enum cshim_dtype)i;
            const uint32_t length = cshim_sample_block_elements(ranks, dtype, 1000);
            assert_true(length <= CSHIM_SAMPLE_MAX);
            assert_int_equal(length > 0, block > 0);
            if (block > 0)
                assert_true(CSHIM_SAMPLE_FACTOR_BYTES + length * cshim_dtype_bytes(dtype) <= block);
        }
    }
    assert_int_equal(cshim_sample_block_bytes(126), 520);
    assert_int_equal(cshim_sample_block_bytes(127), 512);
    assert_int_equal(cshim_sample_block_bytes(4096), 16);
    assert_int_equal(cshim_sample_block_bytes(4097), 0);
    assert_int_equal(cshim_sample_block_elements(2, CSHIM_FLOAT32, 1000), 128);
    assert_int_equal(cshim_sample_block_elements(2, CSHIM_FLOAT64, 1000), 64);
    assert_int_equal(cshim_sample_block_elements(2, CSHIM_FLOAT16, 3), 3);
}

TEST(places_lie_in_the_result)
{
    uint64_t largest = 0;
    for (uint32_t call = 1; call < 1000; call++) {
        const uint64_t place = cshim_sample_place(1000, 128, call);
        assert_true(place + 128 <= 1000);
        largest = place > largest ? place : largest;
        assert_int_equal(cshim_sample_place(100, 100, call), 0);
    }
    assert_true(largest > 800);
}

TEST(elements_are_widened)
{
    const uint16_t halves[] = {0x3c00, 0xc000}, brains[] = {0x3f80, 0xc000};
    const float floats[] = {1, -2};
    const double doubles[] = {1, -2};
    const struct {
        enum cshim_dtype dtype;
        const void *data;
    } cases[] = {{CSHIM_FLOAT16, halves},
                 {CSHIM_BFLOAT16, brains},
                 {CSHIM_FLOAT32, floats},
                 {CSHIM_FLOAT64, doubles}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        double wide[2] = {0};
        cshim_sample_widen(cases[i].dtype, cases[i].data, 2, wide);
        assert_true(wide[0] == 1 && wide[1] == -2);
    }
}

TEST(errors_are_added)
{
    const double results[] = {3, -4.5, NAN, 1, INFINITY}, sums[] = {3, -4, 1, INFINITY, INFINITY};
    struct cshim_row row = {0};
    cshim_sample_add(&row, results, sums, 5);
    assert_int_equal(row.samples, 2);
    assert_true(row.error_squares == 0.25 && row.sum_squares == 25);
    assert_true(cshim_row_error(&row) == 0.1);
}
