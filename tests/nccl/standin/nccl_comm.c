/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: communicators. Handles of destroyed communicators are reused as soon as nothing refers to
 * them, the latest first, to find errors in state that is kept by handle. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/nccl/standin/nccl_internal.h"

static const struct standin_driver *driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ncclComm_t dead;

/* Loads libcuda.so.1 at the first use, as the real NCCL does, which is not linked to it. */
static void find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    driver = library != NULL ? dlsym(library, "standin_driver") : NULL;
    if (driver == NULL)
        fprintf(stderr, "standin libnccl: no stand-in for libcuda.so.1 beside it: %s\n",
                library != NULL ? "it is another one" : dlerror());
}

const struct standin_driver *standin_the_driver(void)
{
    pthread_once(&driver_once, find_driver);
    return driver;
}

int standin_version(void)
{
    const char *text = getenv("STANDIN_NCCL_VERSION");
    return text != NULL && *text != 0 ? atoi(text) : NCCL_VERSION_CODE;
}

ncclResult_t standin_since(const char *name, int version)
{
    int code;
    if (standin_version() < version) {
        fprintf(stderr, "standin libnccl: %s came with %d, this is %d\n", name, version,
                standin_version());
        return ncclInternalError;
    }
    if (standin_the_driver() == NULL)
        return ncclUnhandledCudaError;
    return driver->fails(name, &code) ? (ncclResult_t)code : ncclSuccess;
}

ncclResult_t standin_check_comm(ncclComm_t comm, bool may_be_busy)
{
    if (comm == NULL || comm->magic != STANDIN_COMM) {
        fprintf(stderr, "standin libnccl: %s communicator\n", comm == NULL ? "null" : "dead");
        return ncclInvalidArgument;
    }
    if (!may_be_busy && __atomic_load_n(&comm->async, __ATOMIC_ACQUIRE) == ncclInProgress) {
        fprintf(stderr, "standin libnccl: rank %d: called while ncclInProgress\n", comm->rank);
        return ncclInvalidArgument;
    }
    return ncclSuccess;
}

bool standin_is_stopped(ncclComm_t comm, enum standin_channel channel)
{
    return __atomic_load_n(&comm->aborted, __ATOMIC_ACQUIRE) != 0 ||
           (channel == STANDIN_DATA && __atomic_load_n(&comm->revoked, __ATOMIC_ACQUIRE) != 0);
}

void standin_set_async(ncclComm_t comm, ncclResult_t result)
{
    __atomic_store_n(&comm->async, (int)result, __ATOMIC_RELEASE);
}

/* Begin and end -------------------------------------------------------------------------------- */
ncclComm_t standin_new_comm(int rank, int ranks, CUcontext context, bool blocking)
{
    pthread_mutex_lock(&lock);
    ncclComm_t comm = dead;
    if (comm != NULL)
        dead = comm->next_dead;
    pthread_mutex_unlock(&lock);
    if (comm == NULL && (comm = malloc(sizeof *comm)) == NULL)
        abort();
    memset(comm, 0, sizeof *comm);
    *comm = (struct ncclComm){.magic = STANDIN_COMM,
                              .rank = rank,
                              .ranks = ranks,
                              .device = driver->device_of(context),
                              .context = context,
                              .blocking = blocking,
                              .references = 1};
    memset(comm->sockets, 0xff, sizeof comm->sockets);
    pthread_mutex_init(&comm->lock, NULL);
    pthread_cond_init(&comm->progress, NULL);
    return comm;
}

