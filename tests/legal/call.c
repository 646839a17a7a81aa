/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/legal/call.h"

#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init /* Open MPI 4's name */
#endif
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codecs/hash.h"

#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 40100000
#define ROOTS_IN_PLACE 1 /* MPICH 4.0 crashes in MPI_Reduce in place with a root other than 0 */
#else
#define ROOTS_IN_PLACE RANKS_MAX
#endif

#ifdef MPICH_NUMVERSION /* MPICH rejects exchanges of two NULL buffers, even without elements */
#define EXCHANGES_NOTHING 0
#else
#define EXCHANGES_NOTHING 1
#endif

#define PERIOD 31      /* elements repeat with this period */
#define LARGEST_PART 3 /* largest magnitude of an element, before scaling */
#define GUARD 16       /* bytes that nobody may write, after a buffer not at the end of its pages */

int rank, failures;
struct script script;
double bound;
MPI_Datatype pair;
MPI_Op own_sum;
uint64_t digests[STEPS_MAX * GROUPS_MAX];

static MPI_Datatype datatype_of(const struct step *step)
{
    const MPI_Datatype datatypes[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT, pair, MPI_C_FLOAT_COMPLEX};
    return datatypes[step->element];
}

static MPI_Op op_of(const struct step *step)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, own_sum};
    return ops[step->operation];
}

static size_t element_bytes(const struct step *step)
{
    return step->element == FLOAT || step->element == INTEGER ? 4 : 8;
}

/* Elements ---------------------------------------------------------------------------------------
 * A rank's elements repeat a table of PERIOD numbers. In a quarter of the tables all numbers are
 * equal, and codecs hardly round them, so that rounding errors in a call differ between ranks. */
static void table_of(uint64_t key, int owner, double table[PERIOD])
{
    uint64_t stream = key + (uint64_t)owner;
    const int values = below(&stream, 4) == 0 ? 1 : 2 * LARGEST_PART + 1;
    for (int i = 0; i < PERIOD; i++)
        table[i] = below(&stream, values) - LARGEST_PART;
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

/* Returns how many numbers `count` elements have. A pair and a complex number have two. */
static int numbers_of(const struct step *step, int count)
{
    return step->element == PAIR || step->element == COMPLEX ? 2 * count : count;
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

void legal_fail(const struct call *call, const char *what, int i, int count, double got,
                double want)
{
    if (__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) <= 3)
        fprintf(stderr,
                "legal: program %llu, rank %d, step %d: %s: element %d of %d is %g, not %g\n",
                (unsigned long long)script.seed, rank, call->number, what, i, count, got, want);
}

/* Compares elements with a table, which repeats, from its element `first` on. */
static void check_elements(const struct call *call, const char *what, const char *buffer, int count,
                           int first, const double table[PERIOD], double tolerance)
{
    const struct step *step = call->step;
    const int numbers = numbers_of(step, count);
    for (int i = 0; i < numbers; i++) {
        const double want = table[(first + i) % PERIOD] * step->scale;
        const double got = load(step, buffer, i);
        if (!(fabs(got - want) <= tolerance)) {
            legal_fail(call, what, i, numbers, got, want);
            return;
        }
    }
}

static int in_count(const struct call *call)
{
    const enum kind kind = call->step->kind;
    return kind == REDUCE_SCATTER                             ? call->begins[call->size]
           : kind == REDUCE_SCATTER_BLOCK || kind == ALLTOALL ? call->step->count * call->size
                                                              : call->step->count;
}

static int out_count(const struct call *call)
{
    const enum kind kind = call->step->kind;
    return kind == REDUCE_SCATTER ? call->begins[call->me + 1] - call->begins[call->me]
           : kind == ALLGATHER || kind == ALLTOALL ? call->step->count * call->size
                                                   : call->step->count;
}

/* Memory -----------------------------------------------------------------------------------------
 * Half the buffers lie at the beginning or at the end of pages of their own, between inaccessible
 * pages. During a call, pages with an input that is not also the result can only be read, and pages
 * with a result that MPI may not use (of a reduce, on ranks other than the root) cannot be
 * accessed. */
static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Maps pages for `bytes` bytes. Returns NULL if there is no memory. */
static char *map_pages(struct room *room, size_t bytes)
{
    const size_t page = page_bytes();
    room->bytes = (bytes + page - 1) / page * page;
    char *begin = mmap(NULL, room->bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED)
        return NULL;
    room->pages = begin + page;
    return mprotect(room->pages, room->bytes, PROT_READ | PROT_WRITE) == 0 ? room->pages : NULL;
}

static char *make_buffer(struct room *room, size_t bytes, uint64_t *stream)
{
    enum { AT_BEGIN, AT_END, IN_HEAP, PLACES = 4 };
    const int place = below(stream, PLACES);
    char *buffer = place < IN_HEAP ? map_pages(room, bytes + (place == AT_BEGIN ? GUARD : 0))
                                   : malloc(bytes + GUARD);
    if (buffer == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 3);
        abort();
    }
    if (place == AT_END)
        buffer += room->bytes - bytes;
    memset(buffer, 0xff, bytes + (place == AT_END ? 0 : GUARD));
    return buffer;
}

