/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the stand-in for libnccl.so.2 (standin.h says what that is). */
#ifndef STANDIN_NCCL_INTERNAL_H
#define STANDIN_NCCL_INTERNAL_H

#include <nccl.h>
#include <pthread.h>

#include "tests/nccl/standin/standin.h"

#define STANDIN_COMM 0x434f4d31u

/* Leaves the function with a result that is not success. */
#define STANDIN_CHECK(call)                                                                        \
    do {                                                                                           \
        const ncclResult_t checked = (call);                                                       \
        if (checked != ncclSuccess)                                                                \
            return checked;                                                                        \
    } while (0)

/* Defines the weak public name of a function, as libnccl has it: one address for both. */
#define STANDIN_NCCL(name)                                                                         \
    extern __typeof__(p##name) name __attribute__((weak, alias("p" #name), visibility("default")))

enum { STANDIN_RANKS_MAX = 64 };

/* Connections to all other ranks: for operations, and for what the host agrees on. */
enum standin_channel { STANDIN_DATA, STANDIN_CONTROL, STANDIN_CHANNELS };

struct standin_user_op {
    bool used;
    ncclDataType_t dtype;
    ncclScalarResidence_t residence;
    const void *pointer; /* on the device */
    uint8_t scalar[8];
};

enum { STANDIN_USER_OPS_MAX = 64 };

struct ncclComm {
    uint32_t magic;
    int rank, ranks, device;
    CUcontext context;
    bool blocking, finalized;
    int sockets[STANDIN_CHANNELS][STANDIN_RANKS_MAX];
    uint64_t connected; /* bit for each rank with which messages have been exchanged */
    int64_t reserved;   /* bytes of the device */
    int aborted;        /* atomic */
    int revoked;        /* atomic: its operations end, but parts can be made of it */
    int async;          /* ncclResult_t, atomic */
    int background;     /* threads that work for it, atomic */
    int references;     /* operations in streams and graphs, atomic */
    uint64_t tickets;   /* drawn; operations run in their order */
    uint64_t finished;  /* run */
    uint64_t sequence;  /* of operations, compared between ranks */
    uint64_t bytes_sent;
    pthread_mutex_t lock;
    pthread_cond_t progress;
    struct standin_user_op user_ops[STANDIN_USER_OPS_MAX];
    struct ncclComm *next_dead;
};

enum standin_kind {
    STANDIN_ALL_REDUCE,
    STANDIN_REDUCE_SCATTER,
    STANDIN_ALL_GATHER,
    STANDIN_ALL_TO_ALL,
    STANDIN_BROADCAST,
    STANDIN_SEND, /* from here on: point-to-point messages */
    STANDIN_RECV
};

/* One call. */
struct standin_task {
    enum standin_kind kind;
    const char *name; /* of the function */
    ncclComm_t comm;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t dtype;
    ncclRedOp_t op;
    struct standin_user_op scalar; /* used: the factor before the sum */
    int root;                      /* or peer */
    CUstream stream;
    struct standin_task *next;
};

/* A message to or from a rank; those of one direction and peer go in their order. */
struct standin_transfer {
    int peer;
    bool is_send;
    void *bytes;
    size_t length, done;
    const struct standin_header *expected; /* of a header that is received */
};

/* What ranks compare of each operation. */
struct standin_header {
    uint32_t magic, kind;
    uint64_t sequence; /* 0 for point-to-point */
    uint64_t count;
    uint32_t dtype, op, root, reserved;
};

/* nccl_comm.c -----------------------------------------------------------------------------------*/
const struct standin_driver *standin_the_driver(void); /* NULL, after a line, without one */
/* Checks a handle. */
ncclResult_t standin_check_comm(ncclComm_t comm, bool may_be_busy);
int standin_version(void);
/* Whether the version in force has a function of that version, and STANDIN_FAIL lets it pass. */
ncclResult_t standin_since(const char *name, int version);
void standin_let_go(ncclComm_t comm); /* gives back a reference */
/* Takes MiB of the device, as the variable says, until the communicator's end. */
ncclResult_t standin_take_memory(ncclComm_t comm, const char *variable, int otherwise);
/* Starts a thread that works for the communicator, which is ncclInProgress until it has ended. */
void standin_work_begins(ncclComm_t comm);
void standin_work_ends(ncclComm_t comm, ncclResult_t result);
ncclResult_t standin_background(ncclComm_t comm, ncclResult_t (*job)(void *), void *argument);
/* Waits for the communicator's operations (those of an aborted one end soon); settle for its
 * threads too. */
void standin_wait_operations(ncclComm_t comm);
void standin_settle(ncclComm_t comm);
void standin_set_async(ncclComm_t comm, ncclResult_t result);
/* Whether what goes by a channel must end. */
bool standin_is_stopped(ncclComm_t comm, enum standin_channel channel);

/* What makes a communicator, whose ranks meet at an id. */
struct standin_creation {
    ncclComm_t comm;
    ncclUniqueId id;
};
ncclResult_t standin_join_by_id(void *creation); /* which it frees */
ncclComm_t standin_new_comm(int rank, int ranks, CUcontext context, bool blocking);
bool standin_is_blocking(const ncclConfig_t *config, bool otherwise);
ncclResult_t standin_check_config(const ncclConfig_t *config);

/* nccl_bootstrap.c ------------------------------------------------------------------------------*/
/* What ranks know of each other before they are connected. */
struct standin_place {
    int port, device;
    uint64_t host; /* a hash of the host's name or of NCCL_HOSTID */
};

/* A listening socket; what to tell the others of this rank. -1 on failure. */
int standin_listen(ncclComm_t comm, struct standin_place *place);
/* Tells the rendezvous of the id of this rank and gets the places of all. */
ncclResult_t standin_rendezvous(ncclComm_t comm, const ncclUniqueId *id,
                                const struct standin_place *mine, struct standin_place *all);
/* Connects every rank with every other one. Closes the listener. */
ncclResult_t standin_connect(ncclComm_t comm, const struct standin_place *all, int listener);
void standin_disconnect(ncclComm_t comm);
/* Each of the members (ranks of comm, self among them) gives `bytes` and gets those of all, in the
 * order of members. */
ncclResult_t standin_all_gather(ncclComm_t comm, const int *members, int count, const void *mine,
                                void *all, size_t bytes);

/* nccl_exchange.c -------------------------------------------------------------------------------*/
enum standin_outcome { STANDIN_DONE, STANDIN_ABORTED, STANDIN_LOST, STANDIN_MISMATCH };
/* Moves all transfers. *failed is the one that does not match, if any. */
enum standin_outcome standin_exchange(ncclComm_t comm, enum standin_channel channel,
                                      struct standin_transfer *transfers, size_t count,
                                      size_t *failed);

/* nccl_group.c ----------------------------------------------------------------------------------*/
/* Queues a call until the outermost group ends, which may be at once. */
ncclResult_t standin_submit(const struct standin_task *task);
/* Queues what makes a communicator: job(argument) on a thread of its own at the group's end. */
ncclResult_t standin_submit_init(ncclComm_t comm, ncclResult_t (*job)(void *), void *argument);
ncclResult_t standin_group_error(ncclResult_t result);

/* nccl_run.c ------------------------------------------------------------------------------------*/
/* The operation that runs tasks of one communicator (a list, which it takes over). */
struct standin_op *standin_plan_op(ncclComm_t comm, struct standin_task *tasks);

/* nccl_reduce.c ---------------------------------------------------------------------------------*/
size_t standin_dtype_bytes(ncclDataType_t dtype);
const char *standin_dtype_name(ncclDataType_t dtype);
const char *standin_op_name(ncclRedOp_t op);
/* total = total OP more, rounded to the type. Of `more` there are as many elements (step 1) or one
 * (step 0). */
#define STANDIN_QUOTIENT ncclNumOps /* for OP: total / more */
void standin_combine(ncclDataType_t dtype, ncclRedOp_t op, void *total, const void *more,
                     size_t step, size_t count);
/* For ncclAvg: 1/ranks as an element of a float type. False for integers, whose sum is divided. */
bool standin_reciprocal(ncclDataType_t dtype, int ranks, void *scalar);

/* nccl_life.c -----------------------------------------------------------------------------------*/
/* The program's own operation of a handle, or NULL. */
struct standin_user_op *standin_user_op(ncclComm_t comm, ncclRedOp_t op);

/* nccl_log.c ------------------------------------------------------------------------------------*/
/* Bytes that the call makes this rank send. */
size_t standin_bytes_sent(const struct standin_task *task);
/* Writes a line for a call that is launched. */
void standin_log(const struct standin_task *task, bool captured);
/* In the file that STANDIN_DATA names: a digest of what a task of this rank sends, when it runs. */
void standin_log_data(const struct standin_task *task, const void *data, size_t bytes);

#endif
