/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the operations of all ranks on the simulated machine: every collective by every
 * algorithm but cast that can make it, 2 to 64 ranks, even and uneven nodes, odd counts, any root,
 * equal and unequal blocks. Besides what the machine checks,
 *   - each result is right: the elements moved, or the sum with each contribution added once;
 *   - the bytes are those of the plan, except with blocks or stages.
 * Elements are integers whose sums are exact. In calls of NCCL all blocks are equal, and elements
 * beyond equal shares of a node are left out. */
#include "tests/unit/machine.h"

#include "codecs/floats.h"
#include "tests/unit/unit.h"

/* Returns element `element` of a rank's contribution; in an all-to-all, of the block for rank `to`.
 */
static double value(int rank, int to, uint64_t element)
{
    return (double)(cshim_mix((uint64_t)rank << 48 ^ (uint64_t)to << 40 ^ element) % (1u << 30));
}

/* Returns the result that a rank must have at an element of the call. */
static double expected(const struct machine *machine, int rank, uint64_t element)
{
    const struct cshim_plan *plan = &machine->plan;
    double sum = 0;
    if (plan->collective == CSHIM_BROADCAST)
        return value((int)plan->root, 0, element);
    if (plan->collective == CSHIM_ALLGATHER || plan->collective == CSHIM_ALLTOALL) {
        const bool is_alltoall = plan->collective == CSHIM_ALLTOALL;
        const uint64_t *begins =
            is_alltoall ? machine->received_begins[rank] : machine->block_begins;
        int from = 0;
        while (element >= begins[from + 1])
            from++;
        return is_alltoall ? value(from, rank, element - begins[from]) : value(from, 0, element);
    }
    for (int i = 0; i < machine->ranks; i++)
        sum += value(i, 0, element);
    return sum;
}

/* Returns true if an element is beyond the equal shares of its segment. NCCL itself adds these. */
static bool is_rest(const struct rank *rank, uint64_t element)
{
    const struct cshim_plan *plan = rank->role.plan;
    if (!plan->schedule->staged || plan->schedule->division == CSHIM_BLOCKS)
        return false;
    const struct cshim_segment segment = cshim_segment_at(&rank->role, element / plan->segment);
    return element - segment.whole.begin >= segment.whole.length;
}

static void check_results(struct machine *machine)
{
    const struct cshim_plan *plan = &machine->plan;
    for (int r = 0; r < machine->ranks; r++) {
        const struct rank *rank = &machine->rank[r];
        uint64_t begin = 0, end = plan->count;
        if (plan->collective == CSHIM_REDUCE && r != (int)plan->root)
            continue;
        if (plan->collective == CSHIM_REDUCE_SCATTER) {
            begin = machine->block_begins[r];
            end = machine->block_begins[r + 1];
        }
        if (plan->collective == CSHIM_ALLTOALL)
            end = machine->received_begins[r][machine->ranks];
        for (uint64_t i = begin; i < end && machine->failure == NULL; i++)
            if (!is_rest(rank, i) &&
                rank->output[i - rank->first_output] != expected(machine, r, i))
                machine_fault(machine, "a wrong result");
    }
}

/* Draws the blocks' lengths: about a third are 0, others any length up to `most`; or all are equal.
 */
static void draw_blocks(struct machine *machine, uint64_t most, bool are_equal)
{
    const uint64_t block = 1 + machine_draw(machine, most);
    for (int i = 0; i < machine->ranks; i++) {
        const uint64_t length = are_equal                       ? block
                                : machine_draw(machine, 3) == 0 ? 0
                                                                : 1 + machine_draw(machine, most);
        machine->block_begins[i + 1] = machine->block_begins[i] + length;
        for (int j = 0; j < machine->ranks; j++) {
            const uint64_t sent = are_equal                       ? block
                                  : machine_draw(machine, 3) == 0 ? 0
                                                                  : 1 + machine_draw(machine, most);
            machine->sent_begins[i][j + 1] = machine->sent_begins[i][j] + sent;
        }
    }
    for (int i = 0; i < machine->ranks; i++)
        for (int j = 0; j < machine->ranks; j++)
            machine->received_begins[i][j + 1] = machine->received_begins[i][j] +
                                                 machine->sent_begins[j][i + 1] -
                                                 machine->sent_begins[j][i];
}

