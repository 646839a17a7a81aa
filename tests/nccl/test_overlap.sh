#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the segments of a large call overlap, also in a graph: by the stand-in's vector clocks each step comes
# after the previous step of its segment, and at least one exchange is concurrent with an encode, a sum and a decode of
# other segments.
. "$(dirname "$0")/lib.sh"

cat >"$scratch/order.py" <<'P2'
# Checks the order of the operations of a rank's compressed call, in each of its runs, and prints a timeline in which
# each operation begins when all that are ordered before it have ended: kernels take one unit, exchanges two.
import json, sys
file, runs, steps = sys.argv[1], 2, 5
kernels = {"cshim_encode": "encode", "cshim_reduce": "sum", "cshim_decode": "decode"}
whole = [operation for operation in map(json.loads, open(file)) if operation["name"] in kernels or operation["name"] in ("ncclRecv", "ncclReduceScatter")]
def before(a, b):
    return a is not b and b["clock"][a["slot"]] >= a["clock"][a["slot"]]
whole.sort(key=lambda operation: sum(operation["clock"]))  # an operation comes after those that its clock includes
assert len(whole) % runs == 0, len(whole)
for run in range(runs):
    operations = whole[run * len(whole) // runs : (run + 1) * len(whole) // runs]
    assert all(before(a, b) for a in whole[: run * len(whole) // runs] for b in operations), "calls overlap"
    messages = [operation for operation in operations if operation["name"] not in kernels]
    segments = []
    for name in kernels:
        for number, operation in enumerate(o for o in operations if o["name"] == name):
            if name == "cshim_encode":
                segments.append([])
            else:  # the exchange is the last one that is ordered before the kernel
                exchange = max((m for m in messages if before(m, operation)), key=lambda m: sum(m["clock"]))
                exchange["label"], exchange["segment"] = "exchange" if name == "cshim_reduce" else "collect", number
                segments[number].append(exchange)
            operation["label"], operation["segment"] = kernels[name], number
            segments[number].append(operation)
    assert len(segments) >= 5 and all(len(segment) == steps for segment in segments), [len(s) for s in segments]
    assert len({id(o) for segment in segments for o in segment}) == len(operations), "an operation is in no segment"
    for segment in segments:
        assert all(before(a, b) for a, b in zip(segment, segment[1:])), "a segment's steps are not in order"
    beside = lambda m: {o["label"] for o in operations if o["name"] in kernels and not before(o, m) and not before(m, o) and o["segment"] != m["segment"]}
    overlapping = [m["segment"] for m in messages if beside(m) >= {"encode", "sum", "decode"}]
    assert len(overlapping) > 0, "no exchange overlaps with a kernel of each type"
    end = 0
    for operation in operations:
        operation["begin"] = max((o["end"] for o in operations if before(o, operation)), default=0)
        operation["end"] = operation["begin"] + (1 if operation["name"] in kernels else 2)
        end = max(end, operation["end"])
    serial = sum(o["end"] - o["begin"] for o in operations)
    for stream in ("kernels", "NCCL"):
        row = [" " * 4] * end
        for o in operations:
            if (o["name"] in kernels) == (stream == "kernels"):
                row[o["begin"]:o["end"]] = [o["label"][0] + str(o["segment"]) + "  "] * (o["end"] - o["begin"])
        print(stream.ljust(8), "".join(row))
    print(f"run {run}: {len(segments)} segments, {serial} units of work in {end}")
    assert end <= 0.75 * serial, (end, serial)
P2
printf '[rule all]\ndtype = float32\nmin_size = 1000\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"
expect "a call of many segments, and a graph of it" 0 \
    preloaded 2 STANDIN_ORDER="$scratch/{rank}.order" "$build/tests/nccl_groups" overlap
for rank in 0 1; do
    check "rank $rank: steps in order, kernels overlap with exchanges" python3 "$scratch/order.py" "$scratch/$rank.order"
done
python3 "$scratch/order.py" "$scratch/0.order"
expect "the same, delayed" 0 preloaded 2 STANDIN_DELAY_US=2000 STANDIN_SEED=3 "$build/tests/nccl_groups" overlap
expect "the same, held back" 0 preloaded 2 STANDIN_LAZY=1 "$build/tests/nccl_groups" overlap

# A small call launches one kernel, one group of messages and one kernel, after the gathers of the ranks' states and
# of the first call's sample.
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = one_shot\n' >"$scratch/policy.ini"
rm -f "$scratch"/*.order
expect "a small call" 0 \
    preloaded 2 COMPSHIM_REPORT=off STANDIN_ORDER="$scratch/{rank}.order" "$build/tests/nccl_lifetime" kept
check "a small call: its launches" test \
    "$(sed -nE 's/.*"name": "((cshim|nccl)[^"]*)".*/\1/p' "$scratch/0.order" | tr '\n' ' ')" = \
    "ncclAllGather ncclAllGather cshim_encode ncclRecv cshim_reduce "
finish
