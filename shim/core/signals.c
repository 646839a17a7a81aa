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

static bool is_pipe_signal_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

static sigset_t pipe_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

void cshim_pipe_guard_begin(struct cshim_pipe_guard *guard)
{
    const int saved_errno = errno;
    const sigset_t broken_pipe = pipe_signal();
    guard->was_pending = is_pipe_signal_pending();
    pthread_sigmask(SIG_BLOCK, &broken_pipe, &guard->before);
    errno = saved_errno;
}

void cshim_pipe_guard_end(const struct cshim_pipe_guard *guard)
{
    const int saved_errno = errno;
    const sigset_t broken_pipe = pipe_signal();
    const struct timespec at_once = {0};
    if (!guard->was_pending && is_pipe_signal_pending())
        sigtimedwait(&broken_pipe, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    errno = saved_errno;
}