void standin_let_go(ncclComm_t comm)
{
    if (__atomic_sub_fetch(&comm->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    standin_disconnect(comm);
    driver->reserve(comm->context, -comm->reserved);
    pthread_mutex_lock(&lock);
    comm->next_dead = dead;
    dead = comm;
    pthread_mutex_unlock(&lock);
}

ncclResult_t standin_take_memory(ncclComm_t comm, const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    const int64_t bytes = (int64_t)(text != NULL ? atoi(text) : otherwise) << 20;
    if (!driver->reserve(comm->context, bytes)) {
        fprintf(stderr, "standin libnccl: rank %d: no memory on the device for buffers\n",
                comm->rank);
        return ncclUnhandledCudaError;
    }
    comm->reserved += bytes;
    return ncclSuccess;
}

void standin_work_begins(ncclComm_t comm)
{
    standin_set_async(comm, ncclInProgress);
    __atomic_add_fetch(&comm->background, 1, __ATOMIC_ACQ_REL);
    __atomic_add_fetch(&comm->references, 1, __ATOMIC_ACQ_REL);
}

void standin_work_ends(ncclComm_t comm, ncclResult_t result)
{
    int busy = ncclInProgress; /* keeps an error that has occurred meanwhile */
    if (__atomic_load_n(&comm->background, __ATOMIC_ACQUIRE) == 1)
        __atomic_compare_exchange_n(&comm->async, &busy, (int)result, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE);
    __atomic_sub_fetch(&comm->background, 1, __ATOMIC_ACQ_REL);
    standin_let_go(comm);
}

struct work {
    ncclComm_t comm;
    ncclResult_t (*job)(void *);
    void *argument;
};

static void *run_work(void *argument)
{
    const struct work work = *(struct work *)argument;
    free(argument);
    standin_work_ends(work.comm, work.job(work.argument));
    return NULL;
}

ncclResult_t standin_background(ncclComm_t comm, ncclResult_t (*job)(void *), void *argument)
{
    struct work *work = malloc(sizeof *work);
    pthread_t thread;
    if (work == NULL)
        abort();
    *work = (struct work){comm, job, argument};
    standin_work_begins(comm);
    if (pthread_create(&thread, NULL, run_work, work) != 0)
        abort();
    pthread_detach(thread);
    return ncclInProgress;
}

void standin_wait_operations(ncclComm_t comm)
{
    driver->let_run();
    pthread_mutex_lock(&comm->lock);
    while (comm->finished < comm->tickets && !standin_is_stopped(comm, STANDIN_DATA))
        pthread_cond_wait(&comm->progress, &comm->lock);
    pthread_mutex_unlock(&comm->lock);
}

void standin_settle(ncclComm_t comm)
{
    const struct timespec pause = {0, 1000000};
    while (__atomic_load_n(&comm->background, __ATOMIC_ACQUIRE) > 0)
        nanosleep(&pause, NULL);
    standin_wait_operations(comm);
}

/* Creation ------------------------------------------------------------------------------------- */
ncclResult_t standin_join_by_id(void *argument)
{
    struct standin_creation creation = *(struct standin_creation *)argument;
    struct standin_place mine, all[STANDIN_RANKS_MAX];
    free(argument);
    const int listener = standin_listen(creation.comm, &mine);
    if (listener < 0)
        return ncclSystemError;
    ncclResult_t result = standin_rendezvous(creation.comm, &creation.id, &mine, all);
    if (result == ncclSuccess)
        result = standin_connect(creation.comm, all, listener);
    if (result == ncclSuccess)
        result = standin_take_memory(creation.comm, "STANDIN_COMMUNICATOR", 0);
    return result;
}

bool standin_is_blocking(const ncclConfig_t *config, bool otherwise)
{
    const char *text = getenv("NCCL_COMM_BLOCKING");
    if (text != NULL && *text != 0)
        return atoi(text) != 0;
    return config == NULL || config->blocking == NCCL_CONFIG_UNDEF_INT ? otherwise
                                                                       : config->blocking != 0;
}

ncclResult_t standin_check_config(const ncclConfig_t *config)
{
    if (config == NULL ||
        (config->magic == 0xcafebeef && (config->blocking == NCCL_CONFIG_UNDEF_INT ||
                                         config->blocking == 0 || config->blocking == 1)))
        return ncclSuccess;
    fprintf(stderr, "standin libnccl: the config is not initialised, or blocking is not 0 or 1\n");
    return ncclInvalidArgument;
}

static ncclResult_t init_rank(ncclComm_t *out, int ranks, const ncclUniqueId *id, int rank,
                              const ncclConfig_t *config, CUcontext context)
{
    ncclResult_t result = standin_check_config(config);
    if (out == NULL || ranks < 1 || ranks > STANDIN_RANKS_MAX || rank < 0 || rank >= ranks)
        result = ncclInvalidArgument;
    if (result == ncclSuccess && context == NULL)
        result = ncclUnhandledCudaError;
    if (result != ncclSuccess)
        return standin_group_error(result);
    struct standin_creation *creation = malloc(sizeof *creation);
    if (creation == NULL)
        abort();
    *creation = (struct standin_creation){
        standin_new_comm(rank, ranks, context, standin_is_blocking(config, true)), *id};
    *out = creation->comm; /* set before the group ends, as by the real NCCL */
    return standin_submit_init(creation->comm, standin_join_by_id, creation);
}

STANDIN_EXPORT ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id,
                                                    int rank, ncclConfig_t *config)
{
    const ncclResult_t result = standin_since("ncclCommInitRankConfig", 21400);
    if (result != ncclSuccess)
        return standin_group_error(result);
    return init_rank(comm, ranks, &id, rank, config, driver->current_or_primary());
}
STANDIN_NCCL(ncclCommInitRankConfig);

STANDIN_EXPORT ncclResult_t pncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id,
                                              int rank)
{
    const ncclResult_t result = standin_since("ncclCommInitRank", 0);
    if (result != ncclSuccess)
        return standin_group_error(result);
    return init_rank(comm, ranks, &id, rank, NULL, driver->current_or_primary());
}
STANDIN_NCCL(ncclCommInitRank);

