/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that have not answered and may lack the shim: how long this process waits for them, and
 * which rank warns of them. */
#ifndef CSHIM_GLOO_ABSENT_H
#define CSHIM_GLOO_ABSENT_H

#include "shim/gloo/mail.h"

/* State of a rank in one context. */
struct cshim_gloo_absent {
    struct cshim_gloo_mail mail;
    uint8_t *presence;                /* the received byte of each lower rank, or NULL */
    struct cshim_gloo_inbox *inboxes; /* of these bytes */
    double spent;                     /* seconds that this context has waited */
    bool has_warned;
};

/* Returns the seconds that this process may still wait in a first call with this time limit in
 * milliseconds, for ranks to enter it. Thread-safe. */
double cshim_gloo_patience(int64_t timeout);
/* Returns the seconds that it may still wait after such a call, for messages that may still arrive.
 * Thread-safe. */
double cshim_gloo_grace(void);
/* Counts seconds that this context has waited; less than 0: that were no waste. */
void cshim_gloo_patience_spend(struct cshim_gloo_absent *absent, double seconds);

/* Sends a presence message to all higher ranks: this rank has the shim, and warns if need be. */
void cshim_gloo_presence_send(struct cshim_gloo_absent *absent, int rank, int ranks);
/* Starts to receive presence messages. */
void cshim_gloo_presence_expect(struct cshim_gloo_absent *absent, int rank);
/* Returns true if a lower rank, other than rank 0, has sent a presence message. */
bool cshim_gloo_presence_has_come(const struct cshim_gloo_absent *absent, int rank);

/* Warns that `ranks` have not answered, for the last time after `calls` calls; 0: they still may.
 */
void cshim_gloo_absent_warn(struct cshim_gloo_absent *absent, int rank, const char *ranks,
                            unsigned calls);
/* Frees what it contains, after gloo has freed the context. */
void cshim_gloo_absent_free(struct cshim_gloo_absent *absent, int rank);

#endif
