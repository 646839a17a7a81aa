/* SPDX-License-Identifier: Apache-2.0 */
/* Faults and unusual calls of a job, by name:
 *
 *   gloo_cases sums [CALLS [COUNT]]   makes CALLS sums. Variables: LATE is this rank's delay before
 *                                     the first one, PAUSE the pause after each, CALL_LIMIT
 *                                     the time limit of each (a minute), all in ms;
 *                                     TAG the tag of all
 *   gloo_cases wrong                  calls that gloo rejects, and one whose reduction throws
 *   gloo_cases kinds                  every operation on every type that supports it, once
 *   gloo_cases others                 each other collective of job.h once, of 1000 floats per rank
 *   gloo_cases many                   calls with 1100 inputs on rank 0, and one input on the others
 *   gloo_cases leftovers              creates and frees a context, which must leave no socket open
 *   gloo_cases released               the same with sums; no call follows in this process
 *   gloo_cases regrouped              sums in another folder, in a second context
 *   gloo_cases second LIBRARY         calls of another gloo, made by this library, between sums
 *   gloo_cases killed DELAY           kills rank 1 after DELAY ms of sums
 *   gloo_cases absent [CALLS]         CALLS sums, then one that the last rank does not join, with a
 *                                     time limit of 2 s
 *   gloo_cases exit                   rank 1 exits while its thread waits for the last rank
 *   gloo_cases shared                 two threads sum one input at once, with different counts
 *   gloo_cases sizes                  rank 1 sums fewer elements, then fewer of another type
 *   gloo_cases operations             the last rank asks for a maximum, the others for a sum
 *   gloo_cases fork                   forks processes during sums
 *   gloo_cases workers NUMBER         forks two processes that sum; NUMBER of them end by _exit
 *
 * Each rank that returns from its case prints the number of its failures; most cases print
 * exceptions, too. */
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/gloo/job.h"

#define COUNT 50001

static int rank, ranks;
static atomic_int failures;
static struct context *world;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void sleep_ms(int milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
}

/* Names a file that announces a rank's event to the others: announce creates it, await waits for
 * it. */
static void file_of(char name[512], const char *event, int of)
{
    snprintf(name, 512, "%s/%s.%d", getenv("ID_FILE"), event, of);
}

static void announce(const char *event)
{
    char name[512];
    file_of(name, event, rank);
    FILE *file = fopen(name, "w");
    if (file == NULL || fclose(file) != 0)
        exit(3);
}

static void await(const char *event, int of)
{
    char name[512];
    file_of(name, event, of);
    while (access(name, F_OK) != 0)
        sleep_ms(5);
}

/* Sums small integers in place. Counts a wrong result as a failure. Returns true if there was no
 * exception; else prints it. */
static bool sum_integers(size_t count, uint32_t tag, int timeout)
{
    float *data = malloc((count + 1) * sizeof *data);
    struct sum_call call = {.outputs = 1, .count = count, .tag = tag, .timeout = timeout};
    const double began = seconds();
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(i % 3);
    call.output[0] = data;
    char *text = allreduce(world, &call);
    for (size_t i = 0; i < count && text == NULL; i++)
        if (data[i] != (float)(i % 3) * (float)ranks) {
            failures++;
            break;
        }
    if (text != NULL)
        printf("rank %d: after %.1f s: %s\n", rank, seconds() - began, text);
    const bool good = text == NULL;
    free(text), free(data);
    return good;
}

static int number_from(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text != NULL ? atoi(text) : otherwise;
}

static void sums(int calls, size_t count)
{
    const int pause = number_from("PAUSE", 0);
    sleep_ms(number_from("LATE", 0));
    const uint32_t tag = (uint32_t)number_from("TAG", 0);
    const double began = seconds();
    for (int call = 0; call < calls; call++) {
        failures += !sum_integers(count, tag, 0);
        sleep_ms(pause);
    }
    if (getenv("LATE") != NULL)
        printf("rank %d: late, then %.1f s\n", rank, seconds() - began);
}

/* Announces the event, and waits until all ranks have announced it. */
static void join_barrier(const char *event)
{
    announce(event);
    for (int other = 0; other < ranks; other++)
        await(event, other);
}

static void wrong_calls(void)
{
    float data[8] = {0}, result[8];
    struct sum_call calls[] = {{.inputs = 1}, /* without an output */
                               {.inputs = 1, .outputs = 1, .operation = NO_FUNCTION},
                               {.inputs = 2, .outputs = 1, .operation = THROWING}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        calls[i].count = 8;
        calls[i].input[0] = calls[i].input[1] = data;
        calls[i].output[0] = result;
        char *text = allreduce(world, &calls[i]);
        printf("rank %d: call %zu: %s\n", rank, i, text != NULL ? text : "none");
        free(text);
    }
    join_barrier("tried"); /* an exit closes connections, and would fail others' calls */
}

