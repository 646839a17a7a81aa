/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "shim/nccl/rendezvous_wire.h"

/* The durations for one decision about a class. */
struct record {
    uint32_t decision;
    uint32_t asked;    /* last window that was answered */
    uint32_t in_force; /* window from which on the decision is in force; 0: none yet */
    uint32_t samples;
    uint32_t ranks;                          /* that have sent their durations */
    float seconds[CSHIM_CHOICE_SAMPLES_MAX]; /* least over these ranks */
    bool has[];                              /* by rank */
};

/* A rank asks about the next decision only when the one before is in force. So at most two are
 * asked about at a time. */
enum { DECISIONS = 2 };

struct cshim_collection {
    uint64_t nonce;
    uint32_t ranks;
    struct record *records[CSHIM_CLASSES_MAX][DECISIONS];
    struct cshim_collection *next;
};

static struct cshim_collection **link_to(struct cshim_collection **link, uint64_t nonce)
{
    while (*link != NULL && (*link)->nonce != nonce)
        link = &(*link)->next;
    return link;
}

bool cshim_collection_add(struct cshim_collection **collections, uint64_t nonce, uint32_t ranks)
{
    struct cshim_collection *collection = calloc(1, sizeof *collection);
    if (collection == NULL)
        return false;
    collection->nonce = nonce;
    collection->ranks = ranks;
    collection->next = *collections;
    *collections = collection;
    return true;
}

void cshim_collection_drop(struct cshim_collection **collections, uint64_t nonce)
{
    struct cshim_collection **link = link_to(collections, nonce), *collection = *link;
    if (collection == NULL)
        return;
    *link = collection->next;
    for (unsigned i = 0; i < CSHIM_CLASSES_MAX; i++)
        for (unsigned j = 0; j < DECISIONS; j++)
            free(collection->records[i][j]);
    free(collection);
}

/* Returns the record that a question is about, or NULL without memory. */
static struct record *find_record(struct cshim_collection *collection, const struct cshim_ask *ask)
{
    struct record **place = &collection->records[ask->class][ask->decision % DECISIONS];
    const size_t bytes = sizeof **place + collection->ranks * sizeof(bool);
    if (*place == NULL)
        *place = malloc(bytes);
    else if ((*place)->decision == ask->decision)
        return *place;
    if (*place == NULL)
        return NULL;
    memset(*place, 0, bytes);
    (*place)->decision = ask->decision;
    (*place)->samples = ask->samples;
    for (unsigned i = 0; i < CSHIM_CHOICE_SAMPLES_MAX; i++)
        (*place)->seconds[i] = INFINITY;
    return *place;
}

static void take_durations(struct record *record, const struct cshim_ask *ask, uint32_t rank)
{
    if (record->has[rank])
        return;
    record->has[rank] = true;
    record->ranks++;
    for (uint32_t i = 0; i < record->samples; i++)
        if (ask->seconds[i] < record->seconds[i])
            record->seconds[i] = ask->seconds[i];
}

void cshim_collection_answer(struct cshim_collection **collections,
                             const struct cshim_request *request, struct cshim_answer *answer)
{
    const struct cshim_ask *ask = &request->ask;
    const uint32_t rank = request->hello.rank;
    struct cshim_collection *collection = *link_to(collections, request->nonce);
    memset(answer, 0, sizeof *answer);
    answer->class = ask->class;
    if (collection == NULL || ask->class >= CSHIM_CLASSES_MAX || rank >= collection->ranks ||
        ask->samples > CSHIM_CHOICE_SAMPLES_MAX)
        return;
    answer->is_known = 1;
    struct record *record = find_record(collection, ask);
    if (record == NULL) /* without this rank's durations there is no yes */
        return;
    take_durations(record, ask, rank);
    if (record->in_force == 0 && record->ranks == collection->ranks && ask->window > record->asked)
        record->in_force = ask->window;
    if (ask->window > record->asked)
        record->asked = ask->window;
    answer->is_in_force = record->in_force != 0 && ask->window >= record->in_force;
    if (answer->is_in_force)
        memcpy(answer->seconds, record->seconds, sizeof answer->seconds);
}
