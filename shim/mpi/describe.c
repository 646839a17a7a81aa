/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/describe.h"

#include <dlfcn.h>
#include <limits.h>

#include "shim/core/clock.h"
#include "shim/core/passed.h"
#include "shim/core/plan_bytes.h"

/* Returns the float type of the size of MPI_REAL or MPI_DOUBLE_PRECISION, which Fortran compiler
 * options may widen; CSHIM_DTYPE_OTHER if that is neither 4 nor 8 bytes, as in a library without
 * Fortran. */
static enum cshim_dtype float_of(MPI_Datatype datatype)
{
    int bytes = 0;
    PMPI_Type_size(datatype, &bytes);
    return bytes == 4 ? CSHIM_FLOAT32 : bytes == 8 ? CSHIM_FLOAT64 : CSHIM_DTYPE_OTHER;
}

/* Compares handles: two names of one type, as in C and Fortran, may have different handles. */
enum cshim_dtype cshim_describe_datatype(MPI_Datatype datatype)
{
    if (datatype == MPI_FLOAT || datatype == MPI_REAL4)
        return CSHIM_FLOAT32;
    if (datatype == MPI_DOUBLE || datatype == MPI_REAL8)
        return CSHIM_FLOAT64;
    if (datatype == MPI_REAL || datatype == MPI_DOUBLE_PRECISION)
        return float_of(datatype);
    if (datatype == cshim_mpi_half()) /* callers exclude MPI_DATATYPE_NULL */
        return CSHIM_FLOAT16;
    return CSHIM_DTYPE_OTHER;
}

void cshim_describe_complex(struct cshim_arguments *arguments)
{
    const MPI_Datatype datatype = arguments->datatype;
    if (arguments->recvcounts != NULL)
        return; /* the counts belong to the program and are not changed */
    if (datatype == MPI_C_FLOAT_COMPLEX || datatype == MPI_COMPLEX8)
        arguments->datatype = MPI_FLOAT;
    else if (datatype == MPI_C_DOUBLE_COMPLEX || datatype == MPI_COMPLEX16)
        arguments->datatype = MPI_DOUBLE;
    else if (datatype == MPI_COMPLEX)
        arguments->datatype = MPI_REAL;
    else if (datatype == MPI_DOUBLE_COMPLEX)
        arguments->datatype = MPI_DOUBLE_PRECISION;
    else
        return;
    arguments->count *= 2;
}

/* Returns why a datatype is not compressed: it is derived, or a predefined one without a codec. */
static enum cshim_reason datatype_reason(MPI_Datatype datatype)
{
    int integers, addresses, datatypes, combiner;
    if (datatype == MPI_INT) /* a frequent type, decided without a call of MPI */
        return CSHIM_REASON_DTYPE;
    if (datatype == MPI_DATATYPE_NULL ||
        PMPI_Type_get_envelope(datatype, &integers, &addresses, &datatypes, &combiner) !=
            MPI_SUCCESS)
        return CSHIM_REASON_DTYPE;
    return combiner == MPI_COMBINER_NAMED ? CSHIM_REASON_DTYPE : CSHIM_REASON_DERIVED_DATATYPE;
}

/* Sets ranks, nodes, `partners` and `is_apart` in `call`, and returns CSHIM_REASON_COMPRESS; or
 * returns a reason not to compress calls on the communicator. */
static enum cshim_reason describe_ranks(MPI_Comm comm, struct cshim_call *call)
{
    const struct cshim_carrier *carrier = &cshim_mpi.world;
    const struct cshim_layout *layout = &carrier->layout;
    struct cshim_comm *state;
    int inter = 0, ranks = cshim_job.ranks;
    if (comm != MPI_COMM_WORLD) {
        PMPI_Comm_test_inter(comm, &inter);
        if (inter)
            return CSHIM_REASON_INTERCOMM;
        PMPI_Comm_size(comm, &ranks);
        if (ranks == 1)
            return CSHIM_REASON_SINGLE_RANK;
        if (cshim_comm_find(comm, &state) != MPI_SUCCESS)
            return CSHIM_REASON_NOT_AGREED;
        if (state->reason != CSHIM_REASON_COMPRESS)
            return state->reason;
        carrier = state->carrier;
        layout = &state->host.layout;
    }
    call->partners = carrier->connection_limit;
    call->is_apart = carrier->scratch_of == NULL;
    call->ranks = (uint32_t)ranks;
    call->nodes = layout->nodes;
    call->ranks_per_node = layout->ranks_per_node;
    return CSHIM_REASON_COMPRESS;
}

