/* SPDX-License-Identifier: Apache-2.0 */
/* Model of the agreement between the ranks of a gloo context (shim/gloo/agree.c). States, messages
 * and comments use names of that file. docs/agreement.md states the claims.
 *
 * All ranks make the same calls, each rank either one after another or all at once in any order. A
 * call may begin at any moment, so a rank may be arbitrarily late. A message may be arbitrarily
 * late, but messages between two ranks keep their order. A rank that may stop waiting may do so at
 * any moment. A call ends on a rank once all ranks have begun it, except with EARLY.
 *
 * A process may end at any moment. Its connections then close, like those of a rank that breaks the
 * context. A rank that waits for a closed connection notices at some moment, and breaks the context
 * too. Presences are left out, because only a warning depends on them, and so is rank 0's PASSING,
 * which only shortens waits that may end at any moment here. Calls have different tags.
 *
 *   RANKS, CALLS  their numbers (3, 2)
 *   SERIAL        calls of a rank follow each other
 *   EARLY         a call may end on a rank before another begins it, as a broadcast does at its root
 *   FORGOTTEN     with EARLY: calls are listed only until they end: wrong
 *   ENDS          how many processes may end (RANKS)
 *   LIMIT         a call's own time limit may pass while a rank waits
 *   ONE_VERSION   all ranks have the shim
 *   PROMPT        messages take no time: claims that at most PROMPT calls are passed through
 *   NO_COMMIT     rank 0 compresses once it has all hellos: wrong
 *   NO_MARKS      active calls are not listed: wrong
 *   NO_WORD       rank 0 does not announce the calls that it passes through: wrong
 *   STUBBORN      rank 0 waits for ranks that do not wait: wrong
 *   MARKED        ranks conclude in calls that are passed through: wrong
 *   NO_BREAK      a rank that finds a closed connection leaves its own open: wrong
 *   NEVER_ON      claims that no call is compressed: wrong */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef ENDS
#define ENDS RANKS
#endif

#define BIT(n) (1 << (n))
#define ALL_CALLS (BIT(CALLS) - 1)
#define ALL_RANKS (BIT(RANKS) - 1)
#define OTHERS (ALL_RANKS - 1) /* all but rank 0 */

mtype = { HELLO, OTHER_VERSION, PASSING, READY, PROPOSAL, NATIVE, COMPRESS, NEVER };

/* States of a rank, in their order. IS_CROWDED is left out: a message can name all calls. */
#define WAITING 0
#define HAS_PASSED 1
#define HAS_PROPOSED 2
#define IS_READY 3
#define HAS_DECIDED 4
#define ACCEPTING 5
#define SETTLED 6
#define OFF 7 /* has_agreed, and nothing is compressed */

/* Messages to rank 0, and from rank 0, with the marks. */
chan up[RANKS] = [3] of { mtype, byte };
chan down[RANKS] = [CALLS + 2] of { mtype, byte };

bool has_shim[RANKS], right_version[RANKS], serial[RANKS];
byte state[RANKS] = WAITING;
bool is_open[RANKS];                 /* the first call has begun */
byte native[CALLS], compressed[CALLS]; /* mask of ranks that have begun the call so */
byte under_way[RANKS];                 /* mask of native calls that have begun; see UNDER_WAY */
byte marks[RANKS];                     /* mask of calls known to be passed through */
byte done[RANKS];                      /* mask of calls that have ended */
byte concluded;               /* ranks that have concluded */
byte gone;                    /* ranks whose connections are closed */
byte greeted, passing, ready; /* ranks, as known to rank 0 */
byte ends;

bool alone;          /* a rank compresses a call that another passes through */
bool waits_for_ever; /* some rank waits forever */
bool is_on;          /* a call is compressed */
bool lost;           /* too many calls are passed through */

#ifdef NO_BREAK
#define BREAK goto over
#else
#define BREAK gone = gone | BIT(rank); goto over
#endif
#ifdef EARLY
#define MAY_END(id) true
#else
#define MAY_END(id) ((native[id] | compressed[id]) == ALL_RANKS)
#endif
#if defined(EARLY) && !defined(FORGOTTEN)
#define UNDER_WAY(r) (under_way[r] | marks[r])
#else
#define UNDER_WAY(r) ((under_way[r] | marks[r]) & ~done[r])
#endif
#ifdef NO_MARKS
#define LISTED(r) 0
#else
#define LISTED(r) UNDER_WAY(r)
#endif

