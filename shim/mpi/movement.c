/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/movement.h"

#include "shim/host/writable.h"
#include "shim/mpi/nonblocking.h"

bool cshim_movement_is_contiguous(const struct cshim_arguments *arguments, const void *counts,
                                  const void *displacements, int ranks, uint64_t *largest,
                                  uint64_t *all)
{
    bool contiguous = true;
    int64_t total = 0;
    for (int i = 0; i < ranks; i++) {
        const int64_t count = cshim_count_at(arguments, counts, i);
        const int64_t begin = arguments->large ? ((const MPI_Aint *)displacements)[i]
                                               : ((const int *)displacements)[i];
        contiguous &= count == 0 || (count > 0 && begin == total);
        total += count;
        if (count > (int64_t)*largest)
            *largest = (uint64_t)count;
    }
    *all = (uint64_t)total;
    return contiguous;
}

/* Returns true if this rank is the root of a broadcast with a lossy codec, and is not known to be
 * allowed to write its buffer: the root would have to store the rounded elements that all others
 * get. */
static bool has_read_only_root(const struct cshim_arguments *arguments)
{
    const struct cshim_rule *rule;
    struct cshim_call described;
    uint64_t count;
    if (arguments->collective != CSHIM_BROADCAST || !cshim_describe_is_root(arguments) ||
        cshim_describe_call(arguments, &described, &count) != CSHIM_REASON_COMPRESS ||
        cshim_plan_reason(cshim_job.policy, &described, count, &rule) != CSHIM_REASON_COMPRESS)
        return false;
    return !cshim_plan_leaves_root(rule->codec) &&
           !cshim_is_writable(arguments->recvbuf, described.bytes);
}

enum cshim_reason cshim_movement_reason(const struct cshim_arguments *arguments, bool are_alike)
{
    if (!are_alike || cshim_describe_datatype(arguments->datatype) == CSHIM_DTYPE_OTHER ||
        cshim_describe_refused(arguments))
        return CSHIM_REASON_DTYPE;
    return has_read_only_root(arguments) ? CSHIM_REASON_READ_ONLY : CSHIM_REASON_COMPRESS;
}

/* Returns true if the policy may compress calls of this size, with some element type, on this
 * communicator. The result is equal on all ranks, except in an all-to-all with counts. The first
 * test decides small calls without the communicator's state. */
static bool compresses_size(const struct cshim_arguments *arguments, uint64_t bytes)
{
    const struct cshim_rule *rule;
    struct cshim_call call;
    int ranks = 1;
    bool compresses = false;
    PMPI_Comm_size(arguments->comm, &ranks);
    if (cshim_shapes[arguments->collective].has_blocks && arguments->recvcounts == NULL)
        bytes *= (uint64_t)ranks;
    if (!cshim_policy_compresses(cshim_job.policy, CSHIM_MPI, arguments->collective, bytes) ||
        !cshim_describe_any(arguments, &call))
        return false;
    for (unsigned dtype = 0; dtype < CSHIM_DTYPE_COUNT && !compresses; dtype++) {
        call.dtype = dtype;
        compresses =
            cshim_plan_reason(cshim_job.policy, &call, call.bytes, &rule) == CSHIM_REASON_COMPRESS;
    }
    return compresses;
}

int cshim_movement_agree(struct cshim_arguments *arguments, enum cshim_reason *reason, bool *agreed)
{
    enum { REASON, BYTES, DTYPE, OTHER_DTYPE, VALUES };
    const bool by_counts = arguments->sendcounts != NULL, observes = cshim_job.observed != NULL;
    const enum cshim_dtype dtype = cshim_describe_datatype(arguments->datatype);
    struct cshim_comm *state;
    uint64_t own[VALUES], most[VALUES] = {0};
    int inter = 0, ranks = 1, bytes = 0;
    PMPI_Comm_test_inter(arguments->comm, &inter);
    PMPI_Comm_size(arguments->comm, &ranks);
    PMPI_Type_size(arguments->datatype, &bytes);
    *agreed = false;
    if (inter || ranks == 1 ||
        (!by_counts &&
         (observes || !compresses_size(arguments, arguments->count * (uint64_t)bytes))))
        return MPI_SUCCESS;
    int status = cshim_comm_find(arguments->comm, &state);
    if (status == MPI_SUCCESS && !observes)
        status = cshim_nonblocking_prepare(arguments->comm, state);
    if (status != MPI_SUCCESS || state->reason != CSHIM_REASON_COMPRESS)
        return status;
    own[REASON] = *reason;
    own[BYTES] = arguments->count * (uint64_t)bytes;
    own[DTYPE] = dtype;
    own[OTHER_DTYPE] = CSHIM_DTYPE_OTHER - (uint64_t)dtype;
    status =
        cshim_mpi.real->MPI_Allreduce(own, most, VALUES, MPI_UINT64_T, MPI_MAX, arguments->comm);
    if (status != MPI_SUCCESS)
        return status;
    *agreed = true;
    *reason = (enum cshim_reason)most[REASON];
    if (*reason == CSHIM_REASON_COMPRESS && most[DTYPE] + most[OTHER_DTYPE] != CSHIM_DTYPE_OTHER)
        *reason = CSHIM_REASON_DTYPE;
    if (by_counts && *reason == CSHIM_REASON_COMPRESS) {
        arguments->count = most[BYTES] / (uint64_t)bytes;
    } else if (by_counts) {
        arguments->count = most[BYTES];
        arguments->datatype = MPI_BYTE;
    }
    return status;
}
