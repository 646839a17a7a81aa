/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates a job and checks which candidate it chooses, with late ranks, disturbed calls, and a
 * network that changes. */
#include <fenv.h>
#include <math.h>

#include "shim/core/choice.h"
#include "tests/unit/unit.h"

#define RANKS 4

#define GAIN 0.1f
/* A compressed candidate has to take a tenth less time. */
static const float weights[CSHIM_CANDIDATES_MAX] = {
    1, 1 / (1 - GAIN), 1 / (1 - GAIN), 1 / (1 - GAIN), 1 / (1 - GAIN), 1 / (1 - GAIN)};

/* Durations of a simulated network's calls. */
struct network {
    unsigned candidates;
    double seconds[CSHIM_CANDIDATES_MAX];
    double noise;     /* largest extra time of a call, as a share of its time */
    double spikes;    /* share of calls that a disturbance makes five times as long */
    double imbalance; /* ranks come late by up to this many durations of a native call */
    unsigned queued;  /* the first `queued` native calls in a row take a fifth of their time, as if
                       * queues absorbed them */
    double backlog;   /* factor of the time of candidate 1's calls after 16 in a row: the link still
                       * has data of the earlier ones; 0: none */
    double idle;      /* share of these calls before which the link has become idle */
};

struct job {
    struct cshim_choice ranks[RANKS];
    uint64_t random;
    unsigned calls[CSHIM_CANDIDATES_MAX];
    unsigned in_row; /* timed calls of the latest candidate since the last one of another */
    unsigned latest;
    double seconds; /* sum of the calls' own durations */
};

static double draw_unit(struct job *job)
{
    job->random = job->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(job->random >> 11) * 0x1p-53;
}

static void start_job(struct job *job, const struct network *network, unsigned prior, uint64_t seed)
{
    *job = (struct job){.random = seed};
    for (unsigned i = 0; i < RANKS; i++)
        cshim_choice_init(&job->ranks[i], network->candidates, prior, weights);
}

/* Checks that a class settles only after all remaining candidates have all their samples. */
static void check_samples(const struct cshim_choice *choice)
{
    for (unsigned i = 0; i < choice->in_turn && choice->phase == CSHIM_CHOICE_LAST; i++) {
        unsigned samples = 0;
        for (unsigned k = 0; k < choice->samples; k++)
            samples += choice->sampled[k] == choice->turns[i];
        assert_int_equal(samples, choice->rounds);
    }
}

/* Checks that each candidate's quartiles enclose its duration. */
static void check_spread(const struct cshim_choice *choice)
{
    for (unsigned i = 0; i < choice->candidates; i++) {
        const struct cshim_figure figure = choice->figures.agreed[i];
        assert_true(figure.low <= figure.seconds && figure.seconds <= figure.high);
    }
}

/* Carries out a due decision as the engine does. */
static void agree_on_choice(struct job *job)
{
    float longest[CSHIM_CHOICE_SAMPLES_MAX] = {0};
    const unsigned samples = job->ranks[0].samples;
    check_samples(&job->ranks[0]);
    for (unsigned i = 0; i < samples; i++) {
        longest[i] = 0;
        for (unsigned rank = 0; rank < RANKS; rank++)
            longest[i] = fmaxf(longest[i], job->ranks[rank].seconds[i]);
    }
    for (unsigned rank = 0; rank < RANKS; rank++) {
        assert_int_equal(job->ranks[rank].samples, samples);
        memcpy(job->ranks[rank].seconds, longest, samples * sizeof *longest);
        fesetround(rank == 1 ? FE_UPWARD : FE_TONEAREST);
        cshim_choice_decide(&job->ranks[rank]);
        fesetround(FE_TONEAREST);
        check_spread(&job->ranks[rank]);
    }
}

