/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that have not answered and may lack the shim: how long this process waits for them, and
 * which rank warns of them. */
#ifndef CSHIM_GLOO_ABSENT_H
#define CSHIM_GLOO_ABSENT_H

#include "shim/gloo/mail.h"

/* State of a rank in one context. */
struct cshim_gloo_absent {
    struct cshim_gloo_mail mail;
    uint8_t *presence; /* byte received from each lower rank except rank 0, by rank; or NULL */
    struct cshim_gloo_inbox *inboxes; /* receives of the bytes in `presence`, by rank; or NULL */
    double spent; /* seconds of the process's patience that this context has used */
    bool has_warned;
};

/* Returns the seconds that this process may still wait, in the first call of a context, for other
 * ranks to enter the call. `timeout`: the call's time limit in milliseconds. Thread-safe. */
double cshim_gloo_patience(int64_t timeout);
/* Returns the seconds that this process may still wait after the first call of a context, for
 * messages that may still arrive. Thread-safe. */
double cshim_gloo_grace(void);
/* Adds seconds to those that this context has used of the process's patience; a negative number
 * returns them. */
void cshim_gloo_patience_spend(struct cshim_gloo_absent *absent, double seconds);

/* Sends a presence message to all higher ranks. A rank that gets one leaves the warning about
 * absent ranks to the lower rank that sent it. */
void cshim_gloo_presence_send(struct cshim_gloo_absent *absent, int rank, int ranks);
/* Starts to receive presence messages of lower ranks, except rank 0. */
void cshim_gloo_presence_expect(struct cshim_gloo_absent *absent, int rank);
/* Returns true if a lower rank, other than rank 0, has sent a presence message. */
bool cshim_gloo_presence_has_come(const struct cshim_gloo_absent *absent, int rank);

/* Warns that the ranks in the list `ranks` have not answered rank `rank`. If `calls` is not 0, the
 * warning says that they have not answered in `calls` calls, and that nothing is compressed. */
void cshim_gloo_absent_warn(struct cshim_gloo_absent *absent, int rank, const char *ranks,
                            unsigned calls);
/* Frees the messages. Called after gloo has freed the context. */
void cshim_gloo_absent_free(struct cshim_gloo_absent *absent, int rank);

#endif