inline say_to_all(what, which)
{
    for (to : 1 .. RANKS - 1) {
        if
        :: has_shim[to] -> down[to]!what(which)
        :: else
        fi
    }
    to = 0
}

/* listen: receives one message */
inline hear_as_root()
{
    up[from]?what(which);
    if
    :: what == HELLO -> greeted = greeted | BIT(from)
    :: what == OTHER_VERSION -> state[0] = OFF; say_to_all(NEVER, 0)
    :: what == PASSING -> passing = passing | BIT(from)
    :: what == READY -> ready = ready | BIT(from); marks[0] = marks[0] | which
    fi;
    if
    :: greeted == OTHERS && state[0] < HAS_PROPOSED ->
        state[0] = HAS_PROPOSED;
        say_to_all(PROPOSAL, LISTED(0))
    :: else
    fi;
    what = 0; which = 0
}

inline hear_as_other()
{
    down[rank]?what(which);
    marks[rank] = marks[rank] | which;
    if
    :: what == PROPOSAL -> state[rank] = IS_READY; up[rank]!READY(LISTED(rank))
    :: what == COMPRESS -> state[rank] = HAS_DECIDED
    :: what == NEVER -> state[rank] = OFF
    :: what == NATIVE
    fi;
    what = 0; which = 0
}

#ifdef PROMPT
#define QUIET (rank > 0 && empty(down[rank]) || rank == 0 && empty(up[1]) && empty(up[RANKS - 1]))
#else
#define QUIET true
#endif
#ifdef NO_COMMIT
#define MAY_COMPRESS (greeted == OTHERS)
#else
#define MAY_COMPRESS (ready == OTHERS)
#endif
#ifdef STUBBORN
#define SOMEBODY_PASSES (greeted != OTHERS && (passing & ~ready) != 0)
#else
#define SOMEBODY_PASSES ((passing & ~ready) != 0)
#endif
#ifdef MARKED
#define IS_MARKED(r) ((marks[r] & BIT(id)) != 0 && state[r] != HAS_DECIDED)
#else
#define IS_MARKED(r) ((marks[r] & BIT(id)) != 0)
#endif
#define IS_OPEN(r) (QUIET && !IS_MARKED(r) && state[r] < ACCEPTING)