static void drop_buffer(const struct room *room, char *buffer)
{
    if (room->pages == NULL)
        free(buffer);
    else
        munmap(room->pages - page_bytes(), room->bytes + 2 * page_bytes());
}

static void protect(const struct room *room, int protection)
{
    if (room->pages != NULL && mprotect(room->pages, room->bytes, protection) != 0)
        abort();
}

static bool gathers_in_place(const struct call *call)
{
    return call->step->kind == ALLGATHER && call->step->in_place;
}

static bool is_in_place(const struct call *call)
{
    const struct step *step = call->step;
    return step->in_place && step->kind != RING &&
           (step->kind != REDUCE ||
            (step->root % call->size == call->me && call->me < ROOTS_IN_PLACE));
}

static bool is_root(const struct call *call)
{
    return call->step->root % call->size == call->me;
}

void legal_refill(struct call *call)
{
    protect(&call->in_room, PROT_READ | PROT_WRITE);
    protect(&call->out_room, PROT_READ | PROT_WRITE);
    if (call->in != call->out)
        memset(call->out, 0xff, (size_t)out_count(call) * element_bytes(call->step));
    const size_t block = (size_t)call->step->count * element_bytes(call->step);
    if (call->step->kind != BCAST || is_root(call))
        fill(call, gathers_in_place(call) ? call->in + (size_t)call->me * block : call->in,
             in_count(call));
    protect(&call->in_room, PROT_READ);
    if (call->step->kind == BCAST && is_root(call))
        protect(&call->out_room, PROT_READ);
    if (call->step->kind == REDUCE && !is_root(call) && call->in != call->out)
        protect(&call->out_room, PROT_NONE);
}

struct call legal_make_call(const struct step *step, int number, MPI_Comm comm)
{
    const struct place *place = &script.places[step->place];
    struct call call = {.step = step, .number = number, .key = step->key, .comm = comm};
    call.group = place->group[rank];
    call.size = legal_members(place, script.ranks, call.group, call.members);
    while (call.members[call.me] != rank)
        call.me++;
    for (int i = 0; i < call.size; i++) /* blocks of different lengths, the fifth empty */
        call.begins[i + 1] =
            call.begins[i] + (i % 3 == 1 ? step->count / 3 : step->count) * (i != 4);
    const size_t in = (size_t)in_count(&call) * element_bytes(step);
    const size_t out = (size_t)out_count(&call) * element_bytes(step);
    uint64_t stream = step->key + (uint64_t)rank * 7;
    const bool has_both = !is_in_place(&call) && step->kind != BCAST;
    call.out = make_buffer(&call.out_room, has_both || out > in ? out : in, &stream);
    call.in = has_both ? make_buffer(&call.in_room, in, &stream) : call.out;
    legal_refill(&call);
    return call;
}

/* Returns the buffer to pass to MPI. For a buffer without elements this is NULL with a probability
 * of one half, drawn for each rank and call; never for exchanges in an MPI that rejects that
 * (EXCHANGES_NOTHING). */
static void *named(const struct call *call, char *buffer, int count)
{
    const bool is_exchange = call->step->kind == ALLGATHER || call->step->kind == ALLTOALL;
    uint64_t stream = call->key + (uint64_t)rank;
    if (count > 0 || (is_exchange && !EXCHANGES_NOTHING))
        return buffer;
    return below(&stream, 2) == 0 ? NULL : buffer;
}

