/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/measure.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "shim/core/clock.h"
#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/host/segment.h"

#define STEPS 16      /* of a byte each way, of which a row is made, ... */
#define SHORT_STEPS 2 /* ... and of as much as a short message has */
#define TRAIN 12      /* messages on the way at once, to 1, 2 or 3 peers */
#define SHORT_BYTES CSHIM_PIECE_LIMIT
#define LONG_BYTES (2 << 20)         /* more than the library leaves to the system's buffers */
#define LONG_MEMORY (4 * LONG_BYTES) /* that they are sent from, or received in, in turn */
#define SMALL_MESSAGES (CSHIM_SEGMENTS_IN_FLIGHT * CSHIM_LINK_PEERS)
#define ROW_SECONDS 2e-3     /* of exchanges without a round trip between them */
#define MESSAGE_SECONDS 2e-3 /* that are spent on small messages, ... */
#define TRAIN_SECONDS 8e-3   /* ... on those of a train, ... */
#define LARGE_SECONDS 24e-3  /* ... on long ones, ... */
#define GROUP_SECONDS 10e-3  /* ... on those with all partners, ... */
#define FEW 3                /* ... of which there are at least so many, unless one is slow */
#define SLOW_SECONDS 20e-3   /* of a link that leaves the processor alone */
#define LONG_SECONDS 100e-3  /* on a slower link no long message is tried */
#define CODEC_ELEMENTS ((size_t)1 << 20) /* 4 MiB: more than a core's own caches */
#define CODEC_REPEATS 3
#define CORES_SECONDS 12e-3 /* ranks that share a core take shorter turns */
#define PARTS 4             /* that are added up */
#define LEAST_BUSY 0.01     /* since 0 is a fact that is not known */
#define PIECE_ELEMENTS ((size_t)SHORT_BYTES / sizeof(float))

_Static_assert(CSHIM_LINK_BYTES >= 2 * LONG_MEMORY && LONG_BYTES / SHORT_BYTES >= TRAIN,
               "the memory of a link has room for what is sent and received");
_Static_assert(LONG_BYTES >= 3 * SHORT_BYTES, "... and for what is encoded beside short messages");

/* This rank's links to some others, and their messages. */
struct link {
    struct cshim_exchange exchange;
    const int *peers;
    int count; /* of the peers that get something */
    bool is_first;
    uint8_t *sent, *received;
    size_t place;    /* of the messages in that memory */
    unsigned pieces; /* that are encoded beside each message */
    int status;      /* of the transport; after an error nothing is done any more */
};

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double middle(double a, double b, double c)
{
    if ((a <= b) == (b <= c))
        return b;
    return (b <= a) == (a <= c) ? a : c;
}

/* The requests of a transfer have numbers for each segment in flight and each peer: so many
 * messages can be under way at once. */
static unsigned request_of(enum cshim_transfer transfer, int message)
{
    const unsigned segment = (unsigned)message / CSHIM_LINK_PEERS;
    return (transfer * CSHIM_SEGMENTS_IN_FLIGHT + segment) * CSHIM_LINK_PEERS +
           (unsigned)message % CSHIM_LINK_PEERS;
}

/* Completes the messages of a transfer. */
static void complete(struct link *link, enum cshim_transfer transfer, int messages)
{
    const struct cshim_transport *transport = link->exchange.communicator->transport;
    int too_long;
    bool done;
    for (int i = 0; i < messages && link->status == 0; i += CSHIM_LINK_PEERS)
        link->status = transport->complete(&link->exchange, request_of(transfer, i),
                                           CSHIM_LINK_PEERS, &done, &too_long);
}

/* Encodes so many pieces, of as many elements as a short message has room for. */
static void encode_pieces(struct link *link, unsigned pieces)
{
    const uint8_t *elements = link->sent + SHORT_BYTES; /* behind the message that is sent */
    for (unsigned i = 0; i < pieces; i++)
        cshim_encode(CSHIM_CODEC_FP16, CSHIM_FLOAT32, elements, PIECE_ELEMENTS,
                     link->sent + (size_t)2 * SHORT_BYTES);
}

