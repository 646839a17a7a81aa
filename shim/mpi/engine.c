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
    return cshim_agree() && cshim_comm_setup() == MPI_SUCCESS && cshim_cast_setup() == MPI_SUCCESS;
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

/* Plans a call whose arguments are valid; uses only facts that are equal on all ranks. */
static struct cshim_plan plan_call(int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    struct cshim_call call = {.library = CSHIM_MPI, .collective = CSHIM_ALLREDUCE};
    int inter = 0, ranks = 0;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter)
        return (struct cshim_plan){.reason = CSHIM_REASON_INTERCOMM};
    call.dtype = describe_datatype(datatype);
    if (call.dtype == CSHIM_DTYPE_OTHER)
        return (struct cshim_plan){.reason = datatype_reason(datatype)};
    PMPI_Comm_size(comm, &ranks);
    call.op = op == MPI_SUM ? CSHIM_SUM : CSHIM_OP_OTHER;
    call.bytes = (uint64_t)count * cshim_dtype_bytes(call.dtype);
    call.ranks = (uint32_t)ranks;
    return cshim_plan_call(cshim_job.policy, &call, (uint64_t)count);
}

static int run_plan(struct cshim_exchange *exchange)
{
    struct cshim_comm *comm = exchange->comm;
    const struct cshim_plan *plan = exchange->plan;
    const size_t rule = (size_t)(plan->rule - cshim_job.policy->rules);
    struct cshim_sample sample;
    const double began = cshim_seconds();

    exchange->sequence = ++comm->sequence;
    cshim_sample_begin(&sample, exchange, ++comm->calls_by_rule[rule]);
    int status = plan->algorithm == CSHIM_ALGORITHM_ALLREDUCE ? cshim_cast_run(exchange)
                                                              : cshim_exchange_run(exchange);
    exchange->figures.bytes_native = plan->bytes_native / plan->ranks;
    if (comm->rank == 0) {
        exchange->figures.calls = 1;
        exchange->figures.bytes_in = plan->count * exchange->element_bytes;
        exchange->figures.bytes_native += plan->bytes_native % plan->ranks;
        exchange->figures.seconds = cshim_seconds() - began;
    } else {
        exchange->figures.seconds_encode = 0;
        exchange->figures.seconds_exchange = 0;
        exchange->figures.seconds_decode = 0;
    }
    if (status == MPI_SUCCESS)
        status = cshim_sample_end(&sample, exchange);
    cshim_ledger_add(&cshim_job.ledger, plan, &exchange->figures);
    return status;
}

/* A call the library itself would refuse, or that has nothing in it to describe. */
static bool is_refused(const void *sendbuf, const void *recvbuf, int count, MPI_Datatype datatype,
                       MPI_Op op, MPI_Comm comm)
{
    return comm == MPI_COMM_NULL || count < 0 || datatype == MPI_DATATYPE_NULL ||
           op == MPI_OP_NULL || recvbuf == MPI_IN_PLACE ||
           (count > 0 && (sendbuf == NULL || recvbuf == NULL));
}

static int allreduce(const void *sendbuf, void *recvbuf, int count, void *datatype, void *op,
                     void *comm)
{
    struct cshim_comm *state = NULL;
    int rank = 0;
    if (is_refused(sendbuf, recvbuf, count, datatype, op, comm))
        return cshim_job.real->allreduce(sendbuf, recvbuf, count, datatype, op, comm);

    struct cshim_plan plan = plan_call(count, datatype, op, comm);
    if (plan.reason == CSHIM_REASON_COMPRESS) {
        const int status = cshim_comm_get(comm, &state);
        if (status != MPI_SUCCESS)
            return PMPI_Comm_call_errhandler(comm, status), status;
        plan.reason = state->reason;
    }
    if (plan.reason != CSHIM_REASON_COMPRESS) {
        PMPI_Comm_rank(comm, &rank);
        if (rank == 0)
            cshim_ledger_pass(&cshim_job.ledger, plan.reason);
        return cshim_job.real->allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    }

    struct cshim_exchange exchange = {
        .comm = state,
        .plan = &plan,
        .input = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf,
        .output = recvbuf,
        .element_bytes = cshim_dtype_bytes(plan.dtype),
    };
    const int status = run_plan(&exchange);
    if (status != MPI_SUCCESS)
        PMPI_Comm_call_errhandler(comm, status);
    return status;
}

__attribute__((visibility("default"))) const struct cshim_mpi_engine cshim_mpi_engine = {
    .abi = CSHIM_ENGINE_ABI,
    .start = start,
    .allreduce = allreduce,
    .finalize = finalize,
};
