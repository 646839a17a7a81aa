/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that replace NCCL's, with the same contract: those that make and end communicators,
 * the collectives, and the table of all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/nccl/background.h"
#include "shim/nccl/group.h"
#include "shim/nccl/measure.h"
#include "shim/nccl/nvlink.h"
#include "shim/nccl/prepare.h"
#include "shim/nccl/trace.h"
#include "shim/report/process.h"

/* Version of the messages between ranks, apart from the codecs. Increment it with each change. */
#define PROTOCOL 8

/* Communicators -------------------------------------------------------------------------------- */
/* Initializes the process. Called again in a child process forked before the first communicator. */
static void start_nccl(const struct cshim_nccl_real *real, int is_beside)
{
    int version = 0;
    cshim_process_start("nccl", is_beside != 0);
    cshim_process.name_threads = cshim_nccl_name_lanes;
    cshim_nccl.real = real;
    cshim_nccl.fingerprint = cshim_codec_table_hash() * 31 + PROTOCOL;
    if (real->GetVersion == NULL || real->GetVersion(&version) != ncclSuccess)
        version = 0; /* unknown */
    snprintf(cshim_process.library, sizeof cshim_process.library, "NCCL %d.%d.%d", version / 10000,
             version / 100 % 100, version % 100);
}

static ncclResult_t get_unique_id(ncclUniqueId *id)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    if (id != NULL)
        memset(id, 0, sizeof *id); /* NCCL before 2.23 writes only its own part */
    const ncclResult_t status = cshim_nccl.real->GetUniqueId(id);
    if (status != ncclSuccess)
        return status;
    struct cshim_offer offer;
    cshim_job_load(&offer);
    if (!cshim_rendezvous_serve((uint8_t *)id->internal, &offer, why))
        cshim_log(CSHIM_LOG_WARN, "NCCL is not compressed: %s", why);
    cshim_offer_free(&offer);
    return status;
}

/* Returns true if NCCL makes a nonblocking communicator with this configuration (NULL: none). */
static bool is_nonblocking(const ncclConfig_t *config)
{
    const char *value = getenv("NCCL_COMM_BLOCKING");
    if (value != NULL && *value != '\0')
        return strcmp(value, "0") == 0;
    return config != NULL && config->blocking == 0;
}

/* Makes the state of a new communicator, and sends HELLO to the rendezvous of its id. Called before
 * NCCL's own function, so that a rank without compshim is noticed. Returns NULL without memory;
 * without a rendezvous the communicator has no member, and its calls are passed through. */
static struct cshim_nccl_comm *join_rendezvous(ncclComm_t *made_at, const ncclUniqueId *id,
                                               int ranks, int rank, const ncclConfig_t *config)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX] = "no memory for it";
    const struct cshim_hello hello = {
        .version = cshim_nccl.fingerprint,
        .host = cshim_nvlink_node(),
        .ranks = (uint32_t)ranks,
        .rank = (uint32_t)rank,
    };
    if (rank < 0 || rank >= ranks) /* NCCL refuses the call */
        return NULL;
    struct cshim_nccl_comm *comm = cshim_registry_make(made_at, NULL);
    if (comm != NULL) {
        comm->ranks = ranks;
        comm->rank = rank;
        comm->nonblocking = is_nonblocking(config);
    }
    if (comm != NULL && id != NULL)
        comm->member = cshim_rendezvous_join((const uint8_t *)id->internal, &hello, why);
    if (comm != NULL && comm->member != NULL)
        cshim_rendezvous_find_own_address(comm->member, &comm->reached_at);
    if (comm == NULL || (id != NULL && comm->member == NULL))
        cshim_log(CSHIM_LOG_WARN, "a communicator of NCCL is not compressed: %s", why);
    return comm;
}

/* Adds the communicator to the group if NCCL has made it or is making it; otherwise releases it.
 * Called after NCCL's own function, with its status. */
static ncclResult_t expect_joined(ncclResult_t status, struct cshim_nccl_comm *comm)
{
    if (comm != NULL && (status == ncclSuccess || status == ncclInProgress))
        return cshim_group_expect(comm, status);
    cshim_registry_release(comm);
    return status;
}

static ncclResult_t comm_init_rank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    struct cshim_nccl_comm *joined = join_rendezvous(comm, &id, ranks, rank, NULL);
    return expect_joined(cshim_nccl.real->CommInitRank(comm, ranks, id, rank), joined);
}

