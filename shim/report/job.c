/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/job.h"

#include <stdio.h>
#include <stdlib.h>

#include "shim/core/clock.h"
#include "shim/core/log.h"

bool cshim_job_adopt(struct cshim_job *job, const struct cshim_offer *offer,
                     char message[CSHIM_MESSAGE_MAX])
{
    job->policy = cshim_policy_parse(offer->text, offer->length, offer->source, message);
    if (job->policy == NULL)
        return false;
    if (offer->learned != NULL)
        job->learned =
            cshim_learned_parse(offer->learned, offer->learned_length, "COMPSHIM_MACHINE", message);
    if (offer->learned == NULL || job->learned != NULL) {
        cshim_offer_digest(offer, job->policy_sha256, job->learned_sha256);
        cshim_log_set_level(job->policy->log);
        if (cshim_ledger_init(&job->ledger, job->policy))
            return true;
        snprintf(message, CSHIM_MESSAGE_MAX, "no memory for the ledger");
        free(job->learned);
    }
    cshim_policy_free(job->policy);
    return false;
}

void cshim_observation_begin(struct cshim_observation *observation, struct cshim_job *job,
                             const struct cshim_call *call, int rank, enum cshim_reason reason)
{
    *observation = (struct cshim_observation){
        .job = job,
        .rank = rank,
        .reason = reason,
        .kind = cshim_kind_of(call),
        .began = cshim_seconds(),
    };
}

void cshim_observation_end(struct cshim_observation *observation)
{
    struct cshim_job *job = observation->job;
    struct cshim_kind *kind = &observation->kind;
    if (job == NULL)
        return;
    kind->seconds = cshim_seconds() - observation->began;
    if (job->trace != NULL)
        cshim_trace_add(job->trace, (struct cshim_trace_event){
                                        .begin = observation->began,
                                        .seconds = kind->seconds,
                                        .bytes = kind->bytes,
                                        .kind = CSHIM_TRACE_PASSED,
                                        .collective = kind->collective,
                                        .reason = (uint8_t)observation->reason,
                                    });
    if (job->observed != NULL && observation->rank == 0)
        cshim_observed_add(job->observed, kind);
}
