/* SPDX-License-Identifier: Apache-2.0 */
/* A sum of small integers by MPI_Iallreduce or a persistent request, for test programs. Up to 9
 * ranks it is exact in raw, lossless, fp16, bf16 and fp8_e4m3. */
#ifndef NONBLOCKING_H
#define NONBLOCKING_H

#include <mpi.h>
#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init /* Open MPI 4's name */
#endif
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/either_count.h"
#include "tests/mpi/job.h"

static inline void check_call(int good, const char *what, int i)
{
    char text[160];
    snprintf(text, sizeof text, "%s, %d", what, i);
    check(good, text);
}

struct call {
    float *in, *out;
    int count, key;
    MPI_Request request;
};

static inline float value(int of_rank, int key, int i)
{
    return (float)((of_rank + key * 7 + i) % 4);
}

static inline void fill_call(struct call *call)
{
    for (int i = 0; i < call->count; i++)
        call->in[i] = value(rank, call->key, i);
    memset(call->out, 0xff, (size_t)call->count * sizeof *call->out);
}

static inline void make_call(struct call *call, int count, int key)
{
    *call = (struct call){.count = count, .key = key, .request = MPI_REQUEST_NULL};
    call->in = malloc((size_t)count * sizeof *call->in + 1);
    call->out = malloc((size_t)count * sizeof *call->out + 1);
    fill_call(call);
}

static inline void check_sums(const struct call *call, const char *what)
{
    for (int i = 0; i < call->count; i++) {
        float want = 0;
        for (int r = 0; r < ranks; r++)
            want += value(r, call->key, i);
        if (call->out[i] != want) {
            check_call(0, what, i);
            return;
        }
    }
}

static inline void drop(struct call *call)
{
    free(call->in);
    free(call->out);
}

static inline void start_call(struct call *call, MPI_Comm comm)
{
    check_call(EITHER_COUNT(call->key % 2 != 0, MPI_Iallreduce, call->in, call->out, call->count,
                            MPI_FLOAT, MPI_SUM, comm, &call->request) == MPI_SUCCESS,
               "MPI_Iallreduce", call->key);
}

#endif
