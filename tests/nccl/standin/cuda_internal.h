/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the stand-in for libcuda.so.1 (standin.h says what that is). One lock guards all state but
 * the table of allocations, which has its own (taken last). */
#ifndef STANDIN_CUDA_INTERNAL_H
#define STANDIN_CUDA_INTERNAL_H

#include <pthread.h>

#include "tests/nccl/standin/standin.h"

enum standin_magic {
    STANDIN_CONTEXT = 0x43545831,
    STANDIN_STREAM = 0x53545231,
    STANDIN_EVENT = 0x45565431,
    STANDIN_GRAPH = 0x47525031,
    STANDIN_EXEC = 0x45584531,
    STANDIN_POOL = 0x504f4f31,
    STANDIN_LIBRARY = 0x4c494231,
    STANDIN_KERNEL = 0x4b524e31,
    STANDIN_FUNCTION = 0x46554e31,
    STANDIN_OBJECT = 0x4f424a31,
    STANDIN_DEAD = 0x44454144
};

/* Handles are never given back to the C library, so that the use of a dead one is seen. */
struct CUctx_st {
    uint32_t magic;
    int device;
    unsigned retained; /* references */
    CUresult error;    /* sticky; written under the lock, atomic */
    CUstream legacy, streams;
};

/* What is known to be before: the newest operation of each stream (cuda_order.c). */
enum { STANDIN_SLOTS = 64 };

struct standin_clock {
    uint64_t at[STANDIN_SLOTS];
};

struct standin_entry {
    struct standin_op *op;
    uint64_t ticket;
    struct standin_entry *next;
    int slot;
    struct standin_clock clock;
};

struct CUstream_st {
    uint32_t magic;
    CUcontext context;
    unsigned flags;
    int priority;
    uint64_t number; /* in the process, for delays and messages */
    uint64_t random;
    uint64_t enqueued, completed, released; /* operations: taken in, done, allowed to run */
    struct standin_entry *first, *last;
    pthread_cond_t work;
    bool closing;
    CUstream next; /* of the context */
    struct standin_capture *capture;
    int branch; /* in the capture */
    struct standin_clock clock;
    double time; /* STANDIN_CLOCK: of the stream's thread */
};

/* The point in a stream that an event marks. */
struct standin_record {
    CUstream stream;
    uint64_t position; /* operations of the stream up to it */
    double seconds;    /* when it ran */
    struct standin_clock clock;
};

struct CUevent_st {
    uint32_t magic;
    CUcontext context;
    unsigned flags;
    struct standin_record *record; /* NULL before the first */
    struct standin_capture *capture;
    uint64_t capture_id;
    int branch, node; /* in the capture */
};

struct standin_library;

/* cuda_context.c --------------------------------------------------------------------------------*/
extern pthread_mutex_t standin_lock;
extern pthread_cond_t standin_progress; /* broadcast when anything of a stream is done */

/* What every function does first: fault injection, cuInit, callbacks, fork. */
CUresult standin_enter(const char *name);
/* Leaves the function with an error of the call. */
#define STANDIN_CHECK(call)                                                                        \
    do {                                                                                           \
        const CUresult checked = (call);                                                           \
        if (checked != CUDA_SUCCESS)                                                               \
            return checked;                                                                        \
    } while (0)
#define STANDIN_ENTER() STANDIN_CHECK(standin_enter(__func__))

void *standin_zeros(size_t bytes); /* never NULL */
long standin_setting(const char *name, long otherwise);
int standin_device_count(void);
/* The current context of this thread, alive, or NULL. */
CUcontext standin_current(void);
/* Its sticky error; CUDA_ERROR_INVALID_CONTEXT without one. */
CUresult standin_current_state(CUcontext *context);
/* Gives a context its error, unless it has one. */
void standin_context_fail(CUcontext context, CUresult error);
/* Whether this thread runs a host function or a destructor, where nothing of CUDA may be called. */
extern _Thread_local bool standin_in_callback;

/* cuda_fault.c ----------------------------------------------------------------------------------*/
bool standin_fails(const char *name, int *code);
int standin_open_file(const char *variable);
long standin_process_rank(void);

/* cuda_stream.c ---------------------------------------------------------------------------------*/
struct standin_op *standin_op_new(const char *name, CUresult (*run)(void *, uint64_t),
                                  void (*release)(void *), void *payload);
