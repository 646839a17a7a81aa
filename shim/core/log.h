/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on standard error: one write(2) each if possible, no allocation, no streams; safe in any
 * thread. */
#ifndef CSHIM_LOG_H
#define CSHIM_LOG_H

#include "policy/policy.h"

/* Sets the level from here on. A valid $COMPSHIM_LOG overrides `level`. The first call, "the start"
 * below, records the file that is standard error; so does the first one in a child of fork(). */
void cshim_log_set_level(enum cshim_log_level level);

/* Writes "compshim: text\n", cut to at most 1 KiB, if `level` is at least as severe as the level
 * that is set. */
void cshim_log(enum cshim_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes text to the file that was standard error at the start, by one write(2) if possible; never
 * to another file that the program has since opened as descriptor 2. Before the start, writes to
 * descriptor 2. If standard error is gone, on a full disk or a broken pipe, the text is lost, and
 * no signal is sent. Preserves errno. Thread-safe. */
void cshim_log_write(const char *text, size_t length);
/* Returns true if descriptor 2 is the file that was standard error at the start, and that file
 * could then be duplicated. Before the start, returns true. */
bool cshim_log_has_stderr(void);

#endif