/* Sends so many messages to each peer, and receives so many of each. Returns when they have been
 * sent and have come. */
static void move(struct link *link, int sent, int received, size_t bytes)
{
    const struct cshim_transport *transport = link->exchange.communicator->transport;
    for (int i = 0; i < received * link->count && link->status == 0; i++)
        link->status = transport->receive(&link->exchange, request_of(CSHIM_RECEIVE_PARTS, i),
                                          link->received + link->place + (size_t)i * bytes, bytes,
                                          link->peers[i % link->count], CSHIM_MESSAGE_PARTS);
    for (int i = 0; i < sent * link->count && link->status == 0; i++) {
        link->status = transport->send(&link->exchange, request_of(CSHIM_SEND_PARTS, i),
                                       link->sent + link->place, bytes,
                                       link->peers[i % link->count], CSHIM_MESSAGE_PARTS);
        encode_pieces(link, link->pieces);
    }
    complete(link, CSHIM_RECEIVE_PARTS, received * link->count);
    complete(link, CSHIM_SEND_PARTS, sent * link->count);
}

/* There and back between two ranks. Both return the number that the first gives; 0 after an error.
 */
static unsigned ping(struct link *link, unsigned number)
{
    link->sent[0] = (uint8_t)number;
    if (link->is_first)
        move(link, 1, 0, 1);
    move(link, 0, 1, 1);
    link->sent[0] = link->received[0];
    if (!link->is_first)
        move(link, 1, 0, 1);
    return link->status == 0 ? link->received[0] : 0;
}

/* All peers tell each other a number below 256. Returns the largest, on all of them. */
static unsigned agree(struct link *link, unsigned number)
{
    link->sent[0] = (uint8_t)number;
    move(link, 1, 1, 1);
    for (int i = 0; i < link->count; i++)
        if (link->received[i] > number)
            number = link->received[i];
    return number;
}

/* Seconds of a step in which all peers send each other a message of so many bytes, as all ranks do
 * in the steps of a collective: those that share a core take longer for it than for a message that
 * one of them waits for. The middle one of three rows of steps, because a row may be interrupted by
 * what else the machine does. */
static double measure_step(struct link *link, int steps, size_t bytes)
{
    double rows[3];
    for (int i = 0; i < 3; i++) {
        agree(link, 0);
        const double began = cshim_seconds();
        for (int step = 0; step < steps; step++)
            move(link, 1, 1, bytes);
        rows[i] = (cshim_seconds() - began) / steps;
    }
    return middle(rows[0], rows[1], rows[2]);
}

/* Seconds of one exchange of so many messages each way: the mean of those that are made, without a
 * pause, in so many seconds. A link that has rested may be faster for a while, which does not
 * count. A sent message may still be on the way: the round trip behind a row of exchanges tells
 * that all have come. */
static double repeat(struct link *link, int messages, size_t bytes, double seconds)
{
    const double first = cshim_seconds();
    double counted = 0, count = 0, exchange = 0;
    unsigned exchanges = 1;
    size_t place = 0;
    move(link, (messages + 3) / 4, (messages + 3) / 4, bytes);
    ping(link, true);
    while (exchanges > 0) {
        const double began = cshim_seconds();
        for (unsigned i = 0; i < exchanges; i++) {
            link->place = place;
            move(link, messages, messages, bytes);
            place = bytes < LONG_BYTES ? 0 : (place + bytes) % LONG_MEMORY;
        }
        link->place = 0;
        ping(link, true);
        const double row = cshim_seconds() - began, more = ROW_SECONDS * exchanges / row;
        exchange = row / exchanges;
        if (began - first >= ROW_SECONDS || row >= 2 * ROW_SECONDS) {
            counted += row;
            count += exchanges;
        }
        exchanges = more < 1 ? 1 : (unsigned)smaller(more, UINT8_MAX);
        exchanges = ping(link, counted < seconds ? exchanges : 0);
    }
    return count > 0 ? counted / count : exchange; /* the other rank decides when it is over */
}

