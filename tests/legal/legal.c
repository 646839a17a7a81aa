/* SPDX-License-Identifier: Apache-2.0 */
/* Executes random legal MPI programs, many in one job, and checks every element received. All
 * elements are small integers times a power of two, so that their sums are known exactly. An
 * ordinary MPI program.
 *
 *   mpi_legal SEED PROGRAMS BOUND THREADS [REPEATS [STEPS]]
 *
 * The programs have the seeds SEED, SEED + 1, ... BOUND is the largest error allowed, as a share of
 * the largest possible sum; 0 for codecs that carry small integers exactly. THREADS = 1 selects
 * programs with threads. Each program is executed REPEATS (1) times, or until it fails. STEPS, such
 * as "0,4,5,", keeps only these steps, and rank 0 prints the script. The exit status is not 0 if a
 * program failed; no other program is then started.
 *
 * Rank 0 prints the growth of memory: the smaller of the increases in the third and the fourth
 * quarter of the programs, on the rank where it is largest. A leak grows in both quarters, but
 * buffers that an MPI library keeps for early messages grow in jumps. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/legal/call.h"
#include "tests/mpi/memory_use.h"

#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 40100000
#define HAS_PERSISTENT 0 /* MPICH 4.0 itself confuses persistent calls with others */
#define FINDS_ERRORS 0   /* Debian's MPICH is built without argument checks */
#define CREATES_GROUPS 0 /* MPICH 4.0 crashes in MPI_Comm_create_group after MPI_Comm_split */
#else
#define HAS_PERSISTENT 1
#define CREATES_GROUPS 1
#define FINDS_ERRORS 1
#endif
#ifdef MPICH_NUMVERSION
/* MPICH 5.0 does not check the count of MPI_Allreduce. It rejects that of MPI_Iallreduce only after
 * taking the call's tag, so the ranks' later nonblocking collectives no longer match. */
#define CHECKS_COUNTS 0
#define JUMPS_WITH_THREADS 0    /* MPICH calls error handlers with its lock held */
#define STACK_BYTES (256 << 10) /* MPICH itself uses up to 144 KiB of a thread's stack */
#else
#define STACK_BYTES (112 << 10) /* per thread: docs/limits.md's minimum, and the program's own */
#define CHECKS_COUNTS 1
#define JUMPS_WITH_THREADS 1
#endif

#define THREADS_MAX 3
#define SECONDS 120 /* default time limit of one execution, which needs less than 1 s */

static int ranks;
static MPI_Comm comms[STEPS_MAX + 1];
static struct call calls[STEPS_MAX]; /* each step's call: active, or persistent and inactive */
static volatile int step_now;
static bool jumps;       /* error handlers may leave calls by longjmp */
static unsigned seconds; /* time limit of one execution of a program */
static MPI_Errhandler jumper;
static jmp_buf before;

static void add(void *in, void *inout, int *count, MPI_Datatype *datatype)
{
    const int elements = *datatype == pair ? 2 * *count : *count;
    for (int i = 0; i < elements; i++)
        if (*datatype == MPI_DOUBLE)
            ((double *)inout)[i] += ((double *)in)[i];
        else if (*datatype == MPI_INT)
            ((int *)inout)[i] += ((int *)in)[i];
        else
            ((float *)inout)[i] += ((float *)in)[i];
}

static void shuffle(int *numbers, int count, uint64_t *stream)
{
    for (int i = count; i > 1; i--) {
        const int other = below(stream, i), number = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = number;
    }
}

/* The steps before which this rank starts persistent calls and completes calls, by the step that
 * makes or starts the call; -1: never. */
static int start_at[STEPS_MAX], complete_at[STEPS_MAX];

static void start(const int numbers[], int count, uint64_t *stream)
{
    MPI_Request requests[STEPS_MAX];
    for (int i = 0; i < count; i++) {
        struct call *call = &calls[script.steps[numbers[i]].target];
        call->key = script.steps[numbers[i]].key;
        call->number = numbers[i];
        call->request_count = 1;
        legal_refill(call);
        requests[i] = call->requests[0];
    }
    if (below(stream, 2) == 0)
        MPI_Startall(count, requests);
    else
        for (int i = 0; i < count; i++)
            MPI_Start(&requests[i]);
}

static struct call *call_of(int number)
{
    return &calls[script.steps[number].kind == START ? script.steps[number].target : number];
}

