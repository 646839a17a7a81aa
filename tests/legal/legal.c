/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out legal programs that are drawn from seeds, many in one job, and checks every element
 * that they receive. All elements are small integers times a power of two, so that their sums are
 * known exactly. An ordinary MPI program.
 *
 *   mpi_legal SEED PROGRAMS BOUND THREADS [REPEATS [STEPS]]
 *
 * The seeds are SEED and those that follow. BOUND is how far from its sum an element may be, as a
 * part of the largest sum that is possible; 0 for codecs that carry small integers exactly. THREADS
 * is 1 for programs with threads. Each program is carried out REPEATS times. STEPS, as "0,4,5,",
 * leaves all other steps out and has rank 0 print the script. The exit status is 1 if a program
 * failed; after it no other is begun. */
#include <mpi.h>
#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init /* Open MPI 4 has it under this name */
#endif
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/hash.h"
#include "tests/legal/script.h"
#include "tests/mpi/job.h"
#include "tests/mpi/memory_use.h"

#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 40100000
#define HAS_PERSISTENT 0 /* MPICH 4.0 by itself mixes persistent calls up with others */
#define FINDS_ERRORS 0   /* Debian has built it without checks of arguments */
#else
#define HAS_PERSISTENT 1
#define FINDS_ERRORS 1
#endif

#define PERIOD 31      /* after which elements repeat themselves */
#define LARGEST_PART 3 /* the largest magnitude of one rank's element, before it is scaled */
#define GUARD 16       /* bytes behind each buffer that nobody may write */
#define THREADS_MAX 3
#define SECONDS 120  /* that a program may take, which needs less than one: LEGAL_SECONDS */
#define GROWTH 16384 /* KiB by which the second half of a job's programs may grow the process */

/* A call and its buffers. */
struct call {
    const struct step *step; /* its shape */
    uint64_t key;            /* of its data */
    MPI_Comm comm;
    char *in, *out; /* in place both are the same */
    MPI_Request requests[2];
    int number;                              /* of the step that starts it */
    int group, size, me, members[RANKS_MAX]; /* of its communicator; me: this rank's place there */
    int begins[RANKS_MAX + 1];               /* of the blocks of a reduce_scatter */
    int request_count;
};

static struct script script;
static MPI_Comm comms[STEPS_MAX + 1];
static struct call calls[STEPS_MAX];             /* of each step that is under way */
static uint64_t digests[STEPS_MAX * GROUPS_MAX]; /* of the results that all ranks share */
static volatile int step_now;
static double bound;
static bool jumps;       /* error handlers may jump out of calls; LEGAL_JUMPS=0: they do not */
static unsigned seconds; /* that a program may take */
static MPI_Datatype pair;
static MPI_Op own_sum;
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

static MPI_Datatype datatype_of(const struct step *step)
{
    const MPI_Datatype datatypes[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT, pair};
    return datatypes[step->element];
}

static MPI_Op op_of(const struct step *step)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, own_sum};
    return ops[step->operation];
}

static size_t element_bytes(const struct step *step)
{
    return step->element == DOUBLE || step->element == PAIR ? 8 : 4;
}

/* Elements ---------------------------------------------------------------------------------------
 * A rank's elements are a table of PERIOD numbers, again and again. */
static void table_of(uint64_t key, int owner, double table[PERIOD])
{
    uint64_t stream = key + (uint64_t)owner;
    for (int i = 0; i < PERIOD; i++)
        table[i] = below(&stream, 2 * LARGEST_PART + 1) - LARGEST_PART;
}

static void sum_table(const struct call *call, double table[PERIOD])
{
    double part[PERIOD];
    table_of(call->key, call->members[0], table);
    for (int j = 1; j < call->size; j++) {
        table_of(call->key, call->members[j], part);
        for (int i = 0; i < PERIOD; i++)
            if (call->step->operation != LARGEST)
                table[i] += part[i];
            else if (part[i] > table[i])
                table[i] = part[i];
    }
}