static struct cshim_pair_facts measure_pair(struct link *link, bool with_long)
{
    struct cshim_pair_facts facts = {.latency = measure_step(link, STEPS, 1)};
    const double step = measure_step(link, SHORT_STEPS, SHORT_BYTES);
    if (step > facts.latency)
        facts.bandwidth_short = SHORT_BYTES / (step - facts.latency);
    facts.message = repeat(link, SMALL_MESSAGES, 8, MESSAGE_SECONDS) / SMALL_MESSAGES;
    facts.bandwidth = TRAIN * SHORT_BYTES / repeat(link, TRAIN, SHORT_BYTES, TRAIN_SECONDS);
    if (with_long && ping(link, LONG_BYTES / facts.bandwidth < LONG_SECONDS)) {
        memset(link->sent, 0x3f, LONG_MEMORY); /* else it has no pages of its own; floats near 1 */
        facts.bandwidth_long = LONG_BYTES / repeat(link, 1, LONG_BYTES, LARGE_SECONDS);
    }
    return facts;
}

/* Seconds of one exchange of a train with all peers at once, of so many in a row. What comes before
 * ends what a link that has rested lets through. All begin and end at once: else one that is late
 * would find what the others have sent. */
static double row_with_all(struct link *link, unsigned exchanges)
{
    const int messages = TRAIN / link->count;
    agree(link, 0);
    const double began = cshim_seconds();
    for (unsigned i = 0; i < exchanges; i++)
        move(link, messages, messages, SHORT_BYTES);
    agree(link, 0);
    return (cshim_seconds() - began) / exchanges;
}

/* The middle one of three rows; of slow links, whose rows have one exchange, one. */
static double repeat_with_all(struct link *link, unsigned exchanges)
{
    const int messages = TRAIN / link->count;
    double rows[3];
    move(link, (messages + 1) / 2, (messages + 1) / 2, SHORT_BYTES);
    for (unsigned i = 0; i < exchanges / 2; i++)
        move(link, messages, messages, SHORT_BYTES);
    for (int i = 0; i < 3; i++) {
        rows[i] = row_with_all(link, exchanges);
        if (exchanges == 1)
            return rows[0];
    }
    return middle(rows[0], rows[1], rows[2]);
}

/* Seconds in which this rank encodes a piece, of which it has a share of a core. */
static double measure_piece(struct link *link, double cores)
{
    const double began = cshim_seconds();
    double spent = 0;
    unsigned pieces = 0;
    while (spent < ROW_SECONDS / 2) {
        encode_pieces(link, TRAIN);
        pieces += TRAIN;
        spent = cshim_seconds() - began;
    }
    return spent / pieces / cores;
}

/* Measures what all partners exchange at once. The exchange is repeated with as much time of
 * encoding beside it: what both take longer than the encoding is the processor's work for the
 * exchange. */
static void measure_group(struct link *link, double cores, struct cshim_link_facts *facts)
{
    const double pair =
        facts->pair.bandwidth > 0 ? TRAIN * SHORT_BYTES / facts->pair.bandwidth : SLOW_SECONDS;
    double wanted = GROUP_SECONDS / pair;
    if (pair >= SLOW_SECONDS)
        wanted = 1;
    else if (wanted < FEW)
        wanted = FEW;
    if (link->count > 1) {
        const double step = measure_step(link, STEPS, 1);
        if (facts->pair.latency > 0 && step > facts->pair.latency)
            facts->pair.message = (step - facts->pair.latency) / (link->count - 1);
    }
    const unsigned exchanges = agree(link, (unsigned)smaller(wanted, UINT8_MAX));
    const double exchange = repeat_with_all(link, exchanges);
    facts->bandwidth = TRAIN * SHORT_BYTES / exchange;
    facts->busy = LEAST_BUSY;
    if (!agree(link, exchange < SLOW_SECONDS))
        return;
    const double piece = measure_piece(link, cores);
    link->pieces = (unsigned)(exchange / piece / TRAIN);
    const double both = repeat_with_all(link, exchanges), encoding = link->pieces * TRAIN * piece;
    facts->busy = smaller(both - encoding, exchange) / exchange;
    if (facts->busy < LEAST_BUSY)
        facts->busy = LEAST_BUSY;
}

