/* SPDX-License-Identifier: Apache-2.0 */
/* Lets programs that are built with the address sanitizer start with the shim preloaded. */
#include "shim/core/environment.h"
#include "shim/front/front.h"

/* Returns options for the address sanitizer, whose runtime calls this function before main. A
 * runtime in a shared library (gcc's default) ends the process if a preloaded object comes before
 * it, because its own functions might not be found first. The shim defines none of these. The
 * loader asks the program first, and the preload next: a program's own definition hides this one.
 */
CSHIM_EXPORT const char *__asan_default_options(void)
{
    return CSHIM_ASAN_OPTION;
}
