/* SPDX-License-Identifier: Apache-2.0 */
/* A legal MPI program as a list of steps, drawn from a seed and the same on all ranks. Every rank
 * executes the steps in order; only members of a step's communicator take part in it. Actions in an
 * order of a rank's own (starting persistent calls, completing requests) have a window: no rank
 * waits for a call before the step by which all ranks have started it. So no program can deadlock,
 * whatever each rank draws. */
#ifndef LEGAL_SCRIPT_H
#define LEGAL_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define RANKS_MAX 8
#define STEPS_MAX 32
#define GROUPS_MAX 3 /* largest number of groups that one MPI_Comm_split makes */

enum kind {
    ALLREDUCE,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    ALLGATHER,
    ALLTOALL,
    IALLREDUCE,
    PERSISTENT, /* creates a persistent all-reduce; START starts it */
    START,
    BCAST,
    BARRIER,
    RING,    /* each rank sends to one rank and receives from another */
    ERROR,   /* some ranks make a call that fails, and may leave it by longjmp */
    DELAY,   /* some ranks sleep */
    THREADS, /* concurrent calls of threads, each on its own communicator */
    DUP,
    SPLIT,
    CREATE,
    CREATE_GROUP,
    FREE,
    KINDS
};
/* PAIR: a derived type of two floats. COMPLEX: MPI's own type, compressed, as floats, only in
 * MPI_Allgather, MPI_Alltoall and MPI_Bcast. */
enum element { FLOAT, DOUBLE, INTEGER, PAIR, COMPLEX, ELEMENTS };
enum operation { SUM, LARGEST, USER, OPERATIONS }; /* USER: a sum function of the program */

struct step {
    enum kind kind;
    int place;  /* communicator: 0 is the world, else that made by step place - 1 */
    int target; /* START: number of the step that created the request */
    enum element element;
    enum operation operation;
    int count;
    bool in_place;
    int root;     /* modulo the size of the communicator */
    int scale;    /* all elements are multiples of it */
    int latest;   /* START: number of the step before which every rank has started the request */
    int end;      /* number of the step before which the request is complete */
    uint64_t key; /* seed of the data */
};

/* The members of a communicator, or of the communicators that one split makes. */
struct place {
    bool live;            /* while the script is drawn: it exists at this step */
    int group[RANKS_MAX]; /* group of each rank of the world; -1: none */
    int order[RANKS_MAX]; /* ranks of the world, in the order of their ranks here */
    int busy;             /* from this step on no call on the communicator is active */
};

struct script {
    uint64_t seed;
    int ranks, count;
    struct step steps[STEPS_MAX];
    struct place places[STEPS_MAX + 1];
    bool left_out[STEPS_MAX];
};

/* Returns the next number of a stream: splitmix64 by Steele, Lea and Flood. */
static inline uint64_t draw(uint64_t *stream)
{
    uint64_t value = *stream += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* Returns a random number from 0 to below - 1. */
static inline int below(uint64_t *stream, int below)
{
    return (int)((draw(stream) >> 16) % (uint64_t)below);
}

/* Writes the world's ranks in a group of a place, ordered by their ranks there. Returns their
 * number. */
int legal_members(const struct place *place, int ranks, int group, int members[RANKS_MAX]);

/* Draws a script, with or without threads and persistent calls. */
void legal_draw(struct script *script, uint64_t seed, int ranks, bool threads, bool persistent);

/* Returns true if a step is left out, or the step that makes its communicator or its persistent
 * request. */
bool legal_is_left_out(const struct script *script, int step);

/* Prints the script in words: one line per step that is not left out. */
void legal_print(FILE *file, const struct script *script);

#endif
