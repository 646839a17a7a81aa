/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the records of COMPSHIM=observe: types of calls are counted separately, further types share
 * size classes, and sums stay exact. */

#include "shim/report/observed.h"
#include "tests/unit/unit.h"

static struct cshim_kind one_call(uint64_t bytes)
{
    return (struct cshim_kind){
        .collective = CSHIM_ALLREDUCE,
        .dtype = CSHIM_FLOAT32,
        .op = CSHIM_SUM,
        .ranks = 4,
        .nodes = 2,
        .ranks_per_node = 2,
        .bytes = bytes,
        .calls = 1,
        .bytes_total = bytes,
        .seconds = 0.5,
        .seconds_wait = 0.25,
    };
}

static struct cshim_observed *make_observed(void)
{
    struct cshim_observed *observed = malloc(sizeof *observed);
    assert_non_null(observed);
    cshim_observed_init(observed);
    return observed;
}

/* Types of calls that differ in one property are counted separately. */
TEST(kinds_apart)
{
    struct cshim_observed *observed = make_observed();
    struct cshim_kind kinds[7];
    for (size_t i = 0; i < 7; i++)
        kinds[i] = one_call(4096);
    kinds[1].bytes = 4100;
    kinds[2].dtype = CSHIM_DTYPE_OTHER;
    kinds[3].op = CSHIM_OP_OTHER;
    kinds[4].ranks = 8;
    kinds[5].nodes = 1;
    kinds[6].ranks_per_node = 1;
    for (size_t turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < 7; i++)
            cshim_observed_add(observed, &kinds[i]);
    assert_int_equal(observed->count, 7);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(observed->kinds[i].calls, 3);
        assert_int_equal(observed->kinds[i].bytes_total, 3 * 4096);
        assert_true(observed->kinds[i].seconds == 1.5);
        assert_true(observed->kinds[i].seconds_wait == 0.75);
    }
    free(observed);
}

static void sum_up(const struct cshim_observed *observed, struct cshim_kind *total)
{
    *total = observed->unlisted;
    for (size_t i = 0; i < observed->count; i++) {
        total->calls += observed->kinds[i].calls;
        total->bytes_total += observed->kinds[i].bytes_total;
        total->seconds += observed->kinds[i].seconds;
    }
}

/* Records every multiple of 4 up to 40000 bytes. The first sizes have their own entries, the rest
 * share classes. */
TEST(classes_beyond_the_bound)
{
    struct cshim_observed *observed = make_observed();
    struct cshim_kind total;
    uint64_t calls = 0, bytes = 0;
    for (uint64_t size = 4; size <= 40000; size += 4, calls++, bytes += size) {
        const struct cshim_kind kind = one_call(size);
        cshim_observed_add(observed, &kind);
    }
    bytes -= 4 * calls; /* the loop adds each size after incrementing it */
    sum_up(observed, &total);
    assert_int_equal(total.calls, calls);
    assert_int_equal(total.bytes_total, bytes);
    assert_int_equal(observed->unlisted.calls, 0);
    assert_int_equal(observed->count, CSHIM_KINDS_EXACT + 5); /* classes of 2 to 32 KiB */
    for (size_t i = CSHIM_KINDS_EXACT; i < observed->count; i++) {
        const struct cshim_kind *class = &observed->kinds[i];
        assert_true(class->is_class);
        assert_int_equal(class->bytes & (class->bytes - 1), 0);
        assert_in_range(class->bytes_total / class->calls, class->bytes, 2 * class->bytes - 1);
    }
    free(observed);
}

/* Communicators of 5000 sizes exceed even the classes. The rest is added up in `unlisted`. */
TEST(nothing_is_lost)
{
    struct cshim_observed *observed = make_observed();
    struct cshim_kind total;
    for (uint32_t ranks = 1; ranks <= 5000; ranks++) {
        struct cshim_kind kind = one_call(4096);
        kind.ranks = ranks;
        cshim_observed_add(observed, &kind);
    }
    assert_int_equal(observed->count, CSHIM_KINDS_MAX);
    assert_int_equal(observed->unlisted.calls, 5000 - CSHIM_KINDS_MAX);
    sum_up(observed, &total);
    assert_int_equal(total.calls, 5000);
    assert_int_equal(total.bytes_total, UINT64_C(5000) * 4096);
    assert_true(total.seconds == 2500);
    free(observed);
}

/* Types, classes and unlisted calls of two ranks are added to the same entries. */
TEST(merged)
{
    struct cshim_observed *one = make_observed(), *all = make_observed();
    struct cshim_kind kind = one_call(5000), class = one_call(4096), unlisted = {.calls = 7};
    class.is_class = 1;
    unlisted.bytes_total = 70;
    for (int ranks = 0; ranks < 2; ranks++) {
        cshim_observed_add(all, &kind);
        cshim_observed_add(all, &class);
        cshim_observed_add(all, &unlisted);
    }
    assert_int_equal(all->count, 2);
    assert_int_equal(all->kinds[0].calls, 2);
    assert_true(all->kinds[1].is_class);
    assert_int_equal(all->kinds[1].calls, 2);
    assert_int_equal(all->unlisted.calls, 14);
    assert_int_equal(all->unlisted.bytes_total, 140);
    free(one);
    free(all);
}

TEST(sorted)
{
    struct cshim_observed *observed = make_observed();
    static const uint64_t sizes[] = {64, 1 << 20, 4096, 1 << 22, 16};
    for (size_t i = 0; i < 5; i++)
        for (uint64_t calls = 0; calls < (sizes[i] == 64 ? 1000000 : 1); calls++) {
            const struct cshim_kind kind = one_call(sizes[i]);
            cshim_observed_add(observed, &kind);
        }
    cshim_observed_sort(observed);
    static const uint64_t want[] = {64, 1 << 22, 1 << 20, 4096, 16};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(observed->kinds[i].bytes, want[i]);
    /* A job may continue after a report. */
    const struct cshim_kind later = one_call(want[2]);
    cshim_observed_add(observed, &later);
    assert_int_equal(observed->count, 5);
    assert_int_equal(observed->kinds[2].calls, 2);
    free(observed);
}
