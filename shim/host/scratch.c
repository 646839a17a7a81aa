/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/scratch.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "shim/core/log.h"

/* A free block; its first bytes link to the next. The shared block is first in the list, then the
 * one released last, because its pages are mapped. */
struct block {
    struct block *next;
};

/* Offset of the shared block's token, which intra-node operations overwrite later. */
#define TOKEN CSHIM_SCRATCH_LIMIT

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct block *unused_blocks;
static uint8_t *shared; /* block that other processes may read, or NULL */
static bool reserved;   /* the first block exists; atomic */

void *cshim_scratch_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

bool cshim_scratch_reserve(void)
{
    if (__atomic_load_n(&reserved, __ATOMIC_ACQUIRE))
        return true;
    uint8_t *block = cshim_scratch_map(CSHIM_SCRATCH_LIMIT);
    cshim_scratch_release(block);
    __atomic_store_n(&reserved, block != NULL, __ATOMIC_RELEASE);
    return block != NULL;
}

/* Marks the segment for removal at once: Linux keeps it until the last attached process ends,
 * however that happens, and lets others attach it until then. */
int cshim_scratch_share(uint64_t token)
{
    const int segment = shmget(IPC_PRIVATE, CSHIM_SCRATCH_SHARED, 0600 | SHM_NORESERVE);
    if (segment < 0)
        return -1;
    uint8_t *memory = shmat(segment, NULL, 0);
    shmctl(segment, IPC_RMID, NULL);
    if ((intptr_t)memory == -1)
        return -1;
    memcpy(memory + TOKEN, &token, sizeof token);
    shared = memory;
    reserved = true;
    cshim_scratch_release(shared);
    return segment;
}

const uint8_t *cshim_scratch_attach(int segment, uint64_t token)
{
    struct shmid_ds is;
    if (segment < 0 || shmctl(segment, IPC_STAT, &is) != 0 || is.shm_segsz != CSHIM_SCRATCH_SHARED)
        return NULL;
    const uint8_t *memory = shmat(segment, NULL, SHM_RDONLY);
    if ((intptr_t)memory == -1)
        return NULL;
    if (memcmp(memory + TOKEN, &token, sizeof token) == 0)
        return memory;
    shmdt(memory);
    return NULL;
}

void cshim_scratch_unshare(void)
{
    shared = NULL;
}

bool cshim_scratch_is_shared(const uint8_t *scratch)
{
    return shared != NULL && scratch == shared;
}

uint8_t *cshim_scratch_acquire(void)
{
    pthread_mutex_lock(&lock);
    struct block *block = unused_blocks;
    if (block != NULL)
        unused_blocks = block->next;
    pthread_mutex_unlock(&lock);
    if (block == NULL)
        block = cshim_scratch_map(CSHIM_SCRATCH_LIMIT);
    if (block == NULL)
        cshim_log(CSHIM_LOG_ERROR, "no memory for the scratch of another call under way");
    return (uint8_t *)block;
}

void cshim_scratch_release(uint8_t *scratch)
{
    struct block *block = (struct block *)(void *)scratch;
    if (block == NULL)
        return;
    pthread_mutex_lock(&lock);
    struct block **link = &unused_blocks;
    if (*link != NULL && cshim_scratch_is_shared((uint8_t *)*link))
        link = &(*link)->next;
    block->next = *link;
    *link = block;
    pthread_mutex_unlock(&lock);
}

void cshim_scratch_abandon(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
