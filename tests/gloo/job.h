/* SPDX-License-Identifier: Apache-2.0 */
/* C interface to gloo, which is C++, for the gloo test programs: contexts and calls in a job
 * started by tests/nccl/launch.sh. Several threads may make calls at once. */
#ifndef GLOO_JOB_H
#define GLOO_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first four have the values of enum cshim_dtype. PAIR is two floats, added one by one. */
enum element_type { FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8, INT32, INT64, PAIR, ELEMENT_TYPES };
/* USER is a function object of the program, with a state. NO_FUNCTION: the call sets no reduction
 * function. THROWING: the function throws an exception. */
enum operation { SUM, PRODUCT, LARGEST, SMALLEST, USER, OPERATIONS, NO_FUNCTION, THROWING };
/* Algorithms, with the values of gloo's enumeration. */
enum ring { UNSPECIFIED, RING, BCUBE };
enum other { REDUCE, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, BROADCAST, OTHERS };

#define BUFFERS_MAX 1100
#define PLACES 16u    /* number of fixed addresses for contexts */
#define ANYWHERE 255u /* any address */

struct sum_call {
    enum element_type type;
    enum operation operation;
    enum ring ring;
    unsigned inputs, outputs; /* numbers of buffers; without inputs, the outputs are the inputs */
    void *input[BUFFERS_MAX];
    void *output[BUFFERS_MAX];
    size_t count;
    uint32_t tag;
    int timeout;    /* ms; 0: the context's */
    size_t segment; /* in bytes; 0: gloo's default */
    bool straight;  /* calls gloo's own function, not the shim's */
};

struct other_call {
    enum other other;
    enum element_type type; /* ignored in a REDUCE, which is of FLOAT32 */
    void *input;            /* NULL: none, where gloo allows that */
    void *output;
    size_t count;                  /* elements of a block, or of a reduce or broadcast */
    const size_t *sent, *received; /* ALLGATHERV (only received), ALLTOALLV: lengths by rank; NULL:
                                      all are `count` */
    int root;
    uint32_t tag;
    int timeout; /* ms; 0: the context's */
};

struct context; /* a gloo::Context */

size_t element_bytes(enum element_type type);
/* Stores a small number; in a PAIR also twice the number. */
void element_put(enum element_type type, void *buffer, size_t i, int number);

/* Rank and size of the job, from RANK and WORLD_SIZE. */
int job_rank(void);
int job_ranks(void);

/* Joins a context of `ranks` ranks as `rank`, under a name that is unique in the job, and waits for
 * all its ranks. `timeout` (ms) applies to calls that set none. The object lies at fixed address
 * number `place`, or elsewhere if `place` is ANYWHERE or a context is there already. Exits on
 * failure. */
struct context *context_make(const char *name, int rank, int ranks, int timeout, unsigned place);
/* Returns the number of contexts created at a fixed address that an earlier context had. */
unsigned contexts_at_same_address(void);
void context_free(struct context *context);

/* Makes a call. Returns NULL, or type and text of the exception, which the caller frees. */
char *allreduce(struct context *context, const struct sum_call *call);
/* Makes a call of another collective. Returns the same as allreduce(). */
char *other_collective(struct context *context, const struct other_call *call);

#ifdef __cplusplus
}
#endif
#endif