static ncclResult_t comm_init_rank_config(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                          ncclConfig_t *config)
{
    struct cshim_nccl_comm *joined = join_rendezvous(comm, &id, ranks, rank, config);
    return expect_joined(cshim_nccl.real->CommInitRankConfig(comm, ranks, id, rank, config),
                         joined);
}

/* If there are several ids, the rendezvous is that of the first. */
static ncclResult_t comm_init_rank_scalable(ncclComm_t *comm, int ranks, int rank, int id_count,
                                            ncclUniqueId *ids, ncclConfig_t *config)
{
    struct cshim_nccl_comm *joined =
        join_rendezvous(comm, id_count > 0 ? ids : NULL, ranks, rank, config);
    return expect_joined(
        cshim_nccl.real->CommInitRankScalable(comm, ranks, rank, id_count, ids, config), joined);
}

/* Needs no rendezvous, because all ranks are in this process. */
static ncclResult_t comm_init_all(ncclComm_t *comms, int devices, const int *list)
{
    ncclResult_t status = cshim_nccl.real->CommInitAll(comms, devices, list);
    if (status != ncclSuccess || is_nonblocking(NULL))
        return status;
    struct cshim_offer offer;
    cshim_job_load(&offer);
    struct cshim_job *job = cshim_job_find(&offer);
    cshim_offer_free(&offer);
    for (int i = 0; i < devices && status == ncclSuccess; i++) {
        struct cshim_nccl_comm *comm = cshim_registry_make(&comms[i], job);
        if (comm != NULL) {
            comm->nodes = 1;
            cshim_durations_reach_inside(&comm->reached_at);
        }
        status = cshim_group_expect(comm, status);
    }
    return status;
}

/* Returns true if a child communicator is nonblocking because its parent is, and its configuration
 * does not set `blocking`. */
static bool inherits_nonblocking(const struct cshim_nccl_comm *parent, const ncclConfig_t *config)
{
    return parent != NULL && parent->nonblocking &&
           (config == NULL || config->blocking == NCCL_CONFIG_UNDEF_INT);
}

/* Makes the state of a child communicator, with the parent's job: its ranks need no agreement,
 * because they are ranks of the parent. If the parent is unknown, the child's calls are passed
 * through and counted. NCCL writes the handle of a nonblocking parent's child some time after the
 * call. It writes to a variable of the engine, so that the program does not see the handle before
 * the registry has it. Returns NULL without memory. */
static struct cshim_nccl_comm *begin_child(ncclComm_t parent, ncclComm_t *child,
                                           const ncclConfig_t *config)
{
    struct cshim_nccl_comm *known = cshim_registry_find(parent);
    struct cshim_nccl_comm *made = cshim_registry_make(child, known != NULL ? known->job : NULL);
    if (made != NULL)
        made->nonblocking = is_nonblocking(config) || inherits_nonblocking(known, config);
    if (made != NULL && known != NULL) {
        made->ranks = known->ranks;
        made->nodes = known->nodes;
        made->reached_at = known->reached_at;
    }
    if (made != NULL && known != NULL && known->nonblocking && child != NULL) {
        made->made_at = calloc(1, sizeof(ncclComm_t));
        if (made->made_at != NULL) {
            made->published_at = child;
            *child = NULL; /* as NCCL does, which refuses NULL as `child` */
            made->parent = known;
            known = NULL; /* made->parent keeps the reference */
        } else {
            cshim_registry_release(made);
            made = NULL;
        }
    }
    cshim_registry_release(known);
    return made;
}

/* Adds a child communicator to the group, after NCCL's own function has returned `status`. */
static ncclResult_t expect_child(ncclResult_t status, struct cshim_nccl_comm *made)
{
    if (status == ncclSuccess || status == ncclInProgress)
        return cshim_group_expect(made, status);
    if (made->parent != NULL)
        free(made->made_at);
    cshim_registry_release(made->parent);
    cshim_registry_release(made);
    return status;
}

static ncclResult_t comm_split(ncclComm_t comm, int color, int key, ncclComm_t *child,
                               ncclConfig_t *config)
{
    if (child != NULL) /* NCCL refuses NULL */
        *child = NULL;
    struct cshim_nccl_comm *made = begin_child(comm, child, config);
    if (made == NULL)
        return ncclSystemError;
    return expect_child(cshim_nccl.real->CommSplit(comm, color, key, made->made_at, config), made);
}

