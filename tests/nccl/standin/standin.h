/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for the CUDA driver and for NCCL, for tests on machines without a GPU: what its two
 * libraries share. It proves nothing about speed, nor about the real driver or the real NCCL.
 *
 * libcuda.so.1 (cuda_*.c) runs streams as threads and keeps device memory where the host cannot
 * touch it; libnccl.so.2 (nccl_*.c) puts its operations on these streams. Settings, all from the
 * environment:
 *
 *   STANDIN_DEVICES=4        devices; STANDIN_SM=90 their compute capability
 *   STANDIN_MEMORY=8192      MiB of each device
 *   STANDIN_SEED, STANDIN_DELAY_US=0   each operation of a stream is late by up to so much
 *   STANDIN_LAZY=1           no operation runs before the host synchronises or queries; copies that
 *                            cuMemcpyHtoD only begins are held back, too
 *   STANDIN_RACES=1          finds operations that use the same memory and are not ordered
 *   STANDIN_ORDER=FILE       the operations that ran as JSON lines, with the clock that each had:
 *                            what is ordered before it; {rank} in the name
 *   STANDIN_CLOCK=US,MIB     what events tell is computed: US microseconds for each operation of
 *                            NCCL, a tenth for each kernel, and MIB MiB/s for what NCCL sends; a
 *                            program changes it by standin_set_clock
 *   STANDIN_FAIL=NAME:N[:CODE][@RANK],...   the N-th call of a function fails (N from 1), in
 *                            every process or in that of a rank
 *   STANDIN_NCCL_VERSION=22809
 *   STANDIN_CONNECTION=10    MiB of the device that NCCL takes for the messages to and from a rank
 *   STANDIN_COMMUNICATOR=0   MiB that it takes for a communicator; a real one takes hundreds
 *   STANDIN_LOG=FILE         NCCL's calls as JSON lines; {rank} in the name
 *   STANDIN_CLIQUE=NUMBER    the NVLink clique of the devices; libnvidia-ml.so.1 (nvml.c) tells it
 *   STANDIN_DATA=FILE        a digest of what each of them sends, when it runs; {rank} as above
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STANDIN_EXPORT __attribute__((visibility("default")))

/* An entry of a stream, or a node of a graph. Counted: standin_op_new gives one reference, which
 * the function that takes it into a stream consumes. */
struct standin_op {
    const char *name;
    /* Runs on the stream's thread; again at each launch of a graph. Returns CUDA_SUCCESS or the
     * error that the context is to have from then on. */
    CUresult (*run)(void *payload, uint64_t ticket);
    /* Called at each launch, in the order of the host's calls; what it returns is the ticket. May
     * be NULL. Called with the driver's lock held: calls nothing of the driver. */
    uint64_t (*prepare)(void *payload);
    /* A graph's: called like prepare, once its place in the stream's order is known. May be NULL.
     */
    void (*order)(void *payload, CUstream stream);
    void (*release)(void *payload); /* may be NULL */
    void *payload;
    int references;
};

/* What libnccl.so.2 needs of libcuda.so.1: the symbol "standin_driver". All functions are
 * thread-safe. */
struct standin_driver {
    /* Takes an operation into a stream (or into the graph that it is captured into). The context
     * is that of handle 0. Consumes the reference, also on failure. */
    CUresult (*enqueue)(CUstream stream, CUcontext context, struct standin_op *op);
    /* The bytes of device (or pinned host) memory as an operation of `device` may see them, or
     * NULL, after a line on stderr, where any of them may not be accessed so. For use in run. */
    void *(*memory)(int device, const void *pointer, size_t bytes, bool write, const char *who);
    /* Takes bytes of a context's device, or gives them back where they are negative. False if there
     * are not as many left. */
    bool (*reserve)(CUcontext context, int64_t bytes);
    /* Whether some allocation holds the address at all: for the check of arguments. */
    bool (*is_memory)(const void *pointer);
    int (*device_of)(CUcontext context);
    CUcontext (*stream_context)(CUstream stream); /* NULL for the handles 0, 1 and 2 */
    /* Which capture the stream is in; 0: none. */
    uint64_t (*capture_of)(CUstream stream, CUcontext context);
    /* Makes what `to` takes in from now on wait for what `from` has taken in. */
    CUresult (*chain)(CUstream from, CUstream to, CUcontext context);
    void (*let_run)(void); /* a synchronisation begins: STANDIN_LAZY */
    /* The current context, or that of device 0; the primary one of a device. NULL on failure. */
    CUcontext (*current_or_primary)(void);
    CUcontext (*primary)(int device);
    struct standin_op *(*op_new)(const char *name, CUresult (*run)(void *, uint64_t),
                                 void (*release)(void *), void *payload);
    /* Whether the N-th call of this function shall fail: STANDIN_FAIL. */
    bool (*fails)(const char *name, int *code);
    long (*process_rank)(void);
    /* STANDIN_CLOCK: the operation that this thread runs takes as long as so many of NCCL's, and
     * what so many bytes take. */
    void (*spend)(double operations, size_t bytes);
    int (*open_file)(const char *variable); /* that it names, to append lines; or -1 */
};

#endif
