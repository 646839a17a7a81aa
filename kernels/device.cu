/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels by name (kernels.h): one per operation, because all of them together, compiled for
 * every architecture, travel in each copy of the library. */
#include "kernels/cast.cuh"
#include "kernels/exchange.cuh"
#include "kernels/reduce.cuh"

/* `blocks` of them fit a multiprocessor at once: the fewest with which enough loads are under way.
 */
#define KERNEL(name, parameter, blocks, body)                                                      \
    extern "C" __global__ void __launch_bounds__(CSHIM_KERNEL_THREADS, blocks)                     \
        cshim_##name(const __grid_constant__ struct cshim_kernel_##parameter parameters)           \
    {                                                                                              \
        body(parameters);                                                                          \
    }

KERNEL(encode, encode, 4, encode_pieces)
KERNEL(decode, decode, 4, decode_pieces)
KERNEL(reduce, reduce, 3, reduce_parts)
KERNEL(narrow, cast, 4, narrow_buffer)
KERNEL(widen, cast, 4, widen_buffer)
KERNEL(largest, largest, 4, find_buffer_largest)
