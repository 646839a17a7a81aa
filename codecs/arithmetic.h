/* SPDX-License-Identifier: Apache-2.0 */
/* The floating-point environment in which the codecs and the shim compute. The program's own may
 * trap, round upwards or flush small numbers to zero, and differ between ranks. */
#ifndef CSHIM_ARITHMETIC_H
#define CSHIM_ARITHMETIC_H

#ifdef __x86_64__
#include <xmmintrin.h>
/* SSE computes everything here: its control register is enough, and quicker to write than all. */
typedef unsigned cshim_arithmetic;
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
#else
    fesetenv(programs);
#endif
}

#endif
