/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the machine and what is foretold by them: the file, the formulas against figures
 * worked out by hand, and what the planner makes of them. */

#include <fenv.h>
#include <locale.h>
#include <math.h>

#include "shim/core/cost.h"
#include "tests/unit/unit.h"

#define MIB ((uint64_t)1 << 20)

/* 1 Gbit/s between nodes, with processors and messages that cost nothing to speak of. */
static struct cshim_machine slow_links(void)
{
    struct cshim_machine machine = {.source = "a test",
                                    .native = CSHIM_NATIVE_OPENMPI,
                                    .latency_between = 20e-6,
                                    .bandwidth_between = 118e6,
                                    .latency_inside = 1e-6,
                                    .bandwidth_inside = 1e15,
                                    .cores = 1,
                                    .add = 1e15};
    for (unsigned codec = 1; codec < CSHIM_CODEC_COUNT; codec++)
        machine.encode[codec] = machine.decode[codec] = 1e15;
    return machine;
}

static struct cshim_plan plan_with(const struct cshim_machine *machine, const char *text,
                                   uint32_t ranks, uint32_t nodes, uint64_t bytes)
{
    char message[CSHIM_MESSAGE_MAX];
    static struct cshim_policy *policy;
    cshim_policy_free(policy);
    policy = cshim_policy_parse(text, strlen(text), "p", message);
    if (policy == NULL)
        fail_msg("%s", message);
    const struct cshim_call call = {.machine = machine,
                                    .bytes = bytes,
                                    .ranks = ranks,
                                    .nodes = nodes,
                                    .ranks_per_node = ranks / nodes};
    return cshim_plan_call(policy, &call, bytes / sizeof(float));
}

#define FP8 "[rule a]\ncodec = fp8_e4m3\n"

/* Four ranks, Rabenseifner: 1/2 and 1/4 of the buffer, twice. The receiver of so much is asked
 * first. */
TEST(native_seconds)
{
    const struct cshim_machine machine = slow_links();
    const double part = 16.0 * (double)MIB / 118e6;
    const struct cshim_plan apart = plan_with(&machine, FP8, 4, 4, 16 * MIB);
    assert_float_equal(apart.seconds_native, 2 * (0.75 * part + 2 * 60e-6), 1e-5);
    /* Two ranks on each node: half the buffer inside, a quarter of each rank over the link. */
    const struct cshim_plan pairs = plan_with(&machine, FP8, 4, 2, 16 * MIB);
    assert_float_equal(pairs.seconds_native, 2 * (0.5 * part + 60e-6 + 1e-6), 1e-5);
    /* Five ranks: to a neighbour and back besides. */
    const struct cshim_plan five = plan_with(&machine, FP8, 5, 5, 16 * MIB);
    assert_float_equal(five.seconds_native, 2 * (0.75 * part + part) + 6 * 60e-6, 1e-5);
}

/* Two nodes of four, which share memory: each rank copies 3/4 of the buffer for the others, adds
 * its share of all four, copies the sums, and adds a quarter of the buffer of the other node. */
TEST(adding_inside_a_node)
{
    const char staged[] = "[rule a]\ncodec = fp16\nalgorithm = hierarchical\nworth = always\n";
    struct cshim_machine machine = slow_links();
    machine.bandwidth_between = 1e15;
    const double before = plan_with(&machine, staged, 8, 2, 16 * MIB).seconds;
    machine.add = 1e9;
    const double after = plan_with(&machine, staged, 8, 2, 16 * MIB).seconds;
    assert_float_equal(after - before, 3 * 16.0 * (double)MIB / 1e9, 1e-6);
}

