/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/measured.h"

#include "shim/mpi/job.h"

__thread struct cshim_native cshim_natives[CSHIM_NATIVES];
uint64_t cshim_natives_from = UINT64_MAX;

struct cshim_plan cshim_measured_plan_by(struct cshim_comm *state, const struct cshim_call *call,
                                         uint64_t count, const struct cshim_rule *rule,
                                         enum cshim_algorithm algorithm)
{
    if (call->collective != CSHIM_ALLREDUCE)
        return cshim_plan_call(cshim_job.policy, call, count);
    for (unsigned i = 0; i < CSHIM_PLANS; i++) {
        const struct cshim_planned *known = &state->planned[i];
        if (known->rule == rule && known->count == count && known->dtype == call->dtype &&
            known->op == call->op && known->instead == call->instead &&
            known->algorithm == algorithm)
            return known->plan;
    }
    struct cshim_planned *planned = &state->planned[state->plans++ % CSHIM_PLANS];
    *planned = (struct cshim_planned){rule,
                                      count,
                                      call->dtype,
                                      call->op,
                                      call->instead,
                                      algorithm,
                                      algorithm == CSHIM_ALGORITHM_AUTO
                                          ? cshim_plan_call(cshim_job.policy, call, count)
                                          : cshim_plan_call_by(algorithm, rule, call, count)};
    return planned->plan;
}

int cshim_measured_choose(struct cshim_comm *state, const struct cshim_call *call,
                          const struct cshim_rule *rule, MPI_Comm comm,
                          struct cshim_measured *measured)
{
    int status = MPI_SUCCESS;
    measured->class = cshim_class_is_for(rule, call)
                          ? cshim_class_find(state->host.classes, state->host.learned, rule, call)
                          : NULL;
    if (measured->class == NULL)
        return status;
    struct cshim_choice *choice = &measured->class->choice;
    if (cshim_choice_is_due(choice)) {
        status = cshim_mpi.real->MPI_Allreduce(MPI_IN_PLACE, choice->seconds, (int)choice->samples,
                                               MPI_FLOAT, MPI_MAX, comm);
        if (status != MPI_SUCCESS)
            return status;
        cshim_class_decide(measured->class, cshim_communicator_ledger(&state->host));
    }
    measured->candidate = cshim_choice_begin(choice);
    return cshim_choice_is_sampled(choice) ? PMPI_Barrier(comm) : status;
}

struct cshim_plan cshim_measured_plan(struct cshim_comm *state, struct cshim_call *call,
                                      uint64_t count, const struct cshim_measured *measured)
{
    const struct cshim_class *class = measured->class;
    if (class->codecs[measured->candidate] != class->rule->codec)
        call->instead = class->codecs[measured->candidate];
    return cshim_measured_plan_by(state, call, count, class->rule,
                                  class->algorithms[measured->candidate]);
}

void cshim_native_remember(const struct cshim_arguments *arguments, struct cshim_class *class)
{
    if (arguments->collective != CSHIM_ALLREDUCE ||
        (arguments->datatype != MPI_FLOAT && arguments->datatype != MPI_DOUBLE) ||
        class->rule->max_rel_error > 0 || cshim_mpi.devices || cshim_mpi.is_watched)
        return;
    *cshim_native_of(arguments) =
        (struct cshim_native){arguments->comm,  arguments->datatype,     arguments->op,
                              arguments->count, cshim_comm_generation(), &class->choice};
    if (arguments->count < __atomic_load_n(&cshim_natives_from, __ATOMIC_RELAXED))
        __atomic_store_n(&cshim_natives_from, arguments->count, __ATOMIC_RELAXED);
}