static double load(const struct step *step, const char *buffer, int i)
{
    if (step->element == DOUBLE)
        return ((const double *)(const void *)buffer)[i];
    if (step->element == INTEGER)
        return ((const int *)(const void *)buffer)[i];
    return (double)((const float *)(const void *)buffer)[i];
}

/* Floats of a buffer: a pair has two. */
static int numbers_of(const struct step *step, int count)
{
    return step->element == PAIR ? 2 * count : count;
}

static void fill(const struct call *call, char *buffer, int count)
{
    const struct step *step = call->step;
    double table[PERIOD];
    table_of(call->key, rank, table);
    for (int i = 0; i < numbers_of(step, count); i++) {
        const double value = table[i % PERIOD] * step->scale;
        if (step->element == DOUBLE)
            ((double *)(void *)buffer)[i] = value;
        else if (step->element == INTEGER)
            ((int *)(void *)buffer)[i] = (int)value;
        else
            ((float *)(void *)buffer)[i] = (float)value;
    }
}

static void fail(const struct call *call, const char *what, int i, int count, double got,
                 double want)
{
    if (__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) <= 3)
        fprintf(stderr,
                "legal: program %llu, rank %d, step %d: %s: element %d of %d is %g, not %g\n",
                (unsigned long long)script.seed, rank, call->number, what, i, count, got, want);
}

/* Compares elements with a table, from its place `first` on. */
static void check_elements(const struct call *call, const char *what, const char *buffer, int count,
                           int first, const double table[PERIOD], double tolerance)
{
    const struct step *step = call->step;
    const int numbers = numbers_of(step, count);
    for (int i = 0; i < numbers; i++) {
        const double want = table[(first + i) % PERIOD] * step->scale;
        const double got = load(step, buffer, i);
        if (!(fabs(got - want) <= tolerance)) {
            fail(call, what, i, numbers, got, want);
            return;
        }
    }
}

static int in_count(const struct call *call)
{
    const enum kind kind = call->step->kind;
    return kind == REDUCE_SCATTER         ? call->begins[call->size]
           : kind == REDUCE_SCATTER_BLOCK ? call->step->count * call->size
                                          : call->step->count;
}

static int out_count(const struct call *call)
{
    const enum kind kind = call->step->kind;
    return kind == REDUCE_SCATTER ? call->begins[call->me + 1] - call->begins[call->me]
           : kind == ALLGATHER    ? call->step->count * call->size
                                  : call->step->count;
}

static char *make_buffer(size_t bytes)
{
    char *buffer = malloc(bytes + GUARD);
    if (buffer == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 3);
        abort();
    }
    memset(buffer, 0xff, bytes + GUARD);
    return buffer;
}

static bool gathers_in_place(const struct call *call)
{
    return call->step->kind == ALLGATHER && call->step->in_place;
}

static bool is_in_place(const struct call *call)
{
    const struct step *step = call->step;
    return step->in_place && step->kind != RING &&
           (step->kind != REDUCE || step->root % call->size == call->me);
}

static void fill_input(struct call *call)
{
    const size_t block = (size_t)call->step->count * element_bytes(call->step);
    if (call->step->kind != BCAST || call->step->root % call->size == call->me)
        fill(call, gathers_in_place(call) ? call->in + (size_t)call->me * block : call->in,
             in_count(call));
}

/* Makes the buffers of a call on a communicator of the script's. */
static struct call make_call(const struct step *step, int number, MPI_Comm comm)
{
    const struct place *place = &script.places[step->place];
    struct call call = {.step = step, .number = number, .key = step->key, .comm = comm};
    call.group = place->group[rank];
    call.size = legal_members(place, script.ranks, call.group, call.members);
    while (call.members[call.me] != rank)
        call.me++;
    for (int i = 0; i < call.size; i++) /* unequal blocks, some of them empty */
        call.begins[i + 1] =
            call.begins[i] + (i % 3 == 1 ? step->count / 3 : step->count) * (i != 4);
    const size_t in = (size_t)in_count(&call) * element_bytes(step);
    const size_t out = (size_t)out_count(&call) * element_bytes(step);
    call.out = make_buffer(in > out ? in : out);
    call.in = is_in_place(&call) || step->kind == BCAST ? call.out : make_buffer(in);
    fill_input(&call);
    return call;
}

