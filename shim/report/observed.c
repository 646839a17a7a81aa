/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/observed.h"

#include <stdlib.h>
#include <string.h>

struct cshim_kind cshim_kind_of(const struct cshim_call *call)
{
    return (struct cshim_kind){
        .collective = (uint8_t)call->collective,
        .dtype = (uint8_t)call->dtype,
        .op = (uint8_t)call->op,
        .ranks = call->ranks,
        .nodes = call->nodes,
        .ranks_per_node = call->ranks_per_node,
        .bytes = call->bytes,
        .calls = 1,
        .bytes_total = call->bytes,
    };
}

void cshim_observed_init(struct cshim_observed *observed)
{
    memset(observed, 0, sizeof *observed);
    pthread_mutex_init(&observed->lock, NULL); /* a default mutex: cannot fail on Linux */
}

/* Kinds are equal if their members before `calls` are. There is no padding between those. */
#define KIND_BYTES offsetof(struct cshim_kind, calls)
_Static_assert(KIND_BYTES == 4 * sizeof(uint8_t) + 3 * sizeof(uint32_t) + sizeof(uint64_t),
               "a kind's bytes are compared");

static void add_kind(struct cshim_kind *to, const struct cshim_kind *from)
{
    to->calls += from->calls;
    to->bytes_total += from->bytes_total;
    to->seconds += from->seconds;
    to->seconds_wait += from->seconds_wait;
}

/* Adds to an equal kind or, if there is none, adds a new kind. Returns false if there is no equal
 * kind, and `limit` kinds already. */
static bool add_up_to(struct cshim_observed *observed, const struct cshim_kind *kind, size_t limit)
{
    for (size_t i = 0; i < observed->count; i++)
        if (memcmp(&observed->kinds[i], kind, KIND_BYTES) == 0) {
            add_kind(&observed->kinds[i], kind);
            return true;
        }
    if (observed->count >= limit)
        return false;
    observed->kinds[observed->count++] = *kind;
    return true;
}

void cshim_observed_add(struct cshim_observed *observed, const struct cshim_kind *kind)
{
    struct cshim_kind class = *kind;
    class.is_class = 1;
    while ((class.bytes & (class.bytes - 1)) != 0)
        class.bytes &= class.bytes - 1; /* clears all bits but the highest */
    pthread_mutex_lock(&observed->lock);
    if (kind->ranks == 0)
        add_kind(&observed->unlisted, kind);
    else if ((kind->is_class || !add_up_to(observed, kind, CSHIM_KINDS_EXACT)) &&
             !add_up_to(observed, &class, CSHIM_KINDS_MAX))
        add_kind(&observed->unlisted, kind);
    pthread_mutex_unlock(&observed->lock);
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_bytes(const void *left, const void *right)
{
    const struct cshim_kind *a = left, *b = right;
    const int orders[] = {
        compare(b->bytes_total, a->bytes_total),
        compare(b->bytes, a->bytes),
        compare(a->collective, b->collective),
        compare(a->dtype, b->dtype),
        compare(a->op, b->op),
        compare(b->ranks, a->ranks),
        compare(a->nodes, b->nodes),
        compare(a->ranks_per_node, b->ranks_per_node),
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (orders[i] != 0)
            return orders[i];
    return compare(a->is_class, b->is_class);
}

void cshim_observed_sort(struct cshim_observed *observed)
{
    pthread_mutex_lock(&observed->lock);
    qsort(observed->kinds, observed->count, sizeof *observed->kinds, by_bytes);
    pthread_mutex_unlock(&observed->lock);
}
