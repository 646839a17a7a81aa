/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the cache that ldconfig writes: a header, entries, and the strings that these point to. The
 * layout is that of glibc's sysdeps/generic/dl-cache.h; numbers are in the machine's byte order. */
#include <stdint.h>
#include <string.h>

#include "tools/elf/elf.h"

#define CACHE_MAGIC "glibc-ld.so.cache1.1"

/* Up to glibc 2.31 ldconfig put a cache of an older kind before it: a header, and 12 bytes for each
 * entry. */
#define OLD_MAGIC "ld.so-1.7.0"
#define OLD_HEADER 16
#define OLD_ENTRY 12

struct cache_header {
    char magic[sizeof CACHE_MAGIC - 1];
    uint32_t count;
    uint32_t strings_size;
    uint8_t flags[4];
    uint32_t extension;
    uint32_t unused[3];
};

/* Offsets of strings begin at the header. */
struct cache_entry {
    int32_t flags;
    uint32_t name;
    uint32_t path;
    uint32_t system_version;
    uint64_t capabilities; /* 0: for every processor */
};

/* Where the header begins: at 0, or behind an older cache. */
static size_t find_header(const char *bytes, size_t size)
{
    uint32_t count = 0;
    if (size < OLD_HEADER || memcmp(bytes, OLD_MAGIC, sizeof OLD_MAGIC) != 0)
        return 0;
    memcpy(&count, bytes + OLD_HEADER - sizeof count, sizeof count);
    uint64_t end = OLD_HEADER + (uint64_t)OLD_ENTRY * count;
    uint64_t aligned = (end + 7) / 8 * 8;
    return aligned < size ? aligned : 0;
}

bool library_cache_open(struct library_cache *cache, const char *bytes, size_t size)
{
    struct cache_header header;
    size_t begin = find_header(bytes, size);
    *cache = (struct library_cache){0};
    if (size - begin < sizeof header)
        return false;
    memcpy(&header, bytes + begin, sizeof header);
    if (memcmp(header.magic, CACHE_MAGIC, sizeof header.magic) != 0)
        return false;
    size_t room = (size - begin - sizeof header) / sizeof(struct cache_entry);
    *cache = (struct library_cache){bytes + begin, size - begin,
                                    header.count < room ? header.count : room};
    return true;
}

const char *library_cache_next(const struct library_cache *cache, const char *name,
                               size_t *position)
{
    while (*position < cache->count) {
        struct cache_entry entry;
        memcpy(&entry, cache->bytes + sizeof(struct cache_header) + (*position)++ * sizeof entry,
               sizeof entry);
        const char *entry_name = object_string(cache->bytes, cache->size, entry.name);
        const char *path = object_string(cache->bytes, cache->size, entry.path);
        if (entry.capabilities == 0 && entry_name != NULL && path != NULL &&
            strcmp(entry_name, name) == 0)
            return path;
    }
    return NULL;
}
