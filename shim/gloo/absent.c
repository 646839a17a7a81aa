/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/absent.h"

#include <stdlib.h>

#include "policy/word.h"
#include "shim/core/log.h"
#include "shim/gloo/context.h"

/* Maximum seconds that a process waits for ranks that may lack the shim, in the first call of a
 * context (PATIENCE) and after it (GRACE). All contexts share the sum of both (patience_spent). */
#define PATIENCE_SECONDS 0.7
#define GRACE_SECONDS 0.2
#define PATIENCE_PART 0.1 /* maximum patience, as a share of the first call's time limit */

#define SLOT_PRESENCE (CSHIM_GLOO_SLOT_AGREEMENT | 1)

/* Microseconds that this process has waited for ranks that may lack the shim, except in contexts
 * whose ranks have agreed; atomic. */
static int64_t patience_spent;

/* Returns the seconds that this process may still wait; at most `most`. */
static double patience_left(double most)
{
    const double left = PATIENCE_SECONDS + GRACE_SECONDS -
                        1e-6 * (double)__atomic_load_n(&patience_spent, __ATOMIC_RELAXED);
    return left < most ? left : most;
}

double cshim_gloo_patience(int64_t timeout)
{
    const double part = PATIENCE_PART * 1e-3 * (double)timeout;
    return patience_left(part > 0 && part < PATIENCE_SECONDS ? part : PATIENCE_SECONDS);
}

double cshim_gloo_grace(void)
{
    return patience_left(GRACE_SECONDS);
}

void cshim_gloo_patience_spend(struct cshim_gloo_absent *absent, double seconds)
{
    absent->spent += seconds;
    __atomic_fetch_add(&patience_spent, (int64_t)(seconds * 1e6), __ATOMIC_RELAXED);
}

/* Returns true if PyTorch connects ranks only when they exchange messages, and sending waits for
 * the other rank: then ranks send no presence messages, and each warns about absent ranks. */
static bool connects_lazily(void)
{
    static const char *const words[] = {"1", "y", "yes", "t", "true"};
    const char *lazy = secure_getenv("TORCH_GLOO_LAZY_INIT");
    for (size_t i = 0; lazy != NULL && i < sizeof words / sizeof *words; i++)
        if (cshim_is_word(lazy, words[i]))
            return true;
    return false;
}

void cshim_gloo_presence_send(struct cshim_gloo_absent *absent, int rank, int ranks)
{
    const uint8_t here = 1;
    if (connects_lazily())
        return;
    cshim_gloo_mail_send(&absent->mail, SLOT_PRESENCE, rank + 1, ranks, &here, sizeof here);
}

void cshim_gloo_presence_expect(struct cshim_gloo_absent *absent, int rank)
{
    if (connects_lazily())
        return;
    absent->presence = calloc((size_t)rank, sizeof *absent->presence);
    absent->inboxes = calloc((size_t)rank, sizeof *absent->inboxes);
    if (absent->presence == NULL || absent->inboxes == NULL)
        return;
    for (int from = 1; from < rank; from++)
        cshim_gloo_mail_expect(&absent->mail, &absent->inboxes[from], from, SLOT_PRESENCE,
                               &absent->presence[from], 1, 0);
}

bool cshim_gloo_presence_has_come(const struct cshim_gloo_absent *absent, int rank)
{
    for (int from = 1; absent->presence != NULL && from < rank; from++)
        if (__atomic_load_n(&absent->presence[from], __ATOMIC_RELAXED) != 0)
            return true;
    return false;
}

void cshim_gloo_absent_warn(struct cshim_gloo_absent *absent, int rank, const char *ranks,
                            unsigned calls)
{
    if (calls > 0)
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: no answer to rank %d in %u calls of a group from %s; "
                  "start all with the same LD_PRELOAD and COMPSHIM",
                  rank, calls, ranks);
    else
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed yet: no answer to rank %d from %s; if that does not "
                  "change, start all with the same LD_PRELOAD and COMPSHIM",
                  rank, ranks);
    absent->has_warned = true;
}

void cshim_gloo_absent_free(struct cshim_gloo_absent *absent, int rank)
{
    for (int from = 1; absent->inboxes != NULL && from < rank; from++)
        cshim_gloo_inbox_free(&absent->inboxes[from]);
    cshim_gloo_mail_free(&absent->mail);
    free(absent->inboxes);
    free(absent->presence);
}
