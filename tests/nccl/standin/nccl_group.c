/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: groups. Their state is thread-local; calls are launched when the outermost group ends. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/nccl/standin/nccl_internal.h"

/* A communicator to make at the end of the group. */
struct init {
    ncclComm_t comm;
    ncclResult_t (*job)(void *);
    void *argument;
    pthread_t thread;
    ncclResult_t result;
    struct init *next;
};

struct call_queue {
    struct standin_task *first, *last;
    struct init *inits;
};

static _Thread_local int depth;
static _Thread_local ncclResult_t group_result;
static _Thread_local struct call_queue queue;

static void free_tasks(struct standin_task *tasks)
{
    while (tasks != NULL) {
        struct standin_task *task = tasks;
        tasks = task->next;
        free(task);
    }
}

static void free_inits(struct init *inits)
{
    while (inits != NULL) {
        struct init *init = inits;
        inits = init->next;
        free(init);
    }
}

ncclResult_t standin_group_error(ncclResult_t result)
{
    if (depth > 0 && group_result == ncclSuccess)
        group_result = result;
    return result;
}

/* Communicators -------------------------------------------------------------------------------- */
static void *run_init(void *argument)
{
    struct init *init = argument;
    init->result = init->job(init->argument);
    return NULL;
}

/* Makes all communicators of a group at once, on threads, because they wait for each other. */
static ncclResult_t run_inits(struct init *inits)
{
    ncclResult_t result = ncclSuccess;
    for (struct init *init = inits; init != NULL; init = init->next)
        if (!init->comm->blocking)
            result = standin_background(init->comm, init->job, init->argument);
        else if (pthread_create(&init->thread, NULL, run_init, init) != 0)
            abort();
    for (struct init *init = inits; init != NULL; init = init->next)
        if (init->comm->blocking) {
            pthread_join(init->thread, NULL);
            if (init->result != ncclSuccess)
                result = init->result;
        }
    free_inits(inits);
    return result;
}

/* Launches ------------------------------------------------------------------------------------- */
/* Removes the tasks of the first task's communicator from the list, in their order. */
static struct standin_task *take_one_comm(struct standin_task **list)
{
    const ncclComm_t comm = (*list)->comm;
    struct standin_task *taken = NULL, **end = &taken;
    while (*list != NULL) {
        if ((*list)->comm == comm) {
            *end = *list;
            *list = (*list)->next;
            end = &(*end)->next;
        } else {
            list = &(*list)->next;
        }
    }
    *end = NULL;
    return taken;
}

/* Makes the stream of the first task wait for those of the others; if `before` is false, makes the
 * others wait for the first one. */
static CUresult join_streams(const struct standin_task *tasks, bool before)
{
    const struct standin_driver *driver = standin_the_driver();
    const CUcontext context = tasks->comm->context;
    CUresult status = CUDA_SUCCESS;
    for (const struct standin_task *task = tasks->next; task != NULL && status == CUDA_SUCCESS;
         task = task->next)
        if (task->stream != tasks->stream)
            status = before ? driver->chain(task->stream, tasks->stream, context)
                            : driver->chain(tasks->stream, task->stream, context);
    return status;
}

/* Reserves device memory for each rank with which this rank exchanges its first message, as the
 * real NCCL does when it connects them. Refuses to do so in a capture, as some transports do. */
static ncclResult_t connect_peers(const struct standin_task *tasks, bool captured)
{
    ncclResult_t result = ncclSuccess;
    for (const struct standin_task *task = tasks; task != NULL && result == ncclSuccess;
         task = task->next) {
        const ncclComm_t comm = task->comm;
        if (task->kind < STANDIN_SEND || task->root == comm->rank ||
            (comm->connected >> task->root & 1) != 0)
            continue;
        if (captured) {
            fprintf(stderr, "standin libnccl: rank %d connects to rank %d inside a capture\n",
                    comm->rank, task->root);
            return ncclUnhandledCudaError;
        }
        result = standin_take_memory(comm, "STANDIN_CONNECTION", 10);
        comm->connected |= (uint64_t)1 << task->root;
    }
    return result;
}

