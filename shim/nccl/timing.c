/* SPDX-License-Identifier: Apache-2.0 */
/* How long compressed calls take on the GPU, by events that are read once they have happened:
 * nothing waits for them. Of the communicators whose rank 0 is here; calls of graphs are not
 * timed. */
#include <stdlib.h>

#include "shim/nccl/internal.h"

/* Calls under way that can be timed; one that finds no place is not. */
#define PLACES 64

struct cshim_timing {
    struct place {
        CUevent begin;
        CUevent end;
        bool begun;
        bool ended;
        struct cshim_plan plan;
    } places[PLACES];
};

static bool make_events(const struct cshim_cuda *cuda, struct place *place)
{
    return (place->begin != NULL ||
            cuda->EventCreate(&place->begin, CU_EVENT_DEFAULT) == CUDA_SUCCESS) &&
           (place->end != NULL || cuda->EventCreate(&place->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
}

static struct place *find_place(struct cshim_nccl_comm *comm)
{
    if (comm->timing == NULL)
        comm->timing = calloc(1, sizeof *comm->timing);
    for (size_t i = 0; comm->timing != NULL && i < PLACES; i++) {
        struct place *place = &comm->timing->places[i];
        if (!place->begun)
            return make_events(&comm->cuda, place) ? place : NULL;
    }
    return NULL;
}

/* An error of an event is nobody's error: the call is not timed. */
void cshim_timing_begin(struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    struct place *place = NULL;
    if (comm->rank != 0 || call->capture_id != 0)
        return;
    comm->cuda.CtxPushCurrent(comm->context);
    place = find_place(call->comm);
    if (place != NULL && comm->cuda.EventRecord(place->begin, call->stream) == CUDA_SUCCESS) {
        place->begun = true;
        place->ended = false;
        place->plan = call->plan;
        call->place = place;
    }
    comm->cuda.CtxPopCurrent(NULL);
}

void cshim_timing_end(struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    struct place *place = call->place;
    if (place == NULL)
        return;
    comm->cuda.CtxPushCurrent(comm->context);
    place->ended = comm->cuda.EventRecord(place->end, call->stream) == CUDA_SUCCESS;
    place->begun = place->ended;
    comm->cuda.CtxPopCurrent(NULL);
}

/* To ask an event would break the captures that are under way. */
void cshim_timing_collect(struct cshim_nccl_comm *comm)
{
    const struct cshim_cuda *cuda = &comm->cuda;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (comm->timing == NULL)
        return;
    cuda->ThreadExchangeStreamCaptureMode(&mode);
    for (size_t i = 0; i < PLACES; i++) {
        struct place *place = &comm->timing->places[i];
        struct cshim_row figures = {0};
        float milliseconds = 0;
        if (!place->begun || !place->ended || cuda->EventQuery(place->end) != CUDA_SUCCESS)
            continue;
        if (cuda->EventElapsedTime(&milliseconds, place->begin, place->end) == CUDA_SUCCESS)
            figures.seconds = 1e-3 * (double)milliseconds;
        cshim_ledger_add(&comm->job->ledger, &place->plan, &figures);
        place->begun = false;
    }
    cuda->ThreadExchangeStreamCaptureMode(&mode);
}

void cshim_timing_free(struct cshim_nccl_comm *comm)
{
    for (size_t i = 0; comm->timing != NULL && i < PLACES; i++) {
        struct place *place = &comm->timing->places[i];
        if (place->begin != NULL)
            comm->cuda.EventDestroy(place->begin);
        if (place->end != NULL)
            comm->cuda.EventDestroy(place->end);
    }
    free(comm->timing);
    comm->timing = NULL;
}