/* Ends the communicators of hierarchical, `inside` and `across`, by NCCL's function `how`. */
static void end_levels(struct cshim_nccl_comm *known, ncclResult_t (*how)(ncclComm_t))
{
    if (known == NULL)
        return;
    pthread_mutex_lock(&known->asking);
    const ncclComm_t levels[] = {known->across, known->inside};
    known->across = known->inside = NULL;
    pthread_mutex_unlock(&known->asking);
    for (int i = 0; i < 2; i++)
        if (levels[i] != NULL)
            how(levels[i]);
}

/* Opens an NCCL group in which the caller stops the communicator and its levels (`inside` and
 * `across`). Without the group each stop would wait for its own kernels, which may be queued after
 * another communicator's on the stream. Returns false if no group was opened: the communicator is
 * unknown or has neither of the two, or NCCL fails. */
static bool open_stop(const struct cshim_nccl_comm *known)
{
    return known != NULL && (known->across != NULL || known->inside != NULL) &&
           cshim_nccl.real->GroupStart() == ncclSuccess;
}

/* Aborts the levels, and ends the group if one is open. */
static ncclResult_t close_stop(bool is_open, struct cshim_nccl_comm *known, ncclResult_t status)
{
    if (!is_open)
        return status;
    end_levels(known, cshim_nccl.real->CommAbort);
    return cshim_nccl_end_group(status);
}

#define SHRINK_ABORT 1 /* NCCL_SHRINK_ABORT */

static ncclResult_t comm_shrink(ncclComm_t comm, int *excluded, int excluded_count,
                                ncclComm_t *child, ncclConfig_t *config, int flags)
{
    struct cshim_nccl_comm *made = begin_child(comm, child, config);
    if (made == NULL)
        return ncclSystemError;
    struct cshim_nccl_comm *known = cshim_registry_find(comm);
    const bool stops = (flags & SHRINK_ABORT) != 0 && open_stop(known);
    /* ncclCommShrink waits until the communicator's kernels end, which may be queued after those of
     * the levels. So the levels are aborted first, unless the communicator is nonblocking: NCCL
     * refuses to shrink it in a group with an abort. Its shrink may wait forever. */
    if (stops && !known->nonblocking)
        end_levels(known, cshim_nccl.real->CommAbort);
    ncclResult_t status =
        cshim_nccl.real->CommShrink(comm, excluded, excluded_count, made->made_at, config, flags);
    status = close_stop(stops, known, status);
    cshim_registry_release(known);
    return expect_child(status, made);
}

/* Makes an id for the ranks that a communicator grows by, and writes the rendezvous of the new
 * communicator to the id. If that cannot be written, no rank of the new communicator compresses. */
static ncclResult_t comm_get_unique_id(ncclComm_t comm, ncclUniqueId *id)
{
    if (id != NULL) /* NCCL refuses NULL */
        memset(id, 0, sizeof *id);
    const ncclResult_t status = cshim_nccl.real->CommGetUniqueId(comm, id);
    struct cshim_nccl_comm *known = cshim_registry_find(comm);
    if (status == ncclSuccess && known != NULL && known->member != NULL)
        cshim_rendezvous_grow(known->member, known->grown, (uint8_t *)id->internal);
    cshim_registry_release(known);
    return status;
}

/* Ranks of the old communicator keep their numbers, and derive the rendezvous from its member. New
 * ranks pass an id, which carries the rendezvous, and NULL as communicator. */
static ncclResult_t comm_grow(ncclComm_t comm, int ranks, const ncclUniqueId *id, int rank,
                              ncclComm_t *child, ncclConfig_t *config)
{
    struct cshim_nccl_comm *known = comm != NULL ? cshim_registry_find(comm) : NULL;
    ncclUniqueId own = {0};
    const ncclUniqueId *meet_at = comm == NULL ? id : NULL;
    if (known != NULL && known->member != NULL &&
        cshim_rendezvous_grow(known->member, known->grown++, (uint8_t *)own.internal))
        meet_at = &own;
    struct cshim_nccl_comm *joined =
        join_rendezvous(child, meet_at, ranks, known != NULL ? known->rank : rank, config);
    if (joined != NULL)
        joined->nonblocking = joined->nonblocking || inherits_nonblocking(known, config);
    cshim_registry_release(known);
    return expect_joined(cshim_nccl.real->CommGrow(comm, ranks, id, rank, child, config), joined);
}