void legal_issue(struct call *call)
{
    const struct step *step = call->step;
    const MPI_Datatype datatype = datatype_of(step);
    const MPI_Op op = op_of(step);
    const MPI_Comm comm = call->comm;
    const void *in = is_in_place(call) ? MPI_IN_PLACE : named(call, call->in, in_count(call));
    const bool has_result = step->kind != REDUCE || step->root % call->size == call->me;
    const int results = has_result ? out_count(call) : 0;
    void *out = named(call, call->out, in == MPI_IN_PLACE ? in_count(call) + results : results);
    const int count = step->count, root = step->root % call->size;
    const int shift = 1 + step->root % (call->size > 1 ? call->size - 1 : 1);
    int counts[RANKS_MAX], begins[RANKS_MAX];
    for (int i = 0; i < call->size; i++) {
        counts[i] = count;
        begins[i] = i * count;
    }
    switch (step->kind) {
    case REDUCE:
        MPI_Reduce(in, out, count, datatype, op, root, comm);
        break;
    case REDUCE_SCATTER:
        for (int i = 0; i < call->size; i++)
            counts[i] = call->begins[i + 1] - call->begins[i];
        MPI_Reduce_scatter(in, out, counts, datatype, op, comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        MPI_Reduce_scatter_block(in, out, count, datatype, op, comm);
        break;
    case ALLGATHER:
        if (step->root % 2 == 0)
            MPI_Allgather(in, count, datatype, out, count, datatype, comm);
        else
            MPI_Allgatherv(in, count, datatype, out, counts, begins, datatype, comm);
        break;
    case ALLTOALL:
        if (step->root % 2 == 0)
            MPI_Alltoall(in, count, datatype, out, count, datatype, comm);
        else
            MPI_Alltoallv(in, counts, begins, datatype, out, counts, begins, datatype, comm);
        break;
    case IALLREDUCE:
        MPI_Iallreduce(in, out, count, datatype, op, comm, &call->requests[0]);
        call->request_count = 1;
        break;
    case PERSISTENT:
        MPI_Allreduce_init(in, out, count, datatype, op, comm, MPI_INFO_NULL, &call->requests[0]);
        break;
    case BCAST:
        MPI_Bcast(out, count, datatype, root, comm);
        break;
    case RING:
        MPI_Irecv(out, count, datatype, (call->me - shift + call->size) % call->size,
                  step->in_place ? MPI_ANY_TAG : call->number, comm, &call->requests[0]);
        MPI_Isend(in, count, datatype, (call->me + shift) % call->size, call->number, comm,
                  &call->requests[1]);
        call->request_count = 2;
        break;
    default:
        MPI_Allreduce(in, out, count, datatype, op, comm);
        break;
    }
}

/* Checks the guard bytes after a buffer that is not followed by an inaccessible page. */
static void check_guard(const struct call *call, const char *buffer, size_t bytes)
{
    const struct room *room = &call->out_room;
    if (room->pages != NULL && buffer + bytes == room->pages + room->bytes)
        return;
    for (int i = 0; i < GUARD; i++)
        if (buffer[bytes + (size_t)i] != (char)0xff)
            legal_fail(call, "a byte behind the buffer", i, GUARD,
                       (double)buffer[bytes + (size_t)i], -1);
}

/* Checks the input, the results and the guard bytes of a completed call, and adds the results that
 * all ranks have to the digests. */
void legal_check_call(const struct call *call)
{
    const struct step *step = call->step;
    const bool is_lossy = step->operation == SUM && step->element != INTEGER && step->kind != RING;
    const double tolerance = is_lossy ? bound * LARGEST_PART * step->scale * call->size : 0;
    const size_t bytes = element_bytes(step);
    const int count = step->count, out = out_count(call);
    const int shift = 1 + step->root % (call->size > 1 ? call->size - 1 : 1);
    const bool has_both = call->in != call->out;
    const size_t held = (size_t)(has_both || out > in_count(call) ? out : in_count(call)) * bytes;
    double table[PERIOD];
    protect(&call->out_room, PROT_READ);
    check_guard(call, call->out, held);
    if (call->in != call->out) {
        table_of(call->key, rank, table);
        check_elements(call, "the input", call->in, in_count(call), 0, table, 0);
    }
    if (step->kind == ALLGATHER || step->kind == ALLTOALL) {
        for (int j = 0; j < call->size; j++) {
            table_of(call->key, call->members[j], table);
            check_elements(call, "a block", call->out + (size_t)j * (size_t)count * bytes, count,
                           step->kind == ALLTOALL ? numbers_of(step, call->me * count) : 0, table,
                           tolerance);
        }
    } else if (step->kind == BCAST || step->kind == RING) {
        const int owner = step->kind == BCAST ? step->root : call->me - shift + call->size;
        table_of(call->key, call->members[owner % call->size], table);
        check_elements(call, "what was sent", call->out, count, 0, table, tolerance);
    } else if (step->kind != REDUCE || step->root % call->size == call->me) {
        const int first = step->kind == REDUCE_SCATTER         ? call->begins[call->me]
                          : step->kind == REDUCE_SCATTER_BLOCK ? call->me * count
                                                               : 0;
        sum_table(call, table);
        check_elements(call, "the result", call->out, out, numbers_of(step, first), table,
                       tolerance);
    }
    if (step->kind == ALLREDUCE || step->kind == IALLREDUCE || step->kind == PERSISTENT ||
        step->kind == ALLGATHER || step->kind == BCAST || step->kind == THREADS) {
        uint64_t stream =
            call->key ^ cshim_hash_bytes(CSHIM_HASH_EMPTY, call->out, (size_t)out * bytes);
        __atomic_add_fetch(&digests[call->number * GROUPS_MAX + call->group], draw(&stream),
                           __ATOMIC_RELAXED);
    }
}

void legal_drop_call(struct call *call)
{
    if (call->in != call->out)
        drop_buffer(&call->in_room, call->in);
    drop_buffer(&call->out_room, call->out);
    memset(call, 0, sizeof *call);
}

void legal_complete(int count, MPI_Request requests[], int way)
{
    int index, done = 0, ended = 0, indices[2 * STEPS_MAX];
    MPI_Status status;
#ifdef MPICH_NUMVERSION
    way = way == 4 ? 3 : way; /* MPICH's MPI_Testall fails for completed persistent calls */
#endif
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
