/* SPDX-License-Identifier: Apache-2.0 */
/* Path of a call: recognise, describe, plan, run and count it, or pass it through. Also defines the
 * table of functions that this engine gives the front. */
#include "shim/gloo/engine.h"

#include "shim/core/log.h"
#include "shim/gloo/choose.h"
#include "shim/gloo/describe.h"
#include "shim/report/process.h"
#include "shim/gloo/agree.h"
#include "shim/gloo/transport.h"

static bool
    is_usable; /* atomic: gloo has the needed functions, and refuse_function() has not reset it */
static bool is_known; /* atomic: a call has been recognised */

/* Counting ------------------------------------------------------------------------------------- */

/* Returns the job whose ledger counts a call, or NULL if this rank does not count: only rank 0
 * does. If the context has no job (NULL), uses cshim_job_native(). */
static struct cshim_job *find_counting(struct cshim_job *job, int rank, int ranks)
{
    if (job == NULL && rank == 0)
        job = cshim_job_native();
    if (job == NULL || rank != 0)
        return NULL;
    cshim_job_grow(job, true, ranks, 0); /* 0: leaves the number of nodes as it is */
    cshim_job_touch(job);
    return job;
}

/* Counts an all-reduce whose options are not read. */
static void count_unread(enum cshim_reason reason)
{
    struct cshim_job *job = cshim_job_native();
    if (job != NULL && find_counting(job, job->rank, 1) != NULL)
        cshim_ledger_pass(&job->ledger, reason);
}

static void count(unsigned function, const void *options)
{
    uint64_t bytes;
    int rank, ranks;
    if (!__atomic_load_n(&is_usable, __ATOMIC_RELAXED) ||
        !cshim_gloo_measure(options, &rank, &ranks, &bytes))
        return;
    struct cshim_job *job = find_counting(NULL, rank, ranks);
    if (job != NULL)
        cshim_ledger_count(&job->ledger, function, bytes);
}

/* A call --------------------------------------------------------------------------------------- */

/* Indices in the ledger of the functions that are counted if no rule names their collective. */
static const unsigned rows[CSHIM_GLOO_FUNCTIONS] = {
    [CSHIM_INDEX_gloo_allgather] = CSHIM_MPI_COUNTED + CSHIM_COUNTED_gloo_allgather,
    [CSHIM_INDEX_gloo_allgatherv] = CSHIM_MPI_COUNTED + CSHIM_COUNTED_gloo_allgatherv,
    [CSHIM_INDEX_gloo_alltoall] = CSHIM_MPI_COUNTED + CSHIM_COUNTED_gloo_alltoall,
    [CSHIM_INDEX_gloo_alltoallv] = CSHIM_MPI_COUNTED + CSHIM_COUNTED_gloo_alltoallv,
    [CSHIM_INDEX_gloo_broadcast] = CSHIM_MPI_COUNTED + CSHIM_COUNTED_gloo_broadcast,
};

/* Returns true if a rule of the job's policy names the collective of a call. */
static bool is_named(const struct cshim_gloo_arguments *arguments, const struct cshim_job *job)
{
    return job != NULL && cshim_policy_names(job->policy, CSHIM_GLOO, arguments->collective);
}

/* Runs a compressed call. Stores an exception of gloo in the call. */
static void run(struct cshim_gloo_call *call, const struct cshim_plan *plan)
{
    struct cshim_exchange exchange = cshim_gloo_exchange_of(call, plan);
    double seconds;
    if (call->exception != NULL)
        return;
    const int status = cshim_call_run(&exchange, &seconds);
    cshim_gloo_transport_end(call);
    if (status == 0 && plan->collective == CSHIM_ALLREDUCE)
        cshim_gloo_copy_output(call->arguments);
}

