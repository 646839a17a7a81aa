/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a call: describe it, plan it, run the plan, count it. */
#include <string.h>
#include <time.h>

#include "shim/mpi/internal.h"
#include "shim/mpi/summary.h"

struct cshim_job cshim_job;

double cshim_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int start(const struct cshim_mpi_real *real)
{
    cshim_log_set_level(CSHIM_LOG_WARN);
    cshim_job.real = real;
    cshim_job.started = cshim_seconds();
    PMPI_Comm_rank(MPI_COMM_WORLD, &cshim_job.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &cshim_job.ranks);
    if (!cshim_agree())
        return 0;
    if (cshim_comm_setup() != MPI_SUCCESS || cshim_cast_setup() != MPI_SUCCESS) {
        cshim_log(CSHIM_LOG_ERROR, "the library refuses a keyval or an operation");
        PMPI_Abort(MPI_COMM_WORLD, 1); /* the other ranks count on this one */
    }
    return 1;
}

static void finalize(void)
{
    cshim_summary();
    cshim_agree_finalize();
    cshim_comm_teardown();
    cshim_cast_teardown();
    cshim_ledger_free(&cshim_job.ledger);
    cshim_policy_free(cshim_job.policy);
    cshim_job.policy = NULL;
}

/* Open MPI has one handle per name of a type, and Fortran's names differ from C's. */
static enum cshim_dtype describe_datatype(MPI_Datatype datatype)
{
    if (datatype == MPI_FLOAT || datatype == MPI_REAL || datatype == MPI_REAL4)
        return CSHIM_FLOAT32;
    if (datatype == MPI_DOUBLE || datatype == MPI_DOUBLE_PRECISION || datatype == MPI_REAL8)
        return CSHIM_FLOAT64;
    if (datatype == cshim_mpi_half()) /* the null type does not come this far */
        return CSHIM_FLOAT16;
    return CSHIM_DTYPE_OTHER;
}

/* A datatype that is not compressed: one of MPI's own, or built from them. */
static enum cshim_reason datatype_reason(MPI_Datatype datatype)
{
    int integers, addresses, datatypes, combiner;
    if (datatype == MPI_DATATYPE_NULL ||
        PMPI_Type_get_envelope(datatype, &integers, &addresses, &datatypes, &combiner) !=
            MPI_SUCCESS)
        return CSHIM_REASON_DTYPE;
    return combiner == MPI_COMBINER_NAMED ? CSHIM_REASON_DTYPE : CSHIM_REASON_DERIVED_DATATYPE;
}

/* Adds the ranks of a communicator and the nodes that hold them. */
static enum cshim_reason describe_ranks(MPI_Comm comm, struct cshim_call *call)
{
    const struct cshim_layout *layout = &cshim_job.layout;
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
        layout = &state->layout;
    }
    call->ranks = (uint32_t)ranks;
    call->nodes = layout->nodes;
    call->ranks_per_node = layout->ranks_per_node;
    return CSHIM_REASON_COMPRESS;
}

/* The facts of a call whose arguments are valid, all equal on all ranks; or the first reason found
 * not to compress it. What costs least comes first. */
static enum cshim_reason describe_call(int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                       struct cshim_call *call)
{
    call->dtype = describe_datatype(datatype);
    if (call->dtype == CSHIM_DTYPE_OTHER)
        return datatype_reason(datatype);
    if (op != MPI_SUM)
        return CSHIM_REASON_OP;
    if (count == 0)
        return CSHIM_REASON_EMPTY;
    call->bytes = (uint64_t)count * cshim_dtype_bytes(call->dtype);
    if (cshim_plan_too_small(cshim_job.policy, call->dtype, call->bytes))
        return CSHIM_REASON_TOO_SMALL;
    call->library = CSHIM_MPI;
    call->collective = CSHIM_ALLREDUCE;
    call->op = CSHIM_SUM;
    call->instead = CSHIM_CODEC_NONE;
    return describe_ranks(comm, call);
}

/* Counts a call that is passed through, at rank 0 of its communicator. */
static void count_pass(enum cshim_reason reason, MPI_Comm comm)
{
    int rank = cshim_job.rank;
    if (reason == CSHIM_REASON_SINGLE_RANK)
        rank = 0;
    else if (comm != MPI_COMM_WORLD)
        PMPI_Comm_rank(comm, &rank);
    if (rank == 0)
        cshim_ledger_pass(&cshim_job.ledger, reason);
}

/* Compresses a call. Returns false, with nothing done but what all ranks did, if it is to be passed
 * through after all, with the reason counted; else sets *status. */
static bool compress(const void *sendbuf, void *recvbuf, struct cshim_call *call, uint64_t count,
                     const struct cshim_rule *rule, MPI_Comm comm, int *status)
{
    struct cshim_comm *state = NULL;
    struct cshim_plan plan = {0};
    *status = cshim_comm_find(comm, &state);
    if (*status == MPI_SUCCESS)
        *status = cshim_comm_prepare(comm, state);
    if (*status == MPI_SUCCESS) {
        plan.reason = state->reason;
        call->instead = cshim_watch_codec(&state->watch, (size_t)(rule - cshim_job.policy->rules),
                                          rule->codec, call->dtype, count);
    }
    if (*status == MPI_SUCCESS && plan.reason == CSHIM_REASON_COMPRESS)
        plan = cshim_plan_call(cshim_job.policy, call, count);
    if (plan.reason != CSHIM_REASON_COMPRESS) {
        count_pass(plan.reason, comm);
        return false;
    }
    if (*status == MPI_SUCCESS) {
        struct cshim_exchange exchange = {
            .comm = state,
            .plan = &plan,
            .input = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf,
            .output = recvbuf,
            .element_bytes = cshim_dtype_bytes(plan.dtype),
        };
        *status = cshim_call_run(&exchange);
    }
    if (*status != MPI_SUCCESS)
        PMPI_Comm_call_errhandler(comm, *status);
    return true;
}

/* A call the library itself would refuse, or that has nothing in it to describe. */
static bool is_refused(const void *sendbuf, const void *recvbuf, int count, MPI_Datatype datatype,
                       MPI_Op op, MPI_Comm comm)
{
    return comm == MPI_COMM_NULL || count < 0 || datatype == MPI_DATATYPE_NULL ||
           op == MPI_OP_NULL || recvbuf == MPI_IN_PLACE ||
           (count > 0 && (sendbuf == NULL || recvbuf == NULL || sendbuf == recvbuf));
}

static int allreduce(const void *sendbuf, void *recvbuf, int count, void *datatype, void *op,
                     void *comm)
{
    const struct cshim_rule *rule;
    struct cshim_call call;
    int status;
    if (is_refused(sendbuf, recvbuf, count, datatype, op, comm))
        return cshim_job.real->allreduce(sendbuf, recvbuf, count, datatype, op, comm);

    enum cshim_reason reason = describe_call(count, datatype, op, comm, &call);
    if (reason == CSHIM_REASON_COMPRESS)
        reason = cshim_plan_reason(cshim_job.policy, &call, (uint64_t)count, &rule);
    if (reason != CSHIM_REASON_COMPRESS)
        count_pass(reason, comm);
    else if (compress(sendbuf, recvbuf, &call, (uint64_t)count, rule, comm, &status))
        return status;
    return cshim_job.real->allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

__attribute__((visibility("default"))) const struct cshim_mpi_engine cshim_mpi_engine = {
    .abi = CSHIM_ENGINE_ABI,
    .start = start,
    .allreduce = allreduce,
    .finalize = finalize,
};
