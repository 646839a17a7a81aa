/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's cache: both formats, entries for particular processors, and damage. */

#include "tools/elf/elf.h"
#include "tests/unit/unit.h"

#define HEADER 48
#define ENTRY 24
#define ENTRIES 4
#define STRINGS (HEADER + ENTRIES * ENTRY)

static const char strings[] = "libmpi.so.12\0/fast/libmpi.so.12\0/lib/libmpi.so.12\0"
                              "/lib32/libmpi.so.12\0libz.so.1\0/lib/libz.so.1";

/* Offsets in strings. */
enum { MPI = 0, FAST = 13, PLAIN = 32, OTHER = 50, ZLIB = 70, ZLIB_PATH = 80 };

static void put_entry(char *bytes, size_t index, uint32_t name, uint32_t path,
                      uint64_t capabilities)
{
    char *entry = bytes + HEADER + index * ENTRY;
    name += STRINGS;
    path += STRINGS;
    memcpy(entry + 4, &name, sizeof name);
    memcpy(entry + 8, &path, sizeof path);
    memcpy(entry + 16, &capabilities, sizeof capabilities);
}

/* A cache of four entries; returns its size. */
static size_t make_cache(char *bytes)
{
    static const char magic[] = "glibc-ld.so.cache1.1";
    uint32_t count = ENTRIES;
    memset(bytes, 0, STRINGS);
    memcpy(bytes, magic, sizeof magic);
    memcpy(bytes + 20, &count, sizeof count);
    put_entry(bytes, 0, MPI, FAST, UINT64_C(1) << 62 | 2);
    put_entry(bytes, 1, MPI, PLAIN, 0);
    put_entry(bytes, 2, MPI, OTHER, 0);
    put_entry(bytes, 3, ZLIB, ZLIB_PATH, 0);
    memcpy(bytes + STRINGS, strings, sizeof strings);
    return STRINGS + sizeof strings;
}

static void expect_paths(const struct library_cache *cache)
{
    size_t position = 0;
    assert_string_equal(library_cache_next(cache, "libmpi.so.12", &position), "/lib/libmpi.so.12");
    assert_string_equal(library_cache_next(cache, "libmpi.so.12", &position),
                        "/lib32/libmpi.so.12");
    assert_null(library_cache_next(cache, "libmpi.so.12", &position));
    position = 0;
    assert_string_equal(library_cache_next(cache, "libz.so.1", &position), "/lib/libz.so.1");
    position = 0;
    assert_null(library_cache_next(cache, "libmpi.so", &position));
}

TEST(test_cache)
{
    char bytes[1024];
    struct library_cache cache;
    assert_true(library_cache_open(&cache, bytes, make_cache(bytes)));
    expect_paths(&cache);
}

/* The older kind in front: 16 bytes, then 12 for each of 3 entries, padded to a multiple of 8. */
TEST(test_cache_behind_older_one)
{
    char bytes[1024] = "ld.so-1.7.0";
    uint32_t count = 3;
    struct library_cache cache;
    memcpy(bytes + 12, &count, sizeof count);
    assert_true(library_cache_open(&cache, bytes, 56 + make_cache(bytes + 56)));
    expect_paths(&cache);
    count = UINT32_MAX;
    memcpy(bytes + 12, &count, sizeof count);
    assert_false(library_cache_open(&cache, bytes, sizeof bytes));
}

TEST(test_other_files)
{
    char bytes[1024];
    struct library_cache cache;
    size_t position = 0;
    make_cache(bytes);
    bytes[19] = '2';
    assert_false(library_cache_open(&cache, bytes, sizeof bytes));
    assert_null(library_cache_next(&cache, "libz.so.1", &position));
    assert_false(library_cache_open(&cache, bytes, 0));
}

/* Wherever it is cut off, what is found lies inside. The copy ends where the allocation does, so
 * that a checker of memory sees a step beyond. */
TEST(test_cut_off)
{
    char whole[1024];
    size_t size = make_cache(whole);
    for (size_t length = 0; length < size; length++) {
        char *bytes = test_malloc(length + 1);
        memcpy(bytes, whole, length);
        struct library_cache cache;
        size_t position = 0;
        assert_int_equal(library_cache_open(&cache, bytes, length), length >= HEADER);
        const char *path = library_cache_next(&cache, "libmpi.so.12", &position);
        assert_true(path == NULL || path + strlen(path) < bytes + length);
        assert_int_equal(path != NULL, length >= STRINGS + OTHER);
        test_free(bytes);
    }
}
