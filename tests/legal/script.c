/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/legal/script.h"

#include <string.h>

#define WORLD 0

/* Relative frequency of each type of step. */
static const int weights[KINDS] = {
    [ALLREDUCE] = 12, [REDUCE] = 4,   [REDUCE_SCATTER] = 6, [REDUCE_SCATTER_BLOCK] = 3,
    [ALLGATHER] = 3,  [ALLTOALL] = 3, [IALLREDUCE] = 14,    [PERSISTENT] = 8,
    [START] = 18,     [BCAST] = 3,    [BARRIER] = 1,        [RING] = 4,
    [ERROR] = 2,      [DELAY] = 4,    [THREADS] = 2,        [DUP] = 2,
    [SPLIT] = 5,      [CREATE] = 2,   [CREATE_GROUP] = 2,   [FREE] = 4,
};

/* Relative frequencies in programs with requests active on several communicators at once. */
static const int request_weights[KINDS] = {
    [ALLREDUCE] = 8, [IALLREDUCE] = 8, [PERSISTENT] = 16,  [START] = 48, [DUP] = 1,
    [SPLIT] = 6,     [CREATE] = 3,     [CREATE_GROUP] = 3, [FREE] = 2,
};

static enum kind draw_kind(const int chances[KINDS], uint64_t *stream)
{
    int total = 0, kind = 0;
    for (int i = 0; i < KINDS; i++)
        total += chances[i];
    for (int left = below(stream, total); left >= chances[kind]; kind++)
        left -= chances[kind];
    return (enum kind)kind;
}

int legal_members(const struct place *place, int ranks, int group, int members[RANKS_MAX])
{
    int count = 0;
    for (int i = 0; i < ranks; i++)
        if (place->group[place->order[i]] == group)
            members[count++] = place->order[i];
    return count;
}

static int at_most(int value, int limit)
{
    return value < limit ? value : limit;
}

static int groups_of(const struct place *place, int ranks)
{
    int groups = 0;
    for (int i = 0; i < ranks; i++)
        groups = place->group[i] >= groups ? place->group[i] + 1 : groups;
    return groups;
}

/* Draws the members of the communicators that a step makes. If the parent has one group, a split
 * distributes its ranks over up to GROUPS_MAX groups; otherwise each rank stays in its group.
 * Except in a dup, some ranks may leave, and any member may become rank 0, because the shim gives a
 * communicator a number that is free on its rank 0. */
static void make_place(struct place *made, const struct place *parent, int ranks, enum kind kind,
                       uint64_t *stream)
{
    const bool several = groups_of(parent, ranks) > 1;
    const bool backwards = kind != DUP && below(stream, 3) == 0;
    const int first = kind == DUP ? 0 : below(stream, ranks);
    const int groups =
        kind == SPLIT && !several ? 1 + below(stream, at_most(ranks / 2, GROUPS_MAX)) : 1;
    const bool leave = kind != DUP && below(stream, 2) == 0;
    made->live = true;
    for (int i = 0; i < ranks; i++) {
        made->order[i] = parent->order[(backwards ? first + ranks - i : first + i) % ranks];
        made->group[i] = parent->group[i];
        if (made->group[i] >= 0 && groups > 1)
            made->group[i] = below(stream, groups);
        if (leave && below(stream, 4) == 0)
            made->group[i] = -1;
    }
}

/* Draws a count: mostly small, often 0, rarely several segments of the shim. */
static int draw_count(uint64_t *stream)
{
    static const int counts[] = {0, 0, 0, 1, 2, 3, 7, 31, 64, 255, 513, 1000, 2049, 4001, 12289};
    const int choice = below(stream, 300);
    return choice == 0 ? 300001 : counts[choice % (int)(sizeof counts / sizeof *counts)];
}

/* Draws an existing communicator, rarely the world if there are others. If it were often the world,
 * the world's rank 0 would number most communicators, and two ranks would rarely assign the same
 * number. */
static int draw_live(const struct script *script, int before, uint64_t *stream)
{
    int live[STEPS_MAX + 1] = {WORLD}, count = 0;
    for (int i = below(stream, 4) == 0 ? WORLD : WORLD + 1; i <= before; i++)
        if (script->places[i].live)
            live[count++] = i;
    return live[count > 0 ? below(stream, count) : 0];
}

/* Draws a persistent request that is inactive when a step begins, or returns -1. */
static int draw_idle(const struct script *script, int before, uint64_t *stream)
{
    int idle[STEPS_MAX], count = 0;
    for (int i = 0; i < before; i++) {
        const struct step *step = &script->steps[i];
        if (step->kind == PERSISTENT && step->end < before && script->places[step->place].live)
            idle[count++] = i;
    }
    return count == 0 ? -1 : idle[below(stream, count)];
}

/* Draws a step that only needs communicators and requests of earlier steps. A step that is
 * impossible here becomes another one, such as an all-reduce. Every program begins by making a
 * communicator. */
