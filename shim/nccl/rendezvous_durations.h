/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of an NCCL communicator agree on the durations of a class's sampled calls. No rank
 * may wait for another rank's next call, because two ranks may use two communicators in opposite
 * orders.
 *
 * When a decision about a class falls due, its calls continue with the best candidate so far, in
 * windows of CSHIM_WINDOW calls. A rank whose samples have completed sends their durations to the
 * process of rank 0, and asks whether the decision is in force from the next window on. A thread
 * there answers at once, whatever the program's threads do. The thread fixes the answer about a
 * window when the first rank asks about that window: yes, if the thread has the durations of all
 * ranks by then. A rank that has sent its durations asks about each window one window ahead, and
 * does not begin the window without the answer. So
 *
 *   - all ranks get the same answer for a window, and the first yes comes before any rank has begun
 *     that window: a rank that has begun it without asking has not sent its durations;
 *   - a rank waits only for that thread, if the answer takes longer than CSHIM_WINDOW calls. A rank
 *     that could not send the thread any question about the decision continues without waiting;
 *     until that rank can, no rank gets a yes.
 *
 * The agreed duration of a sample is the least over the ranks: nothing makes the ranks begin a
 * sampled call at once, and the rank that begins last waits least in it. */
#ifndef CSHIM_NCCL_RENDEZVOUS_DURATIONS_H
#define CSHIM_NCCL_RENDEZVOUS_DURATIONS_H

#include "shim/report/classes.h"

/* Number of calls of a class between two questions about a decision that is due. */
#define CSHIM_WINDOW 8u

/* Address of a process, and a nonce that names a session or a communicator's collection of
 * durations in that process. A session's tag is in the last bytes of an ncclUniqueId. In a tag that
 * is only an address, magic and nonce are 0. */
struct cshim_tag {
    uint32_t magic; /* CSHIM_TAG_MAGIC; 0: there is no session or collection */
    uint16_t family;
    uint16_t port; /* in network order, as the address */
    uint8_t address[16];
    uint64_t nonce;  /* names the session or collection; only ranks that have the tag know it */
    uint64_t parent; /* the nonce of the communicator that this one grows from, or 0 */
};

/* A rank's question. */
struct cshim_ask {
    uint32_t class;    /* index among the communicator's classes */
    uint32_t decision; /* number of decisions made about the class before */
    uint32_t window;   /* from 1 on; window 0 began when the decision fell due */
    uint32_t samples;
    float seconds[CSHIM_CHOICE_SAMPLES_MAX]; /* this rank's durations; INFINITY: not known */
};

struct cshim_answer {
    uint32_t is_known; /* 0: the communicator has ended on rank 0, or the question is invalid */
    uint32_t class;
    uint32_t is_in_force; /* 1: the decision is in force in the window that was asked about */
    float seconds[CSHIM_CHOICE_SAMPLES_MAX]; /* if in force: the least durations over the ranks */
};

/* Sets *at to the loopback address, for communicators whose ranks are all in this process. */
void cshim_durations_reach_inside(struct cshim_tag *at);

/* Begins to collect the durations of a communicator, in the process of rank 0, and sets *tag, with
 * which the ranks send their durations. `at` is the address at which other ranks reach this
 * process. Returns false if the address is unknown, the server cannot start, or memory is
 * lacking. */
bool cshim_durations_collect(const struct cshim_tag *at, uint32_t ranks, struct cshim_tag *tag);
/* Ends the collection of a tag. */
void cshim_durations_end(const struct cshim_tag *tag);

/* A client by which a rank asks about its classes. It connects with the first question about a
 * decision, and hangs up when a decision is in force and no question is open. Its functions do not
 * wait, except cshim_asker_wait. Not thread-safe. */
struct cshim_asker;

/* Returns NULL without memory. */
struct cshim_asker *cshim_asker_make(const struct cshim_tag *tag, uint32_t rank, uint32_t ranks);
void cshim_asker_free(struct cshim_asker *asker);

/* Asks about a class that has no open question. */
void cshim_asker_ask(struct cshim_asker *asker, const struct cshim_ask *ask);

/* Sends questions and receives answers, as far as possible without waiting. */
void cshim_asker_advance(struct cshim_asker *asker);

/* Copies the answer to a class's question, and forgets question and answer. If no byte of a
 * question about the decision could be sent so far, withdraws the question and answers that the
 * decision is not in force. */
enum cshim_asked {
    CSHIM_ASKED_OPEN, /* there is no answer yet */
    CSHIM_ASKED_ANSWERED,
    CSHIM_ASKED_LOST /* there will be none: rank 0 has ended the communicator, or its process */
};
enum cshim_asked cshim_asker_take(struct cshim_asker *asker, uint32_t class,
                                  struct cshim_answer *answer);

/* Waits until cshim_asker_advance can send or receive something, at most `milliseconds`. */
void cshim_asker_wait(const struct cshim_asker *asker, int milliseconds);

#endif
