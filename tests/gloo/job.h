/* SPDX-License-Identifier: Apache-2.0 */
/* What the gloo test programs, which are C, use of gloo, which is C++: contexts and calls of a job
 * that tests/nccl/launch.sh has started. All functions may be called by several threads at once. */
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

/* The first four have the values of enum cshim_dtype. PAIR: two floats, added one by one. */
enum element_type { FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8, INT32, INT64, PAIR, ELEMENT_TYPES };
/* USER: a sum of the program's own, with a state. NO_FUNCTION: none is set. THROWING raises an
 * exception. */
enum operation { SUM, PRODUCT, LARGEST, SMALLEST, USER, OPERATIONS, NO_FUNCTION, THROWING };
/* The values of gloo's enumeration. */
enum ring { UNSPECIFIED, RING, BCUBE };
enum other { REDUCE, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, BROADCAST, OTHERS };

#define BUFFERS_MAX 1100
#define PLACES 16u    /* fixed addresses that contexts may have */
#define ANYWHERE 255u /* in place of one of them */

struct sum_call {
    enum element_type type;
    enum operation operation;
    enum ring ring;
    unsigned inputs, outputs; /* how many there are; the outputs are the inputs if there are none */
    void *input[BUFFERS_MAX];
    void *output[BUFFERS_MAX];
    size_t count;
    uint32_t tag;
    int timeout;    /* ms */
    size_t segment; /* bytes; 0: gloo's choice */
    bool straight;  /* to gloo's own function, past the shim */
};

struct context; /* a gloo::Context */

size_t element_bytes(enum element_type type);
/* Stores a small number, in a pair also twice as much. */
void element_put(enum element_type type, void *buffer, size_t i, int number);

/* This process's place in the job, from RANK and WORLD_SIZE. */
int job_rank(void);
int job_ranks(void);

/* Joins a context of `ranks` ranks as `rank`, under a name that no other context of the job has
 * had; all its calls have `timeout` ms where they name no other. The object lies at the fixed
 * address `place`, unless there is a context already. Waits for all its ranks. Exits if that fails.
 */
struct context *context_make(const char *name, int rank, int ranks, int timeout, unsigned place);
/* How many contexts have been at an address that had another before. */
unsigned contexts_at_same_address(void);
void context_free(struct context *context);

/* Make a call. Return NULL, or the exception's kind and text, which the caller frees. */
char *allreduce(struct context *context, const struct sum_call *call);
/* Another collective, with the root 0: of `count` floats from each rank, to each rank. */
char *other_collective(struct context *context, enum other other, float *input, float *output,
                       size_t count, uint32_t tag);

#ifdef __cplusplus
}
#endif
#endif
