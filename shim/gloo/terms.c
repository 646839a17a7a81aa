/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/terms.h"

#include <stdlib.h>
#include <string.h>

#include "shim/core/log.h"
#include "shim/gloo/transport.h"
#include "shim/report/file.h"

#define TERMS_MAX ((uint64_t)64 << 20) /* bytes */

/* Header of the terms. It is followed by an int for each rank (the lowest rank of its node), by the
 * policy's text, and by the choices of an earlier job. */
struct cshim_gloo_terms {
    uint64_t observe; /* 2: calls are recorded (COMPSHIM=observe); else 1 */
    uint64_t has_learned;
    uint64_t learned_length;
    char source[CSHIM_PATH_MAX];
    char job[CSHIM_JOB_MAX];
    int nodes[];
};

/* Returns the size of the terms without their texts. */
static uint64_t bytes_before_texts(int ranks)
{
    return sizeof(struct cshim_gloo_terms) + (size_t)ranks * sizeof(int);
}

struct cshim_gloo_terms *cshim_gloo_terms_make(const struct cshim_offer *offer,
                                               const struct cshim_greeting *greetings, int ranks,
                                               uint64_t *bytes)
{
    *bytes = bytes_before_texts(ranks) + offer->length + offer->learned_length;
    struct cshim_gloo_terms *terms = *bytes <= TERMS_MAX ? calloc(1, *bytes) : NULL;
    if (terms == NULL)
        return NULL;
    terms->observe = offer->observe ? 2 : 1;
    memcpy(terms->source, offer->source, sizeof terms->source);
    cshim_report_make_job(terms->job);
    for (int rank = 0; rank < ranks; rank++)
        while (greetings[terms->nodes[rank]].machine != greetings[rank].machine)
            terms->nodes[rank]++;
    char *texts = (char *)(terms->nodes + ranks);
    memcpy(texts, offer->text, offer->length);
    terms->has_learned = offer->learned != NULL;
    terms->learned_length = offer->learned_length;
    if (offer->learned != NULL)
        memcpy(texts + offer->length, offer->learned, offer->learned_length);
    return terms;
}

struct cshim_gloo_terms *cshim_gloo_terms_receive(struct cshim_gloo_mail *mail, uint64_t slot,
                                                  uint64_t bytes, int ranks, int64_t timeout)
{
    struct cshim_gloo_inbox inbox = {.buffer = NULL};
    struct cshim_gloo_terms *terms =
        bytes >= bytes_before_texts(ranks) && bytes <= TERMS_MAX ? malloc(bytes) : NULL;
    if (terms == NULL)
        return NULL;
    cshim_gloo_mail_expect(mail, &inbox, 0, slot, terms, bytes, 0);
    cshim_gloo_mail_await(mail, &inbox, timeout);
    cshim_gloo_inbox_free(&inbox);
    return terms;
}

static bool find_levels(struct cshim_gloo_context *context)
{
    const struct cshim_layout *layout = &context->host.layout;
    const size_t local_ranks = (size_t)layout->local_ranks;
    context->inside = calloc(local_ranks + layout->nodes, sizeof *context->inside);
    if (context->inside == NULL)
        return false;
    context->across = context->inside + local_ranks;
    cshim_layout_levels(layout, context->host.ranks, context->inside, context->across);
    return true;
}

bool cshim_gloo_terms_apply(const struct cshim_gloo_terms *terms, uint64_t bytes,
                            struct cshim_gloo_context *context)
{
    struct cshim_communicator *host = &context->host;
    const uint64_t text_bytes = bytes - bytes_before_texts(host->ranks);
    if (terms->learned_length > text_bytes)
        return false;
    struct cshim_offer offer = {.text = (char *)(uintptr_t)(terms->nodes + host->ranks),
                                .length = text_bytes - terms->learned_length,
                                .observe = terms->observe == 2};
    memcpy(offer.source, terms->source, sizeof offer.source);
    if (terms->has_learned) {
        offer.learned = offer.text + offer.length;
        offer.learned_length = terms->learned_length;
    }
    cshim_report_set_job(terms->job);
    host->transport = &cshim_gloo_transport;
    host->job = cshim_job_find(&offer);
    if (host->job == NULL ||
        !cshim_layout_make(&host->layout, terms->nodes, host->ranks, host->ranks, host->rank) ||
        !find_levels(context) || !cshim_communicator_reserve(host))
        return false;
    host->learned = host->job->learned;
    cshim_job_grow(host->job, host->rank == 0, host->ranks, host->layout.nodes);
    cshim_log(CSHIM_LOG_INFO, "on: policy %s, codecs in %s", offer.source,
              cshim_simd_name(cshim_simd_level()));
    return true;
}
