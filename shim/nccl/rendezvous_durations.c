/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "shim/nccl/rendezvous_wire.h"

/* The durations for one decision about a class. */
struct record {
    uint32_t decision;
    uint32_t asked;    /* latest window that a rank has asked about */
    uint32_t in_force; /* first window in which the decision is in force; 0: none yet */
    uint32_t samples;
    uint32_t ranks;                          /* number of ranks that have sent their durations */
    float seconds[CSHIM_CHOICE_SAMPLES_MAX]; /* least over these ranks */
    bool has[];                              /* by rank: it has sent its durations */
};

/* Number of decisions about a class that ranks may ask about at the same time: a rank asks about
 * the next one only when the previous one is in force. */
enum { DECISIONS = 2 };

struct collection {
    uint64_t nonce;
    uint32_t ranks;
    struct record *records[CSHIM_CLASSES_MAX][DECISIONS];
    struct collection *next;
};

static struct collection *collections;

static struct collection **link_to(uint64_t nonce)
{
    struct collection **link = &collections;
    while (*link != NULL && (*link)->nonce != nonce)
        link = &(*link)->next;
    return link;
}

bool cshim_collection_add(uint64_t nonce, uint32_t ranks)
{
    struct collection *collection = calloc(1, sizeof *collection);
    if (collection == NULL)
        return false;
    collection->nonce = nonce;
    collection->ranks = ranks;
    collection->next = collections;
    collections = collection;
    return true;
}

void cshim_collection_drop(uint64_t nonce)
{
    struct collection **link = link_to(nonce), *collection = *link;
    if (collection == NULL)
        return;
    *link = collection->next;
    for (unsigned i = 0; i < CSHIM_CLASSES_MAX; i++)
        for (unsigned j = 0; j < DECISIONS; j++)
            free(collection->records[i][j]);
    free(collection);
}

/* Returns the record of the decision that a question is about, cleared if the decision is new; NULL
 * without memory. */
static struct record *find_record(struct collection *collection, const struct cshim_ask *ask)
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

void cshim_collection_answer(const struct cshim_request *request, struct cshim_answer *answer)
{
    const struct cshim_ask *ask = &request->ask;
    const uint32_t rank = request->hello.rank;
    struct collection *collection = *link_to(request->nonce);
    memset(answer, 0, sizeof *answer);
    answer->class = ask->class;
    if (collection == NULL || ask->class >= CSHIM_CLASSES_MAX || rank >= collection->ranks ||
        ask->samples > CSHIM_CHOICE_SAMPLES_MAX)
        return;
    answer->is_known = 1;
    struct record *record = find_record(collection, ask);
    if (record == NULL) /* not in force: this rank's durations are not recorded */
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