/* A message after a rest may be faster than many in a row. One that is longer is among many. */
TEST(short_messages)
{
    struct cshim_machine machine = slow_links();
    const double before = plan_with(&machine, FP8, 4, 4, 16 * MIB).seconds_native;
    machine.bandwidth_short = 236e6;
    const double halves = 1.5 * 65536;
    assert_float_equal(plan_with(&machine, FP8, 4, 4, 65536).seconds_native,
                       4 * 20e-6 + halves / 236e6, 1e-7);
    assert_true(plan_with(&machine, FP8, 4, 4, 16 * MIB).seconds_native == before);
    const struct cshim_call call = {
        .library = CSHIM_GLOO, .bytes = 65536, .ranks = 4, .nodes = 4, .ranks_per_node = 1};
    assert_float_equal(cshim_cost_native(&machine, &call), 6 * (20e-6 + 16384 / 236e6), 1e-7);
}

/* A step's latency is that of its first message. One shot among four ranks has two more, two shots
 * have two more each, and each of the four steps of a grid of 2 x 2 has one message only. */
TEST(messages_beyond_the_first)
{
    static const struct {
        const char *algorithm;
        double messages;
    } cases[] = {{"one_shot", 2}, {"two_shot", 4}, {"grid", 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cshim_machine machine = slow_links();
        char text[128];
        snprintf(text, sizeof text, "[rule a]\ncodec = fp16\nalgorithm = %s\nworth = always\n",
                 cases[i].algorithm);
        const double before = plan_with(&machine, text, 4, 4, 16384).seconds;
        machine.message = 1;
        const double after = plan_with(&machine, text, 4, 4, 16384).seconds;
        assert_float_equal(after - before, cases[i].messages, 1e-2);
    }
}

TEST(each_library_chooses)
{
    struct cshim_machine machine = slow_links();
    const double step = 20e-6 + 4096 / 118e6;
    const char always[] = "[rule a]\ncodec = fp16\nworth = always\n";
    assert_float_equal(plan_with(&machine, always, 4, 4, 4096).seconds_native, 2 * step, 1e-7);
    machine.native = CSHIM_NATIVE_MPICH; /* above 2 KiB by halves */
    assert_float_equal(plan_with(&machine, always, 4, 4, 4096).seconds_native,
                       4 * 20e-6 + 1.5 * 4096 / 118e6, 1e-7);
    machine.native = CSHIM_NATIVE_OPENMPI; /* three ranks: a ring of 1/3 each */
    assert_float_equal(plan_with(&machine, always, 3, 3, 30000).seconds_native,
                       4 * (20e-6 + 10000 / 118e6), 1e-7);
}

/* gloo goes round a ring, whatever the facts say of MPI. */
TEST(gloo_has_a_ring)
{
    const struct cshim_machine machine = slow_links();
    const struct cshim_call call = {
        .library = CSHIM_GLOO, .bytes = 16 * MIB, .ranks = 4, .nodes = 2, .ranks_per_node = 2};
    assert_float_equal(cshim_cost_native(&machine, &call), 6 * (20e-6 + 4.0 * (double)MIB / 118e6),
                       1e-6);
}

/* The network's time is that of the plan's bytes, and the gain that of the fewer bytes. */
TEST(compressed_seconds)
{
    const struct cshim_machine machine = slow_links();
    const struct cshim_plan plan = plan_with(&machine, FP8, 4, 4, 16 * MIB);
    assert_int_equal(plan.reason, CSHIM_REASON_COMPRESS);
    assert_int_equal(plan.algorithm, CSHIM_ALGORITHM_TWO_SHOT);
    assert_float_equal(plan.seconds, (double)plan.bytes_network / 4 / 118e6 + 2 * 20e-6, 1e-6);
    assert_true(plan.seconds * 3.9 < plan.seconds_native);
}

TEST(what_does_not_gain_is_passed_on)
{
    struct cshim_machine machine = slow_links();
    assert_int_equal(plan_with(&machine, FP8, 4, 4, MIB).reason, CSHIM_REASON_COMPRESS);
    /* On links as fast as the codec: the same call loses. */
    machine.bandwidth_between = 1e10;
    machine.encode[CSHIM_CODEC_FP8_E4M3] = machine.decode[CSHIM_CODEC_FP8_E4M3] = 1e9;
    const struct cshim_plan loses = plan_with(&machine, FP8, 4, 4, MIB);
    assert_int_equal(loses.reason, CSHIM_REASON_NO_GAIN);
    assert_true(loses.seconds > loses.seconds_native && loses.seconds_native > 0);
    assert_int_equal(plan_with(&machine, FP8 "worth = always\n", 4, 4, MIB).reason,
                     CSHIM_REASON_COMPRESS);
    /* A gain of less than a tenth is none. */
    machine = slow_links();
    assert_int_equal(plan_with(&machine, "[rule a]\ncodec = raw\n", 4, 4, MIB).reason,
                     CSHIM_REASON_NO_GAIN);
}

/* Where nothing is foretold, a rule may ask for it. */
TEST(only_what_is_foretold)
{
    const char foretold[] = FP8 "worth = foretold\n";
    struct cshim_machine machine = slow_links();
    assert_int_equal(plan_with(NULL, FP8, 4, 4, MIB).reason, CSHIM_REASON_COMPRESS);
    assert_int_equal(plan_with(NULL, foretold, 4, 4, MIB).reason, CSHIM_REASON_NO_GAIN);
    assert_int_equal(plan_with(&machine, foretold, 4, 4, MIB).reason, CSHIM_REASON_COMPRESS);
    machine.add = 0;
    assert_int_equal(plan_with(&machine, foretold, 4, 4, MIB).reason, CSHIM_REASON_NO_GAIN);
}

/* One step is worth more bytes where latency is long; the threshold without facts knows no latency.
 */
TEST(auto_takes_the_fastest)
{
    struct cshim_machine machine = slow_links();
    const char always[] = FP8 "worth = always\n";
    const uint64_t bytes = 256 << 10;
    assert_int_equal(plan_with(NULL, always, 4, 4, bytes).algorithm, CSHIM_ALGORITHM_TWO_SHOT);
    assert_int_equal(plan_with(&machine, always, 4, 4, bytes).algorithm, CSHIM_ALGORITHM_TWO_SHOT);
    machine.latency_between = 10e-3;
    assert_int_equal(plan_with(&machine, always, 4, 4, bytes).algorithm, CSHIM_ALGORITHM_ONE_SHOT);
    assert_int_equal(
        plan_with(&machine, FP8 "algorithm = two_shot\nworth = always\n", 4, 4, bytes).algorithm,
        CSHIM_ALGORITHM_TWO_SHOT);
}

/* Among algorithms that take about the same time the one with fewer roundings is taken; where
 * nothing is rounded, the fastest. */
TEST(one_more_rounding_has_to_gain)
{
    static const char *const codecs[] = {"fp16", "raw"};
    static const char *const algorithms[] = {"one_shot", "two_shot", "grid"};
    struct cshim_machine machine = slow_links();
    for (int c = 0; c < 2; c++) {
        int not_fastest = 0;
        for (uint64_t bytes = 4096; bytes <= 64 * MIB; bytes *= 2)
            for (uint32_t ranks = 4; ranks <= 256; ranks *= 4) {
                double least = INFINITY, fastest = INFINITY;
                char text[128];
                machine.message = 2e-6;
                for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
                    snprintf(text, sizeof text,
                             "[rule a]\ncodec = %s\nalgorithm = %s\nworth = always\n", codecs[c],
                             algorithms[i]);
                    const struct cshim_plan plan = plan_with(&machine, text, ranks, ranks, bytes);
                    const double roundings = c == 0 ? plan.quantizations : 0;
                    least = fmin(least, plan.seconds * (1 + roundings / 10));
                    fastest = fmin(fastest, plan.seconds);
                }
                snprintf(text, sizeof text, "[rule a]\ncodec = %s\nworth = always\n", codecs[c]);
                const struct cshim_plan plan = plan_with(&machine, text, ranks, ranks, bytes);
                const double roundings = c == 0 ? plan.quantizations : 0;
                assert_float_equal(plan.seconds * (1 + roundings / 10) / least, 1, 1e-12);
                not_fastest += plan.seconds > fastest;
            }
        assert_int_equal(not_fastest > 0, c == 0);
    }
}