struct cshim_link_facts cshim_measure_links(struct cshim_communicator *communicator,
                                            const struct cshim_partners *partners, double cores,
                                            bool with_long, uint8_t *memory)
{
    const struct cshim_plan plan = {
        .peers = CSHIM_LINK_PEERS,
        .grid = cshim_grid_make(CSHIM_LINK_PEERS, 1),
        .schedule = cshim_schedule_of(CSHIM_ALLREDUCE, CSHIM_ALGORITHM_TWO_SHOT),
    };
    struct link link = {.exchange = {.communicator = communicator, .plan = &plan},
                        .peers = partners->ranks,
                        .count = 1,
                        .is_first = partners->is_first,
                        .sent = memory,
                        .received = memory + LONG_MEMORY};
    struct cshim_link_facts facts = {.pair.latency = 0};
    communicator->transport->forget(&link.exchange, 0, CSHIM_ROW_TRANSFERS * SMALL_MESSAGES);
    if (partners->is_paired)
        facts.pair = measure_pair(&link, with_long);
    link.count = partners->count;
    if (cores > 0)
        measure_group(&link, cores, &facts);
    return link.status == 0 ? facts : (struct cshim_link_facts){.pair.latency = 0};
}

void cshim_measured_links(struct cshim_machine *machine, const struct cshim_link_facts *between,
                          const struct cshim_link_facts *inside)
{
    machine->latency_between = between->pair.latency;
    machine->bandwidth_between = between->bandwidth;
    machine->bandwidth_pair = between->pair.bandwidth;
    machine->bandwidth_short = between->pair.bandwidth_short;
    machine->bandwidth_long = between->pair.bandwidth_long;
    machine->busy_between = between->busy;
    machine->message = between->pair.message;
    machine->latency_inside = inside->pair.latency;
    machine->bandwidth_inside = inside->pair.bandwidth;
}

/* Bytes of float32 per second. */
static double speed(double seconds)
{
    return CODEC_ELEMENTS * sizeof(float) / seconds;
}

static void measure_codec(struct cshim_machine *machine, enum cshim_codec_id codec, float *elements,
                          void *encoded)
{
    const void *const parts[PARTS] = {encoded, encoded, encoded, encoded};
    double encode = 1, decode = 1, add = 1, reduce = 1;
    for (int i = 0; i < CODEC_REPEATS; i++) {
        const double began = cshim_seconds();
        cshim_encode(codec, CSHIM_FLOAT32, elements, CODEC_ELEMENTS, encoded);
        const double middle = cshim_seconds();
        cshim_decode(codec, CSHIM_FLOAT32, encoded, CODEC_ELEMENTS, elements);
        const double end = cshim_seconds();
        cshim_reduce(codec, CSHIM_FLOAT32, parts, PARTS, CODEC_ELEMENTS, elements, NULL);
        const double reduced = cshim_seconds();
        cshim_add(CSHIM_FLOAT32, encoded, elements, elements, CODEC_ELEMENTS);
        encode = smaller(encode, middle - began);
        decode = smaller(decode, end - middle);
        reduce = smaller(reduce, (reduced - end) / PARTS);
        add = smaller(add, cshim_seconds() - reduced);
    }
    machine->encode[codec] = speed(encode);
    machine->decode[codec] = speed(decode);
    machine->reduce[codec] = speed(reduce);
    machine->add = speed(add);
}

/* The share of a core that this rank gets while all ranks compute: about 1 where each has a core of
 * its own. */
