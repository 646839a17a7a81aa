/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/measure.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "shim/core/clock.h"
#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/host/segment.h"

#define PINGS 12
#define TRAIN 16             /* messages on the way at once */
#define SHORT_BYTES 61440    /* the planner's largest message */
#define LONG_BYTES (1 << 20) /* more than the library leaves to the system's buffers */
#define SMALL_MESSAGES (CSHIM_SEGMENTS_IN_FLIGHT * CSHIM_LINK_PEERS)
#define ENOUGH_SECONDS 3e-3 /* of one kind of exchange, or ... */
#define ENOUGH_REPEATS 3    /* ... so many, but not in ... */
#define MUCH_SECONDS 10e-3
#define LONG_SECONDS 20e-3               /* on a slower link no long message is tried */
#define CODEC_ELEMENTS ((size_t)1 << 18) /* 1 MiB: about a segment */
#define CODEC_REPEATS 5
#define PARTS 4 /* that are added up */

_Static_assert(CSHIM_LINK_BYTES >= 2 * LONG_BYTES && LONG_BYTES / SHORT_BYTES >= TRAIN,
               "the memory of a link has room for what is sent and received");

/* Two ranks and their messages. */
struct link {
    struct cshim_exchange exchange;
    int peer;
    bool is_first;
    uint8_t *sent, *received;
    int status; /* of the transport; after an error nothing is done any more */
};

static double smaller(double a, double b)
{
    return a < b ? a : b;
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

/* Sends and receives so many messages. Returns when they have been sent and have come. */
static void move(struct link *link, int sent, int received, size_t bytes)
{
    const struct cshim_transport *transport = link->exchange.communicator->transport;
    for (int i = 0; i < received && link->status == 0; i++)
        link->status = transport->receive(&link->exchange, request_of(CSHIM_RECEIVE_PARTS, i),
                                          link->received + (size_t)i * bytes, bytes, link->peer,
                                          CSHIM_MESSAGE_PARTS);
    for (int i = 0; i < sent && link->status == 0; i++)
        link->status = transport->send(&link->exchange, request_of(CSHIM_SEND_PARTS, i), link->sent,
                                       bytes, link->peer, CSHIM_MESSAGE_PARTS);
    complete(link, CSHIM_RECEIVE_PARTS, received);
    complete(link, CSHIM_SEND_PARTS, sent);
}

/* There and back. The first tells the other whether to go on; both return that. */
static bool ping(struct link *link, bool go_on)
{
    link->sent[0] = go_on;
    if (link->is_first)
        move(link, 1, 0, 1);
    move(link, 0, 1, 1);
    link->sent[0] = link->received[0];
    if (!link->is_first)
        move(link, 1, 0, 1);
    return link->status == 0 && link->received[0] != 0;
}

static double measure_latency(struct link *link)
{
    double least = 1;
    for (int i = 0; i < PINGS; i++) {
        const double began = cshim_seconds();
        ping(link, true);
        least = smaller(least, cshim_seconds() - began);
    }
    return least / 2;
}

/* Seconds of one exchange of so many messages each way: the least of some, since other processes
 * make it only longer, behind a shorter one that finds a link which has rested and may be faster. A
 * sent message may still be on the way: the round trip behind each exchange tells that it has come.
 */
static double repeat(struct link *link, int messages, size_t bytes)
{
    const int fewer = (messages + 3) / 4;
    double least = 1, spent = 0;
    int count = 0;
    move(link, fewer, fewer, bytes);
    ping(link, true);
    do {
        const double began = cshim_seconds();
        move(link, messages, messages, bytes);
        ping(link, true);
        least = smaller(least, cshim_seconds() - began);
        spent += cshim_seconds() - began;
        count++;
    } while (
        ping(link, spent < ENOUGH_SECONDS || (count < ENOUGH_REPEATS && spent < MUCH_SECONDS)));
    return least;
}

struct cshim_link_facts cshim_measure_link(struct cshim_communicator *communicator, int peer,
                                           bool is_first, bool with_long, uint8_t *memory)
{
    const struct cshim_plan plan = {
        .peers = CSHIM_LINK_PEERS,
        .grid = cshim_grid_make(CSHIM_LINK_PEERS, 1),
        .schedule = cshim_schedule_of(CSHIM_ALLREDUCE, CSHIM_ALGORITHM_TWO_SHOT),
    };
    struct link link = {.exchange = {.communicator = communicator, .plan = &plan},
                        .peer = peer,
                        .is_first = is_first,
                        .sent = memory,
                        .received = memory + LONG_BYTES};
    communicator->transport->forget(&link.exchange, 0, CSHIM_ROW_TRANSFERS * SMALL_MESSAGES);
    struct cshim_link_facts facts = {.latency = measure_latency(&link)};
    facts.message = repeat(&link, SMALL_MESSAGES, 8) / SMALL_MESSAGES;
    facts.bandwidth = TRAIN * SHORT_BYTES / repeat(&link, TRAIN, SHORT_BYTES);
    if (with_long && ping(&link, LONG_BYTES / facts.bandwidth < LONG_SECONDS))
        facts.bandwidth_long = LONG_BYTES / repeat(&link, 1, LONG_BYTES);
    return link.status == 0 ? facts : (struct cshim_link_facts){.latency = 0};
}

struct cshim_machine cshim_measured_links(enum cshim_native native,
                                          const struct cshim_link_facts *between,
                                          const struct cshim_link_facts *inside)
{
    return (struct cshim_machine){
        .source = "measured",
        .native = native,
        .latency_between = between->latency,
        .bandwidth_between = between->bandwidth,
        .bandwidth_long = between->bandwidth_long,
        .message = between->message,
        .latency_inside = inside->latency,
        .bandwidth_inside = inside->bandwidth,
    };
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

/* Measures the codecs that the policy has, and adding. Without memory no speed is known. */
static void measure_codecs(struct cshim_machine *machine, const struct cshim_policy *policy)
{
    float *elements = calloc(2 * CODEC_ELEMENTS, sizeof *elements);
    if (elements == NULL)
        return;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const enum cshim_codec_id codec = policy->rules[i].codec;
        for (size_t k = 0; k < CODEC_ELEMENTS; k++)
            elements[k] = (float)(k % 251) - 125;
        if (codec != CSHIM_CODEC_NONE && machine->encode[codec] == 0)
            measure_codec(machine, codec, elements, elements + CODEC_ELEMENTS);
    }
    free(elements);
}

double cshim_measure_cores(int local_ranks)
{
    cpu_set_t set;
    const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return (double)cores / local_ranks;
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
    facts->machine = ways->measure(of);
    if (rank == 0) {
        measure_codecs(&facts->machine, job->policy);
        cshim_log(CSHIM_LOG_INFO, "the links and codecs are measured, in %.1f ms",
                  (cshim_seconds() - began) * 1e3);
    }
    ways->tell(of, facts);
    return true;
}
