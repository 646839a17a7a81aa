/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the value of {jobid} in a process with several contexts, each in its own thread. */
#include <pthread.h>

#include "shim/report/file.h"
#include "tests/unit/unit.h"

#define THREADS 4

static pthread_barrier_t barrier;

/* Sets a job number that consists of one repeated letter. Returns a copy of the number that the
 * process has then.
 */
static void *set_number(void *letter)
{
    char job[CSHIM_JOB_MAX] = "";
    memset(job, *(const char *)letter, sizeof job - 1);
    pthread_barrier_wait(&barrier);
    cshim_report_set_job(job);
    return strdup(cshim_report_job());
}

TEST(the_first_number_stays)
{
    static char letters[] = "abcd";
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, set_number, &letters[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *seen;
        pthread_join(threads[i], &seen);
        assert_string_equal(seen, cshim_report_job());
        free(seen);
    }
}
