/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: operations on the stream. A communicator's tasks of a group run as one operation:
 * collectives in their order, then all point-to-point messages at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/standin/nccl_run.h"

struct plan {
    ncclComm_t comm;
    struct standin_task *tasks;
};

void *standin_room(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL)
        abort();
    return memory;
}

void *standin_seen(const struct standin_context *context, const void *pointer, size_t bytes,
                   bool write)
{
    static max_align_t nothing;
    return bytes == 0 ? &nothing
                      : standin_the_driver()->memory(context->comm->device, pointer, bytes, write,
                                                     context->task->name);
}

static void describe_header(const struct standin_header *header, char *text, size_t size)
{
    static const char *const names[] = {"AllReduce", "ReduceScatter", "AllGather",
                                        "AlltoAll",  "Broadcast",     "point-to-point"};
    const bool is_message = header->kind == STANDIN_POINT_TO_POINT;
    snprintf(text, size, "%s %s%s%llu x %s%s%u, operation %llu",
             header->kind <= STANDIN_POINT_TO_POINT ? names[header->kind] : "?",
             is_message ? "" : standin_op_name((ncclRedOp_t)header->op), is_message ? "" : " ",
             (unsigned long long)header->count, standin_dtype_name((ncclDataType_t)header->dtype),
             is_message ? " " : " root ", header->root, (unsigned long long)header->sequence);
}

/* Returns an error for the context, after a message, if the ranks of an exchange do not match. */
static CUresult finish(const struct standin_context *context, enum standin_outcome outcome,
                       const struct standin_transfer *failed)
{
    char here[128], there[128];
    struct standin_header got;
    if (outcome != STANDIN_MISMATCH || failed == NULL)
        return CUDA_SUCCESS;
    memcpy(&got, failed->bytes, sizeof got);
    describe_header(failed->expected, here, sizeof here);
    describe_header(&got, there, sizeof there);
    fprintf(stderr, "standin libnccl: ranks do not match: rank %d: %s; rank %d: %s\n",
            context->comm->rank, here, failed->peer,
            got.magic == STANDIN_HEADER_MAGIC ? there : "not a header");
    standin_set_async(context->comm, ncclInvalidUsage);
    return CUDA_ERROR_LAUNCH_FAILED;
}

CUresult standin_move(const struct standin_context *context, struct standin_transfer *transfers,
                      size_t count, bool *go_on)
{
    size_t failed = 0;
    const enum standin_outcome outcome =
        standin_exchange(context->comm, STANDIN_DATA, transfers, count, &failed);
    *go_on = *go_on && outcome == STANDIN_DONE;
    return finish(context, outcome, outcome == STANDIN_MISMATCH ? &transfers[failed] : NULL);
}

/* Exchanges headers among all ranks, and compares them. */
static CUresult agree(const struct standin_context *context, bool *go_on)
{
    const ncclComm_t comm = context->comm;
    const struct standin_task *task = context->task;
    const bool has_op = task->kind == STANDIN_ALL_REDUCE || task->kind == STANDIN_REDUCE_SCATTER;
    struct standin_header mine = {.magic = STANDIN_HEADER_MAGIC,
                                  .kind = (uint32_t)task->kind,
                                  .sequence = ++comm->sequence,
                                  .count = task->count,
                                  .dtype = (uint32_t)task->dtype,
                                  .op = has_op && task->op < ncclNumOps ? (uint32_t)task->op
                                        : has_op                        ? (uint32_t)ncclNumOps
                                                                        : 0,
                                  .root = (uint32_t)task->root};
    struct standin_header theirs[STANDIN_RANKS_MAX];
    struct standin_transfer transfers[2 * STANDIN_RANKS_MAX];
    size_t count = 0;
    for (int peer = 0; peer < comm->ranks; peer++) {
        if (peer == comm->rank)
            continue;
        transfers[count++] = (struct standin_transfer){peer, true, &mine, sizeof mine, 0, NULL};
        transfers[count++] =
            (struct standin_transfer){peer, false, &theirs[peer], sizeof mine, 0, &mine};
    }
    return standin_move(context, transfers, count, go_on);
}