/* Returns the number of elements of a call with blocks, and sets call->block to the length of the
 * largest. An all-to-all counts all blocks as if they had that length. Returns 0 if a count is
 * negative. */
static uint64_t count_blocks(const struct cshim_arguments *arguments, struct cshim_call *call)
{
    uint64_t count = 0;
    call->block = 0;
    if (arguments->recvcounts == NULL || arguments->collective == CSHIM_ALLTOALL) {
        call->block = arguments->count;
        return arguments->count * call->ranks;
    }
    for (uint32_t i = 0; i < call->ranks; i++) {
        const int64_t result = cshim_count_at(arguments, arguments->recvcounts, (int)i);
        if (result < 0)
            return 0;
        count += (uint64_t)result;
        if ((uint64_t)result > call->block)
            call->block = (uint64_t)result;
    }
    return count;
}

/* Sets the properties of a call that do not depend on its ranks, type, size or operation. */
static void set_properties(const struct cshim_arguments *arguments, struct cshim_call *call)
{
    call->library = CSHIM_MPI;
    call->collective = arguments->collective;
    call->nonblocking = arguments->nonblocking;
    call->instead = CSHIM_CODEC_NONE;
    call->root = 0;
    call->lacks_native = false;
}

static enum cshim_op op_of(MPI_Op operation)
{
#define REDUCTION(NAME, name, LIBRARIES, MPI_OPERATION)                                            \
    if (((LIBRARIES) >> CSHIM_MPI & 1) != 0 && operation == (MPI_OPERATION))                       \
        return CSHIM_##NAME;
#include "policy/reductions.def"
    return CSHIM_OP_OTHER;
}

struct cshim_call cshim_describe_sum(enum cshim_collective collective, enum cshim_dtype dtype,
                                     uint64_t bytes)
{
    struct cshim_call call = {
        .library = CSHIM_MPI,
        .collective = collective,
        .dtype = dtype,
        .op = CSHIM_SUM,
        .bytes = bytes,
    };
    describe_ranks(MPI_COMM_WORLD, &call);
    return call;
}

bool cshim_describe_is_empty(const struct cshim_arguments *arguments)
{
    int ranks = 0;
    PMPI_Comm_size(arguments->comm, &ranks);
    for (int i = 0; i < ranks; i++)
        if (cshim_count_at(arguments, arguments->recvcounts, i) != 0)
            return false;
    return true;
}

/* Types of reduction that a library may refuse if the send buffer equals the receive buffer.
 * refuses_one_buffer[type] has the answers for one element and for more: Open MPI's MPI_Allreduce
 * accepts a single element. */
enum summing {
    SUMMING_ALL,
    SUMMING_TO_ROOT,
    SUMMING_BLOCKS,
    SUMMING_COUNTS,
    SUMMING_NONBLOCKING,
    SUMMING_COUNT
};
static bool refuses_one_buffer[SUMMING_COUNT][2];

/* Returns the type of reduction that a call makes. */
static enum summing summing_of(const struct cshim_arguments *arguments)
{
    return arguments->nonblocking                          ? SUMMING_NONBLOCKING
           : arguments->collective == CSHIM_REDUCE         ? SUMMING_TO_ROOT
           : arguments->collective != CSHIM_REDUCE_SCATTER ? SUMMING_ALL
           : arguments->recvcounts != NULL                 ? SUMMING_COUNTS
                                                           : SUMMING_BLOCKS;
}

