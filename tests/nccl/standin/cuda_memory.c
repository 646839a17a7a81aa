/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: memory. Device addresses lie in a range without access rights, so that the host crashes
 * when it accesses them. The streams' threads access the same bytes SPAN_BYTES further on, after a
 * check of bounds, device, lifetime and order. New device memory is filled with bytes 0xff, which
 * are NaNs in floats. Device addresses are reused as late as possible. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/nccl/standin/cuda_internal.h"

#define SPAN_BYTES ((size_t)1 << 36)
enum { ALIGNMENT = 512, GUARD = 4096, POISON = 0xff };

enum state { PENDING, LIVE, FREED_BY_HOST, GONE };
static const char *const state_names[] = {"not yet allocated in stream order", "live", "live",
                                          "freed"};

struct allocation {
    uintptr_t base;
    size_t bytes;
    enum standin_memory_type kind;
    enum state state;
    CUcontext context;
    const void *pool;
    struct standin_accesses *accesses; /* NULL before the first access */
};

/* Allocations, sorted by address. */
static struct allocation *table;
static size_t table_count, table_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *span; /* device addresses, followed by the accessible bytes */
static size_t cursor;
static size_t used[16]; /* bytes allocated or reserved on each device */

static size_t footprint(size_t bytes)
{
    return (bytes + 2 * GUARD - 1) / GUARD * GUARD;
}