static void kinds(void)
{
    double data[100] = {0};
    struct sum_call call = {.outputs = 1, .output = {data}, .count = 100};
    for (call.type = 0; call.type < ELEMENT_TYPES; call.type++)
        for (call.operation = 0; call.operation < OPERATIONS; call.operation++)
            if (call.type != PAIR || call.operation == SUM || call.operation == USER)
                failures += allreduce(world, &call) != NULL;
}

static void others(void)
{
    const size_t count = 1000;
    float *input = calloc(count * (size_t)ranks, sizeof *input);
    float *output = calloc(count * (size_t)ranks, sizeof *output);
    for (int other = 0; other < OTHERS; other++) {
        const struct other_call call = {.other = (enum other)other,
                                        .input = other == BROADCAST && rank != 0 ? NULL : input,
                                        .output = output,
                                        .count = count};
        char *text = other_collective(world, &call);
        failures += text != NULL;
        free(text);
    }
    free(input), free(output);
}

static void many(void)
{
    float data[8] = {1, 1, 1, 1, 1, 1, 1, 1}, result[8];
    struct sum_call call = {.outputs = 1, .output = {result}, .count = 8};
    call.inputs = rank == 0 ? BUFFERS_MAX : 1;
    for (unsigned i = 0; i < call.inputs; i++)
        call.input[i] = data;
    for (int i = 0; i < 2; i++) {
        char *text = allreduce(world, &call);
        failures += text != NULL || result[7] != (float)(BUFFERS_MAX + ranks - 1);
        free(text);
    }
}

static int count_sockets(void)
{
    char name[300], target[16];
    int sockets = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        exit(3);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
        sockets += readlink(name, target, sizeof target) > 7 && memcmp(target, "socket:", 7) == 0;
    }
    closedir(folder);
    return sockets;
}

static void leftovers(void)
{
    struct context *first = world;
    failures += !sum_integers(COUNT, 0, 4000);
    const int before = count_sockets();
    join_barrier("counted");
    world = context_make("second", rank, ranks, 4000, ANYWHERE);
    failures += count_sockets() <= before; /* no rank closes a socket before the following sum */
    failures += !sum_integers(COUNT, 0, 4000);
    context_free(world);
    world = first;
    failures += !sum_integers(COUNT, 0, 4000) || count_sockets() != before;
    join_barrier("done");
}

static void released(void)
{
    struct context *first = world;
    const int before = count_sockets();
    join_barrier("begun");
    world = context_make("second", rank, ranks, 4000, ANYWHERE);
    for (int i = 0; i < 5; i++)
        failures += !sum_integers(COUNT, 0, 4000);
    join_barrier("summed");
    context_free(world);
    world = first;
    failures += count_sockets() != before;
    join_barrier("counted");
}

static void regrouped(void)
{
    const char *folder = getenv("ID_FILE"); /* has no policy */
    sums(12, COUNT);
    context_free(world);
    failures += folder == NULL || chdir(folder) != 0;
    world = context_make("second", rank, ranks, 60000, ANYWHERE);
    sums(12, COUNT);
}

static void second(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void (*call)(void) = handle != NULL ? (void (*)(void))dlsym(handle, "call_second_gloo") : NULL;
    if (call == NULL)
        exit(3);
    failures += !sum_integers(COUNT, 0, 0);
    call();
    call();
    failures += !sum_integers(COUNT, 0, 0);
}

