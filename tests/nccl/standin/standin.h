/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for the CUDA driver and NCCL, for tests on machines without a GPU: interface between
 * the two libraries. They prove nothing about speed, nor about the real driver or the real NCCL.
 *
 * libcuda.so.1 (cuda_*.c) runs streams as threads; the host cannot access the addresses of its
 * device memory. libnccl.so.2 (nccl_*.c) enqueues its operations on these streams. Environment
 * variables, some with their defaults:
 *
 *   STANDIN_DEVICES=4         number of devices
 *   STANDIN_SM=90             compute capability of the devices
 *   STANDIN_MEMORY=8192       MiB of memory of each device
 *   STANDIN_DELAY_US=0        each operation of a stream is delayed by a random time of up to this
 *                             number of microseconds
 *   STANDIN_SEED=1            seed of these delays
 *   STANDIN_LAZY=0            1: no operation runs before the host waits for operations, queries a
 *                             stream or an event, or destroys the operation's stream; also holds
 *                             back copies of more than 64 KiB by cuMemcpyHtoD from pageable memory
 *   STANDIN_RACES=1           1: reports operations that use the same device memory, one of which
 *                             writes it, and are not ordered (but see cuda_order.c); the one that
 *                             accesses it later fails
 *   STANDIN_ORDER=FILE        writes the operations as JSON lines, with vector clocks
 *   STANDIN_CLOCK=US,MIB      events have computed times: US microseconds for each operation of
 *                             NCCL, a tenth for each kernel, and MIB MiB/s for what NCCL sends; a
 *                             program changes it by standin_set_clock
 *   STANDIN_FAIL=NAME:N[:CODE][@RANK],...
 *                             the N-th call of a function fails (N from 1), in every process or in
 *                             that of a rank; NAME has no suffix such as _v2
 *   STANDIN_NCCL_VERSION=N    NCCL's version, for example 22809; by default that of nccl.h
 *   STANDIN_CONNECTION=10     MiB of device memory that NCCL allocates for messages with a rank
 *   STANDIN_COMMUNICATOR=0    MiB that NCCL allocates for a communicator (the real NCCL: hundreds)
 *   STANDIN_LOG=FILE          writes NCCL's collectives and messages as JSON lines
 *   STANDIN_DATA=FILE         writes a digest of the data that each call sends
 *   STANDIN_CLIQUE=NUMBER     NVLink clique of the devices, which nvml.c reports
 *
 * The first {rank} in a file's name is replaced by the rank; without a launcher, by the process id.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STANDIN_EXPORT __attribute__((visibility("default")))

/* An operation in a stream or a graph. Reference-counted: standin_op_new returns one reference,
 * which the function that enqueues the operation consumes. */
struct standin_op {
    const char *name;
    /* Runs the operation on the stream's thread. In a graph, runs it at each launch; each branch
     * but the first has a thread of its own. Returns CUDA_SUCCESS, or an error that makes the
     * context fail. */
    CUresult (*run)(void *payload, uint64_t ticket);
    /* Called when the operation is enqueued on a stream or, in a graph, at each launch, in the
     * order of the host's calls; returns the ticket for `run`. May be NULL. The driver's lock is
     * held, so it must not call the driver. */
    uint64_t (*prepare)(void *payload);
    /* Set for launches of graphs: called after `prepare`, when the operation's vector clock is set.
     * May be NULL. */
    void (*order)(void *payload, CUstream stream);
    void (*release)(void *payload); /* may be NULL */
    void *payload;
    int references;
};

/* Functions of libcuda.so.1 for libnccl.so.2, exported as "standin_driver". Thread-safe. */
struct standin_driver {
    /* Enqueues an operation on a stream, or adds it to the graph that captures the stream.
     * `context` is for the handles 0 and 1. Consumes the reference, also on failure. */
    CUresult (*enqueue)(CUstream stream, CUcontext context, struct standin_op *op);
    /* Returns the address at which an operation of `device` may access device or pinned host
     * memory; NULL, after a message on stderr, if it may not access all the bytes, or not in this
     * order (STANDIN_RACES). For use in `run`. */
    void *(*memory)(int device, const void *pointer, size_t bytes, bool write, const char *who);
    /* Reserves bytes of a context's device; negative: releases them. Returns false if not enough
     * are left. */
    bool (*reserve)(CUcontext context, int64_t bytes);
    /* Returns true if an allocation that has not been freed contains the address. */
    bool (*is_memory)(const void *pointer);
    int (*device_of)(CUcontext context);
    CUcontext (*stream_context)(CUstream stream); /* NULL for the handles 0 and 1 */
    /* Returns the id of the stream's capture; 0: none, or an error. */
    uint64_t (*capture_of)(CUstream stream, CUcontext context);
    /* Makes later operations of `to` wait for those enqueued on `from`. */
    CUresult (*chain)(CUstream from, CUstream to, CUcontext context);
    void (*let_run)(void); /* for STANDIN_LAZY: called when NCCL begins to wait for operations */
    /* Returns the current context; without one, device 0's primary context, or NULL on failure. */
    CUcontext (*current_or_primary)(void);
    CUcontext (*primary)(int device); /* returns a device's primary context, or NULL on failure */
    struct standin_op *(*op_new)(const char *name, CUresult (*run)(void *, uint64_t),
                                 void (*release)(void *), void *payload);
    /* Counts a call; returns true, and sets *code, if it must fail by STANDIN_FAIL. */
    bool (*fails)(const char *name, int *code);
    long (*process_rank)(void);
    /* On a stream's thread, if the clock is set: advances the stream's time by that of `operations`
     * operations of NCCL and of sending `bytes` bytes. */
    void (*spend)(double operations, size_t bytes);
    /* Opens the file that a variable names, to append lines. Returns -1 if the variable is unset or
     * empty or, after a message, if the file cannot be opened. */
    int (*open_file)(const char *variable);
};

#endif