static double measure_cores(float *elements, void *encoded)
{
    const double began = cshim_seconds();
    double least = 1, now = began;
    unsigned pieces = 0;
    do {
        cshim_encode(CSHIM_CODEC_FP16, CSHIM_FLOAT32, elements, CODEC_ELEMENTS, encoded);
        least = smaller(least, cshim_seconds() - now);
        now = cshim_seconds();
        pieces++;
    } while (now - began < CORES_SECONDS);
    return pieces * least / (now - began);
}

/* Measures this rank's share of a core, the codecs that the policy has, and adding, while all other
 * ranks do so. Without memory no speed is known. */
static void measure_processor(struct cshim_machine *machine, const struct cshim_policy *policy)
{
    size_t most = CODEC_ELEMENTS * sizeof(float); /* bytes: sums of floats go there, too */
    for (unsigned codec = 0; codec < CSHIM_CODEC_COUNT; codec++) {
        const size_t bytes =
            cshim_encoded_bytes((enum cshim_codec_id)codec, CSHIM_FLOAT32, CODEC_ELEMENTS);
        most = bytes > most ? bytes : most;
    }
    float *elements = calloc(1, CODEC_ELEMENTS * sizeof *elements + most);
    machine->cores = 1;
    if (elements == NULL)
        return;
    machine->cores = measure_cores(elements, elements + CODEC_ELEMENTS);
    for (size_t i = 0; i < policy->rule_count; i++) {
        const enum cshim_codec_id codec = policy->rules[i].codec;
        for (size_t k = 0; k < CODEC_ELEMENTS; k++)
            elements[k] = (float)(k % 251) - 125;
        if (codec != CSHIM_CODEC_NONE && machine->encode[codec] == 0)
            measure_codec(machine, codec, elements, elements + CODEC_ELEMENTS);
    }
    free(elements);
}

/* Whether the policy may compress a call of the library between several nodes. */
static bool is_needed(const struct cshim_policy *policy, enum cshim_library library)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i];
        if (rule->codec != CSHIM_CODEC_NONE && (rule->libraries >> library & 1) != 0 &&
            rule->max_nodes > 1)
            return true;
    }
    return false;
}

/* Rank 0 decides where facts come from. Returns false with a message if the file of
 * COMPSHIM_MACHINE is wrong. */
static bool find_origin(struct cshim_facts *facts, const struct cshim_job *job,
                        enum cshim_library library, uint32_t nodes, char message[CSHIM_MESSAGE_MAX])
{
    const char *file = secure_getenv("COMPSHIM_MACHINE");
    facts->origin = CSHIM_FACTS_NONE;
    if (cshim_mode() == CSHIM_MODE_OBSERVE || (file != NULL && strcmp(file, "off") == 0))
        return true;
    const struct cshim_machine *known = __atomic_load_n(&job->machine, __ATOMIC_ACQUIRE);
    if (known != NULL) {
        *facts = (struct cshim_facts){CSHIM_FACTS_KNOWN, *known};
    } else if (file != NULL && *file != '\0') {
        facts->origin = CSHIM_FACTS_KNOWN;
        return cshim_machine_load(&facts->machine, file, message);
    } else if (nodes > 1 && is_needed(job->policy, library)) {
        facts->origin = CSHIM_FACTS_MEASURED;
    }
    return true;
}

bool cshim_facts_find(struct cshim_facts *facts, const struct cshim_facts_ways *ways, void *of,
                      int rank, const struct cshim_job *job, enum cshim_library library,
                      uint32_t nodes, char message[CSHIM_MESSAGE_MAX])
{
    const double began = cshim_seconds();
    if (rank == 0 && !find_origin(facts, job, library, nodes, message))
        return false;
    ways->tell(of, facts);
    if (facts->origin != CSHIM_FACTS_MEASURED)
        return true;
    facts->machine = (struct cshim_machine){.source = "measured"};
    measure_processor(&facts->machine, job->policy);
    ways->measure(of, &facts->machine);
    if (rank == 0)
        cshim_log(CSHIM_LOG_INFO, "the links and codecs are measured, in %.1f ms",
                  (cshim_seconds() - began) * 1e3);
    ways->tell(of, facts);
    return true;
}
