/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/cost.h"

/* The ranks of a call on the machine. Nodes are taken for equally full. */
struct topology {
    const struct cshim_machine *machine;
    uint32_t ranks;
    uint32_t per_node;
    bool several; /* nodes */
    bool is_gloo; /* the library */
};

/* Two ranks that exchange messages above this do not send and receive at once: Open MPI writes all
 * of a message to a socket, whose buffer is smaller, before it reads from that socket. */
#define LONG_MESSAGE 524288.0
/* Before a message above this Open MPI asks the receiver over TCP, and waits for the answer
 * (btl_tcp_eager_limit). */
#define EAGER 65536.0
/* Messages up to this are foretold by bandwidth_short, whoever sends them. */
#define SHORT_MESSAGE 65536.0

/* How a library makes an all-reduce (Thakur, Rabenseifner, Gropp: Optimization of Collective
 * Communication Operations in MPICH, 2005). */
enum native {
    DOUBLING, /* recursive doubling: whole buffers between ranks 1, 2, 4, ... apart */
    HALVING,  /* Rabenseifner: halves, quarters, ... are added up, then gathered in reverse */
    RING,     /* parts go round twice */
    TREE      /* a binomial reduce and a broadcast */
};

/* Open MPI's choice for sums: the first row with more ranks and more bytes than the call has. From
 * coll_tuned_decision_fixed.c of its main branch, the table that does not look at nodes. */
static const struct {
    uint64_t bytes;
    uint32_t ranks;
    enum native native;
} openmpi_choices[] = {
    {8, 4, RING},
    {4096, 4, DOUBLING},
    {8192, 4, RING},
    {16384, 4, DOUBLING},
    {262144, 4, RING},
    {16, 8, RING},
    {8192, 16, DOUBLING},
    {64, 32, RING},
    {4096, 32, DOUBLING},
    {128, 64, RING},
    {UINT64_MAX, 64, HALVING},
    {262144, 128, DOUBLING},
    {131072, 256, TREE},
    {262144, 256, DOUBLING},
    {4096, 512, TREE},
    {UINT64_MAX, 512, HALVING},
    {2048, UINT32_MAX, TREE},
    {16384, 2048, DOUBLING},
    {UINT64_MAX, 2048, HALVING},
    {4096, 4096, RING},
    {16384, 4096, DOUBLING},
    {UINT64_MAX, 4096, HALVING},
    {16384, UINT32_MAX, RING},
    {32768, UINT32_MAX, DOUBLING},
};
/* MPICH's (MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE): above this, Rabenseifner's. */
#define MPICH_SHORT 2048u

/* gloo's is a ring at any size, unless the program asks for another one, which PyTorch does not. */
static enum native choose_native(const struct topology *topology, uint64_t bytes)
{
    if (topology->is_gloo)
        return RING;
    if (topology->machine->native == CSHIM_NATIVE_MPICH)
        return bytes <= MPICH_SHORT ? DOUBLING : HALVING;
    for (size_t i = 0; i < sizeof openmpi_choices / sizeof *openmpi_choices; i++)
        if (topology->ranks < openmpi_choices[i].ranks && bytes < openmpi_choices[i].bytes)
            return openmpi_choices[i].native;
    return HALVING;
}

static struct topology topology_of(const struct cshim_machine *machine,
                                   const struct cshim_call *call)
{
    const uint32_t nodes = call->nodes > 0 ? call->nodes : 1;
    return (struct topology){.machine = machine,
                             .ranks = call->ranks,
                             .per_node = (call->ranks + nodes - 1) / nodes,
                             .several = nodes > 1,
                             .is_gloo = call->library == CSHIM_GLOO};
}

/* What so many seconds of processor time take where ranks share a core. */
static double busy(const struct cshim_machine *machine, double seconds)
{
    return machine->cores < 1 ? seconds / machine->cores : seconds;
}

/* The same for bytes at so many per second. */
static double work(const struct cshim_machine *machine, double bytes, double per_second)
{
    return busy(machine, bytes / per_second);
}

/* What so many seconds of processor time take while all ranks of a node work, that one of them has
 * measured. */
static double crowded(const struct topology *topology, double seconds)
{
    const double all = busy(topology->machine, seconds);
    return all < topology->per_node * seconds ? all : topology->per_node * seconds;
}

