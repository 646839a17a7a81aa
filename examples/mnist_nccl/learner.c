/* SPDX-License-Identifier: Apache-2.0 */
/* The learner on GPUs: one for each rank, gradients averaged by NCCL as one buffer. */
#include "examples/mnist/learner.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/mnist_nccl/gpu_network.h"
#include "examples/mnist_nccl/kernels.h"
#include "examples/mnist_nccl/status.h"

struct learner {
    struct gpu_network *network;
    float *velocity; /* on the device */
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t before, after; /* the sum of the gradients */
    double allreduce_seconds;
};

const char learner_help[] = "Each rank computes on the GPU of its number on its host; without a "
                            "GPU the exit status is 3.\n";

/* The rank's number among those of its host. */
static int local_rank(void)
{
    MPI_Comm host;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &rank);
    MPI_Comm_free(&host);
    return rank;
}

bool learner_start(void)
{
    int rank = 0, ranks = 1, devices = 0, first = 0, local = local_rank();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess)
        status = devices > 0 ? cudaSetDevice(local % devices) : cudaErrorNoDevice;
    int without = status == cudaSuccess ? ranks : rank;
    MPI_Allreduce(&without, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == rank)
        fprintf(stderr, "%s: no GPU can be used by rank %d: %s\n", program_invocation_short_name,
                rank, cudaGetErrorString(status));
    return first == ranks;
}

static ncclComm_t new_communicator(void)
{
    int rank = 0, ranks = 1;
    ncclUniqueId id;
    ncclComm_t comm;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        NCCL(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    NCCL(ncclCommInitRank(&comm, ranks, id, rank));
    return comm;
}

struct learner *learner_new(enum network_model model, int capacity, uint64_t seed)
{
    struct learner *learner = calloc(1, sizeof *learner);
    if (learner == NULL)
        return NULL;
    learner->comm = new_communicator();
    CUDA(cudaStreamCreateWithFlags(&learner->stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&learner->before));
    CUDA(cudaEventCreate(&learner->after));
    learner->network = gpu_network_new(model, capacity, seed, learner->stream);
    if (learner->network == NULL) {
        free(learner);
        return NULL;
    }
    size_t parameters = gpu_network_parameters(learner->network);
    CUDA(cudaMalloc((void **)&learner->velocity, parameters * sizeof *learner->velocity));
    CUDA(cudaMemset(learner->velocity, 0, parameters * sizeof *learner->velocity));
    /* The stream does not wait for what was done on the default one. */
    CUDA(cudaDeviceSynchronize());
    NCCL(ncclBroadcast(gpu_network_weights(learner->network), gpu_network_weights(learner->network),
                       parameters, ncclFloat, 0, learner->comm, learner->stream));
    return learner;
}

void learner_free(struct learner *learner)
{
    if (learner == NULL)
        return;
    CUDA(cudaStreamSynchronize(learner->stream));
    NCCL(ncclCommDestroy(learner->comm));
    gpu_network_free(learner->network);
    CUDA(cudaFree(learner->velocity));
    CUDA(cudaEventDestroy(learner->before));
    CUDA(cudaEventDestroy(learner->after));
    CUDA(cudaStreamDestroy(learner->stream));
    free(learner);
}

struct score learner_step(struct learner *learner, const struct batch *batch, float scale,
                          uint64_t dropout, int first_item, float learning_rate, float momentum)
{
    float *gradients = gpu_network_gradients(learner->network);
    size_t parameters = gpu_network_parameters(learner->network);
    float milliseconds = 0;
    gpu_network_train(learner->network, batch, scale, dropout, first_item);
    CUDA(cudaEventRecord(learner->before, learner->stream));
    NCCL(ncclAllReduce(gradients, gradients, parameters, ncclFloat, ncclAvg, learner->comm,
                       learner->stream));
    CUDA(cudaEventRecord(learner->after, learner->stream));
    CUDA(kernels_descend(gpu_network_weights(learner->network), learner->velocity, gradients,
                         learning_rate, momentum, parameters, learner->stream));
    struct score score = gpu_network_score(learner->network);
    CUDA(cudaEventElapsedTime(&milliseconds, learner->before, learner->after));
    learner->allreduce_seconds += milliseconds / 1e3;
    return score;
}

struct score learner_evaluate(struct learner *learner, const struct batch *batch)
{
    gpu_network_evaluate(learner->network, batch);
    return gpu_network_score(learner->network);
}

double learner_allreduce_seconds(const struct learner *learner)
{
    return learner->allreduce_seconds;
}
