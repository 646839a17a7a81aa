/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/trace.h"

#include "shim/nccl/describe.h"

/* Maximum number of lanes (lines of the trace's display). Each CUDA stream has a lane; further
 * streams share the last one. */
#define LANES 255u

static struct lane {
    CUcontext context;
    CUstream stream;
    int device;
} lanes[LANES];
static size_t lane_count;
static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the number of a timeline's lane, from 1. */
static uint8_t lane_of(const struct cshim_timeline *timeline)
{
    const struct cshim_nccl_comm *comm = timeline->comm;
    size_t lane = 0;
    pthread_mutex_lock(&lanes_lock);
    while (lane < lane_count &&
           (lanes[lane].context != comm->context || lanes[lane].stream != timeline->stream))
        lane++;
    if (lane == lane_count && lane_count < LANES)
        lanes[lane_count++] = (struct lane){comm->context, timeline->stream, comm->device};
    pthread_mutex_unlock(&lanes_lock);
    return (uint8_t)(lane < LANES ? lane + 1 : LANES);
}

/* Adds each call before its phases: if both begin at the same time, viewers show the phase inside
 * the call. Several calls on a timeline may overlap, so they are shown as nonblocking calls. */
void cshim_nccl_trace_add(const struct cshim_timeline *timeline, double begin)
{
    const uint8_t lane = lane_of(timeline);
    for (size_t i = 0; i < timeline->call_count; i++) {
        const struct cshim_timed_call *call = &timeline->calls[i];
        const struct cshim_trace_event event = {
            .begin = begin + call->begin,
            .seconds = call->end - call->begin,
            .bytes = call->plan.count * cshim_dtype_bytes(call->plan.dtype),
            .call = call->sequence,
            .rule = (uint16_t)cshim_rule_index(call->job->policy, call->plan.rule),
            .kind = timeline->call_count > 1 ? CSHIM_TRACE_PENDING : CSHIM_TRACE_CALL,
            .collective = (uint8_t)call->plan.collective,
            .codec = (uint8_t)call->plan.codec,
            .algorithm = (uint8_t)call->plan.algorithm,
            .thread = lane,
        };
        if (call->job->trace != NULL)
            cshim_trace_add(call->job->trace, event);
    }
    for (size_t i = 0; i < timeline->share_count; i++) {
        const struct cshim_share *share = &timeline->shares[i];
        const struct cshim_timed_call *call = &timeline->calls[share->call];
        if (call->job->trace == NULL)
            continue;
        cshim_trace_add(call->job->trace,
                        (struct cshim_trace_event){.begin = begin + share->begin,
                                                   .seconds = share->seconds,
                                                   .call = call->sequence,
                                                   .kind = (uint8_t)cshim_step_phase(share->step),
                                                   .thread = lane});
    }
}

void cshim_nccl_name_lanes(struct cshim_trace_file *file, int rank)
{
    pthread_mutex_lock(&lanes_lock);
    for (size_t i = 0; i < lane_count; i++) {
        char name[64];
        unsigned number = 0;
        for (size_t before = 0; before < i; before++)
            number += lanes[before].context == lanes[i].context;
        snprintf(name, sizeof name, "device %d, stream %u", lanes[i].device, number);
        cshim_trace_thread(file, rank, (unsigned)i + 1, name);
    }
    pthread_mutex_unlock(&lanes_lock);
}