/* Compresses a call, or returns the reason why it is to be passed through. */
static enum cshim_reason compress(struct cshim_gloo_context *context,
                                  const struct cshim_gloo_arguments *arguments,
                                  const struct cshim_rule *rule, struct cshim_call *facts,
                                  struct cshim_gloo_chosen *chosen, void **exception)
{
    const struct cshim_plan plan =
        cshim_gloo_choose(context, arguments, rule, facts, chosen, exception);
    if (*exception != NULL || plan.reason != CSHIM_REASON_COMPRESS)
        return plan.reason;
    struct cshim_gloo_call *call = cshim_gloo_call_take(context, arguments);
    if (call == NULL) { /* the other ranks wait in the call */
        cshim_log(CSHIM_LOG_ERROR, "no memory for another call of gloo under way");
        *exception = cshim_gloo_exception("no memory for another call of gloo under way");
        cshim_gloo_break(arguments->context);
        return CSHIM_REASON_COMPRESS;
    }
    run(call, &plan);
    *exception = call->exception;
    if (*exception != NULL)
        cshim_gloo_break(arguments->context);
    cshim_gloo_call_give(context, call);
    if (*exception == NULL && chosen->class != NULL)
        cshim_gloo_chosen_end(context, arguments, chosen, exception);
    return CSHIM_REASON_COMPRESS;
}

/* Counts a call that gloo makes: by the reason, or as a function that is not compressed. */
static void count_native(const struct cshim_gloo_context *context,
                         const struct cshim_gloo_arguments *arguments, enum cshim_reason reason)
{
    struct cshim_job *job = find_counting(__atomic_load_n(&context->host.job, __ATOMIC_ACQUIRE),
                                          arguments->rank, arguments->ranks);
    if (job == NULL)
        return;
    if (arguments->collective == CSHIM_ALLREDUCE || is_named(arguments, job))
        cshim_ledger_pass(&job->ledger, reason);
    else
        count(rows[arguments->function], arguments->options);
}

/* Decides about a call of a known context, and runs it if it is compressed. Otherwise counts and
 * returns the reason. After an error sets *exception. */
static enum cshim_reason consider(struct cshim_gloo_context *context,
                                  struct cshim_gloo_arguments *arguments, bool is_native,
                                  struct cshim_observation *observation,
                                  struct cshim_gloo_chosen *chosen, void **exception)
{
    const struct cshim_rule *rule;
    enum cshim_reason reason = CSHIM_REASON_NOT_AGREED;
    if (arguments->ranks == 1)
        reason = CSHIM_REASON_SINGLE_RANK;
    else if (arguments->is_empty)
        reason = CSHIM_REASON_EMPTY;
    else if (!is_native)
        reason = context->reason;
    if (reason == CSHIM_REASON_COMPRESS && arguments->collective != CSHIM_ALLREDUCE &&
        !is_named(arguments, context->host.job))
        reason = CSHIM_REASON_NO_RULE;
    else if (reason == CSHIM_REASON_COMPRESS) {
        struct cshim_job *job = context->host.job;
        struct cshim_call facts;
        reason = cshim_gloo_describe(context, arguments, &facts, &rule, exception);
        if (*exception != NULL)
            cshim_gloo_break(arguments->context);
        if (reason != CSHIM_REASON_COMPRESS && arguments->rank == 0)
            cshim_ledger_weigh(&job->ledger, reason, &facts);
        if (reason == CSHIM_REASON_COMPRESS && job->observed == NULL)
            reason = compress(context, arguments, rule, &facts, chosen, exception);
        else if (reason == CSHIM_REASON_COMPRESS)
            reason = CSHIM_REASON_DISABLED;
        if (reason != CSHIM_REASON_COMPRESS && (job->observed != NULL || job->trace != NULL))
            cshim_observation_begin(observation, job, &facts, arguments->rank, reason);
    }
    if (reason != CSHIM_REASON_COMPRESS)
        count_native(context, arguments, reason);
    return reason;
}

/* Finds the context of a call and reads its options. Returns NULL if the options have an unknown
 * layout, are inconsistent or not supported, or without memory. */
static struct cshim_gloo_context *open_call(enum cshim_gloo_index function, const void *options,
                                            struct cshim_gloo_arguments *arguments)
{
    struct cshim_gloo_context *context =
        cshim_gloo_context_find(cshim_gloo_context_of(options), NULL);
    const bool has_layout = context != NULL && cshim_gloo_is_recognised(function);
    if ((has_layout || cshim_gloo_recognise(function, options)) &&
        cshim_gloo_read(function, options, arguments)) {
        __atomic_store_n(&is_known, true, __ATOMIC_RELAXED);
        return context != NULL ? context : cshim_gloo_context_find(arguments->context, arguments);
    }
    if (context != NULL)
        cshim_gloo_context_release(context);
    return NULL;
}