/* Only calls NCCL. It is wrapped because calls that NCCL makes inside a wrapped function are not
 * taken for calls of the program. */
static ncclResult_t comm_finalize(ncclComm_t comm)
{
    return cshim_nccl.real->CommFinalize(comm);
}

/* Collects durations after NCCL's own function, which usually waits for the calls in progress.
 * Calls that have not completed by then get no duration. */
static ncclResult_t comm_destroy(ncclComm_t comm)
{
    struct cshim_nccl_comm *known = cshim_registry_take(comm);
    if (known != NULL)
        cshim_background_leave(known);
    cshim_premul_forget(comm);
    end_levels(known, cshim_nccl.real->CommDestroy);
    const ncclResult_t status = cshim_nccl.real->CommDestroy(comm);
    if (known != NULL)
        cshim_measure_collect(known);
    cshim_registry_end(known);
    return status;
}

/* Ends the engine's own waits for other ranks: calls on the communicator return `error` from now
 * on. Waits until no background thread works for it. If that thread also waits for the decision
 * about another new communicator of the same group, this may take a minute. */
static void stop_calls(struct cshim_nccl_comm *known, ncclResult_t error)
{
    pthread_mutex_lock(&known->asking);
    known->stopped = error;
    if (known->member != NULL)
        cshim_rendezvous_stop(known->member);
    pthread_mutex_unlock(&known->asking);
    cshim_background_leave(known);
}

/* Before the abort, collects the durations of the calls that have completed. Does not wait for the
 * others, which may never complete before NCCL stops its kernels. */
static ncclResult_t comm_abort(ncclComm_t comm)
{
    struct cshim_nccl_comm *known = cshim_registry_take(comm);
    cshim_premul_forget(comm);
    if (known != NULL) {
        cshim_measure_collect(known);
        stop_calls(known, ncclSystemError);
    }
    const bool stops = open_stop(known);
    const ncclResult_t status = close_stop(stops, known, cshim_nccl.real->CommAbort(comm));
    cshim_registry_end(known);
    return status;
}

/* Ends the engine's own waits, then revokes the communicator and its levels. If NCCL accepts,
 * passes all later calls through, so that NCCL refuses them. If NCCL refuses, calls in progress may
 * have failed all the same; if one was the communicator's first compressed call, all later ones
 * fail, too. Keeps the levels, which another thread may be using. */
static ncclResult_t comm_revoke(ncclComm_t comm, int flags)
{
    struct cshim_nccl_comm *known = flags == 0 ? cshim_registry_find(comm) : NULL;
    if (known == NULL)
        return cshim_nccl.real->CommRevoke(comm, flags); /* NCCL refuses flags */
    const ncclResult_t before = (ncclResult_t)known->stopped;
    stop_calls(known, ncclInvalidUsage);
    const bool has_levels = open_stop(known);
    ncclResult_t status = cshim_nccl.real->CommRevoke(comm, flags);
    const bool is_accepted = status == ncclSuccess || status == ncclInProgress;
    if (is_accepted && has_levels && known->across != NULL)
        cshim_nccl.real->CommRevoke(known->across, flags);
    if (is_accepted && has_levels && known->inside != NULL)
        cshim_nccl.real->CommRevoke(known->inside, flags);
    if (has_levels)
        status = cshim_nccl_end_group(status);
    const bool is_revoked = status == ncclSuccess || status == ncclInProgress;
    pthread_mutex_lock(&known->asking);
    if (is_revoked)
        known->reason = CSHIM_REASON_DISABLED;
    if (is_revoked && known->working == ncclInvalidUsage)
        known->working = ncclSuccess;
    /* A background thread that makes a child must be able to wait for its revoked parent. */
    if ((!is_revoked || known->nonblocking) && known->stopped == ncclInvalidUsage)
        known->stopped = before;
    pthread_mutex_unlock(&known->asking);
    cshim_registry_release(known);
    return status;
}

/* Reports ncclInProgress while a background thread works for the communicator, without asking NCCL:
 * that thread asks, and NCCL does not allow two threads to ask at once. The thread itself gets
 * NCCL's answer only. Reports errors of `inside` and `across` unless the communicator was revoked,
 * but not that they are in progress. */
