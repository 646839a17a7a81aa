/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the parser's detection of unreachable rules on random policies, against an exhaustive
 * search over all calls. */

#include "policy/policy.h"
#include "tests/unit/unit.h"

/* Random limits of sizes and ranks are below these bounds, those of nodes at most NODES. So calls
 * of up to SIZES bytes, RANKS ranks and RANKS nodes cover every case. */
#define SIZES 5u
#define RANKS 5u
#define NODES 4u
#define RULES 6u
#define TEXT_LIMIT 2048

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* The types of calls that the shim can compress: averages only in NCCL's all-reduces and
 * reduce-scatters, reduces only in MPI, reduce-scatters not in gloo. */
static const struct {
    enum cshim_library library;
    enum cshim_collective collective;
    enum cshim_op op;
} kinds[] = {
    {CSHIM_MPI, CSHIM_ALLREDUCE, CSHIM_SUM},       {CSHIM_MPI, CSHIM_REDUCE_SCATTER, CSHIM_SUM},
    {CSHIM_MPI, CSHIM_REDUCE, CSHIM_SUM},          {CSHIM_NCCL, CSHIM_ALLREDUCE, CSHIM_SUM},
    {CSHIM_NCCL, CSHIM_ALLREDUCE, CSHIM_AVG},      {CSHIM_NCCL, CSHIM_REDUCE_SCATTER, CSHIM_SUM},
    {CSHIM_NCCL, CSHIM_REDUCE_SCATTER, CSHIM_AVG}, {CSHIM_NCCL, CSHIM_ALLGATHER, CSHIM_SUM},
    {CSHIM_MPI, CSHIM_ALLGATHER, CSHIM_SUM},       {CSHIM_GLOO, CSHIM_ALLREDUCE, CSHIM_SUM},
    {CSHIM_GLOO, CSHIM_ALLGATHER, CSHIM_SUM},      {CSHIM_GLOO, CSHIM_ALLTOALL, CSHIM_SUM},
    {CSHIM_GLOO, CSHIM_BROADCAST, CSHIM_SUM},      {CSHIM_MPI, CSHIM_ALLTOALL, CSHIM_SUM},
    {CSHIM_MPI, CSHIM_BROADCAST, CSHIM_SUM},       {CSHIM_NCCL, CSHIM_ALLTOALL, CSHIM_SUM},
    {CSHIM_NCCL, CSHIM_BROADCAST, CSHIM_SUM},
};

/* Returns true if earlier rules match every call that rule `index` matches, by exhaustive search.
 */
static bool no_call_left(const struct cshim_policy *policy, size_t index)
{
    struct cshim_call call = {0};
    for (size_t kind = 0; kind < COUNT_OF(kinds); kind++) {
        call.library = kinds[kind].library;
        call.collective = kinds[kind].collective;
        call.op = kinds[kind].op;
        for (call.dtype = 0; call.dtype < CSHIM_DTYPE_COUNT; call.dtype++)
            for (call.bytes = 0; call.bytes <= SIZES; call.bytes++)
                for (call.ranks = 1; call.ranks <= RANKS; call.ranks++)
                    for (call.nodes = 1; call.nodes <= call.ranks; call.nodes++)
                        if (cshim_policy_match(policy, &call) == &policy->rules[index])
                            return false;
    }
    return true;
}

/* Writes a rule with random keys. Few values occur, so that several rules together often cover
 * another. */
