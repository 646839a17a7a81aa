/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on standard error: one write(2) each, no allocation, no streams; safe in any thread. */
#ifndef CSHIM_LOG_H
#define CSHIM_LOG_H

#include "policy/policy.h"

/* Sets the level from here on. $COMPSHIM_LOG, where valid, wins over `level`. The first time it
 * remembers what standard error is. */
void cshim_log_set_level(enum cshim_log_level level);

/* Writes "compshim: text\n" if level is at or above the level set; at most 1 KiB of it. */
void cshim_log(enum cshim_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes text to what standard error was at the start, as one write(2) where possible: never to a
 * file that the program has opened under its number since. If that is gone, full or a broken pipe,
 * the text is lost without a signal. errno stays. Thread-safe. */
void cshim_log_write(const char *text, size_t length);
/* Returns true if the stream stderr still leads to the standard error of the start. */
bool cshim_log_has_stderr(void);

#endif