/* Reductions ----------------------------------------------------------------------------------- */
/* Returns a copy of this rank's input, multiplied by the operation's factor; NULL if the access is
 * refused. */
static uint8_t *own_input(const struct standin_context *context, size_t bytes)
{
    const struct standin_task *task = context->task;
    const void *input = standin_seen(context, task->send, bytes, false);
    const void *scalar = task->scalar.scalar;
    if (task->scalar.used && task->scalar.residence == ncclScalarDevice)
        scalar = standin_seen(context, task->scalar.pointer, context->element, false);
    if (input == NULL || scalar == NULL)
        return NULL;
    uint8_t *copy = standin_room(bytes);
    memcpy(copy, input, bytes);
    standin_log_data(task, copy, bytes);
    if (task->scalar.used)
        standin_combine(task->dtype, ncclProd, copy, scalar, 0, bytes / context->element);
    return copy;
}

/* Sends part r of the input, which begins at begin[r], to rank r, and reduces all ranks'
 * contributions to this rank's part in rank order. *sum becomes the result, in new memory. */
static CUresult reduce_parts(const struct standin_context *context, uint8_t *input,
                             const size_t *begin, uint8_t **sum, bool *go_on)
{
    const ncclComm_t comm = context->comm;
    const size_t mine = begin[comm->rank + 1] - begin[comm->rank];
    uint8_t *parts = standin_room(mine * (size_t)comm->ranks);
    struct standin_transfer transfers[2 * STANDIN_RANKS_MAX];
    size_t count = 0;
    memcpy(parts + (size_t)comm->rank * mine, input + begin[comm->rank], mine);
    for (int peer = 0; peer < comm->ranks; peer++) {
        if (peer == comm->rank)
            continue;
        transfers[count++] = (struct standin_transfer){
            peer, true, input + begin[peer], begin[peer + 1] - begin[peer], 0, NULL};
        transfers[count++] =
            (struct standin_transfer){peer, false, parts + (size_t)peer * mine, mine, 0, NULL};
    }
    const CUresult status = standin_move(context, transfers, count, go_on);
    const ncclRedOp_t op = context->task->op;
    const ncclRedOp_t step = op == ncclProd || op == ncclMax || op == ncclMin ? op : ncclSum;
    const size_t elements = mine / context->element;
    for (int rank = 1; rank < comm->ranks; rank++)
        standin_combine(context->task->dtype, step, parts, parts + (size_t)rank * mine, 1,
                        elements);
    const uint64_t ranks = (uint64_t)comm->ranks; /* little endian: valid for any integer type */
    if (op == ncclAvg && !context->task->scalar.used)
        standin_combine(context->task->dtype, STANDIN_QUOTIENT, parts, &ranks, 0, elements);
    *sum = parts;
    return status;
}

static CUresult gather_parts(const struct standin_context *context, uint8_t *output,
                             const size_t *begin, bool *go_on)
{
    const ncclComm_t comm = context->comm;
    struct standin_transfer transfers[2 * STANDIN_RANKS_MAX];
    const size_t mine = begin[comm->rank + 1] - begin[comm->rank];
    size_t count = 0;
    for (int peer = 0; peer < comm->ranks; peer++) {
        if (peer == comm->rank)
            continue;
        transfers[count++] =
            (struct standin_transfer){peer, true, output + begin[comm->rank], mine, 0, NULL};
        transfers[count++] = (struct standin_transfer){
            peer, false, output + begin[peer], begin[peer + 1] - begin[peer], 0, NULL};
    }
    return standin_move(context, transfers, count, go_on);
}

