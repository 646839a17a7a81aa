/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/model.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONV_HIDDEN = 128, MLP_HIDDEN = 512 };

int model_tensor_size(const struct model *model, int tensor)
{
    const struct layer_shape *layer = &model->layers[tensor / 2];
    return layer->outputs * (tensor % 2 == 0 ? layer->inputs : 1);
}

struct model model_of(enum network_model which)
{
    static const struct model models[] = {
        [NETWORK_MLP] = {.which = NETWORK_MLP,
                         .layer_count = 2,
                         .layers = {{IMAGE_PIXELS, MLP_HIDDEN}, {MLP_HIDDEN, IMAGE_CLASSES}}},
        [NETWORK_CONV] = {.which = NETWORK_CONV,
                          .drop_features = 64,
                          .drop_hidden = 128,
                          .layer_count = 4,
                          .layers = {{CONV_TAPS, CONV1_CHANNELS},
                                     {CONV2_PATCH, CONV2_CHANNELS},
                                     {POOL_SIZE, CONV_HIDDEN},
                                     {CONV_HIDDEN, IMAGE_CLASSES}}}};
    struct model model = models[which];
    for (int t = 0; t < 2 * model.layer_count; t++)
        model.parameters += (size_t)model_tensor_size(&model, t);
    return model;
}

/* Draws uniformly from [-1, 1] / sqrt(inputs), as PyTorch initialises such layers. */
void model_draw(const struct model *model, uint64_t seed, float *parameters)
{
    for (int t = 0; t < 2 * model->layer_count; t++) {
        uint64_t stream = rng_stream(seed, RNG_INITIAL_WEIGHTS, (uint64_t)t);
        const struct layer_shape *layer = &model->layers[t / 2];
        double bound = 1.0 / sqrt((double)layer->inputs);
        for (int i = 0; i < model_tensor_size(model, t); i++)
            *parameters++ = (float)rng_uniform(stream, (uint64_t)i, -bound, bound);
    }
}

void *host_memory(int images, size_t count, size_t size)
{
    int rank = 0;
    void *memory = calloc(count, size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (memory == NULL) {
        fprintf(stderr, "%s: rank %d: no memory for batches of %d images: try a smaller --batch\n",
                program_invocation_short_name, rank, images);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}
