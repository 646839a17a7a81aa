/* SPDX-License-Identifier: Apache-2.0 */
/* The floating-point environment in which the shim computes. The program's own may trap, round
 * upwards or flush small numbers to zero, and differ between ranks. */
#ifndef CSHIM_ARITHMETIC_H
#define CSHIM_ARITHMETIC_H

#include <fenv.h>

/* Sets the program's environment aside and the default one in force: no traps, to nearest. The
 * calling thread gives what is returned back to cshim_arithmetic_end. */
static inline fenv_t cshim_arithmetic_begin(void)
{
    fenv_t programs;
    fegetenv(&programs);
    fesetenv(FE_DFL_ENV);
    return programs;
}

/* Puts the program's environment in force again, with the exception flags it had. */
static inline void cshim_arithmetic_end(const fenv_t *programs)
{
    fesetenv(programs);
}

#endif