static CUresult all_reduce(const struct standin_context *context, bool *go_on)
{
    const ncclComm_t comm = context->comm;
    size_t begin[STANDIN_RANKS_MAX + 1] = {0};
    for (int rank = 0; rank <= comm->ranks; rank++)
        begin[rank] = context->task->count * (size_t)rank / (size_t)comm->ranks * context->element;
    uint8_t *sum = NULL, *input = own_input(context, context->bytes);
    uint8_t *output = standin_seen(context, context->task->recv, context->bytes, true);
    if (input == NULL || output == NULL) {
        free(input);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    CUresult status = reduce_parts(context, input, begin, &sum, go_on);
    if (*go_on)
        memcpy(output + begin[comm->rank], sum, begin[comm->rank + 1] - begin[comm->rank]);
    if (*go_on)
        status = gather_parts(context, output, begin, go_on);
    free(input);
    free(sum);
    return status;
}

static CUresult reduce_scatter(const struct standin_context *context, bool *go_on)
{
    const ncclComm_t comm = context->comm;
    size_t begin[STANDIN_RANKS_MAX + 1] = {0};
    for (int rank = 0; rank <= comm->ranks; rank++)
        begin[rank] = context->bytes * (size_t)rank;
    uint8_t *sum = NULL, *input = own_input(context, begin[comm->ranks]);
    uint8_t *output = standin_seen(context, context->task->recv, context->bytes, true);
    if (input == NULL || output == NULL) {
        free(input);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    const CUresult status = reduce_parts(context, input, begin, &sum, go_on);
    if (*go_on)
        memcpy(output, sum, context->bytes);
    free(input);
    free(sum);
    return status;
}

/* Copies --------------------------------------------------------------------------------------- */
static CUresult all_gather(const struct standin_context *context, bool *go_on)
{
    const ncclComm_t comm = context->comm;
    size_t begin[STANDIN_RANKS_MAX + 1] = {0};
    for (int rank = 0; rank <= comm->ranks; rank++)
        begin[rank] = context->bytes * (size_t)rank;
    const void *input = standin_seen(context, context->task->send, context->bytes, false);
    uint8_t *output = standin_seen(context, context->task->recv, begin[comm->ranks], true);
    if (input == NULL || output == NULL)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    memmove(output + begin[comm->rank], input, context->bytes);
    standin_log_data(context->task, input, context->bytes);
    return gather_parts(context, output, begin, go_on);
}

/* Runs an all-to-all. In place the results may be wrong, as NCCL's may. */
static CUresult all_to_all(const struct standin_context *context, bool *go_on)
{
    const ncclComm_t comm = context->comm;
    const size_t all = context->bytes * (size_t)comm->ranks;
    uint8_t *input = standin_seen(context, context->task->send, all, false);
    uint8_t *output = standin_seen(context, context->task->recv, all, true);
    struct standin_transfer transfers[2 * STANDIN_RANKS_MAX];
    size_t count = 0;
    if (input == NULL || output == NULL)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    standin_log_data(context->task, input, all);
    for (int peer = 0; peer < comm->ranks; peer++) {
        const size_t begin = context->bytes * (size_t)peer;
        if (peer == comm->rank) {
            memmove(output + begin, input + begin, context->bytes);
            continue;
        }
        transfers[count++] =
            (struct standin_transfer){peer, true, input + begin, context->bytes, 0, NULL};
        transfers[count++] =
            (struct standin_transfer){peer, false, output + begin, context->bytes, 0, NULL};
    }
    return standin_move(context, transfers, count, go_on);
}

static CUresult broadcast(const struct standin_context *context, bool *go_on)
{
    const ncclComm_t comm = context->comm;
    const struct standin_task *task = context->task;
    const bool is_root = comm->rank == task->root;
    struct standin_transfer transfers[STANDIN_RANKS_MAX];
    size_t count = 0;
    void *input = is_root ? standin_seen(context, task->send, context->bytes, false) : NULL;
    void *output = standin_seen(context, task->recv, context->bytes, true);
    if (output == NULL || (is_root && input == NULL))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (is_root) {
        memmove(output, input, context->bytes);
        standin_log_data(task, input, context->bytes);
    }
    for (int peer = 0; peer < comm->ranks; peer++)
        if (peer != comm->rank && (is_root || peer == task->root))
            transfers[count++] =
                (struct standin_transfer){peer, is_root, output, context->bytes, 0, NULL};
    return standin_move(context, transfers, count, go_on);
}

static CUresult run_collective(ncclComm_t comm, const struct standin_task *task, bool *go_on)
{
    const size_t element = standin_dtype_bytes(task->dtype);
    const struct standin_context context = {comm, task, element, task->count * element};
    const CUresult status = agree(&context, go_on);
    if (!*go_on || status != CUDA_SUCCESS)
        return status;
    switch (task->kind) {
    case STANDIN_ALL_REDUCE:
        return all_reduce(&context, go_on);
    case STANDIN_REDUCE_SCATTER:
        return reduce_scatter(&context, go_on);
    case STANDIN_ALL_GATHER:
        return all_gather(&context, go_on);
    case STANDIN_ALL_TO_ALL:
        return all_to_all(&context, go_on);
    default:
        return broadcast(&context, go_on);
    }
}

/* Plans ---------------------------------------------------------------------------------------- */
/* Waits until it is the operation's turn: a communicator's operations run in the order of their
 * launches, whatever their streams. Returns false if the communicator is stopped before. */
static bool my_turn(ncclComm_t comm, uint64_t ticket)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->finished != ticket && !standin_is_stopped(comm, STANDIN_DATA))
        pthread_cond_wait(&comm->progress, &comm->lock);
    const bool mine = comm->finished == ticket;
    pthread_mutex_unlock(&comm->lock);
    return mine;
}

