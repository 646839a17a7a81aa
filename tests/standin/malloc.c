/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the allocator: counts the calls of malloc, calloc and realloc, and passes them to
 * the C library. */
#include <stddef.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

__attribute__((visibility("default"))) unsigned long standin_allocations;

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    __atomic_fetch_add(&standin_allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    __atomic_fetch_add(&standin_allocations, 1, __ATOMIC_RELAXED);
    return __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t bytes)
{
    __atomic_fetch_add(&standin_allocations, 1, __ATOMIC_RELAXED);
    return __libc_realloc(memory, bytes);
}