static void end_calls(const int numbers[], int count, uint64_t *stream)
{
    MPI_Request requests[2 * STEPS_MAX];
    int total = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < call_of(numbers[i])->request_count; j++)
            requests[total++] = call_of(numbers[i])->requests[j];
    legal_complete(total, requests, below(stream, 10));
    for (int i = 0; i < count; i++) {
        struct call *call = call_of(numbers[i]);
        legal_check_call(call);
        call->request_count = 0;
        if (script.steps[numbers[i]].kind != START)
            legal_drop_call(call);
    }
}

/* Starts and completes calls before step `now`, in an order of this rank's own. */
static void start_and_end(int now, uint64_t *stream)
{
    int starting[STEPS_MAX], ending[STEPS_MAX], starts = 0, ends = 0;
    for (int i = 0; i < script.count; i++) {
        if (start_at[i] == now)
            starting[starts++] = i;
        if (complete_at[i] == now)
            ending[ends++] = i;
    }
    shuffle(starting, starts, stream);
    shuffle(ending, ends, stream);
    start(starting, starts, stream);
    if (ends > 0)
        end_calls(ending, ends, stream);
}

/* Other steps -----------------------------------------------------------------------------------*/
static void jump(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    longjmp(before, 1);
}

/* Makes a call that fails, at a given stack depth. */
static int make_error(MPI_Comm comm, int which, int depth)
{
    volatile char room[300];
    float value = 0, result = 0;
    MPI_Request request;
    room[0] = (char)depth;
    if (depth > 0)
        return make_error(comm, which, depth - 1) + (room[0] == -1);
    if (which == 0)
        return MPI_Bcast(&value, -1, MPI_FLOAT, 0, comm);
    if (which == 1 && CHECKS_COUNTS)
        return MPI_Allreduce(&value, &result, -1, MPI_FLOAT, MPI_SUM, comm);
    if (which == 2 && CHECKS_COUNTS)
        return MPI_Iallreduce(&value, &result, -1, MPI_FLOAT, MPI_SUM, comm, &request);
    return MPI_Reduce(&value, &result, 1, MPI_FLOAT, MPI_SUM, 1000, comm);
}

static void provoke(const struct step *step, int number, MPI_Comm comm, uint64_t *stream)
{
    static volatile int status; /* volatile: keeps its value over a longjmp */
    const int which = below(stream, 4), depth = below(stream, 12);
    const struct call call = {.step = step, .number = number};
    MPI_Errhandler handler;
    if (!FINDS_ERRORS || below(stream, 2) == 0)
        return;
    MPI_Comm_get_errhandler(comm, &handler);
    MPI_Comm_set_errhandler(comm, below(stream, 2) == 0 && jumps ? jumper : MPI_ERRORS_RETURN);
    status = -1;
    if (setjmp(before) == 0)
        status = make_error(comm, which, depth);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    if (status == MPI_SUCCESS)
        legal_fail(&call, "a call that must fail", which, 4, 0, 1);
}

struct worker {
    pthread_t thread;
    struct step step;
    int number;
    MPI_Comm comm;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint64_t stream = worker->step.key;
    for (int i = 0; i < 4; i++) {
        struct step step = worker->step;
        step.kind = below(&stream, 3) == 0 ? IALLREDUCE : ALLREDUCE;
        step.key = draw(&stream);
        step.count = step.count % 5000 + i;
        struct call call = legal_make_call(&step, worker->number, worker->comm);
        legal_issue(&call);
        if (call.request_count > 0)
            legal_complete(1, call.requests, below(&stream, 10));
        legal_check_call(&call);
        legal_drop_call(&call);
    }
    return NULL;
}

static void run_threads(const struct step *step, int number, MPI_Comm comm)
{
    struct worker workers[THREADS_MAX];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
#endif
    for (int i = 0; i < THREADS_MAX; i++) {
        workers[i] = (struct worker){.step = *step, .number = number};
        workers[i].step.key += (uint64_t)i;
        MPI_Comm_dup(comm, &workers[i].comm);
    }
    for (int i = 0; i < THREADS_MAX; i++) {
        struct worker *next = &workers[(i + rank) % THREADS_MAX];
        pthread_create(&next->thread, &attributes, work, next);
    }
    for (int i = 0; i < THREADS_MAX; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS_MAX; i++)
        MPI_Comm_free(&workers[i].comm);
    pthread_attr_destroy(&attributes);
}