/* Counts a call that gloo has made because open_call() returned NULL or, if it is an all-reduce,
 * because the engine is not usable. (A call with wrong options does not get here: gloo throws.) If
 * it is an all-reduce and no call was recognised before, all later calls are passed through. If one
 * was, ranks may have agreed to compress, so the engine stays in use. */
static void refuse_function(enum cshim_gloo_index function, const void *options)
{
    if (function != CSHIM_INDEX_gloo_allreduce) {
        count(rows[function], options);
        return;
    }
    count_unread(CSHIM_REASON_UNKNOWN_LAYOUT);
    if (!__atomic_load_n(&is_known, __ATOMIC_RELAXED) &&
        __atomic_exchange_n(&is_usable, false, __ATOMIC_RELAXED))
        cshim_log(CSHIM_LOG_WARN, "gloo's structures are laid out in a way that this version of "
                                  "compshim does not know: its calls are passed through");
}

/* Ends a call that gloo has made, for the agreement and for the class that measures it. Looks the
 * context up again, because no reference is held while gloo may throw. */
static void end_native_call(const struct cshim_gloo_arguments *arguments, bool is_open,
                            const struct cshim_gloo_chosen *chosen)
{
    void *exception = NULL;
    struct cshim_gloo_context *context =
        is_open || chosen->class != NULL ? cshim_gloo_context_find(arguments->context, NULL) : NULL;
    if (context == NULL)
        return;
    if (is_open)
        cshim_gloo_agree_end(context, arguments);
    if (chosen->class != NULL)
        cshim_gloo_chosen_end(context, arguments, chosen, &exception);
    cshim_gloo_context_release(context);
    if (exception != NULL)
        cshim_gloo_throw(exception);
}

/* Makes a call. Holds nothing while gloo may throw. */
static void make(enum cshim_gloo_index function, cshim_gloo_function real, const void *options)
{
    struct cshim_observation observation = {.job = NULL};
    struct cshim_gloo_arguments arguments;
    struct cshim_gloo_context *context = NULL;
    struct cshim_gloo_chosen chosen = {.class = NULL};
    void *exception = NULL;
    if (__atomic_load_n(&is_usable, __ATOMIC_RELAXED))
        context = open_call(function, options, &arguments);
    if (context == NULL) {
        real(options);
        refuse_function(function, options);
        return;
    }
    const struct cshim_gloo_verdict verdict = cshim_gloo_agree(context, &arguments);
    const enum cshim_reason reason =
        consider(context, &arguments, verdict.is_native, &observation, &chosen, &exception);
    cshim_gloo_context_release(context);
    if (exception != NULL)
        cshim_gloo_throw(exception);
    if (reason == CSHIM_REASON_COMPRESS)
        return;
    if (verdict.waited > 0 && arguments.timeout > 0) /* the time limit covers both waits */
        cshim_gloo_pass(&arguments, real,
                        verdict.waited < arguments.timeout ? arguments.timeout - verdict.waited
                                                           : 1);
    else
        real(options);
    cshim_observation_end(&observation);
    end_native_call(&arguments, verdict.is_open, &chosen);
}

/* The process ---------------------------------------------------------------------------------- */

static void start_gloo(cshim_gloo_function function, bool is_beside)
{
    if (cshim_process.pid != 0)
        cshim_gloo_contexts_abandon();
    cshim_process_start("gloo", is_beside);
    is_usable = cshim_gloo_open(function, cshim_process.library, sizeof cshim_process.library);
    if (!is_usable)
        cshim_log(CSHIM_LOG_WARN,
                  "%s lacks functions that the engine calls: its calls are passed through",
                  cshim_process.library);
}

__attribute__((visibility("default"))) const struct cshim_gloo_engine cshim_gloo_engine = {
    .abi = CSHIM_GLOO_ENGINE_ABI,
    .start = start_gloo,
    .make = make,
    .count = count,
    .count_unread = count_unread,
};
