/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/communicator.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/core/log.h"

/* A piece that nobody has. Its first bytes say which is the next. The shared one is taken first,
 * then the last one given, since its pages are there. */
struct piece {
    struct piece *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct piece *pieces;
static uint8_t *shared; /* the piece that other processes may read, or NULL */

void *cshim_scratch_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static bool reserved; /* the first piece has been made; atomic */

bool cshim_scratch_reserve(void)
{
    if (__atomic_load_n(&reserved, __ATOMIC_ACQUIRE))
        return true;
    uint8_t *piece = cshim_scratch_map(CSHIM_SCRATCH_LIMIT);
    cshim_scratch_give(piece);
    __atomic_store_n(&reserved, piece != NULL, __ATOMIC_RELEASE);
    return piece != NULL;
}

/* A file above the process's limit would end it with a signal. */
int cshim_scratch_share(struct stat *is)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < CSHIM_SCRATCH_SHARED)
        return -1;
    void *memory = MAP_FAILED;
    const int file = memfd_create("compshim", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, CSHIM_SCRATCH_SHARED) == 0 && fstat(file, is) == 0)
        memory = mmap(NULL, CSHIM_SCRATCH_SHARED, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory != MAP_FAILED) {
        shared = memory;
        reserved = true;
        cshim_scratch_give(shared);
        return file;
    }
    if (file >= 0)
        close(file);
    return -1;
}

void cshim_scratch_unshare(void)
{
    shared = NULL;
}

bool cshim_scratch_is_shared(const uint8_t *scratch)
{
    return shared != NULL && scratch == shared;
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
    struct piece **link = &pieces;
    if (*link != NULL && cshim_scratch_is_shared((uint8_t *)*link))
        link = &(*link)->next;
    piece->next = *link;
    *link = piece;
    pthread_mutex_unlock(&lock);
}

void cshim_scratch_abandon(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
