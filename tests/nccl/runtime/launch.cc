/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the trainer's kernels on the host: when the stream reaches a launch, runs all threads of its
 * grid, one after the other. Checks only the access to the first element of each buffer. */
#include <mutex>
#include <string.h>
#include <tuple>
#include <type_traits>

#include "tests/nccl/runtime/runtime.h"

#define __device__
#define __global__

struct dim {
    unsigned x;
};
static dim threadIdx, blockIdx, blockDim, gridDim;
static std::mutex running; /* guards the four variables */

#include "examples/mnist_nccl/device.cuh"

/* Converts a device pointer into one that the stream's thread may access; leaves other arguments
 * unchanged. Returns false if the access is refused. */
template <typename T> static bool see(T &argument, int device, const char *who)
{
    if constexpr (std::is_pointer_v<T>) {
        const bool write = !std::is_const_v<std::remove_pointer_t<T>>;
        argument =
            static_cast<T>(standin_driver.memory(device, argument, sizeof *argument, write, who));
        return argument != nullptr;
    }
    return true;
}

template <typename... Parameters> struct launch {
    const char *name;
    void (*kernel)(Parameters...);
    int device;
    runtime_grid grid;
    std::tuple<Parameters...> arguments;

    static CUresult run(void *payload, uint64_t)
    {
        const launch *self = static_cast<launch *>(payload);
        auto seen = self->arguments;
        const bool good = std::apply(
            [self](auto &...each) { return (see(each, self->device, self->name) && ...); }, seen);
        if (!good)
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        const std::lock_guard<std::mutex> lock(running);
        gridDim.x = self->grid.blocks;
        blockDim.x = self->grid.threads;
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
            for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
                std::apply(self->kernel, seen);
        return CUDA_SUCCESS;
    }

    static void release(void *payload)
    {
        delete static_cast<launch *>(payload);
    }
};

template <typename... Parameters, size_t... Index>
static CUresult start(const char *name, void (*kernel)(Parameters...), runtime_grid grid,
                      void **arguments, CUstream stream, std::index_sequence<Index...>)
{
    using this_launch = launch<Parameters...>;
    CUcontext context = standin_driver.stream_context(stream);
    if (context == nullptr)
        context = standin_driver.current_or_primary();
    auto *payload =
        new this_launch{name, kernel, standin_driver.device_of(context), grid,
                        std::tuple<Parameters...>(*static_cast<Parameters *>(arguments[Index])...)};
    return standin_driver.enqueue(
        stream, context,
        standin_driver.op_new(name, this_launch::run, this_launch::release, payload));
}

template <typename... Parameters>
static CUresult start_if(const char *wanted, const char *name, void (*kernel)(Parameters...),
                         runtime_grid grid, void **arguments, CUstream stream)
{
    return strcmp(wanted, name) != 0 ? CUDA_ERROR_NOT_FOUND
                                     : start(name, kernel, grid, arguments, stream,
                                             std::index_sequence_for<Parameters...>());
}

CUresult runtime_launch(const char *wanted, runtime_grid grid, void **arguments, CUstream stream)
{
    CUresult status = CUDA_ERROR_NOT_FOUND;
#define KERNEL(name)                                                                               \
    if (status == CUDA_ERROR_NOT_FOUND)                                                            \
    status = start_if(wanted, #name, name, grid, arguments, stream)
    KERNEL(mnist_normalise);
    KERNEL(mnist_gather_patches);
    KERNEL(mnist_scatter_patches);
    KERNEL(mnist_add_bias);
    KERNEL(mnist_pool);
    KERNEL(mnist_unpool);
    KERNEL(mnist_dropout);
    KERNEL(mnist_relu_dropout_backward);
    KERNEL(mnist_judge);
    KERNEL(mnist_descend);
    return status;
}
