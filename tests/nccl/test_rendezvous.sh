#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks how the ranks of a communicator agree: late or lost ranks, forked ones, ids made by other processes,
# broken connections, several ids. No rank may wait forever, all ranks must act alike, results must be exact.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_rendezvous
rank_setting=$top/tests/nccl/rank_setting.sh
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"
machine=$(hostname)

exact 3 plain 2
exact 3 grouped 1
exact 3 late 1
if [ "${SANITIZE:-0}" = 1 ]; then
    skip "forked ranks: AddressSanitizer's allocator does not survive a fork of a threaded process"
else
    exact 1 forked 1
fi
exact 3 elsewhere 1
exact 3 elsewhere_ended 1
exact 3 scalable 1
exact 3 orders 2
exact 2 many 201

# Connections that break while the ranks agree.
breaker=$build/tests/standin_breaker.so
broken() { # STEP RANKS: breaks connections of these ranks at a step; the results must be right
    expect "broken at $1 on ranks $2: right results" 0 \
        preloaded 3 BREAK="$1" sh "$rank_setting" "$2" LD_PRELOAD="$breaker:$preload" "$program" plain
    contains "broken at $1 on ranks $2: the connection was broken" "breaker: at $1"
}
for ranks in 0 1 "0 1 2"; do
    for step in hello ready unheard stop; do
        broken $step "$ranks"
        reports "broken at $step on ranks $ranks: all compressed" "rows[0]['calls'] == 2 and passed == {}"
    done
done
broken connect "1"
contains "one rank is refused: it logs that" "cannot reach the process that made the unique id: Connection refused"
contains "one rank is refused: the others name it" "rank 1 without compshim"
reports "one rank is refused: no rank compresses" "rows == [] and passed == {'not_agreed': 2}"

# A rank that cannot compress reports that when the communicator is made.
expect "no memory for the states" 0 preloaded 3 STANDIN_FAIL=cuMemAlloc:1@1 "$program" plain
contains "no memory for the states: who, where and why" \
    "not compressed: rank 1 on $machine cannot compress: memory for the ranks' states: CUDA_ERROR_OUT_OF_MEMORY"
reports "no memory for the states: no rank compresses" "rows == [] and passed == {'not_agreed': 2}"

# If a rank fails or ends in the first call, the others' calls fail too, with the reason.
expect "a rank fails in the first call" 0 preloaded 3 STANDIN_FAIL=ncclAllGather:1@1 "$program" failing
for rank in 0 1 2; do contains "a rank fails: refused on rank $rank" "rank $rank: call 0 refused"; done
contains "a rank fails: named" "cannot be made: rank 1 on $machine: it failed: unhandled cuda error"
contains "a rank fails: the next call fails too" "rank 0: call 1 refused"
expect "a rank ends in the first call" 0 preloaded 3 "$program" ended
for rank in 0 2; do contains "a rank ends: refused on rank $rank" "rank $rank: call 0 refused: remote process exited"; done
expect "a rank fails in one of two communicators" 0 preloaded 3 STANDIN_FAIL=cuMemcpyAsync:1@1 "$program" failing_beside
for rank in 0 1 2; do contains "one of two: refused on rank $rank" "rank $rank: refused"; done
contains "one of two: the other communicator gets the reason" \
    "cannot be made: rank 0 on $machine: it failed: remote process exited"
finish
