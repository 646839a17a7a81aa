/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the program's signals and the library's work apart. Thread-safe. */
#ifndef CSHIM_SIGNALS_H
#define CSHIM_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Starts a detached thread with all signals blocked, so that it never runs the program's handlers.
 * `stack_bytes`: 0 for the default. Returns 0, or the error of pthread_create(). */
int cshim_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes);

/* Saved state of a thread whose writes may fail. */
struct cshim_write_guard {
    sigset_t before;  /* signals that the thread had blocked */
    sigset_t pending; /* signals that were pending */
};
/* Between these calls a write to a broken pipe, or beyond the limit of a file's size
 * (RLIMIT_FSIZE), fails in this thread with EPIPE or EFBIG, and sends no signal. The calls preserve
 * errno. */
void cshim_write_guard_begin(struct cshim_write_guard *guard);
void cshim_write_guard_end(const struct cshim_write_guard *guard);

#endif
