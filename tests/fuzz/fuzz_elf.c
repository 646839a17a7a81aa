/* SPDX-License-Identifier: Apache-2.0 */
/* Reads arbitrary bytes as an ELF file with the reader of compshim check. Everything it returns
 * must lie within the bytes, and the bytes must not change. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/elf/elf.h"

/* The bytes of the file. */
static const char *begin;
static size_t length;

/* Checks that a string ends within the bytes. NULL is allowed. */
static void check_string(const char *text)
{
    if (text == NULL)
        return;
    FUZZ_CHECK(text >= begin && text < begin + length);
    FUZZ_CHECK(memchr(text, '\0', (size_t)(begin + length - text)) != NULL);
}

static void check_symbols(const struct object *object, enum object_table_kind kind)
{
    struct object_symbol symbol;
    size_t position = 0;
    size_t before = 0;
    while (object_next_symbol(object, kind, &position, &symbol)) {
        /* An entry has 16 bytes in 32-bit files, more in 64-bit ones. */
        FUZZ_CHECK(position > before && position <= length / 16);
        before = position;
        check_string(symbol.name);
        FUZZ_CHECK(kind == OBJECT_DYNAMIC || (!symbol.relocated && !symbol.copied));
    }
    FUZZ_CHECK(!object_next_symbol(object, kind, &position, &symbol));
}

static void check_needed(const struct object *object)
{
    size_t position = 0;
    size_t before = 0;
    const char *name = NULL;
    while ((name = object_next_needed(object, &position)) != NULL) {
        FUZZ_CHECK(position > before && position <= length / 8);
        before = position;
        check_string(name);
        FUZZ_CHECK(*name != '\0');
    }
}

static void check_object(char *bytes)
{
    struct object object;
    object_open_memory(&object, bytes, length);
    FUZZ_CHECK(object_is_elf(&object) || object.damage != NULL);
    if (object.damage == NULL) {
        check_string(object.interpreter);
        check_string(object.soname);
        check_string(object.rpath);
        check_string(object.runpath);
        FUZZ_CHECK(object.rpath == NULL || object.runpath == NULL);
        check_symbols(&object, OBJECT_DYNAMIC);
        check_symbols(&object, OBJECT_STATIC);
        check_needed(&object);
        FUZZ_CHECK(!object_contains(&object, "libmpi.so") ||
                   memmem(begin, length, "libmpi.so", strlen("libmpi.so")) != NULL);
    }
    object_close(&object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = fuzz_allocate(size, 0, 0);
    if (size > 0)
        memcpy(bytes, data, size);
    begin = bytes;
    length = size;
    check_object(bytes);
    FUZZ_CHECK(size == 0 || memcmp(bytes, data, size) == 0);
    fuzz_free(bytes, 0);
    return 0;
}