STANDIN_EXPORT ncclResult_t pncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank,
                                                      int count, ncclUniqueId *ids,
                                                      ncclConfig_t *config)
{
    const ncclResult_t result = standin_since("ncclCommInitRankScalable", 22300);
    if (result != ncclSuccess)
        return standin_group_error(result);
    if (count < 1 || count > ranks || ids == NULL)
        return standin_group_error(ncclInvalidArgument);
    return init_rank(comm, ranks, ids, rank, config, driver->current_or_primary());
}
STANDIN_NCCL(ncclCommInitRankScalable);

STANDIN_EXPORT ncclResult_t pncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
    ncclUniqueId id;
    ncclResult_t result = standin_since("ncclCommInitAll", 0);
    if (result == ncclSuccess && (comms == NULL || count < 1))
        result = ncclInvalidArgument;
    if (result == ncclSuccess)
        result = ncclGetUniqueId(&id); /* through the PLT, as in the real NCCL */
    if (result != ncclSuccess)
        return result;
    pncclGroupStart();
    for (int rank = 0; rank < count; rank++)
        init_rank(&comms[rank], count, &id, rank, NULL,
                  driver->primary(devices != NULL ? devices[rank] : rank));
    return pncclGroupEnd();
}
STANDIN_NCCL(ncclCommInitAll);

/* Split and shrink: communicators made from another one. --------------------------------------- */
struct birth {
    ncclComm_t parent, comm; /* comm: NULL if this rank is in no child */
    ncclComm_t *out;         /* gets comm when it is made; NULL before */
    int color, key;
    int members[STANDIN_RANKS_MAX], count; /* the parent's ranks that take part */
};

struct wish {
    int color, key, rank;
    struct standin_place place;
};

static int compare_wishes(const void *left, const void *right)
{
    const struct wish *a = left, *b = right;
    return a->key != b->key ? (a->key < b->key ? -1 : 1) : a->rank - b->rank;
}