/* What goes from rank to rank of a node, while all of them work. */
static double inside(const struct topology *topology, double bytes)
{
    return bytes / topology->machine->bandwidth_inside;
}

/* Bytes per second of a node that exchanges messages of so many bytes with one other. */
static double between(const struct cshim_machine *machine, double bytes)
{
    if (bytes > LONG_MESSAGE && machine->bandwidth_long > 0)
        return machine->bandwidth_long;
    if (bytes <= SHORT_MESSAGE && machine->bandwidth_short > 0)
        return machine->bandwidth_short;
    return machine->bandwidth_pair > 0 ? machine->bandwidth_pair : machine->bandwidth_between;
}

/* Every rank exchanges bytes with the rank so far away. Ranks are numbered node by node, so all of
 * a node share its link where the distance leaves the node. */
static double exchange(const struct topology *topology, uint32_t distance, double bytes)
{
    const struct cshim_machine *machine = topology->machine;
    const bool asks = machine->native == CSHIM_NATIVE_OPENMPI && bytes > EAGER;
    if (topology->several && distance >= topology->per_node)
        return (asks ? 3 : 1) * machine->latency_between +
               bytes * topology->per_node / between(machine, bytes);
    return machine->latency_inside + inside(topology, bytes);
}

/* In steps of a ring only one rank of each node sends to another node, and receives from a third.
 */
static double ring_step(const struct topology *topology, double bytes)
{
    const struct cshim_machine *machine = topology->machine;
    const double alike = bytes < LONG_MESSAGE ? bytes : LONG_MESSAGE; /* never as a long one */
    return topology->several ? machine->latency_between + bytes / between(machine, alike)
                             : exchange(topology, 1, bytes);
}

/* Ranks beyond the largest power of two give their elements to a neighbour and get the result. */
static double beyond_power(const struct topology *topology, double bytes)
{
    const bool is_power = (topology->ranks & (topology->ranks - 1)) == 0;
    return is_power ? 0
                    : 2 * exchange(topology, 1, bytes) +
                          work(topology->machine, bytes, topology->machine->add);
}

static double native_seconds(const struct topology *topology, enum native native, double bytes)
{
    const struct cshim_machine *machine = topology->machine;
    double seconds = 0, part = bytes;
    if (native == RING) {
        part = bytes / topology->ranks;
        return (topology->ranks - 1.0) *
               (2 * ring_step(topology, part) + work(machine, part, machine->add));
    }
    for (uint32_t distance = 1; distance <= topology->ranks / 2; distance *= 2) {
        if (native == HALVING)
            part /= 2;
        seconds += (native == DOUBLING ? 1 : 2) * exchange(topology, distance, part) +
                   work(machine, part, machine->add);
    }
    return seconds + beyond_power(topology, bytes);
}

/* Whether there are formulas for the call, and facts for what goes between nodes and what stays
 * inside. */
static bool is_foretold(const struct topology *topology, const struct cshim_call *call)
{
    const struct cshim_machine *machine = topology->machine;
    return call->library != CSHIM_NCCL && call->collective == CSHIM_ALLREDUCE &&
           !call->nonblocking && machine->cores > 0 && machine->add > 0 &&
           (!topology->several || machine->bandwidth_between > 0) &&
           (topology->per_node == 1 || machine->bandwidth_inside > 0);
}

double cshim_cost_native(const struct cshim_machine *machine, const struct cshim_call *call)
{
    const struct topology topology = topology_of(machine, call);
    if (!is_foretold(&topology, call))
        return 0;
    return native_seconds(&topology, choose_native(&topology, call->bytes), (double)call->bytes);
}

/* `cast`: the library sums narrowed elements. */
static double cast_seconds(const struct topology *topology, const struct cshim_plan *plan,
                           double codec)
{
    const unsigned bits = cshim_codec_info(plan->codec)->element_bits;
    const double bytes =
        (double)plan->count * (bits != 0 ? bits / 8 : cshim_dtype_bytes(plan->dtype));
    return codec + native_seconds(topology, choose_native(topology, (uint64_t)bytes), bytes);
}

/* Processor time of one rank that adds up parts of so many bytes. */
static double reduce_seconds(const struct cshim_machine *machine, enum cshim_codec_id codec,
                             double bytes)
{
    return machine->reduce[codec] > 0
               ? work(machine, bytes, machine->reduce[codec])
               : work(machine, bytes, machine->decode[codec]) + work(machine, bytes, machine->add);
}

