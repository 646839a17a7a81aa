/* SPDX-License-Identifier: Apache-2.0 */
/* SIMD_CLONES before a function: the compiler makes one version per instruction set, and the loader
 * takes the best this processor has. Worth it on loops over whole maps and tensors only. Not under
 * a sanitizer: the choice is made before its runtime is up.
 */
#ifndef MNIST_SIMD_H
#define MNIST_SIMD_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__)
#define SIMD_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define SIMD_CLONES
#endif

#endif