/* Fills the buffers of a rank, and its role. */
static void set_up_rank(struct machine *machine, int r)
{
    const struct cshim_plan *plan = &machine->plan;
    struct rank *rank = &machine->rank[r];
    const bool is_alltoall = plan->collective == CSHIM_ALLTOALL;
    uint64_t elements = is_alltoall ? machine->sent_begins[r][machine->ranks] : plan->count;
    uint64_t results = is_alltoall ? machine->received_begins[r][machine->ranks] : plan->count;
    assert_true(
        cshim_layout_make(&rank->layout, machine->nodes, machine->ranks, MACHINE_RANKS_MAX, r));
    if (plan->collective == CSHIM_ALLGATHER) {
        rank->first_input = machine->block_begins[r];
        elements = machine->block_begins[r + 1] - rank->first_input;
    }
    if (plan->collective == CSHIM_REDUCE_SCATTER) {
        rank->first_output = machine->block_begins[r];
        results = machine->block_begins[r + 1] - rank->first_output;
    }
    rank->input = calloc(elements + 1, sizeof *rank->input);
    rank->output = calloc(results + 1, sizeof *rank->output);
    rank->scratch = calloc(CSHIM_SEGMENTS_IN_FLIGHT, plan->slot_bytes);
    assert_true(rank->input != NULL && rank->output != NULL && rank->scratch != NULL);
    for (int to = 0; is_alltoall && to < machine->ranks; to++)
        for (uint64_t i = machine->sent_begins[r][to]; i < machine->sent_begins[r][to + 1]; i++)
            rank->input[i] = value(r, to, i - machine->sent_begins[r][to]);
    for (uint64_t i = 0; !is_alltoall && i < elements; i++)
        rank->input[i] = value(r, 0, rank->first_input + i);
    if (plan->collective == CSHIM_BROADCAST && rank->output != NULL) /* has one buffer */
        memcpy(rank->output, rank->input, elements * sizeof *rank->input);
    rank->role = (struct cshim_role){
        .plan = plan,
        .layout = &rank->layout,
        .rank = r,
        .block_begins = is_alltoall ? machine->received_begins[r] : machine->block_begins,
        .sent_begins = machine->sent_begins[r],
    };
    if (plan->library->on_device) /* NCCL's blocks are equal */
        rank->role.block_begins = rank->role.sent_begins = NULL;
    cshim_role_find(&rank->role);
}

/* Draws the node of each rank. Returns the number of nodes, and in *fewest the smallest number of
 * ranks on a node. */
static uint32_t draw_nodes(struct machine *machine, uint32_t *fewest)
{
    const uint32_t ranks = (uint32_t)machine->ranks;
    const uint32_t nodes =
        machine_draw(machine, 3) == 0 ? 1 : 1 + (uint32_t)machine_draw(machine, ranks);
    const bool is_even = machine_draw(machine, 2) == 0, by_turns = machine_draw(machine, 2) == 0;
    uint32_t on_node[MACHINE_RANKS_MAX] = {0};
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t node = by_turns ? r % nodes : r * nodes / ranks;
        if (!is_even && r >= nodes)
            node = (uint32_t)machine_draw(machine, nodes);
        if (!is_even && r < nodes)
            node = r;
        machine->nodes[r] = (int)node;
        on_node[node]++;
    }
    *fewest = ranks;
    for (uint32_t i = 0; i < nodes; i++)
        *fewest = on_node[i] < *fewest ? on_node[i] : *fewest;
    return nodes;
}

