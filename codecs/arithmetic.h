/* SPDX-License-Identifier: Apache-2.0 */
/* The floating-point environment in which the codecs and the shim compute. The program's own may
 * trap, round upwards or flush small numbers to zero, and differ between ranks. */
#ifndef CSHIM_ARITHMETIC_H
#define CSHIM_ARITHMETIC_H

#ifdef __x86_64__
#include <xmmintrin.h>
/* SSE computes everything here: its control register is enough, and quicker to write than all. */
typedef unsigned cshim_arithmetic;
#elif defined(__aarch64__)
#include <stdint.h>
/* fesetenv leaves the bits that choose another binary16 and that replace NaNs as they are. */
typedef struct {
    uint64_t control, status;
} cshim_arithmetic;
#else
#include <fenv.h>
typedef fenv_t cshim_arithmetic;
#endif

/* Sets the program's environment aside and the default one in force: no traps, to nearest, no flush
 * of denormals. The calling thread gives what is returned back to cshim_arithmetic_end. What is
 * computed between the two is read from memory and written to it, or stands in functions that are
 * not inlined: the compiler moves no such operation out of between. */
static inline cshim_arithmetic cshim_arithmetic_begin(void)
{
#ifdef __x86_64__
    const cshim_arithmetic programs = _mm_getcsr();
    _mm_setcsr(0x1f80); /* all exceptions masked, and no other bit */
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

/* Puts the program's environment in force again, with the exception flags it had. */
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
