/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/learner.h"

#include <cblas.h>
#include <mpi.h>
#include <stdlib.h>

#include "examples/mnist/simd.h"

struct learner {
    struct network *network;
    struct tensor *tensors;
    int tensor_count;
    int ranks;
    double allreduce_seconds;
};

const char learner_help[] = "";

bool learner_start(void)
{
    /* One process per core is the rule in an MPI job: more threads would get in each other's way.
     */
    if (getenv("OPENBLAS_NUM_THREADS") == NULL)
        openblas_set_num_threads(1);
    return true;
}

struct learner *learner_new(enum network_model model, int capacity, uint64_t seed)
{
    struct learner *learner = calloc(1, sizeof *learner);
    if (learner == NULL)
        return NULL;
    MPI_Comm_size(MPI_COMM_WORLD, &learner->ranks);
    learner->network = network_new(model, capacity, seed);
    if (learner->network == NULL) {
        free(learner);
        return NULL;
    }
    learner->tensors = network_tensors(learner->network, &learner->tensor_count);
    for (int t = 0; t < learner->tensor_count; t++)
        MPI_Bcast(learner->tensors[t].weights, (int)learner->tensors[t].count, MPI_FLOAT, 0,
                  MPI_COMM_WORLD);
    return learner;
}

void learner_free(struct learner *learner)
{
    if (learner == NULL)
        return;
    network_free(learner->network);
    free(learner);
}

/* Gradient descent with momentum, on gradients that are still the sum over the ranks. */
SIMD_CLONES static void descend(struct tensor *tensor, float ranks, float learning_rate,
                                float momentum)
{
    float *restrict weights = tensor->weights, *restrict velocity = tensor->momentum;
    const float *restrict gradients = tensor->gradients;
    for (size_t i = 0; i < tensor->count; i++) {
        velocity[i] = momentum * velocity[i] + gradients[i] / ranks;
        weights[i] -= learning_rate * velocity[i];
    }
}

static void sum_gradients(struct learner *learner)
{
    double begin = MPI_Wtime();
    for (int t = 0; t < learner->tensor_count; t++)
        MPI_Allreduce(MPI_IN_PLACE, learner->tensors[t].gradients, (int)learner->tensors[t].count,
                      MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    learner->allreduce_seconds += MPI_Wtime() - begin;
}

struct score learner_step(struct learner *learner, const struct batch *batch, float scale,
                          uint64_t dropout, int first_item, float learning_rate, float momentum)
{
    struct score score = network_train(learner->network, batch, scale, dropout, first_item);
    sum_gradients(learner);
    for (int t = 0; t < learner->tensor_count; t++)
        descend(&learner->tensors[t], (float)learner->ranks, learning_rate, momentum);
    return score;
}

struct score learner_evaluate(struct learner *learner, const struct batch *batch)
{
    return network_evaluate(learner->network, batch);
}

double learner_allreduce_seconds(const struct learner *learner)
{
    return learner->allreduce_seconds;
}