/* Creates the communicator of a step. Only members of the parent call it. */
static void make_comm(const struct step *step, int number)
{
    const struct place *place = &script.places[number + 1];
    const bool splits = step->kind == SPLIT || (step->kind == CREATE_GROUP && !CREATES_GROUPS);
    const int group = place->group[rank];
    MPI_Comm parent = comms[step->place], *made = &comms[number + 1];
    int members[RANKS_MAX], key = 0;
    MPI_Group all, some;
    for (int i = 0; i < script.ranks; i++)
        if (place->order[i] == rank)
            key = i;
    if (step->kind == DUP)
        MPI_Comm_dup(parent, made);
    else if (splits)
        MPI_Comm_split(parent, group < 0 ? MPI_UNDEFINED : group, key, made);
    if (step->kind == DUP || splits)
        return;
    /* Every member of the parent makes the group of the members that stay. One that leaves passes
     * it to MPI_Comm_create, too, but does not call MPI_Comm_create_group. */
    const int count =
        legal_members(place, script.ranks, script.places[step->place].group[rank], members);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, count, members, &some);
    if (step->kind == CREATE)
        MPI_Comm_create(parent, some, made);
    else if (group >= 0)
        MPI_Comm_create_group(parent, some, number, made);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
}

static void free_comm(int place)
{
    for (int i = 0; i < script.count; i++)
        if (script.steps[i].kind == PERSISTENT && script.steps[i].place == place &&
            calls[i].step != NULL) {
            MPI_Request_free(&calls[i].requests[0]);
            legal_drop_call(&calls[i]);
        }
    if (place > 0 && place <= STEPS_MAX)
        MPI_Comm_free(&comms[place]);
}

static void take(int number, uint64_t *stream)
{
    const struct step *step = &script.steps[number];
    const MPI_Comm comm = comms[step->place];
    if (step->kind == DELAY && below(stream, 3) == 0)
        usleep((unsigned)below(stream, 800));
    else if (step->kind == ERROR)
        provoke(step, number, comm, stream);
    else if (step->kind == BARRIER)
        MPI_Barrier(comm);
    else if (step->kind == THREADS)
        run_threads(step, number, comm);
    else if (step->kind >= DUP && step->kind <= CREATE_GROUP)
        make_comm(step, number);
    else if (step->kind == FREE)
        free_comm(step->place);
    if (step->kind > RING || step->kind == BARRIER || step->kind == START)
        return;
    calls[number] = legal_make_call(step, number, comm);
    legal_issue(&calls[number]);
    if (step->kind == PERSISTENT || calls[number].request_count > 0)
        return;
    legal_check_call(&calls[number]);
    legal_drop_call(&calls[number]);
}

static bool takes_part(int number)
{
    return !legal_is_left_out(&script, number) &&
           comms[script.steps[number].place] != MPI_COMM_NULL;
}

/* Draws when this rank starts and completes its calls, within each call's window. */
static void draw_times(uint64_t *stream)
{
    for (int i = 0; i < script.count; i++) {
        const struct step *step = &script.steps[i];
        const int first = step->kind == START ? step->latest : i + 1;
        const bool ends = step->kind == START || step->kind == IALLREDUCE || step->kind == RING;
        start_at[i] = complete_at[i] = -1;
        const int starts = step->kind == START ? i + below(stream, step->latest - i + 1) : -1;
        const int completes = first + below(stream, ends ? step->end - first + 1 : 1);
        if (legal_is_left_out(&script, i) || script.places[step->place].group[rank] < 0)
            continue;
        start_at[i] = starts;
        if (ends)
            complete_at[i] = completes;
    }
}

