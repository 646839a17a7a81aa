/* SPDX-License-Identifier: Apache-2.0 */
/* The networks of examples/mnist/model.h on the current GPU: cuBLAS for the products, kernels.h for
 * the rest. Parameters and gradients are one buffer each, tensor after tensor. A call that fails
 * aborts the job (status.h). Not thread-safe.
 */
#ifndef MNIST_NCCL_GPU_NETWORK_H
#define MNIST_NCCL_GPU_NETWORK_H

#include <cuda_runtime_api.h>

#include "examples/mnist/network.h"

struct gpu_network;

/* Returns a network with seeded initial weights for batches of at most `capacity` images, whose
 * work goes to `stream`; NULL if the host's memory is short. Free it with gpu_network_free. */
struct gpu_network *gpu_network_new(enum network_model which, int capacity, uint64_t seed,
                                    cudaStream_t stream);
void gpu_network_free(struct gpu_network *network);

/* The parameters, or their gradients, on the device; and how many there are. */
float *gpu_network_weights(struct gpu_network *network);
float *gpu_network_gradients(struct gpu_network *network);
size_t gpu_network_parameters(const struct gpu_network *network);

/* As network_train and network_evaluate, but the score comes later: these return when all work is
 * on the stream, and gpu_network_score when it is done. */
void gpu_network_train(struct gpu_network *network, const struct batch *batch, float scale,
                       uint64_t dropout, int first_item);
void gpu_network_evaluate(struct gpu_network *network, const struct batch *batch);

/* Waits for the stream; returns the score of the last batch. */
struct score gpu_network_score(struct gpu_network *network);

#endif
