#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks results, refusals, races, faults, captures and the log of calls of the stand-ins for the CUDA driver and NCCL
# (standin.h).
. "$(dirname "$0")/../lib.sh"
standin=$build/tests/standin_nccl
if [ ! -e "$standin/libnccl.so.2" ]; then
    skip "built without the headers of CUDA and NCCL"
    finish
fi
export LD_LIBRARY_PATH=$standin STANDIN_DEVICES=8

driver() { limited env "${@:2}" "$build/tests/nccl_standin_driver" "$1"; }
ranks() { # N CASE [VARIABLE=VALUE...]: runs a case on N ranks
    limited env "${@:3}" bash "$top/tests/nccl/launch.sh" "$1" "$build/tests/nccl_standin_ranks" "$2"
}

# The driver -------------------------------------------------------------------------------------
for case in memory no_race graph_no_race copy_no_race legacy contexts fork priorities; do
    check "driver: $case" driver "$case"
done
check "driver: no operation runs before a synchronisation" driver lazy STANDIN_LAZY=1
expect "driver: lazy fails if operations run at once" 1 driver lazy
check "driver: a copy of the host's memory may be late" driver late_copy STANDIN_LAZY=1 STANDIN_RACES=0
expect "driver: the host dies where it touches device memory" 139 \
    driver touch ASAN_OPTIONS=verify_asan_link_order=0:handle_segv=0

refused() { # CASE TEXT: checks that a case of the driver passes, and prints TEXT
    expect "driver: $1" 0 driver "$1"
    contains "driver: $1 is reported" "$2"
}
refused bounds "writes 1001 bytes at"
refused freed ": freed"
refused pool ": freed"
refused pool_unordered "standin libcuda: "
refused race "is not ordered with cuMemsetD8Async on another stream"
refused graph_race "is not ordered with cuMemsetD8Async on another stream"
refused copy_race "is not ordered with cuMemcpy"
refused callback "called from a host function"
expect "driver: finds no races with STANDIN_RACES=0" 1 driver race STANDIN_RACES=0
expect "driver: faults" 0 driver faults STANDIN_FAIL=cuMemAlloc:2,cuEventCreate:1:719
contains "driver: faults are reported" "call 2 of cuMemAlloc fails with 2"
expect "driver: invalid STANDIN_FAIL" 3 driver faults STANDIN_FAIL=cuMemAlloc

# NCCL -------------------------------------------------------------------------------------------
for count in 1 8; do
    check "NCCL: collectives, $count ranks" ranks $count collectives
done
check "NCCL: two nodes on the same devices" ranks 2 collectives NODES=0,1 STANDIN_DEVICES=1
check "NCCL: wrong calls are refused" ranks 2 refused
check "NCCL: abort" ranks 4 abort
expect "NCCL: first messages, 3 ranks" 0 ranks 3 connect
contains "NCCL: none in a capture" "connects to rank 1 inside a capture"
expect "NCCL: no memory for messages" 1 ranks 3 connect STANDIN_MEMORY=12
contains "NCCL: no memory for messages is reported" "no memory on the device for buffers"
expect "NCCL: no memory for a communicator" 3 ranks 3 connect STANDIN_COMMUNICATOR=100 STANDIN_MEMORY=99
check "NCCL: revoke" ranks 3 revoke
check "NCCL: grow" ranks 3 grow STANDIN_NCCL_VERSION=23100
expect "NCCL: grow in a version before it" 3 ranks 3 grow
for case in unsafe threads events legacy objects group; do
    check "capture: $case" ranks 2 $case
done

expect "NCCL: a lost rank" 0 ranks 2 lost
contains "NCCL: a lost rank is named" "rank 0 lost its connection to rank 1"
for case in count dtype op order; do
    expect "NCCL: another $case" 0 ranks 3 mismatch_$case
    contains "NCCL: another $case is named" "ranks do not match: rank 0: "
done
contains "NCCL: both sides are named" "Broadcast sum 8 x int32 root 0, operation 1; rank"
expect "NCCL: two ranks on one device" 3 ranks 2 collectives STANDIN_DEVICES=1
contains "NCCL: two ranks on one device are named" "duplicate GPU: ranks "
expect "NCCL: a fault" 3 ranks 2 collectives STANDIN_FAIL=ncclAllReduce:2
expect "NCCL: a fault on one rank" 3 ranks 2 collectives STANDIN_FAIL=ncclAllReduce:2:5@1
contains "NCCL: a fault on one rank is reported" "ncclAllReduce fails with 5"
expect "NCCL: a fault on a rank beyond the last" 0 \
    ranks 2 collectives STANDIN_FAIL=ncclAllReduce:2@7

# The log of one rank of three: its calls and the bytes that each sent.
check "log: a run" ranks 3 collectives "STANDIN_LOG=$scratch/{rank}.jsonl"
sums() {
    python3 - "$scratch/1.jsonl" <<'PYTHON'
import json, sys
calls = [json.loads(line) for line in open(sys.argv[1])]
names = [call["call"].removeprefix("nccl") for call in calls]
assert names == ["AllReduce"] * 3 + ["ReduceScatter", "AllGather", "AlltoAll", "Broadcast"], names
assert [call["op"] for call in calls[:4]] == ["sum", "max", "avg", "sum"]
size = 1003 * 4
assert [call["bytes_sent"] for call in calls] == [4 * size // 3] * 3 + [2 * size] * 3 + [0]
assert calls[-1]["comm_bytes_sent"] == sum(call["bytes_sent"] for call in calls)
PYTHON
}
check "log: calls and bytes" sums

# If libnccl 2.28.9 is installed, it has all symbols of the stand-in but later ones.
real=$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")/../lib64/libnccl.so.2
symbols() { nm -D --defined-only "$1" | sed -nE 's/^[0-9a-f]+ ([A-Z]) (p?nccl.*)$/\1 \2/p' | sort; }
if [ -e "$real" ] && strings -a "$real" | grep -q 'NCCL version 2.28.9'; then
    later='nccl(CommGrow|CommGetUniqueId|(AllReduce|ReduceScatter|AllGather|Broadcast|AlltoAll)Config)$'
    check "symbols: each is in libnccl 2.28.9, or came later" test -z \
        "$(comm -13 <(symbols "$real") <(symbols "$standin/libnccl.so.2") | grep -vE "$later")"
fi
same_address() { # true if each weak name has the address of its strong one
    nm -D --defined-only "$standin/libnccl.so.2" | awk '$2 == "W" {weak[$3] = $1}
        $2 == "T" {strong[$3] = $1} END {for (name in weak) {n++; if (weak[name] != strong["p" name])
        {print name; bad = 1}} exit bad || n < 20}'
}
check "symbols: ncclX and pncclX are one" same_address
needed() { readelf -d "$1" | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p'; }
check "symbols: neither library needs the other" \
    test -z "$(needed "$standin/libnccl.so.2" | grep cuda; needed "$standin/libcuda.so.1" | grep nccl)"
finish