/* Returns true if no rank had a failure and all have the same results. */
static bool all_agree(void)
{
    enum { WORDS = 2 * STEPS_MAX * GROUPS_MAX, FAILURES = WORDS };
    uint64_t own[WORDS + 1] = {0}, most[WORDS + 1];
    for (int i = 0; i < WORDS / 2; i++)
        if (digests[i] != 0) {
            own[2 * i] = digests[i] >> 1; /* MPICH 4.0 compares MPI_UINT64_T as signed numbers */
            own[2 * i + 1] = INT64_MAX - own[2 * i];
        }
    own[FAILURES] = (uint64_t)failures;
    MPI_Allreduce(own, most, WORDS + 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    bool alike = true;
    for (int i = 0; i < WORDS && alike; i += 2)
        if (most[i] + most[i + 1] != INT64_MAX && most[i + 1] != 0) {
            alike = false;
            if (rank == 0)
                fprintf(stderr, "legal: program %llu, step %d: ranks have different results\n",
                        (unsigned long long)script.seed, i / 2 / GROUPS_MAX);
        }
    return alike && most[FAILURES] == 0;
}

static bool run_program(void)
{
    uint64_t stream = script.seed + ((uint64_t)rank + 1) * UINT64_C(0xd1342543de82ef95);
    memset(digests, 0, sizeof digests);
    for (int i = 1; i <= STEPS_MAX; i++)
        comms[i] = MPI_COMM_NULL;
    alarm(seconds);
    draw_times(&stream);
    for (int i = 0; i <= script.count; i++) {
        uint64_t own = draw(&stream) + (uint64_t)i;
        step_now = i;
        start_and_end(i, &own);
        if (i < script.count && takes_part(i))
            take(i, &own);
    }
    free_comm(0);
    for (int i = 1; i <= script.count; i++)
        if (comms[i] != MPI_COMM_NULL)
            free_comm(i);
    return all_agree();
}

static void end_with(const char *why)
{
    char text[MPI_MAX_ERROR_STRING + 100];
    /* NOLINTNEXTLINE(bugprone-signal-handler): the last words of a test program */
    const int length = snprintf(text, sizeof text, "legal: program %llu, rank %d, step %d: %s\n",
                                (unsigned long long)script.seed, rank, step_now, why);
    _exit(write(2, text, (size_t)length) < 0 ? 4 : 3);
}

static void end_by_signal(int number)
{
    end_with(number == SIGALRM ? "hangs" : "is ended by a signal");
}

static void end_by_error(MPI_Comm *comm, int *code, ...)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    (void)comm;
    MPI_Error_string(*code, text, &length);
    end_with(text);
}

/* Leaves out all steps that are not in a list. */
static void keep(const char *list)
{
    for (int i = 0; i < STEPS_MAX; i++)
        script.left_out[i] = true;
    for (char *end; *list != '\0'; list = *end == ',' ? end + 1 : end)
        script.left_out[strtol(list, &end, 10) % STEPS_MAX] = false;
}

static void begin(int *argc, char ***argv)
{
    static const int signals[] = {SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGTERM};
    const bool threads = *argc > 4 && atoi((*argv)[4]) != 0;
    MPI_Errhandler fatal;
    int provided;
    MPI_Init_thread(argc, argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (*argc < 5 || ranks > RANKS_MAX || (threads && provided < MPI_THREAD_MULTIPLE)) {
        fprintf(stderr, "usage: mpi_legal SEED PROGRAMS BOUND THREADS [REPEATS [STEPS]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], end_by_signal);
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_create_errhandler(end_by_error, &fatal); /* other communicators inherit it */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, fatal);
    MPI_Errhandler_free(&fatal);
    MPI_Type_contiguous(2, MPI_FLOAT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(add, 1, &own_sum);
    MPI_Comm_create_errhandler(jump, &jumper);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (argc < 5 || argv[1] == NULL || argv[2] == NULL || argv[3] == NULL || argv[4] == NULL)
        return 2;
    const uint64_t seed = strtoull(argv[1], NULL, 10);
    const int programs = atoi(argv[2]), repeats = argc > 5 ? atoi(argv[5]) : 1;
    long half = 0, late = 0; /* in KiB */
    bool good = true;
    int done = 0;
    bound = atof(argv[3]);
    const char *jumps_wanted = getenv("LEGAL_JUMPS"), *longest = getenv("LEGAL_SECONDS");
    jumps = (jumps_wanted == NULL || atoi(jumps_wanted) != 0) &&
            (JUMPS_WITH_THREADS || atoi(argv[4]) == 0);
    seconds = longest != NULL ? (unsigned)atoi(longest) : SECONDS;
    for (; done < programs && good; done++) {
        legal_draw(&script, seed + (uint64_t)done, ranks, atoi(argv[4]) != 0, HAS_PERSISTENT);
        if (argc > 6)
            keep(argv[6]);
        if (argc > 6 && rank == 0)
            legal_print(stdout, &script);
        for (int i = 0; i < repeats && good; i++)
            good = run_program();
        if (done == programs / 2)
            half = memory_now().resident;
        if (done == programs - programs / 4)
            late = memory_now().resident;
    }
    const long now = memory_now().resident;
    long grown = late - half < now - late ? late - half : now - late, most = 0;
    MPI_Reduce(&grown, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("legal: %d programs, growth %ld KiB\n", done, most);
    MPI_Errhandler_free(&jumper);
    MPI_Op_free(&own_sum);
    MPI_Type_free(&pair);
    MPI_Finalize();
    return !good;
}
