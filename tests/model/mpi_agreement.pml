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
 *   WIDTH        how many children a rank of the tree may have (1)
 *   ONE_VERSION  all ranks have the same
 *   NO_COMMIT    ranks compress once all have said hello, without acknowledgements: wrong
 *   NO_LAUNCHER  nobody ends the job in which a process has ended: wrong
 *   NEVER_ON     claims that no job is compressed: wrong
 */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef WIDTH
#define WIDTH 1
#endif
#define PARENT ((rank - 1) / WIDTH)
#define FIRST_CHILD (rank * WIDTH + 1)
#define LAST_CHILD (rank * WIDTH + WIDTH < RANKS -> rank * WIDTH + WIDTH : RANKS - 1)

mtype = { STARTING, OFF, ON, ENDED }; /* a rank; one without the shim is OFF from the start */
mtype = { NOTHING, NO, YES };         /* what has been sent */

mtype state[RANKS] = STARTING;
bool version[RANKS]; /* the codec table is a part of it */
bool names_kept;     /* by the launcher */
bool announced[RANKS];
bool lacks_shim[RANKS];
/* Each is of a rank and its parent; the first and the third go up. */
mtype hello[RANKS] = NOTHING, reply[RANKS] = NOTHING;
mtype acknowledgement[RANKS] = NOTHING, decision[RANKS] = NOTHING;

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

/* agree_to_compress */
proctype member(byte rank)
{
    byte i, child = FIRST_CHILD;
    bool all = true, has_parent = true, has_arrived[RANKS];

    if
    :: END
    :: names_kept -> announced[rank] = true;
        if
        :: rank == 0
        :: rank > 0 && announced[PARENT] -> assert(!lacks_shim[PARENT])
        :: rank > 0 -> has_parent = false /* the deadline */
        fi
    :: !names_kept /* and nobody looks for a parent */
    fi;

    /* collect_hellos: those that come before the deadline are answered */
    do
    :: atomic {
           child <= LAST_CHILD && hello[child] != NOTHING -> has_arrived[child] = true;
           all = all && hello[child] == YES && version[child] == version[rank];
           child++
       }
    :: atomic { child <= LAST_CHILD -> all = false; child++ }
    :: atomic { child > LAST_CHILD -> child = FIRST_CHILD; break }
    od;

    /* send_hello */
    if
    :: rank == 0
    :: rank > 0 && !has_parent -> all = false
    :: rank > 0 -> END
    :: rank > 0 && has_parent -> hello[rank] = (all -> YES : NO);
        if
        :: reply[rank] == YES -> assert(all)
        :: reply[rank] == NO -> all = false
        :: all = false /* the deadline */
        fi
    fi;

    /* reply_to_children */
    do
    :: atomic { child <= LAST_CHILD && !has_arrived[child] -> child++ }
    :: atomic {
           child <= LAST_CHILD && has_arrived[child] -> assert(!lacks_shim[child]);
           reply[child] = (all -> YES : NO);
           has_arrived[child] = false;
           child++
       }
    :: child <= LAST_CHILD -> END
    :: atomic { child > LAST_CHILD -> child = FIRST_CHILD; break }
    od;

#ifndef NO_COMMIT
    /* commit */
    if
    :: !all -> become(OFF); goto done
    :: else
    fi;
    do
    :: atomic {
           child <= LAST_CHILD && acknowledgement[child] != NOTHING ->
           all = all && acknowledgement[child] == YES;
           child++
       }
    :: atomic { child <= LAST_CHILD -> all = false; break } /* the deadline */
    :: child > LAST_CHILD -> break
    od;
    child = FIRST_CHILD;
    if
    :: rank == 0
    :: rank > 0 -> END
    :: rank > 0 -> acknowledgement[rank] = (all -> YES : NO);
end_without_decision: /* init looks whether it may */
        atomic { decision[rank] != NOTHING -> all = decision[rank] == YES }
    fi;
    do
    :: atomic { child <= LAST_CHILD -> decision[child] = (all -> YES : NO); child++ }
    :: child <= LAST_CHILD -> END
    :: child > LAST_CHILD -> break
    od;
#endif
    if
    :: all -> become(ON)
    :: else -> become(OFF)
    fi;
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
            :: version[rank] = true; run member(rank)
#ifndef ONE_VERSION
            :: run member(rank)
#endif
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
