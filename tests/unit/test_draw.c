/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates jobs with two threads on each rank, whose calls overlap and end in any order, and with
 * ranks that run ahead of others. All ranks make each call by the same candidate, no rank waits
 * forever, and the class nearly always chooses a candidate about as good as the best. */
#include <math.h>

#include "shim/gloo/draw.h"
#include "tests/unit/unit.h"

#define RANKS 3
#define THREADS 2

static const float weights[CSHIM_CANDIDATES_MAX] = {1, 1.1f, 1.1f, 1.1f, 1.1f, 1.1f};

/* A call on a thread of a rank. */
struct call {
    enum { NONE, BEGUN, TIMINGS } state;
    uint64_t number;
    unsigned candidate;
    bool decides;
    double seconds;
};

/* State of a call that all ranks share. `candidate` is that of the first rank that begins it. */
struct common {
    uint64_t number;
    unsigned begun, timings_count;
    unsigned candidate;
    struct cshim_draw_timings timings[RANKS];
    struct cshim_draw_stage stage;
    bool is_decided;
};

#define CALLS_MAX 4096

struct job {
    uint64_t random;
    unsigned candidates;
    double seconds[CSHIM_CANDIDATES_MAX];
    uint64_t stride; /* the numbers of the class's calls are multiples of this */
    struct cshim_choice choice;
    struct cshim_draw draw[RANKS];
    struct call calls[RANKS][THREADS];
    uint64_t next[RANKS]; /* index of the next call that a thread of the rank begins */
    struct common common[CALLS_MAX];
    unsigned made[CSHIM_CANDIDATES_MAX];
    uint64_t waits;
};

static double draw_unit(struct job *job)
{
    job->random = job->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(job->random >> 11) * 0x1p-53;
}

static void begin_call(struct job *job, unsigned rank, struct call *call)
{
    const uint64_t index = job->next[rank];
    struct common *common = &job->common[index];
    const uint64_t number = index * job->stride;
    if (!cshim_draw_may_begin(&job->draw[rank], number)) {
        job->waits++;
        return;
    }
    *call = (struct call){.state = BEGUN, .number = number};
    const struct cshim_draw_call drawn = cshim_draw_begin(&job->draw[rank], number);
    call->candidate = drawn.candidate;
    call->decides = drawn.decides;
    assert_true(call->candidate < job->candidates);
    if (common->begun == 0)
        common->candidate = call->candidate;
    assert_int_equal(call->candidate, common->candidate);
    common->begun++;
    /* Rank 1 takes the full time, the others less. One rank is late and the others wait for it,
     * except in a timed call, which all begin at once. */
    call->seconds = job->seconds[call->candidate] * (1 + 0.3 * draw_unit(job));
    call->seconds *= rank == 1 ? 1 : 0.05 + 0.9 * draw_unit(job);
    if (!drawn.is_timed && index % RANKS != rank)
        call->seconds += 30e-3 * draw_unit(job);
    job->next[rank]++;
    job->made[call->candidate] += rank == 0;
}

/* Ends a call, if all ranks have begun it: a sum needs every rank. Otherwise returns false. */
static bool end_call(struct job *job, unsigned rank, struct call *call)
{
    struct cshim_draw *draw = &job->draw[rank];
    struct common *common = &job->common[call->number / job->stride];
    if (common->begun < RANKS)
        return false;
    cshim_draw_end(draw, call->number, call->candidate, call->seconds);
    call->state = call->decides ? TIMINGS : NONE;
    if (!call->decides)
        return true;
    cshim_draw_fill_timings(draw, &common->timings[rank]);
    common->timings_count++;
    return true;
}

/* Ends a decision: rank 0 decides when it has all ranks' timings, and the others follow. */
static bool take_stage(struct job *job, unsigned rank, struct call *call)
{
    struct common *common = &job->common[call->number / job->stride];
    if (rank == 0 && common->timings_count == RANKS) {
        common->stage =
            cshim_draw_decide(&job->draw[0], &job->choice, call->number, common->timings, RANKS);
        common->is_decided = true;
    }
    if (!common->is_decided)
        return false;
    cshim_draw_take(&job->draw[rank], &common->stage);
    call->state = NONE;
    return true;
}

/* Advances a thread of a rank by one operation. Returns false if it has to wait. */
static bool step_thread(struct job *job, unsigned rank, struct call *call, uint64_t calls)
{
    if (call->state == BEGUN)
        return end_call(job, rank, call);
    if (call->state == TIMINGS)
        return take_stage(job, rank, call);
    const uint64_t before = job->next[rank];
    if (before < calls)
        begin_call(job, rank, call);
    return job->next[rank] > before;
}

static bool has_ended(const struct job *job, uint64_t calls)
{
    for (unsigned rank = 0; rank < RANKS; rank++)
        for (unsigned thread = 0; thread < THREADS; thread++)
            if (job->next[rank] < calls || job->calls[rank][thread].state != NONE)
                return false;
    return true;
}

/* Runs threads in random order, thread 0 of each rank more often, until `calls` calls have been
 * made. */
static void run_job(struct job *job, uint64_t calls)
{
    unsigned idle = 0;
    while (!has_ended(job, calls)) {
        const unsigned rank = (unsigned)(draw_unit(job) * RANKS);
        const unsigned thread = (unsigned)(draw_unit(job) * draw_unit(job) * THREADS * 1.5);
        const bool has_moved = step_thread(job, rank, &job->calls[rank][thread % THREADS], calls);
        idle = has_moved ? 0 : idle + 1;
        assert_true(idle < 100000); /* otherwise the job hangs */
    }
}

