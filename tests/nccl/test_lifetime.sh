#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks communicators, operations and processes that are made and destroyed: exact results with `raw`.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_lifetime
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"

no_native='all(c["op"] != "sum" or c["dtype"] != "float32" for rank in calls for c in rank)'
expect "split natively" 0 job 4 "$program" split
expect "split" 0 preloaded 4 "$program" split
calls "split: NCCL added no floats" "$no_native"
# Each process reports the communicators of which it is rank 0.
all_reports() {
    python3 - "$scratch" <<'P'
import glob, json, sys
calls = {name[len(sys.argv[1]) + 1:]: sum(row["calls"] for row in json.load(open(name))["rows"])
         for name in glob.glob(sys.argv[1] + "/report*.json")}
print(calls)
sys.exit(sum(calls.values()) != 7 or "report.json" not in calls or "report.rank3.json" not in calls)
P
}
check "split: the reports of all processes count each call once" all_reports
exact 4 shrink 2
# If gloo's engine is loaded before NCCL is used, NCCL's report is report.nccl.json, because gloo's is report.json.
if [ -e "$build/libcompshim-gloo.so" ]; then
    expect "split, with gloo's engine" 0 job 4 LD_PRELOAD="$preload:$build/libcompshim-gloo.so" \
        COMPSHIM_REPORT="$scratch/report.json" "$program" split
    check "split: NCCL's report has its own name" test -e "$scratch/report.nccl.json"
else
    skip "no engine for gloo"
fi

# Rules apply to a child communicator by its own number of nodes. The reports of all processes are added.
cp "$scratch/policy.ini" "$scratch/everywhere.ini"
printf '[rule inside]\nnodes = 1\ncodec = none\n[rule between]\ndtype = float32\nmin_size = 1000\ncodec = raw\nalgorithm = two_shot\n' \
    >"$scratch/policy.ini"
expect "children on two nodes, natively" 0 job 4 "$program" children
NODES=0,0,1,1 expect "children on two nodes" 0 preloaded 4 "$program" children
check "children between nodes are compressed, those within a node passed through" total \
    'sum(row["calls"] for row in rows) == 3 and passed == {"rule_none": 6, "too_small": 2}'
NODES=0,0,0,0 expect "children on one node" 0 preloaded 4 "$program" children
check "children on one node are passed through" total 'rows == [] and passed == {"rule_none": 11}'
calls "without an exchange between the ranks" 'all(c["dtype"] == "float32" for rank in calls for c in rank)'
cp "$scratch/everywhere.ini" "$scratch/policy.ini"
exact 3 again 6
exact 3 kept 1
exact 3 fork 2
check "fork: one report" test "$(grep -c 'ranks on' <<<"$output")" = 1
exact 3 revoke 3
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = hierarchical\n' >"$scratch/policy.ini"
NODES=0,0,1,1 expect "revoke, with levels" 0 preloaded 4 "$program" revoke
reports "revoke, with levels: hierarchical" "rows and all(row['algorithm'] == 'hierarchical' for row in rows)"
NODES=0,0,1,1 expect "abort, with levels" 0 preloaded 4 "$program" abort_later
NODES=0,0,1,1 expect "a shrink ends a call, with levels" 0 preloaded 4 "$program" shrink_abort
reports "a shrink ends a call, with levels: hierarchical" "any(row['algorithm'] == 'hierarchical' for row in rows)"
expect "a rank is lost, natively" 0 job 4 "$program" lost
NODES=0,0,1,1 expect "a rank is lost, with levels" 0 preloaded 4 "$program" lost
cp "$scratch/everywhere.ini" "$scratch/policy.ini"
exact 3 scaled 2
expect "scaled, held back" 0 preloaded 3 STANDIN_LAZY=1 "$program" scaled

newest="STANDIN_NCCL_VERSION=23100"
expect "collectives with a configuration, natively" 0 job 3 $newest "$program" configured
expect "collectives with a configuration" 0 preloaded 3 $newest "$program" configured
check "without a configuration they are compressed, with one passed through" total \
    'sum(row["calls"] for row in rows) == 2 and passed == {"option": 2}'
calls "and NCCL gets the configuration" '[c["call"] for c in calls[0] if "Config" in c["call"]] == [
    "ncclAllReduceConfig", "ncclReduceScatterConfig", "ncclAllGatherConfig", "ncclBroadcastConfig",
    "ncclAlltoAllConfig"]'

# Communicators that grow: new ranks, too, use the policy of the old communicator.
expect "grow natively" 0 job 4 $newest "$program" grow
expect "grow" 0 preloaded 4 $newest sh "$top/tests/nccl/rank_setting.sh" 3 COMPSHIM_POLICY=/dev/null "$program" grow
check "grow: the grown communicators are compressed" total 'sum(row["calls"] for row in rows) == 5 and passed == {}'
calls "grow: on all ranks" "$no_native"
NODES=0,0,1,1 expect "grow, over nodes" 0 preloaded 4 $newest "$program" grow
check "grow, over nodes: is compressed" total 'sum(row["calls"] for row in rows) == 5 and passed == {}'
expect "grow by a rank without compshim" 0 job 4 $newest COMPSHIM_REPORT="$scratch/report.json" \
    sh "$top/tests/nccl/rank_setting.sh" "0 1 2" LD_PRELOAD="$preload" "$program" grow
contains "grow by a rank without compshim: names it" "rank 3 without compshim"
expect "grow from a child" 0 preloaded 4 $newest "$program" grow_split
check "grow from a child: the calls are counted" total 'sum(row["calls"] for row in rows) == 1 and passed == {"not_agreed": 4}'
expect "grow by ids that are old" 0 preloaded 4 $newest "$program" grow_hasty
check "grow by ids that are old: all ranks act alike" total 'sum(row["calls"] for row in rows) == 3 and passed == {"not_agreed": 2}'

for version in 21100 21800; do
    expect "NCCL $version" 0 preloaded 3 STANDIN_NCCL_VERSION=$version "$program" kept
    reports "NCCL $version: compressed" "sum(row['calls'] for row in rows) == 1"
done

expect "abort_first natively" 0 job 3 "$program" abort_first
expect "an abort frees a rank in its first compressed call" 0 preloaded 3 "$program" abort_first
contains "the call returns an error" "the call returned 2"
expect "an abort frees a rank's stream" 0 preloaded 3 "$program" abort_later
expect "revoke_first natively" 0 job 3 "$program" revoke_first
expect "a revoke frees a rank in its first compressed call" 0 preloaded 3 "$program" revoke_first
contains "the revoked call returns an error" "the call returned 5"
expect "shrink_abort natively" 0 job 4 "$program" shrink_abort
expect "a shrink ends a call" 0 preloaded 4 "$program" shrink_abort
finish
