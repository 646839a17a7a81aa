/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for a scheduler that takes the processor away between any two steps: preloaded, it has
 * each thread but the first pause behind each mutex that it unlocks, for a time drawn by chance up
 * to STANDIN_PAUSE_US. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);
    static __thread unsigned short seed[3];
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    const int status = real(mutex);
    const char *longest = getenv("STANDIN_PAUSE_US");
    if (longest != NULL && gettid() != getpid())
        usleep((useconds_t)(nrand48(seed) % (atoi(longest) + 1)));
    return status;
}