static ncclResult_t comm_get_async_error(ncclComm_t comm, ncclResult_t *error)
{
    struct cshim_nccl_comm *known =
        cshim_background_is() || error == NULL ? NULL : cshim_registry_find(comm);
    if (known == NULL)
        return cshim_nccl.real->CommGetAsyncError(comm, error);
    const ncclResult_t working = (ncclResult_t)known->working;
    ncclResult_t status = ncclSuccess;
    *error = working;
    if (working != ncclInProgress) {
        pthread_mutex_lock(&known->asking);
        status = cshim_nccl.real->CommGetAsyncError(comm, error);
        pthread_mutex_unlock(&known->asking);
        if (status == ncclSuccess && *error == ncclSuccess)
            *error = working;
        if (status == ncclSuccess && *error == ncclSuccess) {
            const ncclResult_t state = cshim_nccl_state(known);
            const bool is_revoked =
                known->stopped != ncclSuccess || known->reason == CSHIM_REASON_DISABLED;
            *error = state == ncclInProgress || is_revoked ? ncclSuccess : state;
        }
    }
    cshim_registry_release(known);
    return status;
}

/* Collectives ---------------------------------------------------------------------------------- */
/* Sets capture_id and graph of a call that is captured into a CUDA graph. Returns
 * CSHIM_REASON_COMPRESS if the call can be compressed: if it is captured, the communicator must be
 * prepared already, because a preparation waits for other ranks; and it must be blocking, because a
 * background thread cannot make a captured call. NCCL requires all ranks to capture alike. */
static enum cshim_reason look_for_capture(struct cshim_nccl_call *call)
{
    CUstreamCaptureStatus status;
    if (cshim_cuda.StreamGetCaptureInfo == NULL) /* no communicator has loaded the driver */
        return CSHIM_REASON_NOT_AGREED;
    /* The calling thread may have no context, or another one, to which the default streams belong.
     * If the communicator's is lost, the call itself fails later. */
    call->capture_id = 0;
    if (cshim_cuda.CtxPushCurrent(call->comm->context) != CUDA_SUCCESS)
        return CSHIM_REASON_COMPRESS;
    const CUresult result = cshim_cuda.StreamGetCaptureInfo(
        call->stream, &status, &call->capture_id, &call->graph, NULL, NULL);
    cshim_cuda.CtxPopCurrent(NULL);
    if (result != CUDA_SUCCESS)
        return CSHIM_REASON_CAPTURED;
    if (status == CU_STREAM_CAPTURE_STATUS_NONE) {
        call->capture_id = 0;
        return CSHIM_REASON_COMPRESS;
    }
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || !call->comm->prepared ||
        call->comm->nonblocking)
        return CSHIM_REASON_CAPTURED;
    return CSHIM_REASON_COMPRESS;
}

/* Returns CSHIM_REASON_COMPRESS or why a call is passed through, as far as that is known before the
 * communicator is prepared. Calls with invalid arguments are passed through, so that NCCL refuses
 * them. */
static enum cshim_reason reason_of(struct cshim_nccl_call *call)
{
    const struct cshim_job *job = call->comm->job;
    if ((CSHIM_MOVES >> call->collective & 1) != 0 &&
        (job == NULL || !cshim_policy_names(job->policy, CSHIM_NCCL, call->collective)))
        return CSHIM_REASON_DISABLED;
    if (job != NULL && job->observed != NULL) {
        cshim_measure_observe(call);
        return CSHIM_REASON_DISABLED;
    }
    if (call->comm->reason != CSHIM_REASON_COMPRESS || job == NULL)
        return call->comm->reason;
    const enum cshim_reason reason = cshim_call_reason(call);
    if (reason != CSHIM_REASON_COMPRESS)
        return reason;
    if (call->send == NULL || call->receive == NULL || call->root < 0 ||
        call->root >= call->comm->ranks)
        return CSHIM_REASON_DISABLED;
    return look_for_capture(call);
}

/* Compresses a call or passes it through, and counts the reason unless it is CSHIM_REASON_DISABLED.
 * Ranks that contribute nothing to a broadcast may pass any address as `send`, so it is replaced by
 * `receive`. */