static ncclResult_t join_by_parent(void *argument)
{
    const struct birth birth = *(struct birth *)argument;
    const ncclComm_t comm = birth.comm, parent = birth.parent;
    struct wish all[STANDIN_RANKS_MAX], mine = {birth.color, birth.key, parent->rank, {0}};
    struct standin_place places[STANDIN_RANKS_MAX];
    free(argument);
    const int listener = comm != NULL ? standin_listen(comm, &mine.place) : -1;
    const ncclResult_t result =
        standin_all_gather(parent, birth.members, birth.count, &mine, all, sizeof mine);
    if (result != ncclSuccess || comm == NULL)
        return result;
    qsort(all, (size_t)birth.count, sizeof *all, compare_wishes);
    comm->ranks = 0;
    for (int i = 0; i < birth.count; i++) {
        if (all[i].color != birth.color)
            continue;
        if (all[i].rank == parent->rank)
            comm->rank = comm->ranks;
        places[comm->ranks++] = all[i].place;
    }
    ncclResult_t made = standin_connect(comm, places, listener);
    if (made == ncclSuccess)
        made = standin_take_memory(comm, "STANDIN_COMMUNICATOR", 0);
    if (made == ncclSuccess)
        __atomic_store_n(birth.out, comm, __ATOMIC_RELEASE);
    return made;
}

static ncclResult_t give_birth(ncclComm_t parent, ncclComm_t *out, struct birth wanted,
                               const ncclConfig_t *config)
{
    struct birth *birth = malloc(sizeof *birth);
    if (birth == NULL)
        abort();
    *birth = wanted;
    birth->comm = wanted.color == NCCL_SPLIT_NOCOLOR
                      ? NULL
                      : standin_new_comm(0, 0, parent->context,
                                         standin_is_blocking(config, parent->blocking));
    birth->out = out;
    *out = NULL;
    return standin_submit_init(parent, join_by_parent, birth);
}

STANDIN_EXPORT ncclResult_t pncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *comm,
                                           ncclConfig_t *config)
{
    ncclResult_t result = standin_since("ncclCommSplit", 21800);
    if (result == ncclSuccess)
        result = standin_check_comm(parent, false);
    if (result == ncclSuccess)
        result = standin_check_config(config);
    if (result == ncclSuccess && (comm == NULL || (color < 0 && color != NCCL_SPLIT_NOCOLOR)))
        result = ncclInvalidArgument;
    if (result != ncclSuccess)
        return standin_group_error(result);
    struct birth birth = {.parent = parent, .color = color, .key = key, .count = parent->ranks};
    for (int rank = 0; rank < parent->ranks; rank++)
        birth.members[rank] = rank;
    return give_birth(parent, comm, birth, config);
}
STANDIN_NCCL(ncclCommSplit);

/* Ends the communicator's operations. Like NCCL's kernels, those that are queued after other ones
 * on a stream end only after them. */
static void end_operations(ncclComm_t comm)
{
    driver->let_run();
    pthread_mutex_lock(&comm->lock);
    __atomic_store_n(&comm->aborted, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&comm->progress);
    while (comm->finished < comm->tickets)
        pthread_cond_wait(&comm->progress, &comm->lock);
    __atomic_store_n(&comm->aborted, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&comm->lock);
}

STANDIN_EXPORT ncclResult_t pncclCommShrink(ncclComm_t parent, int *excluded, int excluded_count,
                                            ncclComm_t *comm, ncclConfig_t *config, int flags)
{
    ncclResult_t result = standin_since("ncclCommShrink", 22700);
    if (result == ncclSuccess)
        result = standin_check_comm(parent, false);
    if (result == ncclSuccess && (comm == NULL || excluded == NULL || excluded_count < 1))
        result = ncclInvalidArgument;
    if (result != ncclSuccess)
        return standin_group_error(result);
    struct birth birth = {.parent = parent};
    for (int rank = 0; rank < parent->ranks; rank++) {
        bool stays = true;
        for (int i = 0; i < excluded_count; i++)
            stays = stays && excluded[i] != rank;
        if (stays)
            birth.members[birth.count++] = rank;
        else if (rank == parent->rank)
            return standin_group_error(ncclInvalidUsage);
    }
    if ((flags & NCCL_SHRINK_ABORT) != 0)
        end_operations(parent);
    return give_birth(parent, comm, birth, config);
}
STANDIN_NCCL(ncclCommShrink);
