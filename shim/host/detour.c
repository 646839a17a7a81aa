/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/detour.h"

#include <string.h>

#include "shim/core/clock.h"
#include "shim/core/plan.h"

#define LONGEST CSHIM_NODE_PIECE_LIMIT /* bytes that are encoded elsewhere */
#define TIMED 16384u /* from so many on, reading the clock costs next to nothing */
#define TRIED 61u    /* every so many messages the slower way is taken again */
#define WORTH 0.9    /* of the time that the direct way takes */
#define STEP 0.0625  /* by how much a message moves what is known */
#define LINE 64u

/* The call that has the shared scratch has these to itself. */
static struct {
    double seconds[2]; /* that a byte takes in about half of the latest: directly, by the detour */
    unsigned timed;
} ways;

struct cshim_detour cshim_detour_begin(enum cshim_writing what, uint8_t *place, size_t bytes)
{
    static _Alignas(LINE) uint8_t own[LONGEST + LINE];
    struct cshim_detour detour = {place, place, 0};
    const bool is_timed = what == CSHIM_WRITING_PART && bytes >= TIMED;
    if (what == CSHIM_WRITING_UNREAD || bytes > LONGEST)
        return detour;
    bool is_taken = ways.seconds[1] < WORTH * ways.seconds[0];
    if (is_timed && ways.timed++ % TRIED == 0)
        is_taken = !is_taken;
    if (is_taken)
        detour.encoded = own + (uintptr_t)place % LINE;
    detour.began = is_timed ? cshim_seconds() : 0;
    return detour;
}

/* Moves towards the median, not the mean: a message during which the system does something else may
 * take any time, and the way that is taken seldom would have that counted for long. The first ones,
 * whose memory the system has to find, are forgotten at once. */
static void learn(double *seconds, double latest)
{
    if (!(*seconds > 0) || latest < *seconds / 2)
        *seconds = latest;
    else
        *seconds *= latest > *seconds ? 1 + STEP : 1 - STEP;
}

void cshim_detour_end(const struct cshim_detour *detour, size_t bytes)
{
    const bool is_taken = detour->encoded != detour->place;
    if (is_taken)
        memcpy(detour->place, detour->encoded, bytes);
    if (detour->began > 0)
        learn(&ways.seconds[is_taken], (cshim_seconds() - detour->began) / (double)bytes);
}