proctype call(byte rank, id)
{
    byte from, to, which;
    mtype what;
    {
    (!serial[rank] || (done[rank] & (BIT(id) - 1)) == BIT(id) - 1);
    atomic {
        if
        :: !has_shim[rank] -> goto pass
        :: has_shim[rank] && rank > 0 && !is_open[rank] && right_version[rank] -> up[rank]!HELLO(0)
        :: has_shim[rank] && rank > 0 && !is_open[rank] && !right_version[rank] ->
            up[rank]!OTHER_VERSION(0)
        :: else
        fi;
        is_open[rank] = true
    }
    do
    :: atomic { rank > 0 && state[rank] < ACCEPTING && nempty(down[rank]) -> hear_as_other() }
    :: atomic { rank == 0 && state[0] < ACCEPTING && nempty(up[1]) -> from = 1; hear_as_root(); from = 0 }
#if RANKS > 2
    :: atomic { rank == 0 && state[0] < ACCEPTING && nempty(up[2]) -> from = 2; hear_as_root(); from = 0 }
#endif
#if RANKS > 3
    :: atomic { rank == 0 && state[0] < ACCEPTING && nempty(up[3]) -> from = 3; hear_as_root(); from = 0 }
#endif
    /* decide */
    :: atomic { IS_MARKED(rank) -> goto pass }
    :: atomic { state[rank] == OFF -> goto pass }
    :: atomic { !IS_MARKED(rank) && state[rank] == SETTLED -> goto compress }
    :: atomic { rank == 0 && IS_OPEN(0) && state[0] == HAS_PROPOSED && MAY_COMPRESS ->
           state[0] = ACCEPTING;
           say_to_all(COMPRESS, LISTED(0));
           break
       }
    :: atomic { rank == 0 && IS_OPEN(0) &&
                (state[0] == WAITING || !MAY_COMPRESS && SOMEBODY_PASSES) -> goto pass }
    :: atomic { rank > 0 && IS_OPEN(rank) && state[rank] == HAS_DECIDED -> state[rank] = ACCEPTING; break }
    :: atomic { rank > 0 && IS_OPEN(rank) && state[rank] < IS_READY -> goto pass }
    /* look */
    :: atomic { rank > 0 && (gone & 1) != 0 -> BREAK }
    :: atomic { rank == 0 && gone != 0 -> BREAK }
#ifdef LIMIT
    :: atomic { state[rank] < ACCEPTING -> BREAK }
#endif
    od;

    /* conclude: no rank goes on before all have concluded */
    concluded = concluded | BIT(rank);
    if
    :: atomic { concluded == ALL_RANKS -> state[rank] = SETTLED }
    :: atomic { (gone & ~concluded) != 0 -> BREAK }
    fi;
    atomic {
        skip;
compress:
        compressed[id] = compressed[id] | BIT(rank);
        is_on = true;
        alone = native[id] != 0;
        assert(!alone)
    }
    goto complete;

    atomic {
        skip;
pass:
        native[id] = native[id] | BIT(rank);
        under_way[rank] = under_way[rank] | BIT(id);
        alone = compressed[id] != 0;
        assert(!alone);
        if
#ifndef NO_WORD
        :: has_shim[rank] && rank == 0 && state[0] == HAS_PROPOSED ->
            say_to_all(NATIVE, BIT(id))
#endif
        :: has_shim[rank] && rank > 0 && state[rank] == WAITING ->
            state[rank] = HAS_PASSED;
            up[rank]!PASSING(0)
        :: else
        fi
    }

complete: /* the call itself, in which every rank waits for every other (except EARLY) */
    if
    :: atomic {
           MAY_END(id) ->
           done[rank] = done[rank] | BIT(id)
       }
    :: atomic { (gone & ~(native[id] | compressed[id])) != 0 -> BREAK }
    fi;
    /* cshim_gloo_agree_end: receives pending messages */
    do
    :: atomic {
           has_shim[rank] && rank > 0 && state[rank] < ACCEPTING && nempty(down[rank]) ->
           hear_as_other()
       }
    :: atomic { has_shim[0] && rank == 0 && state[0] < ACCEPTING && nempty(up[1]) -> from = 1; hear_as_root(); from = 0 }
#if RANKS > 2
    :: atomic { has_shim[0] && rank == 0 && state[0] < ACCEPTING && nempty(up[2]) -> from = 2; hear_as_root(); from = 0 }
#endif
    :: break
    od
    } unless { (gone & BIT(rank)) != 0 };
over:
    skip
}

#if ENDS > 0
proctype end(byte rank)
{
    if
    :: atomic { ends < ENDS -> ends++; gone = gone | BIT(rank) }
    :: skip
    fi
}
#endif

init
{
    byte rank, id, count;
    atomic {
        for (rank : 0 .. RANKS - 1) {
            if
            :: has_shim[rank] = true; right_version[rank] = true
#ifndef ONE_VERSION
            :: rank > 0 -> has_shim[rank] = true /* of another version */
            :: skip
#endif
            fi;
#ifdef SERIAL
            serial[rank] = true;
#else
            if
            :: serial[rank] = true
            :: skip
            fi;
#endif
#if ENDS > 0
            run end(rank);
#endif
            for (id : 0 .. CALLS - 1) {
                run call(rank, id)
            }
        }
        rank = 0; id = 0
    }
    timeout; /* no further step is possible */
    d_step {
        for (rank : 0 .. RANKS - 1) {
            waits_for_ever = waits_for_ever || ((gone & BIT(rank)) == 0 && done[rank] != ALL_CALLS);
        }
        assert(!waits_for_ever);
#ifdef PROMPT
        for (id : 0 .. CALLS - 1) {
            count = count + (native[id] & 1)
        }
        lost = count > PROMPT;
        assert(!lost);
#endif
#ifdef NEVER_ON
        assert(!is_on)
#endif
    }
}