/* Runs a random call. Returns false if there is no plan for it. */
static bool run_call(struct machine *machine, enum cshim_collective collective,
                     enum cshim_algorithm algorithm, int ranks, uint64_t seed)
{
    static struct cshim_rule rule = {.codec = CSHIM_CODEC_RAW, .worth = CSHIM_WORTH_ALWAYS};
    static const uint64_t counts[] = {1, 2, 255, 256, 257, 1000, 4096, 20000};
    const uint64_t limit = ranks <= 6 && seed % 4 == 0 ? 200000 : 3000;
    *machine = (struct machine){.ranks = ranks, .random = cshim_mix(seed)};
    static const enum cshim_library libraries[] = {CSHIM_MPI, CSHIM_MPI, CSHIM_GLOO, CSHIM_NCCL};
    const enum cshim_library library = libraries[machine_draw(machine, COUNT_OF(libraries))];
    const bool is_nccl = library == CSHIM_NCCL && cshim_library_compresses(library, collective);
    struct cshim_call call = {.library = is_nccl || library != CSHIM_NCCL ? library : CSHIM_MPI,
                              .collective = collective,
                              .dtype = CSHIM_FLOAT64,
                              .op = CSHIM_SUM,
                              .ranks = (uint32_t)ranks};
    const bool has_blocks = collective == CSHIM_REDUCE_SCATTER || collective == CSHIM_ALLGATHER ||
                            collective == CSHIM_ALLTOALL;
    uint64_t count = machine_draw(machine, 2) == 0 ? counts[machine_draw(machine, COUNT_OF(counts))]
                                                   : 1 + machine_draw(machine, limit);
    call.nodes = draw_nodes(machine, &call.ranks_per_node);
    if (is_nccl && call.nodes * call.ranks_per_node != call.ranks)
        call.ranks_per_node = 0;
    call.root = (uint32_t)machine_draw(machine, (uint64_t)ranks);
    call.is_apart = machine_draw(machine, 2) == 0;
    rule.gather_codec = machine_draw(machine, 4) == 0 ? CSHIM_CODEC_RAW : CSHIM_CODEC_NONE;
    if (has_blocks) {
        draw_blocks(machine, limit / (uint64_t)ranks + 1, is_nccl);
        for (int i = 0; i < ranks; i++) {
            for (int j = 0; j < ranks && collective == CSHIM_ALLTOALL; j++) {
                const uint64_t sent = machine->sent_begins[i][j + 1] - machine->sent_begins[i][j];
                call.block = sent > call.block ? sent : call.block;
            }
            const uint64_t own = machine->block_begins[i + 1] - machine->block_begins[i];
            if (collective != CSHIM_ALLTOALL && own > call.block)
                call.block = own;
        }
        count = collective == CSHIM_ALLTOALL ? call.block * (uint64_t)ranks
                                             : machine->block_begins[ranks];
    }
    call.bytes = count * sizeof(double);
    if (count == 0 || !cshim_plan_can(&call, algorithm))
        return false;
    machine->plan = cshim_plan_call_by(algorithm, &rule, &call, count);
    if (machine->plan.reason != CSHIM_REASON_COMPRESS)
        return false;
    for (int r = 0; r < ranks; r++)
        set_up_rank(machine, r);
    machine_run(machine);
    if (machine->failure == NULL)
        check_results(machine);
    /* The planner assumes equally full nodes and equally large blocks. */
    if (machine->failure == NULL && !has_blocks && !machine->plan.schedule->staged &&
        machine->bytes != machine->plan.bytes_wire)
        machine_fault(machine, "other bytes than the plan's");
    if (machine->failure != NULL)
        print_message("%s by %s, %d ranks, %u nodes, %llu elements, seed %llu: %s\n",
                      cshim_collective_name(collective), cshim_algorithm_name(algorithm), ranks,
                      call.nodes, (unsigned long long)count, (unsigned long long)seed,
                      machine->failure);
    return true;
}

/* Runs calls of a collective by all algorithms but cast that can make them. */
static void run_calls(enum cshim_collective collective, unsigned calls)
{
    static const enum cshim_algorithm algorithms[] = {
#define UNCOMPILED(...)
#define ALGORITHM(NAME, ...) CSHIM_ALGORITHM_##NAME,
#include "policy/algorithms.def"
    };
    static struct machine machine;
    const char *seed_text = getenv("SEED");
    const uint64_t first_seed = seed_text != NULL ? strtoull(seed_text, NULL, 10) : 0;
    for (unsigned i = 0; i < COUNT_OF(algorithms); i++) {
        unsigned made = 0;
        for (uint64_t seed = first_seed; seed < first_seed + calls; seed++) {
            const int ranks =
                seed % 8 == 7 ? 2 + (int)(cshim_mix(seed) % 63) : 2 + (int)(cshim_mix(seed) % 11);
            made += run_call(&machine, collective, algorithms[i], ranks, seed);
            machine_free(&machine);
            assert_null(machine.failure);
        }
        const struct cshim_schedule *schedule = cshim_schedule_of(collective, algorithms[i]);
        assert_true(schedule == NULL ? made == 0 : made > calls / 60);
    }
}

TEST(allreduces)
{
    run_calls(CSHIM_ALLREDUCE, 400);
}

TEST(reduces)
{
    run_calls(CSHIM_REDUCE, 400);
}

TEST(reduce_scatters)
{
    run_calls(CSHIM_REDUCE_SCATTER, 400);
}

TEST(allgathers)
{
    run_calls(CSHIM_ALLGATHER, 300);
}

TEST(alltoalls)
{
    run_calls(CSHIM_ALLTOALL, 300);
}

TEST(broadcasts)
{
    run_calls(CSHIM_BROADCAST, 300);
}