/* Makes a call on all ranks, and returns its candidate. */
static unsigned make_call(struct job *job, const struct network *network)
{
    double late[RANKS], latest = 0;
    unsigned candidate = 0;
    for (unsigned rank = 0; rank < RANKS; rank++) {
        const bool is_due = cshim_choice_is_due(&job->ranks[rank]);
        assert_int_equal(is_due, cshim_choice_is_due(&job->ranks[0]));
        late[rank] = network->imbalance * network->seconds[0] * draw_unit(job);
        latest = fmax(latest, late[rank]);
    }
    if (cshim_choice_is_due(&job->ranks[0]))
        agree_on_choice(job);
    if (draw_unit(job) < 0.5 &&
        cshim_choice_passes(&job->ranks[0])) { /* passed through without timing */
        for (unsigned rank = 1; rank < RANKS; rank++)
            assert_true(cshim_choice_passes(&job->ranks[rank]));
        job->calls[0]++;
        job->seconds += network->seconds[0];
        return 0;
    }
    for (unsigned rank = 0; rank < RANKS; rank++) {
        const unsigned own = cshim_choice_begin(&job->ranks[rank]);
        candidate = rank == 0 ? own : candidate;
        assert_int_equal(own, candidate);
    }
    double seconds = network->seconds[candidate] * (1 + network->noise * draw_unit(job));
    seconds *= draw_unit(job) < network->spikes ? 5 : 1;
    job->in_row = candidate == job->latest ? job->in_row + 1 : 1;
    job->latest = candidate;
    seconds *= candidate == 0 && job->in_row <= network->queued ? 0.2 : 1;
    if (candidate == 1 && job->in_row > 16 && network->backlog > 0)
        seconds *= draw_unit(job) < network->idle ? 1 : network->backlog;
    for (unsigned rank = 0; rank < RANKS; rank++) {
        /* A sampled call begins with a barrier, so that no rank waits in it for a late one. Rank 1
         * has the slowest link. */
        const bool is_met = job->ranks[rank].is_sampled;
        const double own = rank == 1 ? seconds : seconds * (0.05 + 0.95 * draw_unit(job));
        cshim_choice_end(&job->ranks[rank], own + (is_met ? 0 : latest - late[rank]));
    }
    job->calls[candidate]++;
    job->seconds += seconds;
    return candidate;
}

static void make_calls(struct job *job, const struct network *network, unsigned calls)
{
    for (unsigned i = 0; i < calls; i++)
        make_call(job, network);
}

/* Returns the candidate to be chosen. Compressing has to gain a tenth. */
static unsigned right_choice(const struct network *network)
{
    unsigned best = 0;
    for (unsigned i = 1; i < network->candidates; i++)
        if (network->seconds[i] < network->seconds[best] * (best == 0 ? 1 - (double)GAIN : 1))
            best = i;
    return best;
}

/* Draws a network whose candidates take between a fifth and five times the native time. */
static struct network draw_network(struct job *dice)
{
    struct network network = {.candidates = 2 + (unsigned)(draw_unit(dice) * 5)};
    for (unsigned i = 0; i < network.candidates; i++)
        network.seconds[i] = 1e-3 * (i == 0 ? 1 : pow(5, 2 * draw_unit(dice) - 1));
    return network;
}

#define NETWORKS 400
struct outcome {
    unsigned misses; /* jobs that end with a candidate that is more than a tenth slower than the
                        right one, in addition to the tenth that compressing has to gain */
    double time; /* mean time of a job's calls, as a share of their time by the right candidate */
};

/* Makes 2000 calls on each of many networks. */
static struct outcome choose_often(double noise, double spikes, double imbalance)
{
    struct job dice = {.random = 1};
    struct outcome outcome = {0};
    for (unsigned i = 0; i < NETWORKS; i++) {
        struct job job;
        struct network network = draw_network(&dice);
        network.noise = noise;
        network.spikes = spikes;
        network.imbalance = imbalance;
        start_job(&job, &network, i % network.candidates, i);
        make_calls(&job, &network, 2000);
        const double best = network.seconds[right_choice(&network)];
        outcome.misses += network.seconds[job.ranks[0].best] > best / (1 - (double)GAIN) * 1.1;
        outcome.time += job.seconds / (2000 * best * (1 + noise / 2) * (1 + 4 * spikes)) / NETWORKS;
    }
    return outcome;
}

TEST(the_fastest_candidate_is_taken)
{
    assert_int_equal(choose_often(0, 0, 0).misses, 0);
    assert_int_equal(choose_often(0.1, 0, 0).misses, 0);
}

TEST(compressing_has_to_gain_a_tenth)
{
    const struct network too_little = {.candidates = 2, .seconds = {1e-3, 0.95e-3}};
    const struct network enough = {.candidates = 2, .seconds = {1e-3, 0.85e-3}};
    struct job job;
    start_job(&job, &too_little, 1, 1);
    make_calls(&job, &too_little, 1000);
    assert_int_equal(job.ranks[0].best, CSHIM_CANDIDATE_NATIVE);
    start_job(&job, &enough, 1, 1);
    make_calls(&job, &enough, 1000);
    assert_int_equal(job.ranks[0].best, 1);
}

TEST(disturbed_calls_do_not_decide)
{
    assert_in_range(choose_often(0.1, 0.05, 0).misses, 0, 4);
}

/* Calls take up to ten times as long as others of the same candidate. */
TEST(candidates_that_vary_widely_are_told_apart)
{
    const struct outcome outcome = choose_often(9, 0, 0);
    assert_in_range(outcome.misses, 0, 20);
    assert_true(outcome.time < 1.02);
}

TEST(ranks_that_compute_unequally_choose_as_equal_ones)
{
    assert_int_equal(choose_often(0.1, 0, 3).misses, 0);
}