void standin_op_free(struct standin_op *op);
/* The stream that a handle means in the current context. */
CUresult standin_stream_of(CUstream handle, CUstream *stream);
CUresult standin_stream_in(CUstream handle, CUcontext context, CUstream *stream);
/* Takes in an operation; the lock is held. */
CUresult standin_push(CUstream stream, struct standin_op *op);
CUresult standin_enqueue(CUstream stream, struct standin_op *op);
/* Appends to the queue itself, past captures and the legacy stream's order; the lock is held. */
void standin_append(CUstream stream, struct standin_op *op);
void standin_append_wait(CUstream stream, CUstream other, uint64_t position,
                         const struct standin_clock *clock, const struct standin_record *record);
/* Lets everything run that has been taken in (for STANDIN_LAZY); the lock is held. */
void standin_release_all(void);
/* Waits until a stream has done so many operations, or its context has an error; lock held. */
CUresult standin_wait(CUstream stream, uint64_t position, const struct standin_clock *clock);
CUresult standin_context_wait(CUcontext context);
/* What cuStreamSynchronize does; the lock is held. */
CUresult standin_stream_synchronize(CUstream stream);
/* STANDIN_CLOCK: whether it is set; what the operation takes that this thread runs; the time of the
 * stream whose thread this is. */
bool standin_clock_is_set(void);
void standin_spend(double operations, size_t bytes);
double standin_stream_seconds(void);
CUstream standin_stream_new(CUcontext context, unsigned flags);
double standin_seconds(void);

/* cuda_order.c ----------------------------------------------------------------------------------*/
/* The entry that this thread runs, or NULL. */
extern _Thread_local const struct standin_entry *standin_running;
/* An entry gets its place in its stream's order; the stream, or the host, has waited. Lock held. */
void standin_order_next(CUstream stream, struct standin_entry *entry);
/* The same for an operation of a graph, in one of its branches, that begins at a clock. */
void standin_order_inside(struct standin_entry *entry, const struct standin_clock *clock, int slot);
/* After all that is in another clock, too. */
void standin_order_merge(struct standin_clock *clock, const struct standin_clock *other);
/* Writes down that this thread has run an entry: STANDIN_ORDER. */
void standin_order_log(const struct standin_entry *entry);
void standin_order_after(CUstream stream, const struct standin_clock *clock);
void standin_order_host(const struct standin_clock *clock);
struct standin_accesses;
/* Takes down an access of the running entry to bytes of an allocation. False, after a line on
 * stderr, if it is not ordered with an earlier one. */
bool standin_order_access(struct standin_accesses **accesses, size_t begin, size_t end, bool write);

/* cuda_memory.c ---------------------------------------------------------------------------------*/
enum standin_kind { STANDIN_DEVICE_MEMORY, STANDIN_HOST_MEMORY, STANDIN_POOL_MEMORY };
/* Reserves an address range; with `live` false it may not be accessed before
 * standin_memory_begin. 0 when there is no memory left. */
CUdeviceptr standin_memory_new(enum standin_kind kind, CUcontext context, size_t bytes, bool live,
                               const void *pool);
void standin_memory_begin(CUdeviceptr pointer);
/* What was freed may not be accessed any more. False if that is no such allocation's beginning. */
bool standin_memory_end(CUdeviceptr pointer, enum standin_kind kind);
/* Marks pool memory as freed by the host: a second time is an error. */
bool standin_memory_mark_freed(CUdeviceptr pointer);
void *standin_memory(int device, const void *pointer, size_t bytes, bool write, const char *who);
bool standin_is_memory(const void *pointer);
bool standin_reserve(CUcontext context, int64_t bytes);
bool standin_memory_is_host(const void *pointer);
/* Whether it lies where device memory may be, allocated or not. */
bool standin_is_device_address(const void *pointer);

/* cuda_capture.c --------------------------------------------------------------------------------*/
/* The error of a call that may not be made while a stream is captured; lock not held. */
CUresult standin_unsafe(void);
/* Puts an operation into the graph of a capturing stream; the lock is held. */
CUresult standin_capture_push(CUstream stream, struct standin_op *op);
CUresult standin_capture_record(CUstream stream, CUevent event);
/* Whether the wait concerns a capture; *status is then its result. */
bool standin_capture_wait(CUstream stream, CUevent event, CUresult *status);
uint64_t standin_capture_id(CUstream stream); /* 0: not captured */
void standin_capture_invalidate(struct standin_capture *capture);
/* Whether use of the legacy stream is refused because a blocking stream is captured. */
CUresult standin_capture_implicit(CUcontext context);

/* cuda_kernels.c: the kernels of kernels/kernels.h on the CPU
 * ------------------------------------*/
/* Runs kernel `name` on a device; its parameters are a copy. */
CUresult standin_kernel_run(const char *name, int device, const void *parameters);
/* Bytes of its parameter; 0 if there is no such kernel. */
uint32_t standin_kernel_parameter_bytes(const char *name);

#endif
