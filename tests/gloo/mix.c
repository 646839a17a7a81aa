/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a random gloo program. All ranks draw the same steps, but each starts concurrent calls in
 * its own order. Steps create contexts of some of the ranks, in any order, destroy contexts (a new
 * one often gets the address of an old one), and make calls: several at once, each on its own
 * thread, of different types, operations and collectives, on several contexts and with different
 * tags. All values are small integers, exact in float32, fp16, bf16 and fp8_e4m3, so each result
 * must equal the integer result.
 *
 *   gloo_mix SEED STEPS [CALLS [LATE]]   at most CALLS (5) calls at once; in half of its steps a
 *                                        rank starts first calls on new contexts LATE ms late
 *
 * Prints four counts for each rank: all-reduces, and other collectives that a rule may name, in
 * contexts where it is rank 0; contexts at the address of an earlier one; failures. */
#include <pthread.h>
#include <unistd.h>

#include "tests/gloo/job.h"
#include "tests/sums.h"

#define CONTEXTS 6
#define MEMBERS 8
#define CALLS_MAX 32

struct group {
    bool live, is_new;          /* is_new: no call was made on its context yet */
    int ranks, member[MEMBERS]; /* the members' ranks in the job, by their ranks in the context */
    int rank;                   /* this process's rank in the context; -1: no member */
    struct context *context;
};

struct job_call {
    pthread_t thread;
    const struct group *group;
    uint64_t key; /* seed of the values */
    bool is_other;
    enum other other;
    struct sum_call sum;
    unsigned delay; /* µs before the call */
};

static int rank, ranks;
static unsigned late; /* ms */
/* Numbers of all-reduces and of data movements in contexts whose rank 0 is this process. */
static unsigned led, led_moves;
static struct group groups[CONTEXTS];
static uint64_t common, own; /* random states: the same on all ranks; different on each rank */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned draw(unsigned limit)
{
    return (unsigned)(mix(common++) % limit);
}

static unsigned draw_own(unsigned limit)
{
    return (unsigned)(mix(own++) % limit);
}

static void wrong(const struct job_call *call, const char *what)
{
    pthread_mutex_lock(&lock);
    if (failures++ < 10)
        fprintf(stderr, "rank %d: %s %d, type %d, operation %d, %zu elements, %d ranks: %s\n", rank,
                call->is_other ? "collective" : "all-reduce", (int)call->other, (int)call->sum.type,
                (int)call->sum.operation, call->sum.count, call->group->ranks, what);
    pthread_mutex_unlock(&lock);
}

static int value(const struct job_call *call, int of, size_t i)
{
    const int number = (int)(mix(call->key ^ ((uint64_t)of << 48) ^ i) % 5) - 2;
    /* Products have no zeros, because 0 * -1 is -0 in float. */
    return number == 0 && call->sum.operation == PRODUCT ? 1 : number;
}

static int combined(const struct job_call *call, size_t i)
{
    int all = value(call, 0, i);
    for (int of = 1; of < call->group->ranks; of++) {
        const int next = value(call, of, i);
        if (call->sum.operation == PRODUCT)
            all *= next;
        else if (call->sum.operation == LARGEST)
            all = next > all ? next : all;
        else if (call->sum.operation == SMALLEST)
            all = next < all ? next : all;
        else
            all += next;
    }
    return all;
}

/* Returns element i of an input buffer. If the operation adds the buffers, one of them has the
 * rank's value and the others have 0; else all have it. */
static int buffer_value(const struct job_call *call, unsigned buffer, unsigned buffers, size_t i)
{
    const bool adds = call->sum.operation == SUM || call->sum.operation == USER;
    return adds && i % buffers != buffer ? 0 : value(call, call->group->rank, i);
}

/* Draws a number of buffers. A product has one, because gloo also multiplies a rank's buffers. */
static unsigned buffers_of(enum operation operation)
{
    return operation == PRODUCT ? 1 : 1 + draw(3);
}

