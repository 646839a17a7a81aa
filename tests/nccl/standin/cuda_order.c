/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: races. Vector clocks order the operations. Two operations race, whatever their timing, if
 * they access the same bytes, at least one of them writes these, and neither is ordered after the
 * other. An access is compared with up to KEPT earlier ones of the allocation. A wait of one host
 * thread counts for all threads of the host. STANDIN_RACES=0 disables the check. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/standin/cuda_internal.h"

/* Number of operations of each slot. If there are more streams than slots, streams share them, and
 * some races are not found. */
static uint64_t epochs[STANDIN_SLOTS];
static struct standin_clock host;

_Thread_local const struct standin_entry *standin_running;

void standin_order_merge(struct standin_clock *clock, const struct standin_clock *other)
{
    for (int slot = 0; slot < STANDIN_SLOTS; slot++)
        if (clock->at[slot] < other->at[slot])
            clock->at[slot] = other->at[slot];
}

void standin_order_next(CUstream stream, struct standin_entry *entry)
{
    entry->slot = (int)(stream->number % STANDIN_SLOTS);
    standin_order_merge(&stream->clock, &host);
    stream->clock.at[entry->slot] = ++epochs[entry->slot];
    entry->clock = stream->clock;
}

void standin_order_inside(struct standin_entry *entry, const struct standin_clock *clock, int slot)
{
    entry->slot = slot % STANDIN_SLOTS;
    entry->clock = *clock;
    entry->clock.at[entry->slot] = ++epochs[entry->slot];
}

void standin_order_log(const struct standin_entry *entry)
{
    static int file = -2;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char line[64 + 24 * STANDIN_SLOTS];
    pthread_mutex_lock(&lock);
    if (file == -2)
        file = standin_open_file("STANDIN_ORDER");
    if (file >= 0) {
        int length = sprintf(line, "{\"name\": \"%s\", \"slot\": %d, \"clock\": [", entry->op->name,
                             entry->slot);
        for (int slot = 0; slot < STANDIN_SLOTS; slot++)
            length += sprintf(line + length, "%s%llu", slot > 0 ? ", " : "",
                              (unsigned long long)entry->clock.at[slot]);
        length += sprintf(line + length, "]}\n");
        if (write(file, line, (size_t)length) != length)
            perror("STANDIN_ORDER");
    }
    pthread_mutex_unlock(&lock);
}

void standin_order_after(CUstream stream, const struct standin_clock *clock)
{
    standin_order_merge(&stream->clock, clock);
}

void standin_order_host(const struct standin_clock *clock)
{
    standin_order_merge(&host, clock);
}

/* Accesses of one allocation ------------------------------------------------------------------- */
struct access {
    size_t begin, end;
    bool write;
    int slot;
    uint64_t epoch;
    const char *name; /* name of the operation */
};

enum { KEPT = 64 };

struct standin_accesses {
    struct access kept[KEPT];
    int count, oldest;
};

static void keep(struct standin_accesses *accesses, struct access access)
{
    for (int i = 0; i < accesses->count; i++) {
        struct access *old = &accesses->kept[i];
        if (old->slot == access.slot && old->write == access.write && old->begin >= access.begin &&
            old->end <= access.end) {
            *old = access; /* accesses that come after this one also come after the older one */
            return;
        }
    }
    if (accesses->count < KEPT) {
        accesses->kept[accesses->count++] = access;
    } else {
        accesses->kept[accesses->oldest] = access;
        accesses->oldest = (accesses->oldest + 1) % KEPT;
    }
}

bool standin_order_access(struct standin_accesses **accesses, size_t begin, size_t end, bool write)
{
    const struct standin_entry *running = standin_running;
    if (running == NULL || standin_setting("STANDIN_RACES", 1) == 0)
        return true;
    if (*accesses == NULL && (*accesses = calloc(1, sizeof **accesses)) == NULL)
        abort();
    for (int i = 0; i < (*accesses)->count; i++) {
        const struct access *old = &(*accesses)->kept[i];
        if (old->end <= begin || end <= old->begin || !(write || old->write) ||
            running->clock.at[old->slot] >= old->epoch)
            continue;
        fprintf(stderr,
                "standin libcuda: %s %s bytes %zu to %zu of an allocation, and is not ordered with "
                "%s on another stream, which %s bytes %zu to %zu\n",
                running->op->name, write ? "writes" : "reads", begin, end, old->name,
                old->write ? "writes" : "reads", old->begin, old->end);
        return false;
    }
    keep(*accesses, (struct access){begin, end, write, running->slot,
                                    running->clock.at[running->slot], running->op->name});
    return true;
}
