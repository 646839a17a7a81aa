/* SPDX-License-Identifier: Apache-2.0 */
/* Model of the agreement between the ranks of a new NCCL communicator, and of the barrier in their
 * first compressed call. A rank is as in shim/nccl/rendezvous.c, group.c and prepare.c, the process
 * that made the unique id (the maker) as in rendezvous_session.c, with the names of their
 * functions. docs/agreement.md states the claims.
 *
 * Ranks come arbitrarily late. HELLO_SECONDS, CSHIM_READY_SECONDS and BACK_SECONDS may pass at any
 * moment. While the maker's process lives, its thread answers within the time that ranks wait,
 * unless SLOW. A rank whose real ncclCommInitRank fails looks to the others like one that ends
 * there. Messages without effect are left out: repeated hellos, and repeated questions about
 * missing ranks.
 *
 *   RANKS       number of ranks (3)
 *   ENDS        how many of their processes may end (1)
 *   BREAKS      how many connections may break (1)
 *   OUTSIDE     the maker is not a rank; otherwise it is rank 0
 *   MAKER_ENDS  with OUTSIDE: the maker may end too
 *   EXCUSED     only !alone is claimed if the maker ends while ranks are at the decision
 *   SLOW        the maker may be stopped for longer than ranks wait for it
 *   BREAKS_IN_NCCL  a connection may also break during NCCL's all-gather
 *   NO_COMMIT   ranks compress once all have said hello: wrong
 *   NEVER_ON    claims that no communicator is compressed: wrong */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef ENDS
#define ENDS 1
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#ifdef OUTSIDE
#define MAKER RANKS
#else
#define MAKER 0
#endif

mtype = { NOTHING, YES, NO };

/* The ranks. */
mtype = { COMING, IN_INIT, DECIDING, MEETING, NATIVE, MET, ENDED, FAILED, UNKNOWN, LOST };
mtype state[RANKS] = COMING; /* the last six are final; UNKNOWN: cannot know the decision */
mtype told[RANKS] = NOTHING; /* the received decision, or its own conclusion */
bool is_unable[RANKS];
bool may_end[RANKS + 1];     /* including the maker */
bool is_connected[RANKS];    /* since READY, or since it has come to its first call */
bool may_be_heard[RANKS];
byte called, entered;        /* calls of ncclCommInitRank; of gather_states */
byte breaks;                 /* connections that may still break */
bool has_broken;

/* The session. */
bool maker_ended, ended_at_decision;
bool sent[RANKS];            /* READY, not received yet */
bool here[RANKS], ready[RANKS], came[RANKS], waits[RANKS], failure[RANKS], lost[RANKS];
bool held[RANKS];            /* READY, to be answered with the decision */
bool broken[RANKS];          /* the connection of a waiting rank has broken */
bool hung_up[RANKS];         /* the connection has ended, unnoticed by the server */
mtype decided = NOTHING;

/* The claims. */
bool alone;          /* a rank concludes the opposite of another */
bool waits_for_ever; /* some rank waits forever, where it would not natively */
bool differ;         /* some ranks are done, others are not */
bool needless;       /* an error although no process has ended and nothing has failed */
bool is_on;

#define ANY(what) (what(0) || what(1) || what(2) || what(RANKS - 1))
#define ALL(what) (what(0) && what(1) && what(2) && what(RANKS - 1))
#define MISSING(r) (!here[r])
#define UNABLE(r) failure[r]
#define NOT_READY(r) (!ready[r])
#define NOT_COME(r) (!came[r])
#define HEARD(r) ready[r]
#define HELD(r) held[r]
#define GONE(r) (failure[r] || lost[r])
#define IS_DECIDING(r) (state[r] == DECIDING && told[r] == NOTHING)
#define MAY_BE_HEARD(r) may_be_heard[r]
#define HAS_ENDED(r) (state[r] == ENDED)
#define CAME_AND_ENDED(r) (state[r] == ENDED && came[r])
#define HAS_MET(r) (state[r] == MET)
#define IS_NATIVE(r) (state[r] == NATIVE)
#define IS_ERROR(r) (state[r] == FAILED || state[r] == UNKNOWN || state[r] == LOST)
#define HAS_FAILED(r) (state[r] == FAILED)

/* A rank learns or concludes whether the communicator is compressed. */
inline conclude(what)
{
    told[rank] = what;
    for (i : 0 .. RANKS - 1) {
        alone = alone || (told[i] != what && told[i] != NOTHING)
    }
    i = 0;
    assert(!alone)
}

