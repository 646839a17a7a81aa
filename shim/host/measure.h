/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the facts of a machine (shim/core/machine.h) in some milliseconds: links by messages of
 * the engine's transport, the codecs on this processor. */
#ifndef CSHIM_HOST_MEASURE_H
#define CSHIM_HOST_MEASURE_H

#include "shim/core/machine.h"
#include "shim/host/communicator.h"

/* Memory that links are measured with: what is sent, and behind it what is received. */
#define CSHIM_LINK_BYTES ((size_t)16 << 20)
/* The transport gets requests as of a call among so many peers. */
#define CSHIM_LINK_PEERS 16

/* What is found of links; the names are those of the facts. What is not known is 0. */
struct cshim_link_facts {
    double bandwidth; /* with all partners at once */
    double busy;
    struct cshim_pair_facts {
        double latency;
        double message;
        double bandwidth;
        double bandwidth_short;
        double bandwidth_long; /* unless it would take too long */
    } pair;                    /* with the first partner */
};

/* Measures the links to some partners, which do so at once, by messages of the communicator's
 * transport. The partners' ranks are numbers of peers, as the transport's send gets them; `cores`,
 * this rank's share of a core, asks for what is found with all at once, unless it is 0; with_long
 * asks for long messages, too. After an error of the transport nothing is known. The memory is the
 * caller's, in the communicator's scratch where the transport needs that. */
struct cshim_link_facts cshim_measure_links(struct cshim_communicator *communicator,
                                            const struct cshim_partners *partners, double cores,
                                            bool with_long, uint8_t *memory);

/* Notes the facts that two links tell: one between nodes, and one inside a node, or zeros. */
void cshim_measured_links(struct cshim_machine *machine, const struct cshim_link_facts *between,
                          const struct cshim_link_facts *inside);

/* The facts that all ranks of a communicator know. */
struct cshim_facts {
    enum { CSHIM_FACTS_NONE, CSHIM_FACTS_KNOWN, CSHIM_FACTS_MEASURED } origin;
    struct cshim_machine machine; /* where there are some */
};

/* What an engine does for them. All ranks call each function at once. */
struct cshim_facts_ways {
    /* Rank 0 gives its facts to all others. */
    void (*tell)(void *of, struct cshim_facts *facts);
    /* Measures the links of the machine, whose `cores` are this rank's; what is found counts at
     * rank 0. */
    void (*measure)(void *of, struct cshim_machine *machine);
};

/* Finds facts, and has all ranks know them: those that rank 0 has in its job already, those of the
 * file that COMPSHIM_MACHINE names there, or measured ones. They are measured only where the policy
 * may compress a call of the library and there are several nodes. Returns false on rank 0 with what
 * is wrong with the file: then the others wait, and it has to end the job. */
bool cshim_facts_find(struct cshim_facts *facts, const struct cshim_facts_ways *ways, void *of,
                      int rank, const struct cshim_job *job, enum cshim_library library,
                      uint32_t nodes, char message[CSHIM_MESSAGE_MAX]);

#endif