/* The first native calls in a row are fast, as if queues absorbed them. The choice must not go by
 * these. */
TEST(what_queues_hold_does_not_count)
{
    for (unsigned queued = 1; queued <= 40; queued++) {
        const struct network network = {
            .candidates = 3, .seconds = {1e-3, 0.5e-3, 0.6e-3}, .queued = queued};
        struct job job;
        start_job(&job, &network, 1, 1);
        make_calls(&job, &network, 5000);
        assert_int_equal(job.ranks[0].best, 1);
        assert_true(job.seconds < 1.05 * 5000 * network.seconds[1]);
    }
}

/* In the long run candidate 1 is slower than in a row of trials, but some of its calls are as fast
 * as there. */
TEST(calls_on_an_idle_link_do_not_decide)
{
    unsigned misses = 0;
    for (unsigned i = 0; i < NETWORKS; i++) {
        const struct network network = {.candidates = 3,
                                        .seconds = {1e-3, 0.2e-3, 0.23e-3},
                                        .noise = 0.1,
                                        .backlog = 2,
                                        .idle = 0.3};
        struct job job;
        start_job(&job, &network, 1, i);
        make_calls(&job, &network, 1000);
        misses += job.ranks[0].best != 2;
    }
    assert_in_range(misses, 0, NETWORKS / 20);
}

/* Checks what the report says of native calls after every `step` calls, until 8000. */
static void check_native_seconds(const struct network *network, unsigned step)
{
    struct job job;
    start_job(&job, network, 1, 1);
    for (unsigned calls = 0; calls < 8000; calls += step) {
        make_calls(&job, network, step);
        assert_int_equal(job.ranks[0].best, 1);
        assert_true((double)job.ranks[0].figures.agreed[CSHIM_CANDIDATE_NATIVE].seconds >
                    0.9 * network->seconds[0]);
    }
}

/* Native calls in short rows are fast, as if queues absorbed them. The report must not go by these,
 * neither before the first longer row nor after it. */
TEST(native_calls_are_reported_as_in_a_native_run)
{
    for (unsigned queued = 1; queued <= 4; queued++) {
        const struct network slow = {
            .candidates = 3, .seconds = {5e-3, 0.7e-3, 2e-3}, .queued = queued};
        const struct network slower = {
            .candidates = 3, .seconds = {1e-3, 0.15e-3, 0.6e-3}, .queued = queued};
        check_native_seconds(&slow, 1000);
        check_native_seconds(&slower, 600);
    }
}

/* A program may have changed the rounding of its arithmetic, on one rank only. */
TEST(rounding_does_not_change_the_choice)
{
    struct network network = {.candidates = 4, .seconds = {1e-3, 0.5e-3, 0.53e-3, 0.6e-3}};
    struct job job;
    network.noise = 0.3;
    start_job(&job, &network, 1, 1);
    for (unsigned i = 0; i < 3000; i++) {
        make_call(&job, &network);
        assert_int_equal(job.ranks[0].native_row, job.ranks[1].native_row);
        assert_memory_equal(job.ranks[0].figures.agreed, job.ranks[1].figures.agreed,
                            sizeof job.ranks[0].figures.agreed);
    }
}

TEST(the_first_call_takes_the_prior)
{
    const struct network network = {.candidates = 4, .seconds = {4, 3, 2, 1}};
    for (unsigned prior = 0; prior < 4; prior++) {
        struct job job;
        start_job(&job, &network, prior, 1);
        assert_int_equal(make_call(&job, &network), prior);
    }
}

/* Compares the total time with that of making every call by the best candidate. */
TEST(trials_cost_two_hundredths_of_2000_calls)
{
    const struct network network = {.candidates = 4, .seconds = {1e-3, 0.5e-3, 0.7e-3, 1.4e-3}};
    struct job job;
    start_job(&job, &network, 1, 1);
    make_calls(&job, &network, 2000);
    assert_true(job.seconds < 1.02 * 2000 * network.seconds[1]);
}

TEST(a_class_that_native_calls_suit_best_costs_a_hundredth_more)
{
    const struct network network = {.candidates = 3, .seconds = {1e-3, 1.1e-3, 3e-3}};
    struct job job;
    start_job(&job, &network, 1, 1);
    make_calls(&job, &network, 2000);
    assert_int_equal(job.ranks[0].best, CSHIM_CANDIDATE_NATIVE);
    assert_true(job.seconds < 1.01 * 2000 * network.seconds[0]);
}