/* Returns the index of the first allocation that ends after the address. */
static size_t find_allocation(uintptr_t address)
{
    size_t low = 0, high = table_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (table[middle].base + table[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(struct allocation allocation)
{
    if (table_count == table_room) {
        table_room = table_room == 0 ? 256 : 2 * table_room;
        table = realloc(table, table_room * sizeof *table);
        if (table == NULL)
            abort();
    }
    const size_t at = find_allocation(allocation.base);
    memmove(table + at + 1, table + at, (table_count - at) * sizeof *table);
    table[at] = allocation;
    table_count++;
}

static void forget(size_t at)
{
    free(table[at].accesses);
    table_count--;
    memmove(table + at, table + at + 1, (table_count - at) * sizeof *table);
}

static bool map_span(void)
{
    if (span != NULL)
        return true;
    void *both =
        mmap(NULL, 2 * SPAN_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (both == MAP_FAILED ||
        mprotect((uint8_t *)both + SPAN_BYTES, SPAN_BYTES, PROT_READ | PROT_WRITE) != 0) {
        perror("standin libcuda: address space for device memory");
        return false;
    }
    span = both;
    return true;
}

/* Returns the next free range of addresses, cyclically, or 0 if there is none. Forgets freed
 * allocations there. */
static uintptr_t next_range(size_t size)
{
    for (int rounds = 0; rounds < 2;) {
        if (cursor + size > SPAN_BYTES) {
            cursor = 0;
            rounds++;
        }
        const uintptr_t base = (uintptr_t)span + cursor;
        size_t at = find_allocation(base);
        while (at < table_count && table[at].base < base + size && table[at].state == GONE)
            forget(at);
        if (at == table_count || table[at].base >= base + size) {
            cursor += size;
            return base;
        }
        cursor = (table[at].base - (uintptr_t)span) + footprint(table[at].bytes);
    }
    return 0;
}

CUdeviceptr standin_memory_new(enum standin_memory_type kind, CUcontext context, size_t bytes,
                               bool live, const void *pool)
{
    const size_t limit = (size_t)standin_setting("STANDIN_MEMORY", 8192) << 20;
    uintptr_t base = 0;
    pthread_mutex_lock(&lock);
    if (kind == STANDIN_HOST_MEMORY) {
        void *memory = NULL;
        base = posix_memalign(&memory, GUARD, footprint(bytes)) == 0 ? (uintptr_t)memory : 0;
        for (size_t at = find_allocation(base);
             base != 0 && at < table_count && table[at].base < base + bytes;)
            forget(at); /* a freed range that the C library has reused */
    } else if (bytes <= limit && used[context->device] <= limit - bytes && map_span()) {
        base = next_range(footprint(bytes));
        used[context->device] += base != 0 ? bytes : 0;
        if (base != 0)
            memset((uint8_t *)base + SPAN_BYTES, POISON, bytes);
    }
    if (base != 0)
        insert((struct allocation){base, bytes, kind, live ? LIVE : PENDING, context, pool, NULL});
    pthread_mutex_unlock(&lock);
    return base;
}

static struct allocation *exactly(CUdeviceptr pointer)
{
    const size_t at = find_allocation((uintptr_t)pointer);
    return at < table_count && table[at].base == (uintptr_t)pointer ? &table[at] : NULL;
}

bool standin_reserve(CUcontext context, int64_t bytes)
{
    const size_t limit = (size_t)standin_setting("STANDIN_MEMORY", 8192) << 20;
    pthread_mutex_lock(&lock);
    const bool fits = bytes <= 0 || (size_t)bytes <= limit - used[context->device];
    if (fits)
        used[context->device] += (size_t)bytes;
    pthread_mutex_unlock(&lock);
    return fits;
}

STANDIN_EXPORT CUresult cuMemGetInfo_v2(size_t *left, size_t *total)
{
    STANDIN_ENTER();
    CUcontext context;
    STANDIN_CHECK(standin_current_state(&context));
    *total = (size_t)standin_setting("STANDIN_MEMORY", 8192) << 20;
    pthread_mutex_lock(&lock);
    *left = *total - used[context->device];
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

void standin_memory_begin(CUdeviceptr pointer)
{
    pthread_mutex_lock(&lock);
    struct allocation *allocation = exactly(pointer);
    if (allocation != NULL && allocation->state == PENDING) {
        allocation->state = LIVE;
        standin_order_access(&allocation->accesses, 0, allocation->bytes, true);
    }
    pthread_mutex_unlock(&lock);
}

bool standin_memory_mark_freed(CUdeviceptr pointer)
{
    pthread_mutex_lock(&lock);
    struct allocation *allocation = exactly(pointer);
    const bool good = allocation != NULL && allocation->kind != STANDIN_HOST_MEMORY &&
                      (allocation->state == LIVE || allocation->state == PENDING);
    if (good && allocation->state == LIVE)
        allocation->state = FREED_BY_HOST;
    pthread_mutex_unlock(&lock);
    return good;
}

bool standin_memory_end(CUdeviceptr pointer, enum standin_memory_type kind)
{
    pthread_mutex_lock(&lock);
    struct allocation *allocation = exactly(pointer);
    bool good = allocation != NULL && allocation->state != GONE &&
                (allocation->kind == STANDIN_HOST_MEMORY) == (kind == STANDIN_HOST_MEMORY);
    if (good && kind == STANDIN_HOST_MEMORY) {
        free((void *)allocation->base);
        forget((size_t)(allocation - table));
    } else if (good) {
        good = standin_order_access(&allocation->accesses, 0, allocation->bytes, true);
        used[allocation->context->device] -= allocation->bytes;
        allocation->state = GONE;
        madvise((uint8_t *)allocation->base + SPAN_BYTES, footprint(allocation->bytes),
                MADV_DONTNEED);
    }
    pthread_mutex_unlock(&lock);
    return good;
}

/* Returns why an access is refused, or NULL. */
static const char *refusal(const struct allocation *allocation, int device, uintptr_t address,
                           size_t bytes)
{
    if (address < allocation->base || address + bytes > allocation->base + allocation->bytes)
        return "out of bounds";
    if (allocation->state == PENDING || allocation->state == GONE)
        return state_names[allocation->state];
    return allocation->kind != STANDIN_HOST_MEMORY && allocation->context->device != device
               ? "of another device"
               : NULL;
}

void *standin_memory(int device, const void *pointer, size_t bytes, bool write, const char *who)
{
    const uintptr_t address = (uintptr_t)pointer;
    void *seen = NULL;
    pthread_mutex_lock(&lock);
    const size_t at = find_allocation(address);
    const bool near = at < table_count && table[at].base < address + bytes;
    const char *why = near ? refusal(&table[at], device, address, bytes) : "no device memory";
    if (why == NULL && table[at].kind != STANDIN_HOST_MEMORY &&
        !standin_order_access(&table[at].accesses, address - table[at].base,
                              address - table[at].base + bytes, write))
        why = "in no order";
    if (why == NULL)
        seen = (uint8_t *)address + (table[at].kind == STANDIN_HOST_MEMORY ? 0 : SPAN_BYTES);
    else
        fprintf(stderr, "standin libcuda: %s on device %d %s %zu bytes at %p: %s\n", who, device,
                write ? "writes" : "reads", bytes, pointer, why);
    pthread_mutex_unlock(&lock);
    return seen;
}

static struct allocation *holding(uintptr_t address)
{
    const size_t at = find_allocation(address);
    return at < table_count && table[at].base <= address && table[at].state != GONE ? &table[at]
                                                                                    : NULL;
}

bool standin_is_memory(const void *pointer)
{
    pthread_mutex_lock(&lock);
    const bool is = holding((uintptr_t)pointer) != NULL;
    pthread_mutex_unlock(&lock);
    return is;
}

bool standin_memory_is_host(const void *pointer)
{
    pthread_mutex_lock(&lock);
    const struct allocation *allocation = holding((uintptr_t)pointer);
    const bool host = allocation == NULL || allocation->kind == STANDIN_HOST_MEMORY;
    pthread_mutex_unlock(&lock);
    return host;
}

bool standin_is_device_address(const void *pointer)
{
    const uint8_t *address = pointer;
    return span != NULL && address >= span && address < span + SPAN_BYTES;
}

STANDIN_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                              CUdeviceptr pointer)
{
    STANDIN_ENTER();
    pthread_mutex_lock(&lock);
    const struct allocation *found = holding((uintptr_t)pointer);
    struct allocation allocation = {0};
    if (found != NULL)
        allocation = *found;
    pthread_mutex_unlock(&lock);
    if (found == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data =
            allocation.kind == STANDIN_HOST_MEMORY ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = allocation.context->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = allocation.kind == STANDIN_POOL_MEMORY ? NULL : allocation.context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(int *)data = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
