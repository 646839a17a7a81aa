#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Lets calls of CUDA and NCCL fail on one rank or on all: all ranks pass the program's calls through, or these calls
# return errors, and no rank waits forever. Also checks ranks that do not make the same calls.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_lifetime
rank_setting=$top/tests/nccl/rank_setting.sh
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"

# passes NAME RANKS SETTING REASON: right results, nothing compressed
passes() {
    expect "$1 on ranks $2: right results" 0 preloaded 3 sh "$rank_setting" "$2" "$3" "$program" faulty
    contains "$1 on ranks $2: is logged" "cannot compress: "
    reports "$1 on ranks $2: all passed through" "rows == [] and passed == {'$4': 4}"
}
for ranks in 0 1 "0 1 2"; do
    passes "no module" "$ranks" STANDIN_FAIL=cuModuleLoadDataEx:1,cuModuleLoadData:1,cuLibraryLoadData:1 no_kernels
    passes "no pinned memory" "$ranks" STANDIN_FAIL=cuMemHostAlloc:1 no_memory
    passes "no memory on the device" "$ranks" STANDIN_FAIL=cuMemAlloc:3 no_memory
    passes "no event" "$ranks" STANDIN_FAIL=cuEventCreate:1 no_memory
done
passes "a device too small" 1 STANDIN_MEMORY=32 no_memory
passes "a device without room for NCCL's messages" 1 STANDIN_MEMORY=80 no_memory
contains "a device without room: how much is needed" "14 MiB of its device are left, and NCCL may need 30 MiB"
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = hierarchical\n' >"$scratch/policy.ini"
room=(STANDIN_COMMUNICATOR=256 STANDIN_MEMORY=600)
NODES=0,0,1,1 expect "no room for the communicators of nodes, natively" 0 job 4 "${room[@]}" "$program" faulty
NODES=0,0,1,1 expect "no room for the communicators of nodes" 0 preloaded 4 "${room[@]}" "$program" faulty
reports "no room for the communicators of nodes: all passed through" "rows == [] and passed == {'no_memory': 4}"
NODES=0,0,1,1 expect "room for them" 0 preloaded 4 STANDIN_COMMUNICATOR=256 STANDIN_MEMORY=1000 "$program" faulty
reports "room for them: compressed" "[row['calls'] for row in rows] == [4]"
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"
passes "a device too old for the kernels" 1 STANDIN_SM=70 no_kernels

expect "no context: right results" 0 preloaded 3 sh "$rank_setting" 1 STANDIN_FAIL=cuCtxPushCurrent:1 "$program" faulty
check "no context: one message" test "$(grep -c '^compshim: a communicator' <<<"$output")" = 1
contains "no context: names the rank" "rank 1 on "

# fails NAME SETTING TEXT: rank 1 gets an error, and the launcher ends the others
fails() {
    expect "$1: fails" 4 preloaded 3 sh "$rank_setting" 1 "$2" "$program" faulty
    contains "$1: logs the cause" "$3"
    contains "$1: the call returns an error" "rank 1: refused: "
}
fails "no launch" STANDIN_FAIL=cuLaunchKernel:2,cuLaunchKernelEx:2 "launching a kernel: "
fails "no context in a call" STANDIN_FAIL=cuCtxPushCurrent:17 "entering the communicator's context: "
fails "no message" STANDIN_FAIL=ncclSend:3 "refused: "

printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = hierarchical\n' >"$scratch/policy.ini"
for level in 1 2; do
    NODES=0,0,1,1 expect "no communicator for level $level: each call returns an error" 0 preloaded 4 \
        STANDIN_FAIL=ncclCommSplit:$level "$program" unprepared
done
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"

expect "no memory for a graph: ends" 3 preloaded 3 sh "$rank_setting" 1 STANDIN_FAIL=cuUserObjectCreate:1 "$build/tests/nccl_graphs" graph
contains "no memory for a graph: logs the cause" "keeping memory for a graph: "

expect "another count on rank 0: ends" 1 preloaded 3 "$program" mismatch
contains "another count on rank 0: refused" "refused: "

# Messages of the same length, whose headers differ.
printf '[rule all]\ncodec = fp8_e4m3\nalgorithm = two_shot\n' >"$scratch/policy.ini"
expect "another type on rank 0: ends" 1 preloaded 3 "$program" mismatch_type
contains "another type on rank 0: is logged" "do not make the same NCCL calls: rank "
contains "another type on rank 0: both types are named" "bfloat16"
finish
