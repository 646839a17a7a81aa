/* SPDX-License-Identifier: Apache-2.0 */
/* Calls MPI_Allreduce from several threads of each rank at once (MPI_THREAD_MULTIPLE), each on its
 * own communicator and on duplicates of it. The sums are 0 or the number of ranks, which up to 8 is
 * exact in raw, fp16, bf16 and fp8. An ordinary MPI program. */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/mpi/job.h"

#define THREADS 4
#define ROUNDS 6
#define CALLS 10

struct worker {
    pthread_t thread;
    MPI_Comm comm;
    int number;
    int failures;
};

static void sum_exactly(struct worker *worker, MPI_Comm comm, int call)
{
    const int count = 1 + (call * 7919 + worker->number * 104729) % 60000;
    float *data = malloc((size_t)count * sizeof *data);
    int wrong = 0;
    for (int i = 0; i < count; i++)
        data[i] = (float)((i + worker->number) % 2);
    const int status = MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, comm);
    for (int i = 0; i < count; i++)
        wrong += data[i] != (float)((i + worker->number) % 2 * ranks);
    if (status != MPI_SUCCESS || wrong > 0) {
        worker->failures++;
        fprintf(stderr, "rank %d, thread %d: status %d, %d of %d are wrong\n", rank, worker->number,
                status, wrong, count);
    }
    free(data);
}

static void *run_thread(void *argument)
{
    struct worker *worker = argument;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm;
        MPI_Comm_dup(worker->comm, &comm);
        for (int call = 0; call < CALLS; call++) {
            sum_exactly(worker, comm, round * CALLS + call);
            sum_exactly(worker, worker->comm, call);
        }
        MPI_Comm_free(&comm);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct worker workers[THREADS] = {{0}};
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (provided < MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "mpi_threads: this MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&workers[i].thread, NULL, run_thread, &workers[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        failures += workers[i].failures;
        MPI_Comm_free(&workers[i].comm);
    }
    return job_end("work done, ");
}
