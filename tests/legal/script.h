/* SPDX-License-Identifier: Apache-2.0 */
/* A legal MPI program as a list of steps that a seed gives, the same on all ranks. Every rank takes
 * the steps in their order, and only members of a step's communicator take part in it. What a rank
 * may do in an order of its own (starting persistent calls, completing requests) has a window: no
 * rank waits for a call before the step by which all ranks have started it. So no rank can wait for
 * ever, whatever each rank draws for itself. */
#ifndef LEGAL_SCRIPT_H
#define LEGAL_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define RANKS_MAX 8
#define STEPS_MAX 32
#define GROUPS_MAX 3 /* that one MPI_Comm_split makes */

enum kind {
    ALLREDUCE,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    ALLGATHER,
    ALLTOALL,
    IALLREDUCE,
    PERSISTENT, /* makes a persistent all-reduce; START starts it */
    START,
    BCAST,
    BARRIER,
    RING,    /* each rank sends to one and receives from one */
    ERROR,   /* some ranks make a call that fails, and may jump out of it */
    DELAY,   /* some ranks come late */
    THREADS, /* threads that call at once, each on a communicator of its own */
    DUP,
    SPLIT,
    CREATE,
    CREATE_GROUP,
    FREE,
    KINDS
};
/* PAIR: a derived type of two floats; COMPLEX: MPI's own, which is compressed as floats are. */
enum element { FLOAT, DOUBLE, INTEGER, PAIR, COMPLEX, ELEMENTS };
enum operation { SUM, LARGEST, USER, OPERATIONS }; /* USER: a sum of the program's own */

struct step {
    enum kind kind;
    int place;  /* the communicator: 0 is the world, else the one that step place - 1 makes */
    int target; /* START: the step that made the request */
    enum element element;
    enum operation operation;
    int count;
    bool in_place;
    int root;     /* taken modulo the communicator's ranks */
    int scale;    /* all elements are multiples of it */
    int latest;   /* START: every rank has started it when this step begins */
    int end;      /* every request is completed when this step begins */
    uint64_t key; /* of the data */
};

/* The members of a communicator, or of the communicators that one split makes. */
struct place {
    bool live;            /* while the script is drawn: it is there */
    int group[RANKS_MAX]; /* of each rank of the world; -1: it is in none */
    int order[RANKS_MAX]; /* the ranks of the world in the order of their ranks here */
    int busy;             /* no call is under way when this step begins */
};

struct script {
    uint64_t seed;
    int ranks, count;
    struct step steps[STEPS_MAX];
    struct place places[STEPS_MAX + 1];
    bool left_out[STEPS_MAX];
};

/* splitmix64 by Steele, Lea and Flood: the next number of a stream. */
static inline uint64_t draw(uint64_t *stream)
{
    uint64_t value = *stream += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* A number from 0 to below - 1. */
static inline int below(uint64_t *stream, int below)
{
    return (int)((draw(stream) >> 16) % (uint64_t)below);
}

/* The ranks of the world that are in a group of a place, in the order of their ranks there. */
int legal_members(const struct place *place, int ranks, int group, int members[RANKS_MAX]);

/* Draws a script, with threads and persistent calls or without. */
void legal_draw(struct script *script, uint64_t seed, int ranks, bool threads, bool persistent);

/* Whether a step belongs to a communicator whose making is left out, or is itself. */
bool legal_is_left_out(const struct script *script, int step);

/* The script in words, a step a line. */
void legal_print(FILE *file, const struct script *script);

#endif