static void make_sum(struct job_call *call)
{
    struct sum_call *sum = &call->sum;
    const size_t size = element_bytes(sum->type), bytes = sum->count * size;
    const unsigned inputs = sum->inputs != 0 ? sum->inputs : sum->outputs;
    unsigned char want[8];
    for (unsigned b = 0; b < sum->outputs; b++) {
        sum->output[b] = malloc(bytes);
        /* Fills the output, because assigning to a gloo::float16 does nothing if its old bits, read
         * as a number, equal the new value. */
        memset(sum->output[b], 0xa5, bytes);
    }
    for (unsigned b = 0; b < sum->inputs; b++)
        sum->input[b] = malloc(bytes);
    for (unsigned b = 0; b < inputs; b++)
        for (size_t i = 0; i < sum->count; i++)
            element_put(sum->type, sum->inputs != 0 ? sum->input[b] : sum->output[b], i,
                        buffer_value(call, b, inputs, i));
    char *text = allreduce(call->group->context, sum);
    if (text != NULL)
        wrong(call, text);
    for (size_t i = 0, good = text == NULL; good && i < sum->count; i++) {
        element_put(sum->type, want, 0, combined(call, i));
        for (unsigned b = 0; b < sum->outputs; b++)
            good = good && memcmp(want, (char *)sum->output[b] + i * size, size) == 0;
        if (!good)
            wrong(call, "not the right result");
    }
    for (unsigned b = 0; b < sum->outputs; b++)
        free(sum->output[b]);
    for (unsigned b = 0; b < sum->inputs; b++)
        free(sum->input[b]);
    free(text);
}

/* Returns element i of the result that this rank must get in a collective other than all-reduce. */
static int other_result(const struct job_call *call, size_t i)
{
    const size_t count = call->sum.count;
    switch (call->other) {
    case REDUCE:
        return combined(call, i);
    case BROADCAST:
        return value(call, 0, i);
    case ALLGATHER:
    case ALLGATHERV:
        return value(call, (int)(i / count), i % count);
    default:
        return value(call, (int)(i / count), (size_t)call->group->rank * count + i % count);
    }
}

static void make_other(struct job_call *call)
{
    const size_t count = call->sum.count, all = count * (size_t)call->group->ranks;
    float *input = malloc(all * sizeof *input), *output = malloc(all * sizeof *output);
    for (size_t i = 0; i < all; i++)
        input[i] = (float)value(call, call->group->rank, i);
    const bool has_input = call->other != BROADCAST || call->group->rank == 0;
    char *text = other_collective(call->group->context,
                                  &(struct other_call){.other = call->other,
                                                       .input = has_input ? input : NULL,
                                                       .output = output,
                                                       .count = count,
                                                       .tag = call->sum.tag});
    const bool is_single = call->other == REDUCE || call->other == BROADCAST;
    if (text != NULL)
        wrong(call, text);
    for (size_t i = 0; text == NULL && i < (is_single ? count : all); i++)
        if ((call->other != REDUCE || call->group->rank == 0) &&
            output[i] != (float)other_result(call, i)) {
            wrong(call, "not the right result");
            break;
        }
    free(input), free(output), free(text);
}

static void *make_call(void *argument)
{
    struct job_call *call = argument;
    usleep(call->delay);
    if (call->is_other)
        make_other(call);
    else
        make_sum(call);
    return NULL;
}