inline end_maker()
{
    maker_ended = true;
    ended_at_decision = ANY(MAY_BE_HEARD) && ANY(IS_DECIDING)
}

/* The process of a rank ends, and its connection with it. */
inline end_process()
{
    d_step {
        state[rank] = ENDED;
        sent[rank] = false;
        held[rank] = false;
        hung_up[rank] = is_connected[rank];
        is_connected[rank] = false;
        if
        :: rank == MAKER -> end_maker()
        :: else
        fi
    }
}

/* A connection ends, by the network or from the rank's side. */
inline lose_connection()
{
    sent[rank] = false;
    held[rank] = false;
    is_connected[rank] = false;
    hung_up[rank] = true
}

inline break_connection()
{
    breaks--;
    has_broken = true;
    lose_connection()
}

inline take_answer()
{
    held[rank] = false;
    is_connected[rank] = false
}

/* The server receives WAIT, or DONE with or without a failure. */
inline hear_wait()
{
    is_connected[rank] = true;
    hung_up[rank] = false;
    came[rank] = true;
    waits[rank] = true;
    broken[rank] = false
}

inline hear_done(why)
{
    if
    :: !maker_ended ->
        waits[rank] = false;
        broken[rank] = false;
        failure[rank] = failure[rank] || why
    :: else
    fi;
    hung_up[rank] = false;
    is_connected[rank] = false
}

/* The rank learns that another one is lost. That is no failure of its own. */
inline hear_lost()
{
    state[rank] = LOST;
    hear_done(false)
}

proctype rank_without_shim(byte rank)
{
    byte i;
    if
    :: may_end[rank] -> end_process(); goto done
    :: atomic { called++; told[rank] = NO; state[rank] = NATIVE }
    fi;
done:
    skip
}

proctype rank_with_shim(byte rank)
{
    byte i;
    bool is_member;

    /* join: the hello or the answer may be lost or late */
    if
    :: may_end[rank] -> end_process(); goto done
    :: atomic { !maker_ended -> here[rank] = true; is_member = true }
    :: !maker_ended -> here[rank] = true
    :: skip
    fi;

    /* the real ncclCommInitRank */
    if
    :: may_end[rank] -> end_process(); goto done
    :: atomic { called++; state[rank] = IN_INIT }
    fi;
end_in_init:
    if
    :: called == RANKS
    fi;
    if
    :: d_step { !is_member -> state[rank] = NATIVE; conclude(NO) }; goto done
    :: atomic { is_member -> state[rank] = DECIDING }
    fi;

#ifdef NO_COMMIT
    if
    :: d_step { ANY(MISSING) -> state[rank] = NATIVE; conclude(NO) }; goto done
    :: d_step { !ANY(MISSING) -> conclude(YES) }
    fi;
#else
    /* ready, or unable to compress; then decide */
    if
    :: is_unable[rank] = true
    :: skip
    fi;
ask:
    if
    :: may_end[rank] -> end_process(); goto done
    :: atomic {
           !maker_ended -> is_connected[rank] = true;
           sent[rank] = true;
           may_be_heard[rank] = true
       }
    :: maker_ended -> goto no_answer
    fi;
    if
    :: may_end[rank] -> end_process(); goto done
    :: d_step { held[rank] && decided == YES && !maker_ended -> conclude(YES); take_answer() }
    :: d_step {
           held[rank] && decided == NO && !maker_ended -> conclude(NO);
           state[rank] = NATIVE;
           take_answer()
       };
       goto done
    :: atomic { breaks > 0 -> break_connection() }; goto ask
    :: maker_ended -> goto no_answer
#ifdef SLOW
    :: d_step { !maker_ended -> lose_connection() }; goto no_answer
#endif
    fi;
#endif

    /* the first call: begin_exchange */
    if
    :: may_end[rank] -> end_process(); goto done
    :: d_step { state[rank] = FAILED; hear_done(true) }; goto done
    :: skip
    fi;
come:
    if
    :: d_step { !maker_ended -> state[rank] = MEETING; hear_wait() }
    :: atomic { maker_ended -> state[rank] = MEETING }
    fi;
    /* await_ranks: a rank whose connection breaks asks again at once */
end_meeting:
    if
    :: may_end[rank] -> end_process(); goto done
    :: is_connected[rank] && !maker_ended && !ANY(GONE) && !ANY(NOT_COME)
    :: d_step { is_connected[rank] && !maker_ended && ANY(GONE) -> hear_lost() };
       goto done
    :: maker_ended
    :: atomic { is_connected[rank] && breaks > 0 -> break_connection() };
       goto come
#ifdef SLOW
    :: atomic { is_connected[rank] && !maker_ended -> lose_connection() }
#endif
    fi;
    /* gather_states, await_states */
    if
    :: may_end[rank] -> end_process(); goto done
    :: entered++
    fi;
end_in_nccl:
    do
    :: may_end[rank] -> end_process(); goto done
    :: d_step { entered == RANKS -> state[rank] = MET; hear_done(false) }; break
    :: d_step { is_connected[rank] && !maker_ended && ANY(GONE) -> hear_lost() };
       break
    :: d_step { !is_connected[rank] && !maker_ended -> hear_wait() }
#ifdef BREAKS_IN_NCCL
    :: atomic { is_connected[rank] && breaks > 0 -> break_connection() }
#endif
    od;
    goto done;

no_answer:
    atomic {
        if
        :: may_be_heard[rank] -> state[rank] = UNKNOWN
        :: else -> state[rank] = NATIVE; conclude(NO)
        fi
    }
done:
    skip
}

