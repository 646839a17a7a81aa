/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/watch.h"

#include <pthread.h>
#include <time.h>

#include "shim/core/clock.h"
#include "shim/core/signals.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below */
static struct cshim_wait *waits;
static bool has_thread;
static bool is_used; /* a wait has begun since the thread last looked */

/* Calls on_slow of each wait that has just become slow. Returns false if the thread has to end,
 * because no wait has begun for a while: a process may end by the end of its last other thread. */
static bool find_slow_waits(void)
{
    pthread_mutex_lock(&lock);
    for (struct cshim_wait *wait = waits; wait != NULL; wait = wait->next)
        if (!wait->is_slow && cshim_seconds() - wait->since >= CSHIM_SLOW_SECONDS) {
            __atomic_store_n(&wait->is_slow, true, __ATOMIC_RELEASE);
            wait->on_slow(wait);
        }
    const bool goes_on = waits != NULL || is_used;
    has_thread = goes_on;
    is_used = false;
    pthread_mutex_unlock(&lock);
    return goes_on;
}

static void *watch(void *unused)
{
    do
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    while (find_slow_waits());
    return unused;
}

void cshim_watch_begin(struct cshim_wait *wait)
{
    pthread_mutex_lock(&lock);
    wait->next = waits;
    waits = wait;
    is_used = true;
    if (!has_thread)
        has_thread = cshim_thread_start(watch, NULL, 0) == 0;
    pthread_mutex_unlock(&lock);
}

void cshim_watch_end(struct cshim_wait *wait)
{
    pthread_mutex_lock(&lock);
    struct cshim_wait **link = &waits;
    while (*link != wait)
        link = &(*link)->next;
    *link = wait->next;
    pthread_mutex_unlock(&lock);
}

void cshim_watch_abandon(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    waits = NULL;
    has_thread = false;
}
