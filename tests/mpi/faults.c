/* SPDX-License-Identifier: Apache-2.0 */
/* A program with faults in or around MPI_Allreduce. An ordinary MPI program: it makes the same
 * calls with and without the preload.
 *
 *   mpi_faults kill      the last rank is killed during a call
 *   mpi_faults abort     a thread of the last rank calls MPI_Abort during a call of another thread
 *   mpi_faults exit      the last rank calls exit(3) while the others call MPI_Allreduce
 *   mpi_faults leave     all ranks return from main without MPI_Finalize
 *   mpi_faults thread    main ends by pthread_exit after MPI_Finalize
 *   mpi_faults handler   MPI_COMM_WORLD gets MPI_ERRORS_RETURN; errors occur on other communicators
 *                        and in MPI_Group_incl
 *   mpi_faults fork      forks three children between calls: one ends by exit, one by _exit, and
 *                        one executes a program
 *   mpi_faults count A B [return]
 *                        rank 0 sums A elements, the others B; `return`: under MPI_ERRORS_RETURN
 *   mpi_faults root A B  rank 0 calls MPI_Reduce with A elements, as the root; the others call it
 *                        with B, and go on to MPI_Finalize
 *   mpi_faults order A B after a sum of A elements, rank 0 sums A elements, then B; the others sum
 *                        B elements, then A
 *   mpi_faults type A    rank 0 sums A floats, the others A doubles
 *   mpi_faults late A    the last rank joins a sum of A floats 20 s late
 *
 * Further arguments are ignored: tests find the ranks' processes by them. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE (2 << 20) /* floats: a call takes longer than the timer's period in run_kill() */

static int rank, ranks, failures;
static volatile sig_atomic_t calls; /* number of calls begun */
static volatile sig_atomic_t inside;

/* Sums ones and checks the result. */
static void sum(int count, MPI_Datatype datatype)
{
    void *buffer = malloc((size_t)count * sizeof(double));
    double *wide = buffer;
    float *narrow = buffer;
    int wrong = 0;
    for (int i = 0; i < count; i++)
        if (datatype == MPI_DOUBLE)
            wide[i] = 1;
        else
            narrow[i] = 1;
    inside = 1;
    calls++;
    const int status =
        MPI_Allreduce(MPI_IN_PLACE, buffer, count, datatype, MPI_SUM, MPI_COMM_WORLD);
    inside = 0;
    for (int i = 0; i < count; i++)
        wrong += (datatype == MPI_DOUBLE ? wide[i] : (double)narrow[i]) != ranks;
    if (status != MPI_SUCCESS || wrong > 0) {
        failures++;
        fprintf(stderr, "rank %d: status %d, %d of %d are wrong\n", rank, status, wrong, count);
    }
    free(buffer);
}

static void sum_floats(int times, int count)
{
    for (int i = 0; i < times; i++)
        sum(count, MPI_FLOAT);
}

static void kill_inside(int signal)
{
    (void)signal;
    if (inside && calls > 2)
        kill(getpid(), SIGKILL);
}

static void run_kill(void)
{
    const struct sigaction action = {.sa_handler = kill_inside, .sa_flags = SA_RESTART};
    const struct itimerval timer = {{0, 1000}, {0, 1000}};
    if (rank == ranks - 1) {
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &timer, NULL);
    }
    sum_floats(1000, LARGE);
}

static void *abort_inside(void *unused)
{
    while (!inside || calls <= 2)
        usleep(100);
    MPI_Abort(MPI_COMM_WORLD, 5);
    return unused;
}

static void run_abort(void)
{
    pthread_t thread;
    if (rank == ranks - 1)
        pthread_create(&thread, NULL, abort_inside, NULL);
    sum_floats(1000, LARGE);
}

static void run_exit(void)
{
    sum_floats(2, 100000);
    if (rank == ranks - 1)
        exit(3);
    sum_floats(1, LARGE);
}

static void expect_child(pid_t child, int status)
{
    int got = 0;
    if (child < 0 || waitpid(child, &got, 0) != child || !WIFEXITED(got) ||
        WEXITSTATUS(got) != status) {
        failures++;
        fprintf(stderr, "rank %d: a child ended with wait status %#x, not with %d\n", rank, got,
                status);
    }
}

static void run_fork(void)
{
    for (int i = 0; i < 3; i++) {
        sum_floats(1, 100000);
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0 && i == 0)
            exit(7);
        if (child == 0 && i == 1)
            _exit(7);
        if (child == 0)
            execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        expect_child(child, 7);
    }
    sum_floats(2, 100000);
}

/* Makes three wrong calls. MPICH passes errors without a communicator, and those on communicators
 * whose handler was never set, to the handler of MPI_COMM_WORLD. Open MPI ends the job at the first
 * call, because `copy` has inherited MPI_ERRORS_ARE_FATAL. */
static void run_handler(void)
{
    MPI_Comm copy;
    MPI_Group group;
    const int first[1] = {0};
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    failures += MPI_Send(&rank, 1, MPI_INT, ranks, 0, copy) == MPI_SUCCESS;
    failures += MPI_Send(&rank, 1, MPI_INT, ranks, 0, MPI_COMM_SELF) == MPI_SUCCESS;
    failures += MPI_Group_incl(MPI_GROUP_NULL, 1, first, &group) == MPI_SUCCESS;
    MPI_Comm_free(&copy);
}

static void run_order(int first, int second)
{
    sum_floats(1, first);
    sum_floats(1, rank == 0 ? first : second);
    sum_floats(1, rank == 0 ? second : first);
}

static void run_root(int count)
{
    static float input[LARGE], sums[LARGE];
    MPI_Reduce(input, sums, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void run_late(int count)
{
    if (rank == ranks - 1)
        sleep(20); /* the others say after 10 s that they wait */
    sum_floats(1, count);
}

/* Runs the fault that the arguments name. Returns 0 if its name is unknown. */
static int run_fault(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    const int a = argc > 2 ? atoi(argv[2]) : 0, b = argc > 3 ? atoi(argv[3]) : 0;
    if (argc > 4 && strcmp(argv[4], "return") == 0)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (strcmp(fault, "kill") == 0)
        run_kill();
    else if (strcmp(fault, "abort") == 0)
        run_abort();
    else if (strcmp(fault, "exit") == 0)
        run_exit();
    else if (strcmp(fault, "leave") == 0 || strcmp(fault, "thread") == 0)
        sum_floats(2, 100000);
    else if (strcmp(fault, "handler") == 0)
        run_handler();
    else if (strcmp(fault, "fork") == 0)
        run_fork();
    else if (strcmp(fault, "count") == 0)
        sum_floats(1, rank == 0 ? a : b);
    else if (strcmp(fault, "root") == 0)
        run_root(rank == 0 ? a : b);
    else if (strcmp(fault, "order") == 0)
        run_order(a, b);
    else if (strcmp(fault, "type") == 0)
        sum(a, rank == 0 ? MPI_FLOAT : MPI_DOUBLE);
    else if (strcmp(fault, "late") == 0)
        run_late(a);
    else
        return 0;
    return 1;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!run_fault(argc, argv)) {
        fprintf(stderr, "usage: mpi_faults "
                        "kill|abort|exit|leave|thread|handler|fork|count|root|order|type ...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank == 0)
        printf("work done, %d failures\n", failures);
    if (strcmp(argv[1], "leave") == 0)
        return failures != 0;
    MPI_Finalize();
    if (strcmp(argv[1], "thread") == 0)
        pthread_exit(NULL);
    return failures != 0;
}
