/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a node read each other's scratch, so that what one has encoded reaches the others
 * without a copy. Each rank has its scratch in a file without a name, which the others open in
 * /proc. If any of them cannot (between users or containers a kernel may forbid it), no rank of the
 * node reads there, and messages bring all elements. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/core/log.h"
#include "shim/mpi/communicator.h"

/* What a rank tells the others of its node. */
struct offer {
    int world_rank;
    int process;
    int file; /* -1: it has none */
    struct stat is;
};

/* Maps another rank's scratch. Returns NULL if that cannot be done, or if its process's number is
 * that of another process here, whose file differs. */
static const uint8_t *map(const struct offer *offer)
{
    char path[64];
    struct stat is;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", offer->process, offer->file);
    if (offer->file < 0 || stat(path, &is) != 0 || is.st_dev != offer->is.st_dev ||
        is.st_ino != offer->is.st_ino || is.st_size != offer->is.st_size)
        return NULL;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const void *memory = mmap(NULL, CSHIM_SCRATCH_SHARED, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Whether the policy compresses a collective whose ranks read each other's scratch. */
static bool compresses_sums(void)
{
    static const enum cshim_collective sums[] = {CSHIM_ALLREDUCE, CSHIM_REDUCE,
                                                 CSHIM_REDUCE_SCATTER};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (cshim_policy_smallest(cshim_job.policy, sums[i]) != UINT64_MAX)
            return true;
    return false;
}

void cshim_share_setup(MPI_Comm node)
{
    const int ranks = cshim_mpi.layout.local_ranks;
    int able = 1, all = 0;
    if (ranks == 1 || !compresses_sums())
        return;
    struct offer own = {.world_rank = cshim_job.rank, .process = getpid()};
    struct offer *offers = calloc((size_t)ranks, sizeof *offers);
    const uint8_t **scratch_of = calloc((size_t)cshim_job.ranks, sizeof *scratch_of);
    if (offers == NULL || scratch_of == NULL)
        cshim_mpi_end_job("no memory for the ranks of a node");
    own.file = cshim_scratch_share(&own.is);
    cshim_mpi.real->MPI_Allgather(&own, (int)sizeof own, MPI_BYTE, offers, (int)sizeof own,
                                  MPI_BYTE, node);
    for (int i = 0; i < ranks && able; i++) {
        const int rank = offers[i].world_rank;
        if (rank != cshim_job.rank)
            able = (scratch_of[rank] = map(&offers[i])) != NULL;
    }
    cshim_mpi.real->MPI_Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, node);
    if (own.file >= 0)
        close(own.file);
    free(offers);
    cshim_mpi.scratch_of = scratch_of;
    if (all)
        return;
    if (cshim_mpi.layout.local_rank == 0)
        cshim_log(CSHIM_LOG_INFO,
                  "the ranks of this node send each other messages: not all of them "
                  "may read the others' memory");
    cshim_share_teardown();
}

void cshim_share_teardown(void)
{
    const uint8_t **scratch_of = cshim_mpi.scratch_of;
    for (int rank = 0; rank < cshim_job.ranks && scratch_of != NULL; rank++)
        if (scratch_of[rank] != NULL)
            munmap((void *)scratch_of[rank], CSHIM_SCRATCH_SHARED);
    free((void *)scratch_of);
    cshim_mpi.scratch_of = NULL;
    cshim_scratch_unshare();
}
