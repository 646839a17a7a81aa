/* SPDX-License-Identifier: Apache-2.0 */
/* Lets programs with the address sanitizer start with the library preloaded. */
#ifndef CSHIM_SANITIZER_H
#define CSHIM_SANITIZER_H

#include "shim/front/front.h"

/* Returns options for the address sanitizer, which calls this before main(). */
CSHIM_EXPORT const char *__asan_default_options(void);

#endif
