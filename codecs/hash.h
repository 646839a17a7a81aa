/* SPDX-License-Identifier: Apache-2.0 */
/* The hash FNV-1a with 64 bits, by Fowler, Noll and Vo. For telling data apart, not
 * against an adversary. Pure, thread-safe. */
#ifndef CSHIM_HASH_H
#define CSHIM_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The hash of no bytes. */
#define CSHIM_HASH_EMPTY UINT64_C(0xcbf29ce484222325)

/* One step: the hash of what `hash` stands for and one byte more. Some callers take whole words
 * instead of bytes, which is faster and not FNV's own value. */
static inline uint64_t cshim_hash_step(uint64_t hash, uint64_t byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

/* The hash of what `hash` stands for, followed by length bytes at data. */
static inline uint64_t cshim_hash_bytes(uint64_t hash, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++)
        hash = cshim_hash_step(hash, bytes[i]);
    return hash;
}

#endif