/* Without a fact, and for calls without formulas, nothing is foretold: the rule decides. */
TEST(what_is_not_known)
{
    struct cshim_machine machine = slow_links();
    machine.encode[CSHIM_CODEC_RAW] = 0;
    const struct cshim_plan plan = plan_with(&machine, "[rule a]\ncodec = raw\n", 4, 4, MIB);
    assert_int_equal(plan.reason, CSHIM_REASON_COMPRESS);
    assert_true(plan.seconds == 0);
    machine = slow_links();
    machine.bandwidth_inside = 0; /* matters only where ranks share a node */
    assert_true(plan_with(&machine, FP8, 4, 4, MIB).seconds > 0);
    assert_true(plan_with(&machine, FP8, 4, 2, MIB).seconds == 0);
    const struct cshim_call calls[] = {
        {.library = CSHIM_NCCL, .bytes = MIB, .ranks = 4, .nodes = 4},
        {.collective = CSHIM_REDUCE, .bytes = MIB, .ranks = 4, .nodes = 4},
        {.nonblocking = true, .bytes = MIB, .ranks = 4, .nodes = 4},
    };
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        assert_true(cshim_cost_native(&machine, &calls[i]) == 0);
}

/* Four ranks that send floats as they are copy three quarters for each other and the sums of a
 * quarter, add a quarter of all, and copy the others' sums. What is encoded is encoded whole. */
