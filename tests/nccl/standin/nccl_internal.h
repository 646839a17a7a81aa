/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the stand-in for libnccl.so.2 (standin.h). */
#ifndef STANDIN_NCCL_INTERNAL_H
#define STANDIN_NCCL_INTERNAL_H

#include <nccl.h>
#include <pthread.h>

#include "tests/nccl/standin/standin.h"

#define STANDIN_COMM 0x434f4d31u

/* Returns from the function if the call does not return ncclSuccess. */
#define STANDIN_CHECK(call)                                                                        \
    do {                                                                                           \
        const ncclResult_t checked = (call);                                                       \
        if (checked != ncclSuccess)                                                                \
            return checked;                                                                        \
    } while (0)

/* Defines a function's weak public name, an alias of its pncclX as in the real library. */
#define STANDIN_NCCL(name)                                                                         \
    extern __typeof__(p##name) name __attribute__((weak, alias("p" #name), visibility("default")))

enum { STANDIN_RANKS_MAX = 64 };

/* Connections to all other ranks: for operations on streams, and for exchanges on the host. */
enum standin_channel { STANDIN_DATA, STANDIN_CONTROL, STANDIN_CHANNELS };

struct standin_user_op {
    bool used;
    ncclDataType_t dtype;
    ncclScalarResidence_t residence;
    const void *pointer; /* address of a factor on the device */
    uint8_t scalar[8];   /* value of a factor that is not on the device */
};

enum { STANDIN_USER_OPS_MAX = 64 };

struct ncclComm {
    uint32_t magic;
    int rank, ranks, device;
    CUcontext context;
    bool blocking, finalized;
    int sockets[STANDIN_CHANNELS][STANDIN_RANKS_MAX];
    uint64_t connected; /* bit mask of ranks with which point-to-point messages were launched */
    int64_t reserved;   /* bytes of device memory */
    int aborted;        /* atomic */
    int revoked;        /* atomic: operations end, but children can be made */
    int async;          /* ncclResult_t, atomic */
    bool is_asked;      /* a thread is in ncclCommGetAsyncError; atomic */
    int background;     /* number of threads that work for it, atomic */
    int references;     /* its handle, threads, and operations in streams and graphs, atomic */
    uint64_t tickets;   /* number of tickets drawn; operations run in the order of tickets */
    uint64_t finished;  /* number of operations that have run or were stopped */
    uint64_t sequence;  /* number of collectives that have begun, compared between ranks */
    uint64_t bytes_sent;
    pthread_mutex_t lock;
    pthread_cond_t progress;
    struct standin_user_op user_ops[STANDIN_USER_OPS_MAX];
    struct ncclComm *next_dead;
};

enum standin_call_type {
    STANDIN_ALL_REDUCE,
    STANDIN_REDUCE_SCATTER,
    STANDIN_ALL_GATHER,
    STANDIN_ALL_TO_ALL,
    STANDIN_BROADCAST,
    STANDIN_SEND, /* STANDIN_SEND and STANDIN_RECV: point-to-point messages */
    STANDIN_RECV
};

/* A call of a collective, of ncclSend or of ncclRecv. */
struct standin_task {
    enum standin_call_type kind;
    const char *name; /* name of the function */
    ncclComm_t comm;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t dtype;
    ncclRedOp_t op;
    struct standin_user_op scalar; /* factor before the sum, if `used` */
    int root;                      /* root or peer */
    CUstream stream;
    struct standin_task *next;
};

/* Bytes to or from a rank. The transfers of one direction and peer run in their order. */
struct standin_transfer {
    int peer;
    bool is_send;
    void *bytes;
    size_t length, done;
    const struct standin_header *expected; /* for a received header: what it must match */
};

/* Properties of an operation that ranks compare. */
struct standin_header {
    uint32_t magic, kind;
    uint64_t sequence; /* 0 for point-to-point messages */
    uint64_t count;
    uint32_t dtype, op, root, reserved;
};

/* nccl_comm.c ---------------------------------------------------------------------------------- */
const struct standin_driver *standin_the_driver(void); /* NULL if there is none */
/* Checks a handle; if may_be_busy is false, it must not be in progress. */
ncclResult_t standin_check_comm(ncclComm_t comm, bool may_be_busy);
int standin_version(void);
/* Returns an error if STANDIN_NCCL_VERSION lacks a function that came with `version`, if
 * STANDIN_FAIL demands it, or without the stand-in for the driver. */
ncclResult_t standin_since(const char *name, int version);
void standin_let_go(ncclComm_t comm); /* releases a reference */
/* Reserves device memory until the communicator ends: as many MiB as the variable says, by default
 * `otherwise`. */
ncclResult_t standin_take_memory(ncclComm_t comm, const char *variable, int otherwise);
/* Called when a thread begins to work for the communicator, which is ncclInProgress until its last
 * such thread ends, or an error occurs. */
void standin_work_begins(ncclComm_t comm);
void standin_work_ends(ncclComm_t comm, ncclResult_t result);
ncclResult_t standin_background(ncclComm_t comm, ncclResult_t (*job)(void *), void *argument);
/* Wait for the communicator's operations, until it is aborted or revoked; standin_settle first
 * waits for its threads. */
void standin_wait_operations(ncclComm_t comm);
void standin_settle(ncclComm_t comm);
void standin_set_async(ncclComm_t comm, ncclResult_t result);
/* Returns true if transfers on a channel must end. */
bool standin_is_stopped(ncclComm_t comm, enum standin_channel channel);

/* Arguments for making a communicator whose ranks join by an id. */
struct standin_creation {
    ncclComm_t comm;
    ncclUniqueId id;
};
ncclResult_t standin_join_by_id(void *creation); /* frees its argument */
ncclComm_t standin_new_comm(int rank, int ranks, CUcontext context, bool blocking);
bool standin_is_blocking(const ncclConfig_t *config, bool otherwise);
ncclResult_t standin_check_config(const ncclConfig_t *config);

/* nccl_bootstrap.c ----------------------------------------------------------------------------- */
/* Address and device of a rank, which ranks exchange before they are connected. */
struct standin_place {
    int port, device;
    uint64_t host; /* hash of the host name or of NCCL_HOSTID */
};

/* Returns a listening socket and fills in this rank's place; -1 on an error. */
int standin_listen(ncclComm_t comm, struct standin_place *place);
/* Sends this rank's place to the rendezvous of the id, and receives those of all ranks. */
ncclResult_t standin_rendezvous(ncclComm_t comm, const ncclUniqueId *id,
                                const struct standin_place *mine, struct standin_place *all);
/* Connects this rank with all others. Closes the listener. */
ncclResult_t standin_connect(ncclComm_t comm, const struct standin_place *all, int listener);
void standin_disconnect(ncclComm_t comm);
/* All-gather on the host among `members` (ranks of comm, including this one): each contributes
 * `bytes` bytes, and gets those of all members in their order. */
ncclResult_t standin_all_gather(ncclComm_t comm, const int *members, int count, const void *mine,
                                void *all, size_t bytes);

/* nccl_exchange.c ------------------------------------------------------------------------------ */
enum standin_outcome { STANDIN_DONE, STANDIN_ABORTED, STANDIN_LOST, STANDIN_MISMATCH };
/* Runs the transfers; returns STANDIN_DONE if all are complete. *failed becomes the index of one
 * that does not match, or `count`. */
enum standin_outcome standin_exchange(ncclComm_t comm, enum standin_channel channel,
                                      struct standin_transfer *transfers, size_t count,
                                      size_t *failed);

/* nccl_group.c --------------------------------------------------------------------------------- */
/* Queues a call until the outermost group ends; without a group launches it. */
ncclResult_t standin_submit(const struct standin_task *task);
/* Queues the creation of a communicator: job(argument) runs on a thread of its own when the
 * outermost group ends, without a group at once. */
ncclResult_t standin_submit_init(ncclComm_t comm, ncclResult_t (*job)(void *), void *argument);
ncclResult_t standin_group_error(ncclResult_t result);

/* nccl_run.c ----------------------------------------------------------------------------------- */
/* Returns an operation that runs `tasks`, all of one communicator; it owns the list from then
 * on. */
struct standin_op *standin_plan_op(ncclComm_t comm, struct standin_task *tasks);

/* nccl_reduce.c -------------------------------------------------------------------------------- */
size_t standin_dtype_bytes(ncclDataType_t dtype);
const char *standin_dtype_name(ncclDataType_t dtype);
const char *standin_op_name(ncclRedOp_t op);
/* Computes total = total OP more, rounded to the type. `more` has as many elements (step 1) or one
 * (step 0). */
#define STANDIN_QUOTIENT ncclNumOps /* OP for total / more */
void standin_combine(ncclDataType_t dtype, ncclRedOp_t op, void *total, const void *more,
                     size_t step, size_t count);
/* For ncclAvg: sets 1/ranks as an element of a float type. Returns false for integers, whose sum is
 * divided. */
bool standin_reciprocal(ncclDataType_t dtype, int ranks, void *scalar);

/* nccl_life.c ---------------------------------------------------------------------------------- */
/* Returns the PreMulSum operation of a handle, or NULL. */
struct standin_user_op *standin_user_op(ncclComm_t comm, ncclRedOp_t op);

/* nccl_log.c ----------------------------------------------------------------------------------- */
/* Returns the bytes that count as sent by this rank in the call. */
size_t standin_bytes_sent(const struct standin_task *task);
/* Adds a call's bytes to the communicator's, and logs the call (STANDIN_LOG), at its launch. */
void standin_log(const struct standin_task *task, bool captured);
/* Logs a digest of the data that a task of this rank sends, when it runs (STANDIN_DATA). */
void standin_log_data(const struct standin_task *task, const void *data, size_t bytes);

#endif
