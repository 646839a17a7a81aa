/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the stand-in for libcuda.so.1 (standin.h). standin_lock guards the streams' queues,
 * captures, references of user objects, and vector clocks. The table of allocations has a lock of
 * its own, which may be acquired while standin_lock is held, not the other way round. */
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

/* Handles are never freed, so that the use of a destroyed one is found. */
struct CUctx_st {
    uint32_t magic;
    int device;
    unsigned retained; /* number of references */
    CUresult error;    /* sticky; written under the lock, atomic */
    CUstream legacy, streams;
};

/* Vector clock of an operation, a stream, a record or the host: for each slot, the number of the
 * slot's newest operation that it includes or comes after (see cuda_order.c). Streams and branches
 * of graphs share the slots. */
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
    uint64_t number; /* number in the process, for delays, messages and clock slots */
    uint64_t random;
    uint64_t enqueued, completed, released; /* numbers of operations; `released` ones may run */
    struct standin_entry *first, *last;
    pthread_cond_t work;
    bool closing;
    CUstream next; /* next stream of the context */
    struct standin_capture *capture;
    int branch; /* number of the stream's branch in the capture */
    struct standin_clock clock;
    double time; /* with STANDIN_CLOCK: time of the stream's thread */
};

/* The position in a stream at which an event was recorded. */
struct standin_record {
    CUstream stream;
    uint64_t position; /* number of the stream's operations up to and with the event */
    double seconds;    /* time at which it completed */
    struct standin_clock clock;
};

struct CUevent_st {
    uint32_t magic;
    CUcontext context;
    unsigned flags;
    struct standin_record *record; /* NULL: never recorded outside a capture */
    struct standin_capture *capture;
    uint64_t capture_id;
    int branch, node; /* position in the capture */
};

struct standin_library;

/* cuda_context.c ------------------------------------------------------------------------------- */
extern pthread_mutex_t standin_lock;
/* Broadcast when an operation of a stream completes, or a context fails. */
extern pthread_cond_t standin_progress;

/* Begins most functions: injects faults; checks cuInit, callbacks and fork. */
CUresult standin_enter(const char *name);
/* Returns from the function if the call returns an error. */
#define STANDIN_CHECK(call)                                                                        \
    do {                                                                                           \
        const CUresult checked = (call);                                                           \
        if (checked != CUDA_SUCCESS)                                                               \
            return checked;                                                                        \
    } while (0)
#define STANDIN_ENTER() STANDIN_CHECK(standin_enter(__func__))

void *standin_zeros(size_t bytes); /* allocates zeros; never NULL */
long standin_setting(const char *name, long otherwise);
int standin_device_count(void);
/* Returns this thread's current context, which may have been destroyed, or NULL if there is
 * none. */
CUcontext standin_current(void);
/* Sets *context to this thread's current context. Returns the context's sticky error, or an error
 * if there is no context or it was destroyed. */
CUresult standin_current_state(CUcontext *context);
/* Sets a context's sticky error, unless it has one. */
void standin_context_fail(CUcontext context, CUresult error);
/* True while this thread runs a host function or a destructor, which must not call CUDA. */
extern _Thread_local bool standin_in_callback;

/* cuda_fault.c --------------------------------------------------------------------------------- */
bool standin_fails(const char *name, int *code);
int standin_open_file(const char *variable);
long standin_process_rank(void);

/* cuda_stream.c -------------------------------------------------------------------------------- */
struct standin_op *standin_op_new(const char *name, CUresult (*run)(void *, uint64_t),
                                  void (*release)(void *), void *payload);
void standin_op_free(struct standin_op *op);
/* Sets *stream to the stream of a handle; 0 and 1 are the legacy stream of the current context. */
CUresult standin_stream_of(CUstream handle, CUstream *stream);
CUresult standin_stream_in(CUstream handle, CUcontext context, CUstream *stream);
/* Enqueues an operation, or adds it to the graph that captures the stream. Consumes the reference,
 * also on failure; the lock is held (standin_enqueue acquires it). */
CUresult standin_push(CUstream stream, struct standin_op *op);
CUresult standin_enqueue(CUstream stream, struct standin_op *op);
/* Appends an operation to the queue, without regard to captures and the legacy stream; the lock is
 * held. */
void standin_append(CUstream stream, struct standin_op *op);
void standin_append_wait(CUstream stream, CUstream other, uint64_t position,
                         const struct standin_clock *clock, const struct standin_record *record);
/* Allows the enqueued operations of all created streams, and of the legacy streams of their
 * contexts, to run (STANDIN_LAZY); the lock is held. */
