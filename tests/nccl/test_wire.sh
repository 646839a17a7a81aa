#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the bytes on the wire, on 4 ranks of 2 nodes: for seven codecs, with every compressed collective and every
# algorithm that takes the codec, a digest of all messages, and of the inputs of NCCL's own collectives.
# tests/nccl/wire.txt has the expected digests.
. "$(dirname "$0")/lib.sh"

# wire CODEC ALGORITHM [LINE]: prints a digest for each case of tests/nccl/wire.c, the largest of which uses
# ALGORITHM; LINE is added to each rule
wire() {
    local rules='moves|collective = allgather, alltoall, broadcast|one_shot
scatter|collective = reduce_scatter|two_shot
small|max_size = 40000|allgather
medium|max_size = 100000|two_shot
large|max_size = 300000|hierarchical
largest|min_size = 300000|'$2
    while IFS='|' read -r name which algorithm; do
        printf '[rule %s]\n%s\nalgorithm = %s\ncodec = %s\n%s\n' \
            "$name" "$which" "$algorithm" "$1" "${3-}"
    done <<<"$rules" >"$scratch/policy.ini"
    rm -f "$scratch"/*.data
    NODES=0,0,1,1 preloaded 4 STANDIN_DATA="$scratch/{rank}.data" "$build/tests/nccl_wire" >"$scratch/log" 2>&1 ||
        cat "$scratch/log"
    python3 - "$scratch" "$1${3+, $3}" "$2" <<'P'
import glob, hashlib, sys
cases = ["", "one_shot", "two_shot", "hierarchical", "largest, " + sys.argv[3], "reduce_scatter",
         "allgather", "average", "two in a group", "alltoall", "broadcast"]
sent = [[] for case in cases]
for name in sorted(glob.glob(sys.argv[1] + "/*.data")):
    case = 0
    for line in open(name):
        if " int8 " in line:
            case = int(line.split()[2].strip(","))
        elif case > 0:
            sent[case].append(line)
for case in range(1, len(cases)):
    digest = hashlib.sha256("".join(sent[case]).encode()).hexdigest()
    print(f"{sys.argv[2]}: {cases[case]}: {len(sent[case])} sent: {digest[:32]}")
P
}

output=$(
    for codec in raw fp16 bf16; do wire $codec allreduce; done
    for codec in fp8_e4m3 fp8_e5m2 int8 int4; do wire $codec two_shot; done
    wire int8 two_shot 'rounding = stochastic'
    wire int4 two_shot 'error_feedback = on'
)
golden "the bytes sent" "$top/tests/nccl/wire.txt"
finish