static void make_group(struct group *group, unsigned number)
{
    int order[MEMBERS] = {0};
    for (int i = 0; i < ranks; i++) { /* draws a permutation of the ranks */
        const int at = (int)draw((unsigned)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    *group = (struct group){.live = true, .is_new = true, .rank = -1};
    group->ranks = number < 2 || draw(3) == 0 ? ranks : 1 + (int)draw((unsigned)ranks);
    for (int i = 0; i < group->ranks; i++) {
        group->member[i] = number == 0 ? i : order[i];
        if (group->member[i] == rank)
            group->rank = i;
    }
    char name[32];
    snprintf(name, sizeof name, "context%u", number);
    if (group->rank >= 0)
        group->context = context_make(name, group->rank, group->ranks, 60000,
                                      draw_own(3) == 0 ? ANYWHERE : (unsigned)(group - groups));
}

static void free_group(struct group *group)
{
    if (group->live && group->rank >= 0)
        context_free(group->context);
    group->live = false;
}

static struct group *live_group(void)
{
    struct group *group = &groups[draw(CONTEXTS)];
    while (!group->live)
        group = &groups[draw(CONTEXTS)];
    return group;
}

static size_t draw_count(void)
{
    static const size_t counts[] = {1, 2, 255, 256, 257, 1000};
    const unsigned kind = draw(10);
    return kind < 4   ? counts[draw(sizeof counts / sizeof counts[0])]
           : kind < 9 ? 1 + draw(20000)
                      : 1 + draw(200000);
}

static void draw_call(struct job_call *call, unsigned position, unsigned calls, bool is_late)
{
    struct sum_call *sum = &call->sum;
    *call = (struct job_call){.group = live_group(), .key = mix(common++)};
    call->delay = draw_own(2) == 0 ? 0 : draw_own(3000);
    if (is_late && call->group->is_new)
        call->delay += 1000 * late;
    call->is_other = draw(4) == 0;
    call->other = (enum other)draw(OTHERS);
    sum->count = draw_count();
    if (call->is_other) { /* other collectives may share their tag with an all-reduce */
        sum->tag = calls - 1 - position;
        return;
    }
    sum->tag = position;
    sum->type = draw(2) == 0 ? FLOAT32 : (enum element_type)draw(ELEMENT_TYPES);
    sum->operation = draw(2) == 0        ? SUM
                     : sum->type == PAIR ? USER
                                         : (enum operation)draw(OPERATIONS);
    sum->ring = (enum ring)draw(3);
    sum->inputs = draw(2) == 0 ? 0 : buffers_of(sum->operation);
    sum->outputs = buffers_of(sum->operation);
    sum->segment = draw(4) == 0 ? 1024u << draw(8) : 0;
}

/* Makes concurrent calls. Counts those in contexts of which this process is rank 0. */
static void make_calls(unsigned most)
{
    struct job_call calls[CALLS_MAX];
    const unsigned count = 1 + draw(most);
    unsigned order[CALLS_MAX] = {0};
    const bool is_late = late > 0 && draw_own(2) == 0;
    for (unsigned i = 0; i < count; i++) {
        draw_call(&calls[i], i, count, is_late);
        if (calls[i].group->rank == 0 && !calls[i].is_other)
            led++;
        else if (calls[i].group->rank == 0 && calls[i].other != REDUCE)
            led_moves++;
        const unsigned at = draw_own(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (unsigned i = 0; i < count; i++)
        if (calls[order[i]].group->rank >= 0 &&
            pthread_create(&calls[order[i]].thread, NULL, make_call, &calls[order[i]]) != 0)
            exit(3);
    for (unsigned i = 0; i < count; i++)
        if (calls[i].group->rank >= 0)
            pthread_join(calls[i].thread, NULL);
    for (unsigned i = 0; i < count; i++)
        groups[calls[i].group - groups].is_new = false;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: gloo_mix SEED STEPS [CALLS [LATE]]\n");
        return 2;
    }
    unsigned most = argc > 3 ? (unsigned)atoi(argv[3]) : 5;
    late = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
    rank = job_rank();
    ranks = job_ranks();
    common = mix(strtoull(argv[1], NULL, 10));
    own = mix(common + 1 + (uint64_t)rank);
    make_group(&groups[0], 0);
    for (unsigned step = 1; step <= (unsigned)atoi(argv[2]); step++) {
        const unsigned kind = draw(5), number = draw(CONTEXTS);
        if (kind == 0 && !groups[number].live)
            make_group(&groups[number], step);
        else if (kind == 1 && number > 0)
            free_group(&groups[number]);
        else
            make_calls(most < CALLS_MAX ? most : CALLS_MAX);
    }
    for (unsigned i = 0; i < CONTEXTS; i++)
        free_group(&groups[i]);
    printf("rank %d: %u all-reduces led, %u others, %u contexts at the address of another, %d "
           "failures\n",
           rank, led, led_moves, contexts_at_same_address(), failures);
    return failures != 0;
}
