/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement of the ranks of a gloo context, as shim/gloo/agree.c has it, with the names of that
 * file. docs/agreement.md tells what is claimed.
 *
 * A deadline may pass at any moment, so a rank that comes late and a message that is long on its
 * way need nothing of their own here. A process may end before each of its steps that others can
 * see, and in gloo's own call. It does not end where it waits without a deadline, as that would
 * hide that it waits for ever. Its connections close then, as those of a rank that breaks the
 * context. A rank that waits for a message of a closed rank, or sends one to it, finds that out at
 * some moment, and breaks the context, too: the calls of all its ranks fail. Who is there
 * (PRESENCE) is left out, since only a warning depends on it.
 *
 *   RANKS      how many ranks (3)
 *   LIMIT      the call's own limit may pass while a rank waits for the decision or the terms
 *   NO_COMMIT  rank 0 compresses once all have said hello, without acknowledgements: wrong
 *   NO_BREAK   a rank that finds a closed one leaves its own connections open: wrong
 *   NEVER_ON   claims that no context is compressed: wrong
 */
#ifndef RANKS
#define RANKS 3
#endif

mtype = { STARTING, OFF, ON, BROKEN, ENDED }; /* a rank; one without the shim is OFF from the start */
mtype = { NOTHING, NO, YES };                 /* what has been sent */

mtype state[RANKS] = STARTING;
bool right_version[RANKS];
bool hello[RANKS], acknowledgement[RANKS], terms[RANKS];
mtype proposal[RANKS] = NOTHING, decision[RANKS] = NOTHING;

bool alone;          /* a rank has come to the opposite of another one */
bool waits_for_ever; /* a rank does */
bool is_on;          /* a rank is */

#ifdef NO_BREAK
#define IS_CLOSED(r) (state[r] == ENDED)
#else
#define IS_CLOSED(r) (state[r] == ENDED || state[r] == BROKEN)
#endif

/* The rank compresses, or does not, or has broken the context, or its process has ended. */
inline become(what)
{
    d_step {
        state[rank] = what;
        for (i : 0 .. RANKS - 1) {
            alone = alone || (what == ON && state[i] == OFF) || (what == OFF && state[i] == ON)
        }
        i = 0;
        assert(!alone)
    }
}

#define END become(ENDED); goto done
#define BREAK become(BROKEN); goto done

/* Rank 0 sends a message to each rank, or to those that have said hello. */
inline send_to_all(is_sent_to, message, what)
{
    do
    :: atomic { to < RANKS && !is_sent_to -> to++ }
    :: atomic { to < RANKS && is_sent_to -> message = what; to++ }
    :: to < RANKS && is_sent_to && IS_CLOSED(to) -> BREAK
    :: to < RANKS -> END
    :: atomic { to == RANKS -> to = 1; break }
    od
}

proctype root()
{
    byte rank, i, to = 1;
    bool all = true, has_greeted[RANKS];

    if
    :: END
    :: goto native /* no memory */
    :: skip
    fi;

    /* collect_hellos: those that come before the deadline are answered */
    do
    :: atomic {
           to < RANKS && hello[to] -> has_greeted[to] = true;
           all = all && right_version[to];
           to++
       }
    :: atomic { to < RANKS -> all = false; to++ }
    :: to < RANKS && !hello[to] && IS_CLOSED(to) -> BREAK
    :: atomic { to == RANKS -> to = 1; break }
    od;
    send_to_all(has_greeted[to], proposal[to], (all -> YES : NO));

#ifndef NO_COMMIT
    if
    :: !all -> goto native
    :: else
    fi;
    /* collect_acknowledgements, and write_terms, for which there may be no memory */
    do
    :: atomic { to < RANKS && acknowledgement[to] -> to++ }
    :: to < RANKS && !acknowledgement[to] && IS_CLOSED(to) -> BREAK
    :: atomic { all = false; break } /* the deadline */
    :: to == RANKS -> break
    od;
    to = 1;
    send_to_all(true, decision[to], (all -> YES : NO));
    if
    :: all -> send_to_all(true, terms[to], true)
    :: else
    fi;
#endif
    if
    :: all -> become(ON); goto done
    :: else
    fi;
native:
    become(OFF);
    if
    :: END
    :: skip
    fi;
done:
    skip
}

/* agree_as_other */
proctype other(byte rank)
{
    byte i;

    if
    :: END
    :: goto native /* no memory */
    :: IS_CLOSED(0) -> BREAK
    :: hello[rank] = true
    fi;
    if
    :: proposal[rank] == YES
    :: proposal[rank] == NO -> goto native
    :: goto native /* the deadline */
    :: proposal[rank] == NOTHING && IS_CLOSED(0) -> BREAK
    fi;
#ifndef NO_COMMIT
    if
    :: END
    :: IS_CLOSED(0) -> BREAK
    :: acknowledgement[rank] = true
    fi;
    if
    :: END
    :: skip
    fi;
end_without_decision: /* init looks whether it may */
    if
    :: decision[rank] == YES
    :: decision[rank] == NO -> goto native
    :: decision[rank] == NOTHING && IS_CLOSED(0) -> BREAK
#ifdef LIMIT
    :: BREAK
#endif
    fi;
    if
    :: END /* also without memory for the terms */
    :: skip
    fi;
end_without_terms:
    if
    :: terms[rank]
    :: !terms[rank] && IS_CLOSED(0) -> BREAK
#ifdef LIMIT
    :: BREAK
#endif
    fi;
#endif
    become(ON);
    goto done;
native:
    become(OFF);
    if
    :: END
    :: skip
    fi;
done:
    skip
}

proctype without_shim(byte rank)
{
    byte i;
    if
    :: END
    :: skip
    fi;
done:
    skip
}

init
{
    byte rank;
    atomic {
        for (rank : 0 .. RANKS - 1) {
            if
            :: state[rank] = OFF; run without_shim(rank)
            :: rank == 0 -> run root()
            :: rank > 0 -> right_version[rank] = true; run other(rank)
            :: rank > 0 -> run other(rank) /* of another version */
            fi
        }
        rank = 0
    }
    timeout; /* nothing can happen any more */
    d_step {
        for (rank : 0 .. RANKS - 1) {
            waits_for_ever = waits_for_ever || state[rank] == STARTING;
            assert(!waits_for_ever);
#ifdef NEVER_ON
            is_on = is_on || state[rank] == ON;
            assert(!is_on)
#endif
        }
    }
}
