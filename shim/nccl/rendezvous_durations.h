/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of an NCCL communicator agree on the durations of a class's sampled calls, though
 * none of them may wait for another rank's next call: two ranks may use two communicators in
 * crossed orders.
 *
 * When a decision about a class falls due, its calls go on with the candidate that they have, in
 * windows of CSHIM_WINDOW calls. A rank that knows its durations sends them to the process of rank
 * 0, and asks whether the decision is in force from the next window on. A thread there answers at
 * once, whatever the program's threads do. It fixes the answer for a window when the first rank
 * asks for it: yes, if it has the durations of all ranks by then. A rank that has sent its
 * durations asks for each window one window ahead, and does not begin the window without the
 * answer. So
 *
 *   - all ranks get the same answer for a window, and the first yes comes before any rank has begun
 *     that window: a rank that has begun it without asking has not sent its durations;
 *   - a rank waits only for that thread, if the answer takes longer than CSHIM_WINDOW calls. A rank
 *     that cannot reach it sends nothing, and goes on as all others do: there will be no yes.
 *
 * The durations that all ranks get are the least over the ranks: nothing makes the ranks begin a
 * sampled call at once, and the rank that begins last waits least in it. */
#ifndef CSHIM_NCCL_RENDEZVOUS_DURATIONS_H
#define CSHIM_NCCL_RENDEZVOUS_DURATIONS_H

#include "shim/report/classes.h"

/* Calls of a class between two answers about a decision that is due. */
#define CSHIM_WINDOW 8u

/* Where ranks meet: at the end of an id, and for the durations. */
struct cshim_tag {
    uint32_t magic; /* 0: nowhere */
    uint16_t family;
    uint16_t port; /* in network order, as the address */
    uint8_t address[16];
    uint64_t nonce;  /* only those who have the tag may join */
    uint64_t parent; /* the nonce of the communicator that this one grows from, or 0 */
};

/* A rank's question. */
struct cshim_ask {
    uint32_t class;    /* index among the communicator's classes */
    uint32_t decision; /* number of decisions made about the class before */
    uint32_t window;   /* from 1 on, since the decision has been due */
    uint32_t samples;
    float seconds[CSHIM_CHOICE_SAMPLES_MAX]; /* this rank's; INFINITY: not known */
};

struct cshim_answer {
    uint32_t is_known; /* 0: the communicator has ended on rank 0 */
    uint32_t class;
    uint32_t is_in_force;                    /* from the window on that was asked for */
    float seconds[CSHIM_CHOICE_SAMPLES_MAX]; /* if so: the least over the ranks */
};

/* Sets the address of this process for its own threads. */
void cshim_durations_reach_inside(struct cshim_tag *at);

/* Begins to collect the durations of a communicator, in the process of its rank 0, where `at` has
 * the address of this process for the other ranks. Sets the tag for them. Returns false if there
 * can be no server. */
bool cshim_durations_collect(const struct cshim_tag *at, uint32_t ranks, struct cshim_tag *tag);
/* Ends this. */
void cshim_durations_end(const struct cshim_tag *tag);

/* A rank's connection to the thread that answers: there as long as a question is open or a decision
 * is due. It never waits. Not thread-safe. */
struct cshim_asker;

/* Returns NULL without memory. */
struct cshim_asker *cshim_asker_make(const struct cshim_tag *tag, uint32_t rank, uint32_t ranks);
void cshim_asker_free(struct cshim_asker *asker);

/* Asks about a class that has no open question. */
void cshim_asker_ask(struct cshim_asker *asker, const struct cshim_ask *ask);

/* Does what goes without waiting. */
void cshim_asker_advance(struct cshim_asker *asker);

/* Takes the answer to a class's question, and forgets both. It is no if nothing about the decision
 * has been sent so far. */
enum cshim_asked {
    CSHIM_ASKED_OPEN, /* there is no answer yet */
    CSHIM_ASKED_ANSWERED,
    CSHIM_ASKED_LOST /* there will be none: rank 0 has ended the communicator, or its process */
};
enum cshim_asked cshim_asker_take(struct cshim_asker *asker, uint32_t class,
                                  struct cshim_answer *answer);

/* Waits until something can be done about open questions, or for so many milliseconds. */
void cshim_asker_wait(const struct cshim_asker *asker, int milliseconds);

#endif