TEST(adding_at_home)
{
    struct cshim_machine machine = slow_links();
    machine.bandwidth_between = 1e15;
    machine.latency_between = 1e-9;
    for (unsigned codec = 1; codec < CSHIM_CODEC_COUNT; codec++) {
        machine.encode[codec] = 1e9;
        machine.decode[codec] = 4e9;
        machine.reduce[codec] = 2e9;
    }
    const double seconds = 16.0 * (double)MIB / 1e9;
    const char raw[] = "[rule a]\ncodec = raw\nalgorithm = two_shot\nworth = always\n";
    assert_float_equal(plan_with(&machine, raw, 4, 4, 16 * MIB).seconds,
                       seconds * (1 + 0.5 + 0.75 / 4), 1e-6);
    const char fp16[] = "[rule a]\ncodec = fp16\nalgorithm = two_shot\nworth = always\n";
    assert_float_equal(plan_with(&machine, fp16, 4, 4, 16 * MIB).seconds,
                       seconds * (1.25 + 0.5 + 0.25), 1e-6);
}

/* Ranks of one node that read each other's messages gain by copying less. */
TEST(inside_a_node)
{
    struct cshim_machine machine = slow_links();
    machine.bandwidth_inside = 4e9;
    machine.add = 1e10;
    for (unsigned codec = 1; codec < CSHIM_CODEC_COUNT; codec++) {
        machine.encode[codec] = machine.decode[codec] = 2e10;
        machine.reduce[codec] = 1e10;
    }
    for (uint64_t bytes = 64 << 10; bytes <= 64 * MIB; bytes *= 4)
        for (uint32_t ranks = 2; ranks <= 16; ranks *= 2) {
            const struct cshim_plan plan =
                plan_with(&machine, "[rule a]\ncodec = raw\n", ranks, 1, bytes);
            assert_int_equal(plan.reason, CSHIM_REASON_COMPRESS);
            assert_int_equal(plan.algorithm, CSHIM_ALGORITHM_TWO_SHOT);
            assert_true(plan.seconds > 0);
        }
}

/* Two ranks add up two parts of the whole, in one pass where its speed is known. */
TEST(adding_up)
{
    const char always[] = FP8 "worth = always\nalgorithm = one_shot\n";
    struct cshim_machine machine = slow_links();
    machine.bandwidth_between = 1e15;
    machine.latency_between = 1e-9;
    machine.decode[CSHIM_CODEC_FP8_E4M3] = 2e9;
    machine.add = 2e9;
    const double parts = 2 * 16.0 * (double)MIB;
    assert_float_equal(plan_with(&machine, always, 2, 2, 16 * MIB).seconds, parts / 1e9, 1e-6);
    machine.reduce[CSHIM_CODEC_FP8_E4M3] = 4e9;
    assert_float_equal(plan_with(&machine, always, 2, 2, 16 * MIB).seconds, parts / 4e9, 1e-6);
}