static void start_job(struct job *job, uint64_t seed, unsigned candidates, unsigned prior)
{
    memset(job, 0, sizeof *job);
    job->random = seed;
    job->candidates = candidates;
    job->stride = 1 + seed % 7;
    cshim_choice_init(&job->choice, candidates, prior, weights);
    for (unsigned rank = 0; rank < RANKS; rank++)
        cshim_draw_init(&job->draw[rank], prior);
    for (unsigned i = 0; i < candidates; i++)
        job->seconds[i] = 1e-3 * exp(3 * draw_unit(job));
}

static unsigned right_choice(const struct job *job)
{
    unsigned best = 0;
    for (unsigned i = 1; i < job->candidates; i++)
        if (job->seconds[i] * (double)weights[i] < job->seconds[best] * (double)weights[best])
            best = i;
    return best;
}

/* Returns true if the latest stage of the class chose a candidate as good as the best, up to what
 * noise can hide. */
static bool is_right(const struct job *job)
{
    const struct cshim_draw *draw = &job->draw[0];
    const struct cshim_draw_stage *stage = &draw->stage[draw->stages - 1];
    const unsigned best = right_choice(job);
    return stage->is_settled && job->seconds[stage->best] * (double)weights[stage->best] <=
                                    1.35 * job->seconds[best] * (double)weights[best];
}

TEST(all_ranks_choose_alike_and_well)
{
    static struct job job;
    unsigned right = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        start_job(&job, seed, 2 + (unsigned)(seed % 5), (unsigned)(seed % 2));
        run_job(&job, 600);
        right += is_right(&job);
        for (unsigned rank = 1; rank < RANKS; rank++)
            assert_memory_equal(job.draw[rank].stage, job.draw[0].stage, sizeof job.draw[0].stage);
    }
    assert_in_range(right, 195, 200);
}

/* A settled class makes few trials, and chooses again when its best candidate becomes 30 times as
 * slow. */
TEST(a_change_is_followed)
{
    static struct job job;
    unsigned right = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        start_job(&job, seed, 4, 1);
        run_job(&job, 1000);
        const unsigned best = right_choice(&job);
        const unsigned before = job.made[best];
        run_job(&job, 1500);
        assert_true(job.made[best] - before > 450 ||
                    job.seconds[best] * 1.35 >
                        fmin(fmin(job.seconds[(best + 1) % 4], job.seconds[(best + 2) % 4]),
                             job.seconds[(best + 3) % 4]));
        job.seconds[best] *= 30;
        run_job(&job, 2500);
        right += is_right(&job);
    }
    assert_in_range(right, 38, 40);
}

/* A settled class makes a few native calls, for the report. */
TEST(native_calls_are_tried)
{
    static struct job job;
    unsigned tried = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        start_job(&job, seed, 3, 1);
        job.seconds[0] = 2e-3;
        job.seconds[1] = 1e-3;
        job.seconds[2] = 1.4e-3;
        run_job(&job, 400);
        const unsigned before = job.made[0];
        run_job(&job, 2400);
        assert_in_range(job.made[0] - before, 0, 30);
        tried += job.made[0] - before;
    }
    assert_in_range(tried, 20, 200);
}

/* The first calls use the prior, so a program with few calls learns nothing. */
TEST(the_first_calls_take_the_prior)
{
    static struct job job;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        start_job(&job, seed, 5, 2);
        const unsigned calls = CSHIM_DRAW_AHEAD / (unsigned)job.stride;
        run_job(&job, calls);
        assert_int_equal(job.made[2], calls);
    }
}

/* A call has to wait only if a pending decision may concern its number. */
TEST(calls_wait_only_far_ahead)
{
    struct cshim_draw draw;
    struct cshim_draw_timings timings;
    cshim_draw_init(&draw, 1);
    cshim_draw_begin(&draw, 100);
    cshim_draw_fill_timings(&draw, &timings);
    assert_true(cshim_draw_may_begin(&draw, 100 + CSHIM_DRAW_AHEAD));
    assert_false(cshim_draw_may_begin(&draw, 101 + CSHIM_DRAW_AHEAD));
    cshim_draw_take(&draw, &(struct cshim_draw_stage){.is_new = 0});
    assert_true(cshim_draw_may_begin(&draw, 1000));
}

/* A class of one rank whose network changes all the time has at most CSHIM_DRAW_STAGES stages.
 * While the class learns, each decision may exclude a candidate that earlier decisions kept, so
 * learning often takes the largest number of stages. */
TEST(stages_do_not_run_out)
{
    static const double factors[CSHIM_CANDIDATES_MAX] = {3, 1.6, 1.25, 1.22, 1, 1};
    static struct job job;
    unsigned reached = 0; /* number of jobs that come close to the maximum */
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct cshim_draw *draw = &job.draw[0];
        start_job(&job, seed, CSHIM_CANDIDATES_MAX, 1);
        for (uint64_t number = 0; number < 32000; number++) {
            const struct cshim_draw_call call = cshim_draw_begin(draw, number);
            const double base = number / 160 % 2 == 0 ? 1e-3 : 30e-3;
            cshim_draw_end(draw, number, call.candidate,
                           base * factors[call.candidate] * (1 + 0.1 * draw_unit(&job)));
            if (!call.decides)
                continue;
            struct cshim_draw_timings timings;
            cshim_draw_fill_timings(draw, &timings);
            const struct cshim_draw_stage stage =
                cshim_draw_decide(draw, &job.choice, number, &timings, 1);
            cshim_draw_take(draw, &stage);
            assert_in_range(draw->stages, 1, CSHIM_DRAW_STAGES);
        }
        reached += draw->stages > CSHIM_DRAW_STAGES - 10;
    }
    assert_in_range(reached, 80, 100);
}