/* The maker's thread: its answers to one rank. */
proctype answer(byte rank)
{
end:
    do
    :: d_step {
           !maker_ended && sent[rank] -> sent[rank] = false;
           held[rank] = true;
           ready[rank] = true;
           failure[rank] = failure[rank] || is_unable[rank]
       }
    :: d_step {
           !maker_ended && hung_up[rank] -> hung_up[rank] = false;
           broken[rank] = broken[rank] || waits[rank]
       }
    :: d_step { !maker_ended && broken[rank] && !lost[rank] -> lost[rank] = true }
    od
}

/* The maker's thread: the decision, sent as the answer to READY. The last option is the deadline.
 */
proctype decide()
{
end:
    if
    :: d_step { !maker_ended && ANY(HELD) && (ANY(MISSING) || ANY(UNABLE)) -> decided = NO }
    :: d_step {
           !maker_ended && ANY(HELD) && !ANY(MISSING) && !ANY(UNABLE) && !ANY(NOT_READY) ->
               decided = YES
       }
    :: d_step { !maker_ended && ANY(HELD) && ANY(NOT_READY) -> decided = NO }
    fi
}

proctype fate_of_maker()
{
    if
    :: may_end[RANKS] -> d_step { end_maker() }
    :: skip
    fi
}

init
{
    byte rank, ends;
    bool ended, failed;
    atomic {
        for (rank : 0 .. RANKS - 1) {
            if
            :: run rank_with_shim(rank); run answer(rank)
            :: run rank_without_shim(rank);
                if
                :: rank == MAKER -> maker_ended = true /* the id has no address */
                :: else
                fi
            fi;
            if
            :: ends < ENDS -> ends++; may_end[rank] = true
            :: skip
            fi
        }
        rank = 0;
        ends = 0;
        if
        :: breaks = BREAKS
        :: breaks = 0
        fi;
#ifdef MAKER_ENDS
        if
        :: may_end[RANKS] = true
        :: skip
        fi;
        run fate_of_maker();
#endif
        run decide()
    }
    timeout; /* no further step is possible */
    d_step {
        ended = ANY(HAS_ENDED);
        failed = ANY(HAS_FAILED);
        for (rank : 0 .. RANKS - 1) {
            is_on = is_on || state[rank] == MET;
            waits_for_ever = waits_for_ever || state[rank] == COMING || state[rank] == DECIDING ||
                (state[rank] == IN_INIT && !ended) ||
                (state[rank] == MEETING && !ended && !(failed && maker_ended)) ||
                (state[rank] == MEETING && !maker_ended && ANY(CAME_AND_ENDED));
            differ = differ || (!ended && state[rank] == MET && !ALL(HAS_MET)) ||
                (!ended && state[rank] == NATIVE && !ALL(IS_NATIVE));
            needless = needless || (!ended && !failed && !has_broken && IS_ERROR(rank))
        }
    }
#ifdef EXCUSED
    if
    :: ended_at_decision -> goto done
    :: else
    fi;
#endif
    assert(!waits_for_ever);
    assert(!differ);
    assert(!needless);
#ifdef NEVER_ON
    assert(!is_on);
#endif
done:
    skip
}