/* Processor time of one rank that encodes, adds and decodes. `share` is the bytes of the elements
 * that it exchanges. */
static double codec_seconds(const struct cshim_machine *machine, const struct cshim_plan *plan,
                            double share)
{
    const double parts = plan->schedule->division == CSHIM_WHOLE ? plan->peers : 1;
    const double own = plan->schedule->division == CSHIM_WHOLE ? 0 : share / plan->peers;
    const double of_row = plan->grid.rows > 1 ? share / plan->grid.columns : 0;
    const double at_home = cshim_plan_adds_at_home(plan) ? own : 0;
    return work(machine, share + of_row + own - at_home, machine->encode[plan->codec]) +
           reduce_seconds(machine, plan->codec, parts * share + of_row) +
           (own > 0 ? work(machine, share - at_home, machine->decode[plan->codec]) : 0);
}

/* What the ranks of a node do in memory that they share: each copies what the others add, adds its
 * share of all, and copies the sums. They meet before each of the latter two, and at the end. */
static double shared_seconds(const struct topology *topology, const struct cshim_plan *plan,
                             double bytes)
{
    const struct cshim_machine *machine = topology->machine;
    const double meetings = 2 * (double)plan->segments + 1;
    unsigned steps = 0;
    for (uint32_t ranks = topology->per_node; ranks > 1; ranks = (ranks + 1) / 2)
        steps++;
    return work(machine, bytes * (3 - 1.0 / topology->per_node), machine->add) +
           meetings * steps * machine->latency_inside;
}

/* What they send each other, of which a part `sent` is left, and what they add of it. What is read
 * where it lies is in the speeds of adding and decoding. */
static double sent_seconds(const struct topology *topology, const struct cshim_plan *plan,
                           double sent, double bytes)
{
    const struct cshim_machine *machine = topology->machine;
    const double stays = sent * (double)(plan->bytes_wire - plan->bytes_network) / plan->ranks;
    double seconds = stays > 0 ? inside(topology, stays) : 0;
    if (plan->schedule->staged)
        seconds +=
            work(machine, bytes * (topology->per_node - 1) / topology->per_node, machine->add) +
            2 * machine->latency_inside;
    return seconds;
}

double cshim_cost_plan(const struct cshim_machine *machine, const struct cshim_plan *plan,
                       const struct cshim_call *call)
{
    const struct topology topology = topology_of(machine, call);
    if (!is_foretold(&topology, call) || !(machine->encode[plan->codec] > 0) ||
        !(machine->decode[plan->codec] > 0))
        return 0;
    const double share = (double)call->bytes / plan->shares;
    double processor = codec_seconds(machine, plan, share);
    if (plan->schedule->parts_to == CSHIM_TO_LIBRARY)
        return cast_seconds(&topology, plan, processor);
    const struct cshim_grid *grid = &plan->grid;
    const unsigned levels = grid->rows > 1 ? 2 : 1;
    const double steps = plan->schedule->sums_to == CSHIM_TO_NOBODY ? 1 : 2 * levels;
    const double segments = (double)plan->segments;
    const double others = (double)grid->peers / grid->rows - 1 + grid->rows - 1;
    /* The first message of each step is in its latency. */
    const double messages = steps / levels * others * segments - steps;
    const double sent = cshim_codec_typical_share(plan->codec, plan->dtype);
    const double network = topology.several ? sent * plan->crowding * (double)plan->bytes_network /
                                                  call->nodes / machine->bandwidth_between
                                            : 0;
    if (messages > 0)
        processor += crowded(&topology, messages * machine->message);
    if (plan->schedule->staged && call->library == CSHIM_MPI)
        processor += shared_seconds(&topology, plan, (double)call->bytes);
    else if (!cshim_plan_is_read(call, plan->algorithm))
        processor += sent_seconds(&topology, plan, sent, (double)call->bytes);
    const double alone = network + processor; /* if nothing of it were beside the other */
    processor += machine->busy_between * network;
    const double step = topology.several ? machine->latency_between : machine->latency_inside;
    const double longer = network > processor ? network : processor;
    /* While one segment is on the wire others are encoded: only the first and the last wait. */
    return steps * step + longer + (alone > longer ? alone - longer : 0) / segments;
}
