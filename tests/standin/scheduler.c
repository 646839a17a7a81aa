/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for a scheduler that preempts threads anywhere: preloaded, it pauses each thread but the
 * process's first after each pthread_mutex_lock and pthread_mutex_unlock, for a random time of up
 * to STANDIN_PAUSE_US microseconds. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*mutex_function)(pthread_mutex_t *);

static int call_and_pause(mutex_function *real, const char *name, pthread_mutex_t *mutex)
{
    static unsigned short threads;
    static __thread unsigned short seed[3]; /* seed[2] begins with the thread's number */
    if (seed[2] == 0)
        seed[2] = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    if (*real == NULL)
        *(void **)real = dlsym(RTLD_NEXT, name);
    const int status = (*real)(mutex), error = errno;
    const char *longest = getenv("STANDIN_PAUSE_US");
    if (longest != NULL && gettid() != getpid())
        usleep((useconds_t)(nrand48(seed) % (atoi(longest) + 1)));
    errno = error;
    return status;
}

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static mutex_function real;
    return call_and_pause(&real, "pthread_mutex_lock", mutex);
}

__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static mutex_function real;
    return call_and_pause(&real, "pthread_mutex_unlock", mutex);
}