static void end_turn(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->lock);
    comm->finished++;
    pthread_cond_broadcast(&comm->progress);
    pthread_mutex_unlock(&comm->lock);
}

static CUresult run_plan(void *payload, uint64_t ticket)
{
    const struct plan *plan = payload;
    bool go_on = my_turn(plan->comm, ticket) && !standin_is_stopped(plan->comm, STANDIN_DATA);
    CUresult status = CUDA_SUCCESS;
    size_t bytes = 0;
    for (const struct standin_task *task = plan->tasks; task != NULL; task = task->next)
        bytes += standin_bytes_sent(task);
    standin_the_driver()->spend(1, bytes);
    for (const struct standin_task *task = plan->tasks;
         task != NULL && go_on && status == CUDA_SUCCESS; task = task->next)
        if (task->kind < STANDIN_SEND)
            status = run_collective(plan->comm, task, &go_on);
    if (go_on && status == CUDA_SUCCESS)
        status = standin_run_messages(plan->comm, plan->tasks, &go_on);
    end_turn(plan->comm);
    return status;
}

static uint64_t prepare_plan(void *payload)
{
    const struct plan *plan = payload;
    pthread_mutex_lock(&plan->comm->lock);
    const uint64_t ticket = plan->comm->tickets++;
    pthread_mutex_unlock(&plan->comm->lock);
    return ticket;
}

static void release_plan(void *payload)
{
    struct plan *plan = payload;
    while (plan->tasks != NULL) {
        struct standin_task *task = plan->tasks;
        plan->tasks = task->next;
        free(task);
    }
    standin_let_go(plan->comm);
    free(plan);
}

struct standin_op *standin_plan_op(ncclComm_t comm, struct standin_task *tasks)
{
    struct plan *plan = standin_room(sizeof *plan);
    *plan = (struct plan){comm, tasks};
    __atomic_add_fetch(&comm->references, 1, __ATOMIC_ACQ_REL);
    struct standin_op *op = standin_the_driver()->op_new(tasks->name, run_plan, release_plan, plan);
    op->prepare = prepare_plan;
    return op;
}