TEST(choices_follow_a_network_that_changes_within_200_calls)
{
    const struct network slow = {.candidates = 3, .seconds = {10e-3, 3e-3, 4e-3}, .noise = 0.1};
    const struct network fast = {.candidates = 3, .seconds = {1e-3, 1.2e-3, 1.6e-3}, .noise = 0.1};
    for (unsigned calls = 500; calls < 700; calls++) {
        struct job job;
        start_job(&job, &slow, 1, calls);
        make_calls(&job, &slow, calls);
        assert_int_equal(job.ranks[0].best, 1);
        make_calls(&job, &fast, 200);
        assert_int_equal(job.ranks[0].phase, CSHIM_CHOICE_SETTLED);
        assert_int_equal(job.ranks[0].best, CSHIM_CANDIDATE_NATIVE);
        make_calls(&job, &slow, 200);
        assert_int_equal(job.ranks[0].best, 1);
    }
}

/* Both compressed candidates slow down, and native calls become the fastest. */
TEST(a_best_candidate_that_becomes_slower_is_left)
{
    struct network network = {.candidates = 3, .seconds = {1e-3, 0.3e-3, 0.5e-3}};
    struct job job;
    start_job(&job, &network, 1, 1);
    make_calls(&job, &network, 200);
    assert_int_equal(job.ranks[0].best, 1);
    network.seconds[0] = 0.2e-3;
    network.seconds[1] = 0.9e-3;
    network.seconds[2] = 0.95e-3;
    make_calls(&job, &network, 250);
    assert_int_equal(job.ranks[0].best, CSHIM_CANDIDATE_NATIVE);
}

/* The best candidate slows down too little to cast doubt by itself, after period 8, whose trial of
 * the next best one is followed by that of period 16. */
TEST(a_best_candidate_that_becomes_slower_than_the_next_best_is_left)
{
    struct network network = {.candidates = 3, .seconds = {1e-3, 0.3e-3, 0.36e-3}, .noise = 0.02};
    struct job job;
    start_job(&job, &network, 1, 1);
    make_calls(&job, &network, 900);
    assert_in_range(job.ranks[0].periods, 8, 9);
    network.seconds[1] = 0.43e-3;
    make_calls(&job, &network, 500);
    assert_int_equal(job.ranks[0].best, 2);
}

/* The best candidate stays as fast, and the second best becomes faster. */
TEST(a_candidate_that_becomes_faster_is_found)
{
    struct network network = {.candidates = 2, .seconds = {1e-3, 2e-3}};
    struct job job;
    start_job(&job, &network, 1, 1);
    make_calls(&job, &network, 1000);
    assert_int_equal(job.ranks[0].best, CSHIM_CANDIDATE_NATIVE);
    network.seconds[1] = 0.3e-3;
    make_calls(&job, &network, 1000);
    assert_int_equal(job.ranks[0].best, 1);
}

/* A program's error handler may leave a call by longjmp, on one rank or on all. */
TEST(calls_that_never_end_leave_no_duration)
{
    struct cshim_choice choice;
    cshim_choice_init(&choice, 2, 1, weights);
    for (unsigned i = 0; i < 1000; i++) {
        if (cshim_choice_is_due(&choice))
            cshim_choice_decide(&choice);
        const unsigned candidate = cshim_choice_begin(&choice);
        if (candidate == 1)
            cshim_choice_end(&choice, 1e-3);
    }
    assert_int_equal(choice.best, 1);
    assert_true(choice.figures.agreed[CSHIM_CANDIDATE_NATIVE].seconds == 0);
}

/* Only every third compressed call ends: two of five samples are enough. */
TEST(calls_that_end_decide_beside_those_that_never_do)
{
    struct cshim_choice choice;
    unsigned calls = 0;
    cshim_choice_init(&choice, 2, 1, weights);
    while (choice.phase != CSHIM_CHOICE_SETTLED) {
        if (cshim_choice_is_due(&choice))
            cshim_choice_decide(&choice);
        const bool is_native = cshim_choice_begin(&choice) == CSHIM_CANDIDATE_NATIVE;
        if (is_native || calls++ % 3 == 1)
            cshim_choice_end(&choice, is_native ? 2e-3 : 1e-3);
    }
    assert_int_equal(choice.best, 1);
}

/* If learning confirms the choice, it is repeated less and less often, even on an unsteady network.
 */
TEST(an_unsteady_network_does_not_keep_a_class_learning)
{
    struct network network = {.candidates = 3, .seconds = {10e-3, 3e-3, 4e-3}};
    struct job job;
    double best = 0;
    start_job(&job, &network, 1, 1);
    for (unsigned i = 0; i < 20000; i++) {
        const double factor = i / 300 % 2 ? 2 : 0.5;
        for (unsigned k = 0; k < 3; k++)
            network.seconds[k] = factor * (k == 0 ? 10e-3 : k == 1 ? 3e-3 : 4e-3);
        make_call(&job, &network);
        best += network.seconds[1];
    }
    assert_true(job.seconds < 1.02 * best);
}
