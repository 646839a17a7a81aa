/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/word.h"
#include "shim/core/signals.h"

static enum cshim_log_level current_level = CSHIM_LOG_WARN;
static bool has_level; /* cshim_log_set_level() was called */

static const char *const level_names[] = {"error", "warn", "info", "debug"};

/* Standard error as it was at the start, and a descriptor of our own for it: the program may close
 * its own and open a data file under its number. */
static struct stat at_start;
static int own_descriptor = -1;
static bool is_known;

static bool is_at_start(int descriptor)
{
    struct stat now;
    return fstat(descriptor, &now) == 0 && now.st_dev == at_start.st_dev &&
           now.st_ino == at_start.st_ino;
}

/* In a child of fork(), closes its copy of the descriptor, which would keep a pipe open that the
 * parent's end should close. */
static void forget_stderr(void)
{
    const int flags = own_descriptor >= 0 ? fcntl(own_descriptor, F_GETFD) : -1;
    if (flags >= 0 && (flags & FD_CLOEXEC) != 0 && is_at_start(own_descriptor))
        close(own_descriptor);
    own_descriptor = -1;
    is_known = false;
}

static void remember_stderr(void)
{
    static bool is_registered;
    if (is_known)
        return;
    if (!is_registered)
        pthread_atfork(NULL, NULL, forget_stderr);
    is_registered = true;
    if (fstat(STDERR_FILENO, &at_start) == 0)
        own_descriptor = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    is_known = true;
}

/* Returns a descriptor of standard error as it was at the start; -1 if it is gone, was not open, or
 * could not be duplicated. Before the start, which remember_stderr() marks, returns STDERR_FILENO.
 */
static int find_stderr(void)
{
    if (!is_known || (own_descriptor >= 0 && is_at_start(STDERR_FILENO)))
        return STDERR_FILENO;
    return own_descriptor >= 0 && is_at_start(own_descriptor) ? own_descriptor : -1;
}

bool cshim_log_has_stderr(void)
{
    return find_stderr() == STDERR_FILENO;
}

/* Writes the text. If the program has made the descriptor nonblocking, waits up to a second each
 * time that a pipe is full, and then leaves out the rest. */
static void write_all(int descriptor, const char *text, size_t length)
{
    struct pollfd writable = {.fd = descriptor, .events = POLLOUT};
    for (size_t done = 0; done < length;) {
        const ssize_t written = write(descriptor, text + done, length - done);
        if (written > 0)
            done += (size_t)written;
        else if (written == 0 ||
                 (errno != EINTR && (errno != EAGAIN || poll(&writable, 1, 1000) == 0)))
            break;
    }
}

void cshim_log_write(const char *text, size_t length)
{
    const int saved_errno = errno, descriptor = find_stderr();
    struct cshim_write_guard guard;
    cshim_write_guard_begin(&guard);
    write_all(descriptor, text, length);
    cshim_write_guard_end(&guard);
    errno = saved_errno;
}

/* Returns the level that COMPSHIM_LOG sets; `otherwise` if it sets none. */
static enum cshim_log_level wanted_level(enum cshim_log_level otherwise)
{
    const char *wanted = secure_getenv("COMPSHIM_LOG");
    for (unsigned i = 0; wanted != NULL && i < sizeof level_names / sizeof level_names[0]; i++)
        if (cshim_is_word(wanted, level_names[i]))
            return (enum cshim_log_level)i;
    return otherwise;
}

void cshim_log_set_level(enum cshim_log_level level)
{
    remember_stderr();
    current_level = wanted_level(level);
    has_level = true;
}

void cshim_log(enum cshim_log_level level, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    size_t length;

    if (level > (has_level ? current_level : wanted_level(current_level)))
        return;
    length = (size_t)snprintf(line, sizeof line, "compshim: ");
    va_start(arguments, format);
    vsnprintf(line + length, sizeof line - length - 1, format, arguments);
    va_end(arguments);
    length = strlen(line);
    line[length++] = '\n';
    cshim_log_write(line, length);
}
