/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library's own. Thread-safe. */
#ifndef CSHIM_THREAD_H
#define CSHIM_THREAD_H

#include <stddef.h>

/* Starts a detached thread with all signals blocked, so that it never runs the program's handlers.
 * `stack_bytes`: 0 for the default. Returns 0, or the error of pthread_create(). */
int cshim_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes);

#endif
