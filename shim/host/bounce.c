/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/bounce.h"

#include <string.h>

#include "shim/core/clock.h"
#include "shim/core/plan.h"

#define LONGEST CSHIM_NODE_PIECE_LIMIT /* largest message that uses the bounce buffer, in bytes */
#define TIMED 16384u /* smallest timed message in bytes; reading the clock takes far less */
#define TRIED 61u    /* timed messages from one trial of the unused way to the next */
#define WORTH 0.9    /* the bounce buffer is used below this fraction of the direct time */
#define STEP 0.0625  /* relative change of a duration's estimate per message */
#define LINE 64u

/* Durations of encoding directly and by the bounce buffer. They need no lock: only the call that
 * holds the shared scratch uses them. */
static struct {
    double seconds[2]; /* median seconds per byte: [0] direct, [1] by the bounce buffer */
    unsigned timed;
} ways;

struct cshim_bounce cshim_bounce_begin(enum cshim_writing what, uint8_t *place, size_t bytes)
{
    static _Alignas(LINE) uint8_t own[LONGEST + LINE];
    struct cshim_bounce bounce = {place, place, 0};
    const bool is_timed = what == CSHIM_WRITING_PART && bytes >= TIMED;
    if (what == CSHIM_WRITING_UNREAD || bytes > LONGEST)
        return bounce;
    bool is_taken = ways.seconds[1] < WORTH * ways.seconds[0];
    if (is_timed && ways.timed++ % TRIED == 0)
        is_taken = !is_taken;
    if (is_taken)
        bounce.encoded = own + (uintptr_t)place % LINE;
    bounce.began = is_timed ? cshim_seconds() : 0;
    return bounce;
}

/* Updates a running estimate of the median. A mean would be spoiled by a message that the system
 * interrupts, above all for the way that is rarely timed. The first messages, which pay for page
 * faults, are forgotten as soon as a message takes less than half. */
static void learn(double *seconds, double latest)
{
    if (!(*seconds > 0) || latest < *seconds / 2)
        *seconds = latest;
    else
        *seconds *= latest > *seconds ? 1 + STEP : 1 - STEP;
}

void cshim_bounce_end(const struct cshim_bounce *bounce, size_t bytes)
{
    const bool is_taken = bounce->encoded != bounce->place;
    if (is_taken)
        memcpy(bounce->place, bounce->encoded, bytes);
    if (bounce->began > 0)
        learn(&ways.seconds[is_taken], (cshim_seconds() - bounce->began) / (double)bytes);
}
