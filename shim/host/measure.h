/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the facts of a machine (shim/core/machine.h) in some milliseconds: links by messages of
 * the engine's transport, the codecs on this processor. */
#ifndef CSHIM_HOST_MEASURE_H
#define CSHIM_HOST_MEASURE_H

#include "shim/core/machine.h"
#include "shim/host/communicator.h"

/* Memory that a link is measured with: what is sent, and behind it what is received. */
#define CSHIM_LINK_BYTES ((size_t)2 << 20)
/* The transport gets requests as of a call among so many peers. */
#define CSHIM_LINK_PEERS 16

/* What is found of a link; the names are those of the facts. */
struct cshim_link_facts {
    double latency;
    double bandwidth;
    double bandwidth_long; /* 0 where it was not asked for, or would take too long */
    double message;
};

/* Measures the link between two ranks, which call it at once, by messages of the communicator's
 * transport. `peer` is the other, as the transport's send gets it; with_long asks for long messages
 * too. What is found counts on the first of the two; zeros after an error of the transport. The
 * memory is the caller's, in the communicator's scratch where the transport needs that. */
struct cshim_link_facts cshim_measure_link(struct cshim_communicator *communicator, int peer,
                                           bool is_first, bool with_long, uint8_t *memory);

/* The facts that two links tell: one between nodes, and one inside a node, or zeros. */
struct cshim_machine cshim_measured_links(enum cshim_native native,
                                          const struct cshim_link_facts *between,
                                          const struct cshim_link_facts *inside);

/* Cores of this node for each of its ranks. */
double cshim_measure_cores(int local_ranks);

/* The facts that all ranks of a communicator know. */
struct cshim_facts {
    enum { CSHIM_FACTS_NONE, CSHIM_FACTS_KNOWN, CSHIM_FACTS_MEASURED } origin;
    struct cshim_machine machine; /* where there are some */
};

/* What an engine does for them. All ranks call each function at once. */
struct cshim_facts_ways {
    /* Rank 0 gives its facts to all others. */
    void (*tell)(void *of, struct cshim_facts *facts);
    /* Measures the links and the cores; what is found counts at rank 0. */
    struct cshim_machine (*measure)(void *of);
};

/* Finds facts, and has all ranks know them: those that rank 0 has in its job already, those of the
 * file that COMPSHIM_MACHINE names there, or measured ones. They are measured only where the policy
 * may compress a call of the library and there are several nodes. Returns false on rank 0 with what
 * is wrong with the file: then the others wait, and it has to end the job. */
bool cshim_facts_find(struct cshim_facts *facts, const struct cshim_facts_ways *ways, void *of,
                      int rank, const struct cshim_job *job, enum cshim_library library,
                      uint32_t nodes, char message[CSHIM_MESSAGE_MAX]);

#endif
