/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

int cshim_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (stack_bytes > 0)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* Signals of writes that fail. */
static const int of_writes[] = {SIGPIPE, SIGXFSZ};
enum { OF_WRITES = sizeof of_writes / sizeof *of_writes };

void cshim_write_guard_begin(struct cshim_write_guard *guard)
{
    const int saved_errno = errno;
    sigset_t blocked;
    sigemptyset(&blocked);
    for (unsigned i = 0; i < OF_WRITES; i++)
        sigaddset(&blocked, of_writes[i]);
    sigemptyset(&guard->pending);
    sigpending(&guard->pending);
    pthread_sigmask(SIG_BLOCK, &blocked, &guard->before);
    errno = saved_errno;
}

void cshim_write_guard_end(const struct cshim_write_guard *guard)
{
    const int saved_errno = errno;
    const struct timespec at_once = {0};
    for (unsigned i = 0; i < OF_WRITES; i++) {
        sigset_t pending, one;
        sigemptyset(&one);
        sigaddset(&one, of_writes[i]);
        if (sigismember(&guard->pending, of_writes[i]) == 0 && sigpending(&pending) == 0 &&
            sigismember(&pending, of_writes[i]) == 1)
            sigtimedwait(&one, NULL, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    errno = saved_errno;
}
