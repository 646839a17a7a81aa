/* SPDX-License-Identifier: Apache-2.0 */
/* Model of the agreement between the ranks of an MPI job (shim/mpi/agree.c), with the names of its
 * functions. docs/agreement.md states the claims.
 *
 * A deadline may pass at any moment, which covers late ranks and slow messages. A process may end
 * before each of its steps that others can see. It does not end while it waits without a deadline,
 * because that would hide that it waits forever. The launcher ends a job in which a process has
 * ended. Nothing is claimed about how the job ends, but until then, too, no rank may conclude the
 * opposite of another.
 *
 *   RANKS        number of ranks (3)
 *   WIDTH        largest number of children of a rank in the tree (1)
 *   ONE_VERSION  all ranks have the same version
 *   NO_COMMIT    ranks compress once all hellos are there, without acknowledgements: wrong
 *   NO_LAUNCHER  a job in which a process has ended is not ended: wrong
 *   NEVER_ON     claims that no job is compressed: wrong */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef WIDTH
#define WIDTH 1
#endif
#define PARENT ((rank - 1) / WIDTH)
#define FIRST_CHILD (rank * WIDTH + 1)
#define LAST_CHILD (rank * WIDTH + WIDTH < RANKS -> rank * WIDTH + WIDTH : RANKS - 1)

mtype = { STARTING, OFF, ON, ENDED }; /* state of a rank; without the shim it starts as OFF */
mtype = { NOTHING, NO, YES };         /* content of a message */

mtype state[RANKS] = STARTING;
bool version[RANKS]; /* includes the codec table */
bool names_kept;     /* the launcher keeps published names */
bool announced[RANKS];
bool lacks_shim[RANKS];
/* Messages between a rank and its parent. Hello and acknowledgement go up, the others down. */
mtype hello[RANKS] = NOTHING, reply[RANKS] = NOTHING;
mtype acknowledgement[RANKS] = NOTHING, decision[RANKS] = NOTHING;

bool alone;          /* two ranks have concluded opposites */
bool waits_for_ever; /* some rank waits forever */
bool is_on;          /* some rank compresses */

/* Sets the rank's state: it compresses, or does not, or its process has ended. */
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
    :: !names_kept /* no rank looks for its parent */
    fi;

    /* collect_hellos: hellos that arrive before the deadline are answered */
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
end_without_decision: /* init checks whether it may end here */
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
    timeout; /* no further step is possible */
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