/* Where ranks share cores, what processors do takes longer. */
TEST(shared_cores)
{
    struct cshim_machine machine = slow_links();
    machine.bandwidth_between = 1e12;
    machine.encode[CSHIM_CODEC_FP8_E4M3] = 1e9;
    const char always[] = FP8 "worth = always\n";
    const double alone = plan_with(&machine, always, 4, 4, 16 * MIB).seconds;
    machine.cores = 0.25;
    assert_float_equal(plan_with(&machine, always, 4, 4, 16 * MIB).seconds / alone, 4, 0.1);
}

/* What the processor does for an exchange is not done beside encoding. */
TEST(busy_exchanges)
{
    struct cshim_machine machine = slow_links();
    machine.encode[CSHIM_CODEC_FP8_E4M3] = 1e9;
    const char always[] = FP8 "worth = always\n";
    const double bytes = 64 * (double)MIB, encoding = bytes * 1.25 / 1e9;
    const double network = 1.5 * bytes / 3.97 / machine.bandwidth_between;
    const double beside = plan_with(&machine, always, 4, 4, 64 * MIB).seconds;
    assert_float_equal(beside / network, 1, 0.02);
    machine.busy_between = 0.5;
    assert_float_equal(plan_with(&machine, always, 4, 4, 64 * MIB).seconds, beside, 1e-3 * beside);
    machine.busy_between = 1;
    assert_float_equal(plan_with(&machine, always, 4, 4, 64 * MIB).seconds / (network + encoding),
                       1, 0.02);
}

/* A node that exchanges with one other may be slower than with several at once. */
TEST(bandwidth_of_pairs)
{
    struct cshim_machine machine = slow_links();
    const struct cshim_plan several = plan_with(&machine, FP8, 4, 4, 64 * MIB);
    machine.bandwidth_pair = machine.bandwidth_between / 2;
    const struct cshim_plan pairs = plan_with(&machine, FP8, 4, 4, 64 * MIB);
    assert_float_equal(pairs.seconds_native / several.seconds_native, 2, 0.01);
    assert_float_equal(pairs.seconds, several.seconds, 1e-9);
}

/* A program may round upwards on one rank: the plan is the same, and so is what it rounds by. */
TEST(rounding_of_the_program)
{
    const struct cshim_machine machine = slow_links();
    for (uint64_t bytes = 100000; bytes < 200000; bytes += 1024) {
        const struct cshim_plan nearest = plan_with(&machine, FP8, 5, 5, bytes);
        fesetround(FE_UPWARD);
        const struct cshim_plan upward = plan_with(&machine, FP8, 5, 5, bytes);
        const int rounding = fegetround();
        fesetround(FE_TONEAREST);
        assert_int_equal(rounding, FE_UPWARD);
        assert_memory_equal(&nearest.seconds, &upward.seconds, sizeof(double));
        assert_memory_equal(&nearest.seconds_native, &upward.seconds_native, sizeof(double));
    }
}

/* More bytes never take less time. */
TEST(times_rise_with_sizes)
{
    const struct cshim_machine machine = slow_links();
    const uint32_t layouts[][2] = {{2, 2}, {3, 3}, {4, 2}, {16, 4}, {64, 64}, {130, 13}};
    for (size_t i = 0; i < COUNT_OF(layouts); i++) {
        double before = 0;
        for (uint64_t bytes = 64 << 10; bytes <= 256 * MIB; bytes *= 2) {
            const struct cshim_plan plan =
                plan_with(&machine, FP8 "algorithm = two_shot\nworth = always\n", layouts[i][0],
                          layouts[i][1], bytes);
            assert_true(plan.seconds >= before);
            before = plan.seconds;
        }
    }
}

