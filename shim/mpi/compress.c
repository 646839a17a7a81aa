/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/compress.h"

#include "shim/mpi/device.h"
#include "shim/mpi/nonblocking.h"

__thread struct cshim_native cshim_natives[CSHIM_NATIVES];
uint64_t cshim_natives_from = UINT64_MAX;

/* Caches an all-reduce that its class has made native, so that cshim_passes_as_native() recognises
 * it. Does nothing if each call needs more checks: with max_rel_error, recording or a trace, if
 * buffers may be on a GPU, and for types other than MPI_FLOAT and MPI_DOUBLE. */
static void remember_native(const struct cshim_arguments *arguments, struct cshim_class *class)
{
    if (arguments->collective != CSHIM_ALLREDUCE ||
        (arguments->datatype != MPI_FLOAT && arguments->datatype != MPI_DOUBLE) ||
        class->rule->max_rel_error > 0 || cshim_mpi.devices || cshim_mpi.is_watched)
        return;
    *cshim_native_of(arguments) =
        (struct cshim_native){arguments->comm,  arguments->datatype,     arguments->op,
                              arguments->count, cshim_comm_generation(), class};
    if (arguments->count < __atomic_load_n(&cshim_natives_from, __ATOMIC_RELAXED))
        __atomic_store_n(&cshim_natives_from, arguments->count, __ATOMIC_RELAXED);
}

/* Chooses the candidate of a call that has a class. If a decision of the class is due, the ranks
 * first agree on the longest duration of each sampled call (collective). A sampled call begins with
 * a barrier. Returns an MPI error. */
static int choose_candidate(struct cshim_outcome *outcome, struct cshim_comm *state, MPI_Comm comm)
{
    struct cshim_choice *choice = &outcome->class->choice;
    int status = MPI_SUCCESS;
    if (cshim_choice_is_due(choice))
        status = cshim_mpi.real->MPI_Allreduce(MPI_IN_PLACE, choice->seconds, (int)choice->samples,
                                               MPI_FLOAT, MPI_MAX, comm);
    if (status != MPI_SUCCESS)
        return status;
    if (cshim_choice_is_due(choice))
        cshim_class_decide(outcome->class, cshim_communicator_ledger(&state->host));
    outcome->candidate = cshim_choice_begin(choice);
    return choice->is_sampled ? PMPI_Barrier(comm) : MPI_SUCCESS;
}

/* Plans a call that `rule` compresses: by the candidate of its class, if it has one, and otherwise
 * by the rule alone. Prepares the communicator. Sets `plan`, whose reason is then equal on all
 * ranks, and outcome->class and outcome->candidate. Returns an MPI error. */
static int plan_call(struct cshim_outcome *outcome, const struct cshim_arguments *arguments,
                     struct cshim_call *described, uint64_t count, const struct cshim_rule *rule,
                     struct cshim_comm *state, struct cshim_plan *plan)
{
    bool on_device = false;
    int status = cshim_nonblocking_prepare(arguments->comm, state);
    if (status == MPI_SUCCESS && state->reason == CSHIM_REASON_COMPRESS && cshim_mpi.devices)
        status = cshim_mpi_device_check(arguments, &on_device);
    if (status != MPI_SUCCESS)
        return status;
    plan->reason = on_device ? CSHIM_REASON_DEVICE_BUFFER : state->reason;
    if (plan->reason != CSHIM_REASON_COMPRESS)
        return status;
    if (rule->max_rel_error > 0)
        described->instead =
            cshim_tolerance_codec(&state->host.tolerance, cshim_rule_index(cshim_job.policy, rule),
                                  rule->codec, described->dtype, count);
    if (cshim_class_is_for(rule, described))
        outcome->class =
            cshim_class_find(state->host.classes, state->host.learned, rule, described);
    if (outcome->class == NULL) {
        *plan = cshim_comm_plan(state, CSHIM_ALGORITHM_AUTO, rule, described, count);
        return status;
    }
    status = choose_candidate(outcome, state, arguments->comm);
    if (status != MPI_SUCCESS)
        return status;
    if (outcome->candidate == CSHIM_CANDIDATE_NATIVE) {
        plan->reason = CSHIM_REASON_NO_GAIN;
        remember_native(arguments, outcome->class);
        outcome->began = cshim_seconds();
        return status;
    }
    cshim_class_set_instead(outcome->class, outcome->candidate, described);
    *plan = cshim_comm_plan(state, outcome->class->algorithms[outcome->candidate], rule, described,
                            count);
    if (plan->reason != CSHIM_REASON_COMPRESS)
        outcome->class = NULL; /* the chosen algorithm cannot make this call */
    return status;
}

/* Makes the communicator of the node's ranks, which a staged plan needs. If that is impossible,
 * sets plan->reason. Returns an MPI error. */
static int prepare_levels(struct cshim_outcome *outcome, struct cshim_comm *state,
                          struct cshim_plan *plan)
{
    const int status = cshim_comm_prepare_levels(state);
    if (state->lacks_levels) {
        plan->reason = CSHIM_REASON_NO_MEMORY;
        outcome->class = NULL;
    }
    return status;
}

/* Makes a call by its plan. Sets outcome->status, and calls the program's error handler for an
 * error that the library has not reported to it. */
static void run_plan(struct cshim_outcome *outcome, const struct cshim_arguments *arguments,
                     const struct cshim_plan *plan, struct cshim_comm *state)
{
    double seconds = 0;
    struct cshim_exchange exchange = cshim_exchange_of(arguments, plan, state);
    state->error_reported = false;
    outcome->status = cshim_call_run(&exchange, &seconds);
    if (outcome->class != NULL && outcome->status == MPI_SUCCESS)
        cshim_class_end(outcome->class, outcome->candidate, seconds);
    if (outcome->status != MPI_SUCCESS && !state->error_reported)
        PMPI_Comm_call_errhandler(arguments->comm, outcome->status);
}

enum cshim_reason cshim_compress(struct cshim_outcome *outcome,
                                 const struct cshim_arguments *arguments,
                                 struct cshim_call *described, uint64_t count,
                                 const struct cshim_rule *rule)
{
    struct cshim_comm *state;
    struct cshim_plan plan = {.reason = CSHIM_REASON_COMPRESS};
    outcome->status = cshim_comm_find(arguments->comm, &state);
    if (outcome->status == MPI_SUCCESS) {
        /* After an error, the program's error handler may free the communicator. */
        cshim_comm_hold(state);
        outcome->status = plan_call(outcome, arguments, described, count, rule, state, &plan);
        if (outcome->status == MPI_SUCCESS && plan.reason == CSHIM_REASON_COMPRESS &&
            plan.schedule->staged)
            outcome->status = prepare_levels(outcome, state, &plan);
        if (outcome->status == MPI_SUCCESS && plan.reason == CSHIM_REASON_COMPRESS)
            run_plan(outcome, arguments, &plan, state);
        cshim_comm_release(state);
    }
    outcome->done = outcome->status != MPI_SUCCESS || plan.reason == CSHIM_REASON_COMPRESS;
    return plan.reason;
}
