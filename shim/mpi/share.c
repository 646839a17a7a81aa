/* SPDX-License-Identifier: Apache-2.0 */
/* If the policy compresses reductions, each rank of a node with several ranks allocates its first
 * block of scratch in a System V shared memory segment, and attaches the segments of the node's
 * other ranks. If a rank fails to make its segment or to attach one (other users, containers with
 * separate IPC namespaces), all ranks of the node use messages instead. */
#include "shim/mpi/share.h"

#include <stdlib.h>
#include <sys/random.h>
#include <sys/shm.h>

#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/host/scratch.h"

/* Message from a rank to the others of its node. */
struct offer {
    int world_rank;
    int segment; /* shared memory id; -1: none */
    uint64_t token;
};

/* Returns a random token that identifies this process's segment. */
static uint64_t draw_token(void)
{
    uint64_t token = 0;
    if (getrandom(&token, sizeof token, GRND_NONBLOCK) == sizeof token)
        return token;
    return (uint64_t)(cshim_seconds() * 1e9) ^ ((uint64_t)(uintptr_t)&token << 20);
}

/* Returns true if the policy compresses reductions: only their ranks read each other's scratch. */
static bool compresses_sums(void)
{
    static const enum cshim_collective sums[] = {CSHIM_ALLREDUCE, CSHIM_REDUCE,
                                                 CSHIM_REDUCE_SCATTER};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (cshim_policy_compresses(cshim_job.policy, CSHIM_MPI, sums[i], UINT64_MAX))
            return true;
    return false;
}

void cshim_share_setup(MPI_Comm node)
{
    const int ranks = cshim_mpi.world.layout.local_ranks;
    int able = 1, all = 0;
    if (ranks == 1 || !compresses_sums())
        return;
    struct offer own = {.world_rank = cshim_job.rank, .token = draw_token()};
    struct offer *offers = calloc((size_t)ranks, sizeof *offers);
    const uint8_t **scratch_of = calloc((size_t)cshim_job.ranks, sizeof *scratch_of);
    if (offers == NULL || scratch_of == NULL)
        cshim_mpi_end_job("no memory for the ranks of a node");
    own.segment = cshim_scratch_share(own.token);
    cshim_mpi.real->MPI_Allgather(&own, (int)sizeof own, MPI_BYTE, offers, (int)sizeof own,
                                  MPI_BYTE, node);
    for (int i = 0; i < ranks && able; i++) {
        const int rank = offers[i].world_rank;
        if (rank != cshim_job.rank)
            able = (scratch_of[rank] = cshim_scratch_attach(offers[i].segment, offers[i].token)) !=
                   NULL;
    }
    cshim_mpi.real->MPI_Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, node);
    free(offers);
    cshim_mpi.world.scratch_of = scratch_of;
    if (all)
        return;
    if (cshim_mpi.world.layout.local_rank == 0)
        cshim_log(CSHIM_LOG_INFO,
                  "the ranks of this node exchange messages instead of sharing memory: not all of "
                  "them may attach the others' segments");
    cshim_share_teardown();
}

void cshim_share_teardown(void)
{
    const uint8_t **scratch_of = cshim_mpi.world.scratch_of;
    for (int rank = 0; rank < cshim_job.ranks && scratch_of != NULL; rank++)
        if (scratch_of[rank] != NULL)
            shmdt(scratch_of[rank]);
    free((void *)scratch_of);
    cshim_mpi.world.scratch_of = NULL;
    cshim_scratch_unshare();
}