static int write_rule(char *text, size_t room, unsigned number, uint64_t *seed)
{
    static const char *const libraries[] = {"", "library = mpi\n", "library = nccl\n",
                                            "library = gloo\n"};
    static const char *const dtypes[] = {"", "", "dtype = float32\n", "dtype = float64, float16\n"};
    static const char *const ops[] = {"", "", "op = sum\n", "op = avg\n"};
    static const char *const collectives[] = {
        "", "collective = allgather\n", "collective = allreduce, allgather\n",
        "collective = reduce, reduce_scatter\n", "collective = alltoall, allgather, broadcast\n"};
    char sizes[64] = "", ranks[32] = "", nodes[32] = "";
    uint32_t low = next_random(seed) % SIZES, high = next_random(seed) % SIZES;
    if (low <= high)
        snprintf(sizes, sizeof sizes, "min_size = %u\nmax_size = %u\n", low, high);
    else if (low % 2 == 0)
        snprintf(sizes, sizeof sizes, "%s_size = %u\n", high % 2 == 0 ? "min" : "max", low);
    low = 1 + next_random(seed) % (RANKS - 1), high = 1 + next_random(seed) % (RANKS - 1);
    if (low < high)
        snprintf(ranks, sizeof ranks, "ranks = %u-%u\n", low, high);
    else if (low % 2 == 0)
        snprintf(ranks, sizeof ranks, "ranks = %u-\n", low);
    low = 1 + next_random(seed) % NODES, high = 1 + next_random(seed) % NODES;
    if (low < high)
        snprintf(nodes, sizeof nodes, "nodes = %u-%u\n", low, high);
    else if (low % 2 == 0)
        snprintf(nodes, sizeof nodes, low == 2 ? "nodes = 1\n" : "nodes = 2-\n");
    return snprintf(text, room, "[rule r%u]\n%s%s%s%s%s%s%scodec = raw\n", number,
                    libraries[next_random(seed) % 4], collectives[next_random(seed) % 5],
                    dtypes[next_random(seed) % 4], ops[next_random(seed) % 4], sizes, ranks, nodes);
}

/* Checks a random policy rule by rule. Returns true if a rule was rejected. */
static bool check_policy(uint64_t *seed)
{
    char text[TEXT_LIMIT], message[CSHIM_MESSAGE_MAX], name[16];
    struct cshim_policy accepted = {.rule_count = 0};
    struct cshim_rule rules[RULES + 1];
    size_t used = 0;
    for (unsigned number = 0; number < RULES; number++) {
        /* A rule that parses alone is valid (it does not need more nodes than ranks, or calls that
         * are never compressed), and is added to the accepted ones for the search. */
        int length = write_rule(text + used, sizeof text - used, number, seed);
        struct cshim_policy *alone =
            cshim_policy_parse(text + used, (size_t)length, "alone", message);
        if (alone == NULL) {
            assert_true(strstr(message, "more nodes than ranks") != NULL ||
                        strstr(message, "there are no such calls") != NULL);
            number--;
            continue;
        }
        rules[number] = alone->rules[0];
        cshim_policy_free(alone);
        used += (size_t)length;
        accepted.rules = rules;
        accepted.rule_count = number + 1;
        bool dead = no_call_left(&accepted, number);
        struct cshim_policy *policy = cshim_policy_parse(text, used, "p", message);
        if (dead != (policy == NULL))
            fail_msg("rule r%u should be %s:\n%s", number, dead ? "refused" : "accepted", text);
        cshim_policy_free(policy);
        if (dead) {
            snprintf(name, sizeof name, "'r%u'", number);
            assert_non_null(strstr(message, name));
            assert_non_null(strstr(message, "can never match"));
            return true;
        }
    }
    return false;
}

TEST(parser_agrees_with_trial)
{
    uint64_t seed = 1;
    unsigned refused = 0, total = 20000;
    for (unsigned i = 0; i < total; i++)
        refused += check_policy(&seed);
    /* Both results must occur often. */
    assert_in_range(refused, total / 10, total * 9 / 10);
}

TEST(several_rules_cover_one)
{
    static const char text[] = "[rule a]\nmax_size = 4KiB\ncodec = none\n"
                               "[rule b]\nmin_size = 4097\nranks = 3-\ncodec = raw\n"
                               "[rule c]\nmin_size = 4097\nranks = 1-2\ncodec = raw\n"
                               "[rule d]\ndtype = float32\nranks = 2-4\ncodec = raw\n";
    char message[CSHIM_MESSAGE_MAX];
    assert_null(cshim_policy_parse(text, strlen(text), "p", message));
    assert_non_null(strstr(message, "p:12: rule 'd' can never match"));
}

/* The maximum number of rules, all reachable, is accepted, and one more is rejected. */
TEST(many_rules)
{
    static char text[64 * 1024];
    char message[CSHIM_MESSAGE_MAX];
    size_t used = 0, last = 0;
    for (unsigned i = 0; i < 257; i++) {
        last = used;
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "[rule r%u]\nmax_size = %u\ncodec = raw\n", i, i);
    }
    struct cshim_policy *policy = cshim_policy_parse(text, last, "p", message);
    assert_non_null(policy);
    assert_int_equal(policy->rule_count, 256);
    cshim_policy_free(policy);
    assert_null(cshim_policy_parse(text, used, "p", message));
    assert_string_equal(message, "p:769: more than 256 rules");
}