static void *kill_later(void *delay)
{
    sleep_ms(*(int *)delay);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void killed(int delay)
{
    pthread_t thread;
    failures += !sum_integers(COUNT, 0, 0);
    if (rank == 1)
        pthread_create(&thread, NULL, kill_later, &delay);
    while (sum_integers((size_t)COUNT * 20, 0, 10000))
        ;
}

static void absent(int calls)
{
    sums(calls, COUNT);
    for (int other = 0; rank == ranks - 1 && other < ranks - 1; other++)
        await("done", other);
    if (rank < ranks - 1) {
        failures += sum_integers(COUNT, 0, 2000);
        announce("done");
    }
}

static void *sum_in_thread(void *unused)
{
    (void)unused;
    if (!sum_integers(COUNT, 0, 2000))
        announce("done");
    return NULL;
}

static void exit_in_call(void)
{
    pthread_t thread;
    failures += !sum_integers(COUNT, 0, 0);
    if (rank == ranks - 1) {
        await("done", 0);
        return;
    }
    pthread_create(&thread, NULL, sum_in_thread, NULL);
    sleep_ms(200);
    if (rank == 1)
        exit(7);
    pthread_join(thread, NULL);
}

static void *sum_often(void *unused)
{
    (void)unused;
    sums(60, COUNT);
    return NULL;
}

/* Makes a call that does not match those of the other ranks, and frees the context. Each rank must
 * get an exception. */
static void mismatch(size_t count, enum element_type type)
{
    double data[COUNT] = {0};
    struct sum_call call = {
        .outputs = 1, .output = {data}, .count = count, .type = type, .timeout = 20000};
    const double began = seconds();
    char *text = allreduce(world, &call);
    printf("rank %d: after %.1f s: %s\n", rank, seconds() - began, text != NULL ? text : "none");
    failures += text == NULL;
    free(text);
    context_free(world);
}

static void sizes(void)
{
    failures += !sum_integers(COUNT, 0, 0);
    join_barrier("summed");
    mismatch(rank == 1 ? COUNT / 2 : COUNT, FLOAT32);
    world = context_make("second", rank, ranks, 60000, ANYWHERE);
    failures += !sum_integers(COUNT, 0, 0);
    join_barrier("summed again");
    mismatch(rank == 1 ? COUNT / 2 : COUNT, rank == 1 ? FLOAT64 : FLOAT32);
    world = context_make("third", rank, ranks, 60000, ANYWHERE);
    failures += !sum_integers(COUNT, 0, 0);
}

/* Makes calls with different operations: the last rank's call is passed through, those of the
 * others are compressed and fail at their time limit. Each rank must get an exception. */
static void operations(void)
{
    float data[COUNT] = {0};
    struct sum_call call = {.outputs = 1, .output = {data}, .count = COUNT, .timeout = 13000};
    failures += !sum_integers(COUNT, 0, 0);
    call.operation = rank == ranks - 1 ? LARGEST : SUM;
    char *text = allreduce(world, &call);
    failures += text == NULL;
    free(text);
}

/* Forks children while a thread makes calls. They end by _exit, by exit, and by executing another
 * program; each must succeed. */
static void forks(void)
{
    pthread_t thread;
    failures += !sum_integers(COUNT, 0, 0);
    pthread_create(&thread, NULL, sum_often, NULL);
    for (int i = 0; i < 12; i++) {
        int status;
        const pid_t child = fork();
        if (child == 0 && i % 3 == 0)
            _exit(0);
        if (child == 0 && i % 3 == 1)
            exit(0);
        if (child == 0)
            execlp("true", "true", (char *)NULL);
        failures += waitpid(child, &status, 0) != child || status != 0;
    }
    pthread_join(thread, NULL);
}

/* Forks two workers, which sum in a job of their own. `without_end` of them end by _exit, as
 * processes of Python's multiprocessing do. */
static void workers(int without_end)
{
    failures += !sum_integers(COUNT, 0, 0);
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        setenv("RANK", i == 0 ? "0" : "1", 1);
        rank = i;
        ranks = 2;
        world = context_make("workers", rank, ranks, 60000, ANYWHERE);
        sums(3, COUNT);
        if (2 - i <= without_end)
            _exit(failures != 0);
        exit(failures != 0);
    }
    for (int i = 0; i < 2; i++) {
        int status;
        failures += waitpid(children[i], &status, 0) != children[i] || status != 0;
    }
}

/* Input of two threads, which sum different numbers of its elements at once. */
static float shared_input[COUNT];

static void *sum_shared(void *data)
{
    const size_t count = COUNT - 5000 * (size_t)(uintptr_t)data;
    float *result = malloc(count * sizeof *result);
    struct sum_call call = {.inputs = 1,
                            .outputs = 1,
                            .input = {shared_input},
                            .output = {result},
                            .count = count,
                            .tag = (uint32_t)(uintptr_t)data};
    for (int i = 0; i < 60; i++) {
        char *text = allreduce(world, &call);
        failures += text != NULL;
        free(text);
    }
    for (size_t i = 0; i < count; i++)
        failures += !(fabsf(result[i] - (float)ranks * shared_input[i]) < 1);
    free(result);
    return NULL;
}

static void shared(void)
{
    pthread_t threads[2];
    for (size_t i = 0; i < COUNT; i++)
        shared_input[i] = (float)(i % 7);
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, sum_shared, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "sums";
    const int number = argc > 2 ? atoi(argv[2]) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    rank = job_rank();
    ranks = job_ranks();
    world = context_make("world", rank, ranks, number_from("CALL_LIMIT", 60000), ANYWHERE);
    if (strcmp(name, "wrong") == 0)
        wrong_calls();
    else if (strcmp(name, "kinds") == 0)
        kinds();
    else if (strcmp(name, "others") == 0)
        others();
    else if (strcmp(name, "many") == 0)
        many();
    else if (strcmp(name, "leftovers") == 0)
        leftovers();
    else if (strcmp(name, "released") == 0)
        released();
    else if (strcmp(name, "regrouped") == 0)
        regrouped();
    else if (strcmp(name, "second") == 0)
        second(argv[2]);
    else if (strcmp(name, "killed") == 0)
        killed(number);
    else if (strcmp(name, "absent") == 0)
        absent(number);
    else if (strcmp(name, "exit") == 0)
        exit_in_call();
    else if (strcmp(name, "sizes") == 0)
        sizes();
    else if (strcmp(name, "operations") == 0)
        operations();
    else if (strcmp(name, "fork") == 0)
        forks();
    else if (strcmp(name, "workers") == 0)
        workers(number);
    else if (strcmp(name, "shared") == 0)
        shared();
    else
        sums(argc > 2 ? number : 3, argc > 3 ? strtoul(argv[3], NULL, 10) : COUNT);
    printf("rank %d: %d failures\n", rank, failures);
    context_free(world);
    return failures != 0;
}