static void issue(struct call *call)
{
    const struct step *step = call->step;
    const MPI_Datatype datatype = datatype_of(step);
    const MPI_Op op = op_of(step);
    const MPI_Comm comm = call->comm;
    const void *in = is_in_place(call) ? MPI_IN_PLACE : call->in;
    const int count = step->count, root = step->root % call->size;
    const int shift = 1 + step->root % (call->size > 1 ? call->size - 1 : 1);
    int counts[RANKS_MAX];
    switch (step->kind) {
    case REDUCE:
        MPI_Reduce(in, call->out, count, datatype, op, root, comm);
        break;
    case REDUCE_SCATTER:
        for (int i = 0; i < call->size; i++)
            counts[i] = call->begins[i + 1] - call->begins[i];
        MPI_Reduce_scatter(in, call->out, counts, datatype, op, comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        MPI_Reduce_scatter_block(in, call->out, count, datatype, op, comm);
        break;
    case ALLGATHER:
        MPI_Allgather(in, count, datatype, call->out, count, datatype, comm);
        break;
    case IALLREDUCE:
        MPI_Iallreduce(in, call->out, count, datatype, op, comm, &call->requests[0]);
        call->request_count = 1;
        break;
    case PERSISTENT:
        MPI_Allreduce_init(in, call->out, count, datatype, op, comm, MPI_INFO_NULL,
                           &call->requests[0]);
        break;
    case BCAST:
        MPI_Bcast(call->out, count, datatype, root, comm);
        break;
    case RING:
        MPI_Irecv(call->out, count, datatype, (call->me - shift + call->size) % call->size,
                  step->in_place ? MPI_ANY_TAG : call->number, comm, &call->requests[0]);
        MPI_Isend(call->in, count, datatype, (call->me + shift) % call->size, call->number, comm,
                  &call->requests[1]);
        call->request_count = 2;
        break;
    default:
        MPI_Allreduce(in, call->out, count, datatype, op, comm);
        break;
    }
}

static void check_guard(const struct call *call, const char *buffer, size_t bytes)
{
    for (int i = 0; i < GUARD; i++)
        if (buffer[bytes + (size_t)i] != (char)0xff)
            fail(call, "a byte behind the buffer", i, GUARD, (double)buffer[bytes + (size_t)i], -1);
}

/* Checks what a completed call has left in its buffers. */
static void check_call(const struct call *call)
{
    const struct step *step = call->step;
    const bool is_lossy = step->operation == SUM && step->element != INTEGER &&
                          step->kind != BCAST && step->kind != RING;
    const double tolerance = is_lossy ? bound * LARGEST_PART * step->scale * call->size : 0;
    const size_t bytes = element_bytes(step);
    const int count = step->count, out = out_count(call);
    const int shift = 1 + step->root % (call->size > 1 ? call->size - 1 : 1);
    const size_t held = (size_t)(in_count(call) > out ? in_count(call) : out) * bytes;
    double table[PERIOD];
    check_guard(call, call->out, held);
    if (call->in != call->out) {
        table_of(call->key, rank, table);
        check_elements(call, "the input", call->in, in_count(call), 0, table, 0);
    }
    if (step->kind == ALLGATHER) {
        for (int j = 0; j < call->size; j++) {
            table_of(call->key, call->members[j], table);
            check_elements(call, "a block", call->out + (size_t)j * (size_t)count * bytes, count, 0,
                           table, tolerance);
        }
    } else if (step->kind == BCAST || step->kind == RING) {
        const int owner = step->kind == BCAST ? step->root : call->me - shift + call->size;
        table_of(call->key, call->members[owner % call->size], table);
        check_elements(call, "what was sent", call->out, count, 0, table, 0);
    } else if (step->kind != REDUCE || step->root % call->size == call->me) {
        const int first = step->kind == REDUCE_SCATTER         ? call->begins[call->me]
                          : step->kind == REDUCE_SCATTER_BLOCK ? call->me * count
                                                               : 0;
        sum_table(call, table);
        check_elements(call, "the result", call->out, out, numbers_of(step, first), table,
                       tolerance);
    }
    if (step->kind == ALLREDUCE || step->kind == IALLREDUCE || step->kind == PERSISTENT ||
        step->kind == ALLGATHER || step->kind == THREADS) {
        uint64_t stream =
            call->key ^ cshim_hash_bytes(CSHIM_HASH_EMPTY, call->out, (size_t)out * bytes);
        __atomic_add_fetch(&digests[call->number * GROUPS_MAX + call->group], draw(&stream),
                           __ATOMIC_RELAXED);
    }
}

static void drop_call(struct call *call)
{
    if (call->in != call->out)
        free(call->in);
    free(call->out);
    memset(call, 0, sizeof *call);
}

/* Requests --------------------------------------------------------------------------------------*/
static void complete(int count, MPI_Request requests[], int way)
{
    int index, done = 0, ended = 0, indices[2 * STEPS_MAX];
    MPI_Status status;
    switch (way) {
    case 0:
        for (int i = count; i-- > 0;)
            MPI_Wait(&requests[i], &status);
        break;
    case 1:
        for (int i = 0; i < count; i++)
            MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE);
        break;
    case 2:
        for (; ended < count; ended += done)
            MPI_Waitsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
        break;
    case 3:
        for (int i = 0; i < count; i++)
            for (done = 0; !done; sched_yield())
                MPI_Test(&requests[i], &done, &status);
        break;
    case 4:
        for (; !done; sched_yield())
            MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        break;
    case 5:
        for (; ended < count; ended += done, sched_yield())
            MPI_Testany(count, requests, &index, &done, &status);
        break;
    case 6:
        for (; ended < count; ended += done, sched_yield())
            MPI_Testsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
        break;
    case 7:
        for (int i = 0; i < count; i++)
            for (done = 0; !done; sched_yield())
                MPI_Request_get_status(requests[i], &done, &status);
        break;
    default:
        break;
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static void shuffle(int *numbers, int count, uint64_t *stream)
{
    for (int i = count; i > 1; i--) {
        const int other = below(stream, i), number = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = number;
    }
}

/* When this rank starts and completes the call of each step; -1: never. */
static int start_at[STEPS_MAX], complete_at[STEPS_MAX];

static void start(const int numbers[], int count, uint64_t *stream)
{
    MPI_Request requests[STEPS_MAX];
    for (int i = 0; i < count; i++) {
        struct call *call = &calls[script.steps[numbers[i]].target];
        call->key = script.steps[numbers[i]].key;
        call->number = numbers[i];
        call->request_count = 1;
        if (call->in != call->out)
            memset(call->out, 0xff, (size_t)call->step->count * element_bytes(call->step));
        fill_input(call);
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
    complete(total, requests, below(stream, 10));
    for (int i = 0; i < count; i++) {
        struct call *call = call_of(numbers[i]);
        check_call(call);
        call->request_count = 0;
        if (script.steps[numbers[i]].kind != START)
            drop_call(call);
    }
}

/* What this rank does before a step, in an order of its own: it starts and completes calls. */
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

/* Makes a call that fails, at some depth of the stack. */
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
    if (which == 1)
        return MPI_Allreduce(&value, &result, -1, MPI_FLOAT, MPI_SUM, comm);
    if (which == 2)
        return MPI_Iallreduce(&value, &result, -1, MPI_FLOAT, MPI_SUM, comm, &request);
    return MPI_Reduce(&value, &result, 1, MPI_FLOAT, MPI_SUM, 1000, comm);
}

static void provoke(const struct step *step, int number, MPI_Comm comm, uint64_t *stream)
{
    static volatile int status; /* a jump leaves it alone */
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
        fail(&call, "a call that must fail", which, 4, 0, 1);
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
        struct call call = make_call(&step, worker->number, worker->comm);
        issue(&call);
        if (call.request_count > 0)
            complete(1, call.requests, below(&stream, 10));
        check_call(&call);
        drop_call(&call);
    }
    return NULL;
}

static void run_threads(const struct step *step, int number, MPI_Comm comm)
{
    struct worker workers[THREADS_MAX];
    for (int i = 0; i < THREADS_MAX; i++) {
        workers[i] = (struct worker){.step = *step, .number = number};
        workers[i].step.key += (uint64_t)i;
        MPI_Comm_dup(comm, &workers[i].comm);
    }
    for (int i = 0; i < THREADS_MAX; i++) {
        struct worker *next = &workers[(i + rank) % THREADS_MAX];
        pthread_create(&next->thread, NULL, work, next);
    }
    for (int i = 0; i < THREADS_MAX; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS_MAX; i++)
        MPI_Comm_free(&workers[i].comm);
}

/* Makes the communicator of a step. Only members of its parent come here. */
static void make_comm(const struct step *step, int number)
{
    const struct place *place = &script.places[number + 1];
    const int group = place->group[rank];
    MPI_Comm parent = comms[step->place], *made = &comms[number + 1];
    int members[RANKS_MAX], key = 0;
    MPI_Group all, some;
    for (int i = 0; i < script.ranks; i++)
        if (place->order[i] == rank)
            key = i;
    if (step->kind == DUP)
        MPI_Comm_dup(parent, made);
    else if (step->kind == SPLIT)
        MPI_Comm_split(parent, group < 0 ? MPI_UNDEFINED : group, key, made);
    if (step->kind == DUP || step->kind == SPLIT)
        return;
    /* Ranks of one parent that are in none of the groups name that of their fellows. */
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
            drop_call(&calls[i]);
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
    calls[number] = make_call(step, number, comm);
    issue(&calls[number]);
    if (step->kind == PERSISTENT || calls[number].request_count > 0)
        return;
    check_call(&calls[number]);
    drop_call(&calls[number]);
}

static bool takes_part(int number)
{
    return !legal_is_left_out(&script, number) &&
           comms[script.steps[number].place] != MPI_COMM_NULL;
}

/* Draws when this rank starts and completes what it may start and complete when it likes. */
static void draw_times(uint64_t *stream)
{
    for (int i = 0; i < script.count; i++) {
        const struct step *step = &script.steps[i];
        const int first = step->kind == START ? step->latest : i + 1;
        start_at[i] = complete_at[i] = -1;
        const int starts = step->kind == START ? i + below(stream, step->latest - i + 1) : -1;
        const int completes = first + below(stream, step->end - first + 1);
        if (legal_is_left_out(&script, i) || script.places[step->place].group[rank] < 0)
            continue;
        start_at[i] = starts;
        if (step->kind == START || step->kind == IALLREDUCE || step->kind == RING)
            complete_at[i] = completes;
    }
}

/* Whether all ranks had no failure and the same results. */
static bool all_agree(void)
{
    enum { WORDS = 2 * STEPS_MAX * GROUPS_MAX, FAILURES = WORDS };
    uint64_t own[WORDS + 1] = {0}, most[WORDS + 1];
    for (int i = 0; i < WORDS / 2; i++)
        if (digests[i] != 0) {
            own[2 * i] = digests[i] >> 1; /* MPICH 4.0 compares them as if they had signs */
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

/* Leaves all steps out but those of a list. */
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
    MPI_Comm_create_errhandler(end_by_error, &fatal); /* which other communicators inherit */
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
    struct memory half = {0, 0};
    bool good = true;
    int done = 0;
    bound = atof(argv[3]);
    const char *jumps_wanted = getenv("LEGAL_JUMPS"), *longest = getenv("LEGAL_SECONDS");
    jumps = jumps_wanted == NULL || atoi(jumps_wanted) != 0;
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
            half = memory_now();
    }
    const long grown = memory_now().resident - half.resident;
    if (good && grown > GROWTH) {
        fprintf(stderr, "legal: rank %d grew by %ld KiB in the last %d programs\n", rank, grown,
                programs / 2);
        good = false;
    }
    if (rank == 0)
        printf("legal: %d programs\n", done);
    MPI_Errhandler_free(&jumper);
    MPI_Op_free(&own_sum);
    MPI_Type_free(&pair);
    MPI_Finalize();
    return !good;
}
