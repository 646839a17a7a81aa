/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on standard error: one write(2) each, no allocation, no streams; safe in any thread. */
#ifndef CSHIM_LOG_H
#define CSHIM_LOG_H

#include "policy/policy.h"

/* Sets the level from here on. $COMPSHIM_LOG, where valid, wins over `level`. */
void cshim_log_set_level(enum cshim_log_level level);

/* Writes "compshim: text\n" if level is at or above the level set; at most 1 KiB of it. */
void cshim_log(enum cshim_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
