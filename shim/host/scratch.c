/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/communicator.h"

#include <pthread.h>
#include <sys/mman.h>

#include "shim/core/log.h"

/* A piece that nobody has. Its first bytes say which is the next; the last one given is taken
 * first, since its pages are there. */
struct piece {
    struct piece *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct piece *pieces;

void *cshim_scratch_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

bool cshim_scratch_reserve(void)
{
    static bool reserved; /* atomic */
    if (__atomic_load_n(&reserved, __ATOMIC_ACQUIRE))
        return true;
    uint8_t *piece = cshim_scratch_map(CSHIM_SCRATCH_LIMIT);
    cshim_scratch_give(piece);
    __atomic_store_n(&reserved, piece != NULL, __ATOMIC_RELEASE);
    return piece != NULL;
}

uint8_t *cshim_scratch_take(void)
{
    pthread_mutex_lock(&lock);
    struct piece *piece = pieces;
    if (piece != NULL)
        pieces = piece->next;
    pthread_mutex_unlock(&lock);
    if (piece == NULL)
        piece = cshim_scratch_map(CSHIM_SCRATCH_LIMIT);
    if (piece == NULL)
        cshim_log(CSHIM_LOG_ERROR, "no memory for the scratch of another call under way");
    return (uint8_t *)piece;
}

void cshim_scratch_give(uint8_t *scratch)
{
    struct piece *piece = (struct piece *)(void *)scratch;
    if (piece == NULL)
        return;
    pthread_mutex_lock(&lock);
    piece->next = pieces;
    pieces = piece;
    pthread_mutex_unlock(&lock);
}