static ncclResult_t launch_comm(struct standin_task *tasks)
{
    const struct standin_driver *driver = standin_the_driver();
    const ncclComm_t comm = tasks->comm;
    const CUstream stream = tasks->stream;
    const bool captured = driver->capture_of(stream, comm->context) != 0;
    const ncclResult_t connected = connect_peers(tasks, captured);
    if (connected != ncclSuccess) {
        free_tasks(tasks);
        return connected;
    }
    CUresult status = join_streams(tasks, true);
    for (const struct standin_task *task = tasks; task != NULL; task = task->next)
        standin_log(task, captured);
    /* Copies the tasks, for their streams, because the plan takes over the tasks. */
    struct standin_task streams = *tasks, *last = &streams;
    for (const struct standin_task *task = tasks->next; task != NULL; task = task->next) {
        last->next = malloc(sizeof *last);
        if (last->next == NULL)
            abort();
        *last->next = *task;
        last = last->next;
    }
    last->next = NULL;
    struct standin_op *op = standin_plan_op(comm, tasks);
    if (status == CUDA_SUCCESS)
        status = driver->enqueue(stream, comm->context, op);
    if (status == CUDA_SUCCESS)
        status = join_streams(&streams, false);
    free_tasks(streams.next);
    if (status != CUDA_SUCCESS)
        fprintf(stderr, "standin libnccl: rank %d: launch failed: CUDA error %d\n", comm->rank,
                (int)status);
    return status == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

static ncclResult_t launch(struct standin_task *tasks)
{
    ncclResult_t result = ncclSuccess;
    while (tasks != NULL && result == ncclSuccess)
        result = launch_comm(take_one_comm(&tasks));
    free_tasks(tasks);
    return result;
}

/* Returns an error unless the whole group is captured by one graph, or no part of it, and either
 * all or none of its communicators are blocking. */
static ncclResult_t check_group(const struct standin_task *tasks)
{
    const struct standin_driver *driver = standin_the_driver();
    for (const struct standin_task *task = tasks; task != NULL; task = task->next) {
        if (driver->capture_of(task->stream, task->comm->context) !=
            driver->capture_of(tasks->stream, tasks->comm->context)) {
            fprintf(stderr, "standin libnccl: a group is captured in part\n");
            return ncclInvalidUsage;
        }
        if (task->comm->blocking != tasks->comm->blocking) {
            fprintf(stderr, "standin libnccl: blocking and other communicators in one group\n");
            return ncclInvalidArgument;
        }
    }
    return ncclSuccess;
}

/* Tasks that a thread launches; `others`: their communicators except the first. */
struct late {
    struct standin_task *tasks;
    ncclComm_t others[STANDIN_RANKS_MAX];
    int count;
};

/* Launches on another thread, after a delay, so that tests find an engine that does not wait while
 * the state is ncclInProgress, and so enqueues its own work too early. */
static ncclResult_t launch_late(void *argument)
{
    const struct timespec pause = {0, 2000000};
    struct late late = *(struct late *)argument;
    free(argument);
    nanosleep(&pause, NULL);
    const ncclResult_t result = launch(late.tasks);
    for (int i = 0; i < late.count; i++)
        standin_work_ends(late.others[i], result);
    return result;
}

static ncclResult_t launch_in_background(struct standin_task *tasks)
{
    const ncclComm_t first = tasks->comm;
    struct late *late = calloc(1, sizeof *late);
    if (late == NULL)
        abort();
    late->tasks = tasks;
    for (const struct standin_task *task = tasks; task != NULL; task = task->next) {
        bool known = task->comm == first;
        for (int i = 0; i < late->count; i++)
            known = known || late->others[i] == task->comm;
        if (known || late->count == STANDIN_RANKS_MAX)
            continue;
        late->others[late->count++] = task->comm;
        standin_work_begins(task->comm);
    }
    return standin_background(first, launch_late, late);
}

static ncclResult_t end_group(void)
{
    struct call_queue group = queue;
    queue = (struct call_queue){NULL, NULL, NULL};
    ncclResult_t result = group_result;
    group_result = ncclSuccess;
    if (result == ncclSuccess && group.first != NULL && group.inits != NULL)
        result = ncclInvalidUsage;
    if (result == ncclSuccess && group.first != NULL)
        result = check_group(group.first);
    if (result != ncclSuccess) {
        free_tasks(group.first);
        free_inits(group.inits);
        return result;
    }
    if (group.inits != NULL)
        return run_inits(group.inits);
    if (group.first == NULL)
        return ncclSuccess;
    if (group.first->comm->blocking)
        return launch(group.first);
    return launch_in_background(group.first);
}

ncclResult_t standin_submit(const struct standin_task *task)
{
    struct standin_task *copy = malloc(sizeof *copy);
    if (copy == NULL)
        abort();
    *copy = *task;
    copy->next = NULL;
    if (queue.first == NULL)
        queue.first = copy;
    else
        queue.last->next = copy;
    queue.last = copy;
    return depth > 0 ? ncclSuccess : end_group();
}

ncclResult_t standin_submit_init(ncclComm_t comm, ncclResult_t (*job)(void *), void *argument)
{
    struct init *init = calloc(1, sizeof *init);
    if (init == NULL)
        abort();
    *init = (struct init){.comm = comm, .job = job, .argument = argument, .next = queue.inits};
    queue.inits = init;
    return depth > 0 ? ncclSuccess : end_group();
}

STANDIN_EXPORT ncclResult_t pncclGroupStart(void)
{
    const ncclResult_t result = standin_since("ncclGroupStart", 0);
    if (result == ncclSuccess)
        depth++;
    return result;
}
STANDIN_NCCL(ncclGroupStart);

STANDIN_EXPORT ncclResult_t pncclGroupEnd(void)
{
    const ncclResult_t result = standin_since("ncclGroupEnd", 0);
    if (result != ncclSuccess)
        standin_group_error(result);
    if (depth == 0) {
        fprintf(stderr, "standin libnccl: ncclGroupEnd: not in a group call\n");
        return ncclInvalidUsage;
    }
    return --depth > 0 ? ncclSuccess : end_group();
}
STANDIN_NCCL(ncclGroupEnd);

STANDIN_EXPORT ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    STANDIN_CHECK(standin_since("ncclGroupSimulateEnd", 22200));
    if (depth == 0)
        return ncclInvalidUsage;
    if (--depth > 0)
        return ncclSuccess;
    ncclResult_t result = group_result;
    group_result = ncclSuccess;
    free_tasks(queue.first);
    free_inits(queue.inits);
    queue = (struct call_queue){NULL, NULL, NULL};
    if (info != NULL)
        info->estimatedTime = 1;
    return result;
}
STANDIN_NCCL(ncclGroupSimulateEnd);