/* Reduces from a buffer to itself, on this rank alone. Returns the library's status. */
static int sum_one_buffer(enum summing summing, int count)
{
    const struct cshim_mpi_real *real = cshim_mpi.real;
    const MPI_Comm alone = cshim_mpi.alone;
    float data[2] = {0};
    MPI_Request request = MPI_REQUEST_NULL;
    int status;
    switch (summing) {
    case SUMMING_TO_ROOT:
        return real->MPI_Reduce(data, data, count, MPI_FLOAT, MPI_SUM, 0, alone);
    case SUMMING_BLOCKS:
        return real->MPI_Reduce_scatter_block(data, data, count, MPI_FLOAT, MPI_SUM, alone);
    case SUMMING_COUNTS:
        return real->MPI_Reduce_scatter(data, data, &count, MPI_FLOAT, MPI_SUM, alone);
    case SUMMING_NONBLOCKING:
        status = real->MPI_Iallreduce(data, data, count, MPI_FLOAT, MPI_SUM, alone, &request);
        return status == MPI_SUCCESS ? PMPI_Wait(&request, MPI_STATUS_IGNORE) : status;
    default:
        return real->MPI_Allreduce(data, data, count, MPI_FLOAT, MPI_SUM, alone);
    }
}

/* Fills refuses_one_buffer by trying each function. Without cshim_mpi.alone all count as refusing.
 */
static void find_refusals(void)
{
    MPI_Errhandler handlers[2];
    const bool returns_errors = cshim_mpi_return_errors(handlers);
    for (unsigned i = 0; i < SUMMING_COUNT; i++)
        for (int more = 0; more < 2; more++)
            refuses_one_buffer[i][more] =
                cshim_mpi.alone == MPI_COMM_NULL || sum_one_buffer(i, 1 + more) != MPI_SUCCESS;
    if (returns_errors)
        cshim_mpi_restore_handlers(handlers);
}

/* For data-movement collectives always returns true, without trying the library: if a rank passes
 * equal buffers, all ranks pass the call through (movement.c), so only the compression is lost. */
bool cshim_describe_refuses_one_buffer(const struct cshim_arguments *arguments)
{
    const bool has_more = arguments->recvcounts != NULL || arguments->count > 1;
    return (CSHIM_MOVES >> arguments->collective & 1) != 0 ||
           refuses_one_buffer[summing_of(arguments)][has_more];
}

/* Converts a limit in bytes to elements. Calls of CSHIM_WEIGHED_FROM bytes or more, which are
 * counted by their bytes, are matched, unless the reason is that they are too small. */
static struct cshim_passed_elements in_elements(struct cshim_passed passed, enum cshim_dtype dtype)
{
    if (passed.reason != CSHIM_REASON_TOO_SMALL && passed.below > CSHIM_WEIGHED_FROM)
        passed.below = CSHIM_WEIGHED_FROM;
    return (struct cshim_passed_elements){cshim_divide_up(passed.below, cshim_dtype_bytes(dtype)),
                                          passed.reason};
}

/* Computes which calls are passed through without matching rules. */
static void find_passed(enum cshim_collective collective, enum cshim_op op, enum cshim_dtype dtype)
{
    struct cshim_call call = cshim_describe_sum(collective, dtype, 0);
    call.op = op;
    cshim_mpi.passed[0][collective][op][dtype] =
        in_elements(cshim_passed_anywhere(cshim_job.policy, &call), dtype);
    cshim_mpi.passed[1][collective][op][dtype] =
        in_elements(cshim_passed_like(cshim_job.policy, &call), dtype);
}

static bool library_has_large_counts(void)
{
    void *library = cshim_mpi_library();
    const bool has = library != NULL && dlsym(library, "MPI_Allreduce_c") != NULL;
    if (library != NULL)
        dlclose(library);
    return has;
}

void cshim_describe_setup(void)
{
    cshim_mpi.has_large_counts = library_has_large_counts();
    find_refusals();
    for (unsigned collective = 0; collective < CSHIM_COLLECTIVE_COUNT; collective++)
        for (unsigned op = 0; op < CSHIM_OP_COUNT; op++)
            for (unsigned dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++)
                if (cshim_library_makes(CSHIM_MPI, collective, op))
                    find_passed(collective, op, dtype);
}

/* Makes cheap checks first. For a call with blocks, describes the ranks before it checks the size,
 * which depends on their number. */