TEST(facts_are_written_and_read)
{
    struct cshim_machine machine = slow_links(), again;
    char *text = NULL, message[CSHIM_MESSAGE_MAX];
    size_t length;
    machine.native = CSHIM_NATIVE_MPICH;
    machine.bandwidth_long = 1.25e8;
    machine.bandwidth_short = 1.5e8;
    setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed, a comma for the point */
    FILE *file = open_memstream(&text, &length);
    cshim_machine_print(file, &machine);
    fclose(file);
    assert_true(cshim_machine_parse(&again, text, "a test", message));
    setlocale(LC_ALL, "C");
    assert_memory_equal(&machine, &again, sizeof machine);
    free(text);
}

TEST(facts_as_a_reader_lays_them_out)
{
    static const char text[] = "\xEF\xBB\xBF cores=1 ; a share\n\tadd : 2\r\n"
                               "latency_inside = 3 # no more\nbandwidth_inside = 4";
    char *long_text = NULL, message[CSHIM_MESSAGE_MAX];
    struct cshim_machine machine;
    assert_true(asprintf(&long_text, "%s ;%0500d", text, 0) > 0);
    assert_true(cshim_machine_parse(&machine, long_text, "f", message));
    assert_true(machine.cores == 1 && machine.add == 2);
    assert_true(machine.latency_inside == 3 && machine.bandwidth_inside == 4);
    free(long_text);
}

TEST(wrong_facts)
{
    static const char *const cases[][2] = {
        {"cores = 2\nbandwith_between = 1\n",
         "f:2: unknown fact 'bandwith_between' (did you mean 'bandwidth_between'?)"},
        {"cores = many\n", "f:1: cores 'many' is not a number above 0 and up to 1e+06"},
        {"cores = -1\n", "f:1: cores '-1' is not a number above 0 and up to 1e+06"},
        {"cores = nan\n", "f:1: cores 'nan' is not a number above 0 and up to 1e+06"},
        {"cores = 1e30\n", "f:1: cores '1e30' is not a number above 0 and up to 1e+06"},
        {"busy_between = 7\n", "f:1: busy_between '7' is not a number above 0 and up to 1"},
        {"reduce_int8 = inf\n", "f:1: reduce_int8 'inf' is not a number above 0 and up to 1e+18"},
        {"\n\ncores\n", "f:3: not a line 'name = number'"},
        {"native = lam\n", "f:1: unknown native 'lam' (known: openmpi, mpich, gloo)"},
        {"[a]\ncores = 1\n", "f:1: not a line 'name = number'"},
        {"cores = 1\n  2\n", "f:2: not a line 'name = number'"},
        {"cores = 1\n cores = 1\n", "f:2: a second line for 'cores'"},
        {"native = mpich\nnative = mpich\n", "f:2: a second line for 'native'"},
        {"", "f:1: the file ends without 'cores'"},
        {"; nothing\n\n", "f:3: the file ends without 'cores'"},
        {"cores = 1\nbandwidth_between = 1\n", "f:3: the file ends without 'add'"},
        {"cores = 1\nadd = 1\nlatency_between = 1\n",
         "f:4: the file ends without 'bandwidth_between' or 'bandwidth_inside'"},
        {"cores = 1\nadd = 1\nbandwidth_between = 1\n",
         "f:4: the file ends without 'latency_between'"},
        {"cores = 1\nadd = 1\nbandwidth_inside = 1\n",
         "f:4: the file ends without 'latency_inside'"},
    };
    struct cshim_machine machine;
    char message[CSHIM_MESSAGE_MAX], expected[CSHIM_MESSAGE_MAX];
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_false(cshim_machine_parse(&machine, cases[i][0], "f", message));
        snprintf(expected, sizeof expected,
                 "%s; COMPSHIM_MACHINE takes what 'compshim tune --machine FILE' writes",
                 cases[i][1]);
        assert_string_equal(message, expected);
    }
    assert_false(cshim_machine_load(&machine, "/nowhere", message));
    assert_string_equal(message, "/nowhere: cannot read the facts that COMPSHIM_MACHINE names: No "
                                 "such file or directory");
}