static void draw_step(struct script *script, int number, const int counts[2], bool many_requests,
                      bool threads, bool persistent, uint64_t *stream)
{
    struct step *step = &script->steps[number];
    *step = (struct step){
        .kind = draw_kind(many_requests ? request_weights : weights, stream),
        .place = draw_live(script, number, stream),
    };
    if (number == 0 || (number == 1 && many_requests))
        step->kind = (enum kind)(SPLIT + below(stream, 3));
    if (!persistent && (step->kind == PERSISTENT || step->kind == START))
        step->kind = IALLREDUCE;
    step->target = step->kind == START ? draw_idle(script, number, stream) : -1;
    if (step->kind == START && step->target < 0)
        step->kind = PERSISTENT;
    if ((step->kind == THREADS && !threads) ||
        (step->kind == FREE && (step->place == WORLD || script->places[step->place].busy > number)))
        step->kind = ALLREDUCE;
    step->element = below(stream, 2) == 0 ? FLOAT : (enum element)below(stream, ELEMENTS);
    step->operation = below(stream, 6) == 0 ? (enum operation)below(stream, OPERATIONS) : SUM;
    if (step->kind == ALLGATHER || step->kind == ALLTOALL || step->kind == BCAST)
        step->operation = SUM;
    if (step->element == PAIR || step->element == COMPLEX)
        step->operation = step->element == PAIR ? USER : SUM;
    step->count = below(stream, 2) == 0 ? draw_count(stream) : counts[below(stream, 2)];
    step->in_place = below(stream, 3) == 0;
    step->root = below(stream, RANKS_MAX);
    step->scale = 1 << 8 * below(stream, 3);
    step->key = draw(stream);
    step->latest = at_most(number + below(stream, many_requests ? 12 : 5), script->count);
    step->end = at_most(step->latest + 1 + below(stream, 6), script->count);
    if (step->kind == START) {
        struct step *made = &script->steps[step->target];
        step->place = made->place;
        made->end = step->end;
    } else if (step->kind == PERSISTENT) {
        step->end = number;
    }
    struct place *place = &script->places[step->place];
    if (step->kind == START || step->kind == IALLREDUCE || step->kind == RING)
        place->busy = step->end > place->busy ? step->end : place->busy;
    if (step->kind >= DUP && step->kind <= CREATE_GROUP)
        make_place(&script->places[number + 1], place, script->ranks, step->kind, stream);
    if (step->kind == FREE)
        place->live = false;
}

void legal_draw(struct script *script, uint64_t seed, int ranks, bool threads, bool persistent)
{
    uint64_t stream = seed;
    memset(script, 0, sizeof *script);
    script->seed = seed;
    script->ranks = ranks;
    script->count = 4 + below(&stream, STEPS_MAX - 3);
    script->places[WORLD].live = true;
    for (int i = 0; i < ranks; i++)
        script->places[WORLD].order[i] = i;
    /* About half of the steps take one of these counts. */
    const int counts[2] = {draw_count(&stream), draw_count(&stream)};
    const bool many_requests = below(&stream, 3) == 0;
    for (int i = 0; i < script->count; i++)
        draw_step(script, i, counts, many_requests, threads, persistent, &stream);
}

bool legal_is_left_out(const struct script *script, int number)
{
    const struct step *step = &script->steps[number];
    return script->left_out[number] ||
           (step->place != WORLD && legal_is_left_out(script, step->place - 1)) ||
           (step->kind == START && legal_is_left_out(script, step->target));
}

static const char *const kinds[KINDS] = {
    "MPI_Allreduce",
    "MPI_Reduce",
    "MPI_Reduce_scatter",
    "MPI_Reduce_scatter_block",
    "MPI_Allgather",
    "MPI_Alltoall",
    "MPI_Iallreduce",
    "MPI_Allreduce_init",
    "MPI_Start",
    "MPI_Bcast",
    "MPI_Barrier",
    "MPI_Isend and MPI_Irecv",
    "a call that fails on some ranks",
    "a delay of some ranks",
    "threads with all-reduces",
    "MPI_Comm_dup",
    "MPI_Comm_split",
    "MPI_Comm_create",
    "MPI_Comm_create_group",
    "MPI_Comm_free",
};
static const char *const elements[ELEMENTS] = {"float", "double", "int", "pairs of float",
                                               "complex numbers"};
static const char *const operations[OPERATIONS] = {"sum", "maximum", "own sum"};

static void print_place(FILE *file, const struct script *script, int number)
{
    const struct place *place = &script->places[number];
    int members[RANKS_MAX];
    fprintf(file, number == WORLD ? "the world" : "communicator %d", number);
    for (int group = 0; group < GROUPS_MAX && number != WORLD; group++) {
        const int count = legal_members(place, script->ranks, group, members);
        for (int i = 0; i < count; i++)
            fprintf(file, "%s%d", i > 0 ? " " : group > 0 ? " | " : ": ", members[i]);
    }
}

void legal_print(FILE *file, const struct script *script)
{
    fprintf(file, "program %llu on %d ranks\n", (unsigned long long)script->seed, script->ranks);
    for (int i = 0; i < script->count; i++) {
        const struct step *step = &script->steps[i];
        if (legal_is_left_out(script, i))
            continue;
        fprintf(file, "  step %d: %s", i, kinds[step->kind]);
        if (step->kind <= PERSISTENT || step->kind == BCAST || step->kind == RING)
            fprintf(file, " of %d %s, %s%s, times %d", step->count, elements[step->element],
                    operations[step->operation], step->in_place ? ", in place" : "", step->scale);
        if (step->kind == REDUCE || step->kind == BCAST)
            fprintf(file, ", root %d", step->root);
        if (step->kind == START)
            fprintf(file, " of step %d's, by step %d", step->target, step->latest);
        if (step->kind == START || step->kind == IALLREDUCE || step->kind == RING)
            fprintf(file, ", complete by step %d", step->end);
        fprintf(file, ", on ");
        print_place(file, script, step->place);
        if (step->kind >= DUP && step->kind <= CREATE_GROUP) {
            fprintf(file, ", makes ");
            print_place(file, script, i + 1);
        }
        fprintf(file, "\n");
    }
}
