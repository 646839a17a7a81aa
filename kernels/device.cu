/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels by name (kernels.h). There is one for each operation, not for each codec: all of
 * them, compiled for every architecture, are in each copy of the library. */
#include "kernels/cast.cuh"
#include "kernels/exchange.cuh"

/* A multiprocessor holds this many blocks at once: the fewest with which enough loads are under
 * way. */
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
KERNEL(largest, cast, 4, find_buffer_largest)
