/* SPDX-License-Identifier: Apache-2.0 */
/* Lets programs with the address sanitizer start with the shim preloaded. */
#include "shim/core/environment.h"
#include "shim/front/sanitizer.h"

/* The sanitizer's runtime, if it is a shared library (gcc's default), ends the process if a
 * preloaded object comes before it, because that could hide its interceptors. The shim defines none
 * of them, so the option switches this check off. Symbol lookup finds the program's own definition
 * of __asan_default_options first, then this function. */
CSHIM_EXPORT const char *__asan_default_options(void)
{
    return CSHIM_ASAN_OPTION;
}