void standin_release_all(void);
/* Waits until a stream has completed `position` operations, or its context has an error; the lock
 * is held. */
CUresult standin_wait(CUstream stream, uint64_t position, const struct standin_clock *clock);
CUresult standin_context_wait(CUcontext context);
/* Implements cuStreamSynchronize; the lock is held. */
CUresult standin_stream_synchronize(CUstream stream);
/* Returns true if STANDIN_CLOCK or standin_set_clock has set the clock. */
bool standin_clock_is_set(void);
/* On a stream's thread, if the clock is set: advances the stream's time by the cost of the
 * operations and bytes. */
void standin_spend(double operations, size_t bytes);
/* Returns the time of the stream whose thread this is; on other threads, and if the clock is not
 * set, the monotonic clock's. */
double standin_stream_seconds(void);
CUstream standin_stream_new(CUcontext context, unsigned flags);
double standin_seconds(void);

/* cuda_order.c --------------------------------------------------------------------------------- */
/* The operation that this thread runs, or NULL. */
extern _Thread_local const struct standin_entry *standin_running;
/* Sets the clock of an operation that is appended to a stream. The lock is held. */
void standin_order_next(CUstream stream, struct standin_entry *entry);
/* Sets the clock of a graph's operation, which follows `clock` in its branch. */
void standin_order_inside(struct standin_entry *entry, const struct standin_clock *clock, int slot);
/* Merges another clock into `clock`: what is ordered before `other` is ordered before `clock`,
 * too. */
void standin_order_merge(struct standin_clock *clock, const struct standin_clock *other);
/* Logs an operation with its clock (STANDIN_ORDER). */
void standin_order_log(const struct standin_entry *entry);
void standin_order_after(CUstream stream, const struct standin_clock *clock);
void standin_order_host(const struct standin_clock *clock);
struct standin_accesses;
/* Records an access of the running operation to bytes of an allocation. Returns false, after a
 * message on stderr, if it races with a recorded access (cuda_order.c). */
bool standin_order_access(struct standin_accesses **accesses, size_t begin, size_t end, bool write);

/* cuda_memory.c -------------------------------------------------------------------------------- */
enum standin_memory_type { STANDIN_DEVICE_MEMORY, STANDIN_HOST_MEMORY, STANDIN_POOL_MEMORY };
/* Allocates memory; if `live` is false, it may not be accessed before standin_memory_begin. Returns
 * 0 if there is none. */
CUdeviceptr standin_memory_new(enum standin_memory_type kind, CUcontext context, size_t bytes,
                               bool live, const void *pool);
void standin_memory_begin(CUdeviceptr pointer);
/* Ends an allocation, which may not be accessed any more. Returns false if no such allocation
 * begins there, or if the running operation, which ends it, is not ordered after an access. */
bool standin_memory_end(CUdeviceptr pointer, enum standin_memory_type kind);
/* Marks device memory, if it is live, as freed by the host. Returns false if it has been freed, or
 * if no device memory begins there. */
bool standin_memory_mark_freed(CUdeviceptr pointer);
void *standin_memory(int device, const void *pointer, size_t bytes, bool write, const char *who);
bool standin_is_memory(const void *pointer);
bool standin_reserve(CUcontext context, int64_t bytes);
bool standin_memory_is_host(const void *pointer);
/* Returns true for addresses of device memory, allocated or not. */
bool standin_is_device_address(const void *pointer);

/* cuda_capture.c ------------------------------------------------------------------------------- */
/* Returns an error, and invalidates the captures, if a capture forbids an unsafe call of this
 * thread; the lock is not held. */
CUresult standin_unsafe(void);
/* Adds an operation to the graph of a captured stream; the lock is held. */
CUresult standin_capture_push(CUstream stream, struct standin_op *op);
CUresult standin_capture_record(CUstream stream, CUevent event);
/* Returns true if the stream or the event is captured; *status is then the result of the wait. */
bool standin_capture_wait(CUstream stream, CUevent event, CUresult *status);
uint64_t standin_capture_id(CUstream stream); /* 0: not captured */
void standin_capture_invalidate(struct standin_capture *capture);
/* Returns an error, and invalidates the captures, if the legacy stream may not be used because a
 * blocking stream is captured. */
CUresult standin_capture_implicit(CUcontext context);

/* cuda_kernels.c: the kernels of kernels/kernels.h on the CPU ---------------------------------- */
/* Runs kernel `name` on a device; `parameters` is a copy of its parameter. */
CUresult standin_kernel_run(const char *name, int device, const void *parameters);
/* Returns the size of a kernel's parameter; 0 if there is no such kernel. */
uint32_t standin_kernel_parameter_bytes(const char *name);

#endif