enum cshim_reason cshim_describe_call(const struct cshim_arguments *arguments,
                                      struct cshim_call *call, uint64_t *count)
{
    const bool has_blocks = cshim_shapes[arguments->collective].has_blocks;
    enum cshim_reason reason = CSHIM_REASON_COMPRESS;
    call->dtype = cshim_describe_datatype(arguments->datatype);
    if (call->dtype == CSHIM_DTYPE_OTHER)
        return datatype_reason(arguments->datatype);
    call->op = op_of(arguments->op);
    if (!cshim_library_reduces(CSHIM_MPI, call->op))
        return CSHIM_REASON_OP;
    *count = arguments->count;
    call->block = 0;
    if (has_blocks) {
        reason = describe_ranks(arguments->comm, call);
        if (reason != CSHIM_REASON_COMPRESS)
            return reason;
        *count = count_blocks(arguments, call);
    }
    if (*count == 0)
        return CSHIM_REASON_EMPTY;
    const struct cshim_passed_elements *passed =
        &cshim_mpi.passed[arguments->comm == MPI_COMM_WORLD][arguments->collective][call->op]
                         [call->dtype];
    if (*count < passed->below)
        /* Without blocks, the ranks of `comm` are not looked up: too slow for a small call. */
        return arguments->comm == MPI_COMM_SELF ? CSHIM_REASON_SINGLE_RANK : passed->reason;
    set_properties(arguments, call);
    call->bytes = *count * cshim_dtype_bytes(call->dtype);
    call->lacks_native = *count > INT_MAX && !cshim_mpi.has_large_counts;
    if (!has_blocks)
        reason = describe_ranks(arguments->comm, call);
    if (reason == CSHIM_REASON_COMPRESS &&
        (arguments->collective == CSHIM_REDUCE || arguments->collective == CSHIM_BROADCAST)) {
        if (arguments->root < 0 || arguments->root >= (int)call->ranks)
            return CSHIM_REASON_EMPTY; /* no such rank: the library reports the error */
        call->root = (uint32_t)arguments->root;
    }
    return reason;
}

/* Stores the end of each rank's block in begins[rank + 1], in elements; begins[0] is 0 already.
 * Without `counts` all blocks have arguments->count elements. */
static void find_blocks(const struct cshim_arguments *arguments, const void *counts, int ranks,
                        uint64_t *begins)
{
    for (int i = 0; i < ranks; i++)
        begins[i + 1] = begins[i] + (counts != NULL ? (uint64_t)cshim_count_at(arguments, counts, i)
                                                    : arguments->count);
}

struct cshim_exchange cshim_exchange_of(const struct cshim_arguments *arguments,
                                        const struct cshim_plan *plan, struct cshim_comm *state)
{
    struct cshim_communicator *host = &state->host;
    struct cshim_exchange exchange = {
        .communicator = host,
        .plan = plan,
        .input = arguments->sendbuf == MPI_IN_PLACE ? arguments->recvbuf : arguments->sendbuf,
        .output = arguments->recvbuf,
        .element_bytes = cshim_dtype_bytes(plan->dtype),
        .nonblocking = arguments->nonblocking,
        .began = cshim_job.trace != NULL ? cshim_seconds() : 0,
    };
    if (plan->schedule->division == CSHIM_BLOCKS)
        find_blocks(arguments, arguments->recvcounts, host->ranks, host->block_begins);
    if (plan->collective == CSHIM_ALLTOALL)
        find_blocks(arguments, arguments->sendcounts, host->ranks, host->sent_begins);
    cshim_exchange_set_ranges(&exchange, arguments->sendbuf == MPI_IN_PLACE);
    return exchange;
}

bool cshim_describe_any(const struct cshim_arguments *arguments, struct cshim_call *call)
{
    int element = 0;
    set_properties(arguments, call);
    call->dtype = cshim_describe_datatype(arguments->datatype);
    call->op = op_of(arguments->op);
    call->ranks = call->nodes = call->ranks_per_node = call->partners = 1;
    call->is_apart = false;
    const enum cshim_reason reason = describe_ranks(arguments->comm, call);
    PMPI_Type_size(arguments->datatype, &element);
    call->block = 0;
    call->bytes = (cshim_shapes[arguments->collective].has_blocks ? count_blocks(arguments, call)
                                                                  : arguments->count) *
                  (uint64_t)element;
    return reason == CSHIM_REASON_COMPRESS || reason == CSHIM_REASON_SINGLE_RANK;
}

int cshim_rank_in(MPI_Comm comm)
{
    int rank = cshim_job.rank;
    if (comm != MPI_COMM_WORLD)
        PMPI_Comm_rank(comm, &rank);
    return rank;
}

bool cshim_describe_is_root(const struct cshim_arguments *arguments)
{
    return cshim_rank_in(arguments->comm) == arguments->root;
}
