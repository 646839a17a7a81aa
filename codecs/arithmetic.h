/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the floating-point environment in which the codecs and the shim compute. The program's own
 * environment may trap, round upwards or flush small numbers to zero, and may differ between ranks.
 */
#ifndef CSHIM_ARITHMETIC_H
#define CSHIM_ARITHMETIC_H

#ifdef __x86_64__
#include <xmmintrin.h>
/* On x86-64 float and double use SSE, so its control register is enough; writing only that is
 * faster. (long double, only in shim/core/tolerance.c, keeps the program's environment.) */
typedef unsigned cshim_arithmetic;
#elif defined(__aarch64__)
#include <stdint.h>
/* The registers FPCR and FPSR, which are written directly: glibc's fesetenv() does not change the
 * bits of FPCR that select another binary16 format and that replace NaNs. */
typedef struct {
    uint64_t control, status;
} cshim_arithmetic;
#else
#include <fenv.h>
typedef fenv_t cshim_arithmetic;
#endif

/* Keeps a function from being inlined, so that the compiler cannot move its operations out of a
 * section between cshim_arithmetic_begin() and _end(), and so that its large arrays are not in the
 * stack frames of callers that do not need them: threads may have small stacks. */
#define CSHIM_APART __attribute__((noinline))

/* Sets the default environment (no traps, round to nearest, no flush of denormals). Returns the
 * program's, which the same thread passes to cshim_arithmetic_end(). The section between the two
 * calls must only read and write memory, or call functions that are not inlined: the compiler might
 * move other floating-point operations out of it. */
static inline cshim_arithmetic cshim_arithmetic_begin(void)
{
#ifdef __x86_64__
    const cshim_arithmetic programs = _mm_getcsr();
    _mm_setcsr(0x1f80); /* all exceptions masked, all other bits 0 */
#elif defined(__aarch64__)
    cshim_arithmetic programs;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr"
                     : "=r"(programs.control), "=r"(programs.status));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
#else
    cshim_arithmetic programs;
    fegetenv(&programs);
    fesetenv(FE_DFL_ENV);
#endif
    __asm__ volatile("" ::: "memory");
    return programs;
}

/* Restores the program's environment, with its exception flags. */
static inline void cshim_arithmetic_end(const cshim_arithmetic *programs)
{
    __asm__ volatile("" ::: "memory");
#ifdef __x86_64__
    _mm_setcsr(*programs);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
                     :
                     : "r"(programs->control), "r"(programs->status));
#else
    fesetenv(programs);
#endif
}

#endif