static ncclResult_t make_call(enum cshim_collective collective, const void *send, void *receive,
                              size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
                              ncclComm_t comm, cudaStream_t stream)
{
    struct cshim_nccl_call call = {
        .handle = comm,
        .comm = cshim_registry_find(comm),
        .collective = collective,
        .send = send,
        .receive = receive,
        .count = count,
        .datatype = datatype,
        .op = op,
        .root = root,
        .stream = stream,
        .premul = {.factor = 1, .datatype = ncclNumTypes},
    };
    if (call.comm == NULL)
        return cshim_call_natively(&call);
    if (call.comm->working == ncclInProgress) { /* NCCL, too, refuses calls then */
        cshim_registry_release(call.comm);
        return ncclInvalidArgument;
    }
    if (!cshim_call_gives(&call))
        call.send = receive;
    if (op >= ncclNumOps)
        cshim_premul_find(op, comm, &call.premul);
    const enum cshim_reason reason = reason_of(&call);
    if (reason == CSHIM_REASON_COMPRESS)
        return cshim_group_add(&call);
    if (reason != CSHIM_REASON_DISABLED)
        cshim_measure_pass(call.comm, reason);
    const ncclResult_t status = cshim_call_natively(&call);
    cshim_registry_release(call.comm);
    return status;
}

static ncclResult_t all_reduce(const void *send, void *receive, size_t count,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    return make_call(CSHIM_ALLREDUCE, send, receive, count, datatype, op, 0, comm, stream);
}

static ncclResult_t reduce_scatter(const void *send, void *receive, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                   cudaStream_t stream)
{
    return make_call(CSHIM_REDUCE_SCATTER, send, receive, count, datatype, op, 0, comm, stream);
}

static ncclResult_t all_gather(const void *send, void *receive, size_t count,
                               ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return make_call(CSHIM_ALLGATHER, send, receive, count, datatype, ncclSum, 0, comm, stream);
}

static ncclResult_t all_to_all(const void *send, void *receive, size_t count,
                               ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return make_call(CSHIM_ALLTOALL, send, receive, count, datatype, ncclSum, 0, comm, stream);
}

static ncclResult_t broadcast(const void *send, void *receive, size_t count,
                              ncclDataType_t datatype, int root, ncclComm_t comm,
                              cudaStream_t stream)
{
    return make_call(CSHIM_BROADCAST, send, receive, count, datatype, ncclSum, root, comm, stream);
}

static ncclResult_t broadcast_in_place(void *buffer, size_t count, ncclDataType_t datatype,
                                       int root, ncclComm_t comm, cudaStream_t stream)
{
    return broadcast(buffer, buffer, count, datatype, root, comm, stream);
}

static void count_configured(ncclComm_t comm)
{
    struct cshim_nccl_comm *known = cshim_registry_find(comm);
    if (known != NULL)
        cshim_measure_pass(known, CSHIM_REASON_OPTION);
    cshim_registry_release(known);
}

__attribute__((visibility("default"))) const struct cshim_nccl_engine cshim_nccl_engine = {
    .abi = CSHIM_NCCL_ENGINE_ABI,
    .start = start_nccl,
    .count_configured = count_configured,
    .functions =
        {
            .GetUniqueId = get_unique_id,
            .CommInitRank = comm_init_rank,
            .CommInitRankConfig = comm_init_rank_config,
            .CommInitRankScalable = comm_init_rank_scalable,
            .CommInitAll = comm_init_all,
            .CommSplit = comm_split,
            .CommShrink = comm_shrink,
            .CommGrow = comm_grow,
            .CommGetUniqueId = comm_get_unique_id,
            .CommFinalize = comm_finalize,
            .CommDestroy = comm_destroy,
            .CommAbort = comm_abort,
            .CommRevoke = comm_revoke,
            .CommGetAsyncError = comm_get_async_error,
            .GroupStart = cshim_group_start,
            .GroupEnd = cshim_group_end,
            .GroupSimulateEnd = cshim_group_simulate_end,
            .RedOpCreatePreMulSum = cshim_premul_create,
            .RedOpDestroy = cshim_premul_destroy,
            .AllReduce = all_reduce,
            .ReduceScatter = reduce_scatter,
            .AllGather = all_gather,
            .AlltoAll = all_to_all,
            .Broadcast = broadcast,
            .Bcast = broadcast_in_place,
        },
};
