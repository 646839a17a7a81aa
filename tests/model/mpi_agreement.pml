/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement of an MPI job's ranks, as shim/mpi/agree.c has it, with the names of that file.
 * docs/agreement.md tells what is claimed.
 *
 * A deadline may pass at any moment, so a rank that comes late and a message that is long on its
 * way need nothing of their own here. A process may end before each of its steps that others can
 * see. It does not end where it waits without a deadline, as that would hide that it waits for
 * ever. The launcher ends a job in which a process has ended. Nothing is claimed of how that goes;
 * but until then, too, nobody may come to the opposite of another rank.
 *
 *   RANKS        how many ranks (3)
 *   NO_COMMIT    rank 0 compresses once all have said hello, without acknowledgements: wrong
 *   NO_LAUNCHER  nobody ends the job in which a process has ended: wrong
 *   NEVER_ON     claims that no job is compressed: wrong
 */
#ifndef RANKS
#define RANKS 3
#endif

mtype = { STARTING, OFF, ON, ENDED }; /* a rank; one without the shim is OFF from the start */
mtype = { NOTHING, NO, YES };         /* what has been sent */

mtype state[RANKS] = STARTING;
bool right_version[RANKS];
bool names_kept; /* by the launcher */
bool announced;  /* rank 0 */
bool lacks_shim[RANKS];
bool hello[RANKS], acknowledge[RANKS];
mtype reply[RANKS] = NOTHING, decision[RANKS] = NOTHING;

bool alone;          /* a rank has come to the opposite of another one */
bool waits_for_ever; /* a rank does */
bool is_on;          /* a rank is */

/* The rank will compress, or will not, or its process has ended. */
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

proctype root()
{
    byte rank, i, to = 1;
    bool all = true, has_arrived[RANKS];

    if
    :: END
    :: become(OFF); goto done /* no memory */
    :: names_kept -> announced = true
    :: skip /* it cannot be announced */
    fi;

    /* collect_hellos: those that come before the deadline are answered */
    do
    :: atomic {
           to < RANKS && hello[to] -> has_arrived[to] = true;
           all = all && right_version[to];
           to++
       }
    :: atomic { to < RANKS -> all = false; to++ }
    :: atomic { to == RANKS -> to = 1; break }
    od;
    do
    :: atomic { to < RANKS && !has_arrived[to] -> to++ }
    :: atomic {
           to < RANKS && has_arrived[to] -> assert(!lacks_shim[to]);
           reply[to] = (all -> YES : NO);
           has_arrived[to] = false;
           to++
       }
    :: to < RANKS -> END
    :: atomic { to == RANKS -> to = 1; break }
    od;

#ifndef NO_COMMIT
    if
    :: !all -> become(OFF); goto done
    :: else
    fi;
    /* collect_acknowledgements */
    do
    :: atomic { to < RANKS && acknowledge[to] -> to++ }
    :: atomic { to < RANKS -> all = false; break } /* the deadline */
    :: to == RANKS -> break
    od;
    to = 1;
    do
    :: atomic { to < RANKS -> decision[to] = (all -> YES : NO); to++ }
    :: to < RANKS -> END
    :: to == RANKS -> break
    od;
#endif
    if
    :: all -> become(ON)
    :: else -> become(OFF)
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
    :: names_kept ->
        if
        :: announced -> assert(!lacks_shim[0])
        :: become(OFF); goto done /* the deadline */
        fi
    :: skip /* it cannot be announced, and does not look for rank 0 */
    fi;
    if
    :: END
    :: hello[rank] = true
    fi;
    if
    :: reply[rank] == YES
    :: reply[rank] == NO -> become(OFF); goto done
    :: become(OFF); goto done /* the deadline */
    fi;
#ifndef NO_COMMIT
    if
    :: END
    :: acknowledge[rank] = true
    fi;
end_without_decision: /* init looks whether it may */
    if
    :: decision[rank] == YES
    :: decision[rank] == NO -> become(OFF); goto done
    fi;
#endif
    become(ON);
done:
    skip
}

init
{
    byte rank;
    bool somebody_ended;
    atomic {
        if
        :: names_kept = true
        :: skip
        fi;
        for (rank : 0 .. RANKS - 1) {
            if
            :: lacks_shim[rank] = true; state[rank] = OFF
            :: rank == 0 -> run root()
            :: rank > 0 -> right_version[rank] = true; run other(rank)
            :: rank > 0 -> run other(rank) /* of another version */
            fi
        }
        rank = 0
    }
    timeout; /* nothing can happen any more */
    d_step {
#ifndef NO_LAUNCHER
        for (rank : 0 .. RANKS - 1) {
            somebody_ended = somebody_ended || state[rank] == ENDED
        }
#endif
        for (rank : 0 .. RANKS - 1) {
            waits_for_ever = waits_for_ever || (state[rank] == STARTING && !somebody_ended);
            assert(!waits_for_ever);
#ifdef NEVER_ON
            is_on = is_on || state[rank] == ON;
            assert(!is_on)
#endif
        }
    }
}
