/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum cshim_log_level current_level = CSHIM_LOG_WARN;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void cshim_log_set_level(enum cshim_log_level level)
{
    const char *wanted = getenv("COMPSHIM_LOG");
    current_level = level;
    if (wanted == NULL || *wanted == '\0')
        return;
    for (unsigned i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(wanted, level_names[i]) == 0) {
            current_level = (enum cshim_log_level)i;
            return;
        }
    }
    cshim_log(CSHIM_LOG_WARN, "COMPSHIM_LOG=%s is not known: error, warn, info or debug", wanted);
}

void cshim_log(enum cshim_log_level level, const char *format, ...)
{
    char line[1024];
    const int saved_errno = errno;
    va_list arguments;
    size_t length;

    if (level > current_level)
        return;
    length = (size_t)snprintf(line, sizeof line, "compshim: ");
    va_start(arguments, format);
    vsnprintf(line + length, sizeof line - length - 1, format, arguments);
    va_end(arguments);
    length = strlen(line);
    line[length++] = '\n';
    for (size_t done = 0; done < length;) {
        const ssize_t written = write(STDERR_FILENO, line + done, length - done);
        if (written > 0)
            done += (size_t)written;
        else if (written == 0 || errno != EINTR)
            break;
    }
    errno = saved_errno;
}
