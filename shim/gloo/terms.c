/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/terms.h"

#include <stdlib.h>

#include "shim/core/log.h"
#include "shim/gloo/transport.h"
#include "shim/report/file.h"
#include "shim/report/process.h"

/* Header of the terms. The packed offer follows the nodes. */
struct cshim_gloo_terms {
    char job[CSHIM_JOB_MAX];
    int nodes[]; /* by rank: the lowest rank of its node */
};

/* Returns the size of the terms without the offer. */
static uint64_t bytes_before_offer(int ranks)
{
    return sizeof(struct cshim_gloo_terms) + (size_t)ranks * sizeof(int);
}

static bool is_possible(uint64_t bytes, int ranks)
{
    const uint64_t before = bytes_before_offer(ranks);
    return bytes >= before && bytes - before <= CSHIM_OFFER_PACKED_MAX;
}

struct cshim_gloo_terms *cshim_gloo_terms_make(const struct cshim_offer *offer,
                                               const struct cshim_greeting *greetings, int ranks,
                                               uint64_t *bytes)
{
    *bytes = bytes_before_offer(ranks) + cshim_offer_packed_bytes(offer);
    struct cshim_gloo_terms *terms = is_possible(*bytes, ranks) ? calloc(1, *bytes) : NULL;
    if (terms == NULL)
        return NULL;
    cshim_report_make_job(terms->job);
    for (int rank = 0; rank < ranks; rank++)
        while (greetings[terms->nodes[rank]].machine != greetings[rank].machine)
            terms->nodes[rank]++;
    cshim_offer_pack(offer, terms->nodes + ranks);
    return terms;
}

struct cshim_gloo_terms *cshim_gloo_terms_receive(struct cshim_gloo_mail *mail, uint64_t slot,
                                                  uint64_t bytes, int ranks, int64_t timeout)
{
    struct cshim_gloo_inbox inbox = {.buffer = NULL};
    struct cshim_gloo_terms *terms = is_possible(bytes, ranks) ? malloc(bytes) : NULL;
    if (terms == NULL)
        return NULL;
    cshim_gloo_mail_expect(mail, &inbox, 0, slot, terms, bytes, 0);
    cshim_gloo_mail_await(mail, &inbox, timeout);
    cshim_gloo_inbox_free(&inbox);
    return terms;
}

bool cshim_gloo_terms_apply(const struct cshim_gloo_terms *terms, uint64_t bytes,
                            struct cshim_gloo_context *context)
{
    struct cshim_communicator *host = &context->host;
    struct cshim_offer offer;
    if (!cshim_offer_unpack(&offer, terms->nodes + host->ranks,
                            bytes - bytes_before_offer(host->ranks)))
        return false;
    cshim_report_set_job(terms->job);
    host->transport = &cshim_gloo_transport;
    /* Passed-through calls of other threads read the job meanwhile. */
    __atomic_store_n(&host->job, cshim_job_find(&offer), __ATOMIC_RELEASE);
    cshim_offer_free(&offer);
    if (host->job == NULL ||
        !cshim_layout_make(&host->layout, terms->nodes, host->ranks, host->ranks, host->rank) ||
        !cshim_communicator_reserve(host))
        return false;
    host->learned = host->job->learned;
    cshim_job_grow(host->job, host->rank == 0, host->ranks, host->layout.nodes);
    cshim_log(CSHIM_LOG_INFO, "on: policy %s, codecs in %s", offer.source,
              cshim_simd_name(cshim_simd_level()));
    return true;
}
