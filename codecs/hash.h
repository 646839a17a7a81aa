/* SPDX-License-Identifier: Apache-2.0 */
/* The 64-bit hash FNV-1a, by Fowler, Noll and Vo. Detects accidental differences of data; an
 * adversary can make equal hashes. Thread-safe. */
#ifndef CSHIM_HASH_H
#define CSHIM_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hash of no bytes. */
#define CSHIM_HASH_EMPTY UINT64_C(0xcbf29ce484222325)

/* Returns `hash`, extended by one byte. Some callers pass whole words instead, which is faster, but
 * gives other values than FNV-1a. */
static inline uint64_t cshim_hash_step(uint64_t hash, uint64_t byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

/* Returns `hash`, extended by `length` bytes at `data`. */
static inline uint64_t cshim_hash_bytes(uint64_t hash, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++)
        hash = cshim_hash_step(hash, bytes[i]);
    return hash;
}

#endif
