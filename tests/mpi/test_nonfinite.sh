#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Inf, -Inf and NaN on each rank, by every codec and algorithm. The policy gives each codec lengths
# of its own, so that one job tries them all.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/nodes.sh"
program=$build/tests/mpi_nonfinite
algorithm=

with_policy() { # COMMAND... : under the policy for $algorithm, with a report
    rm -f "$scratch/report.json"
    "$program" $algorithm --policy >"$scratch/policy.ini"
    "$@" COMPSHIM_POLICY="$scratch/policy.ini" COMPSHIM_REPORT="$scratch/report.json" \
        "$program" $algorithm
}
# all_compressed: the report has a row for each rule of the policy
all_compressed() {
    python3 - "$scratch" <<'P'
import json, re, sys
rules = set(re.findall(r"\[rule (\S+)\]", open(sys.argv[1] + "/policy.ini").read()))
rows = {row["rule"] for row in json.load(open(sys.argv[1] + "/report.json"))["rows"] if row["calls"]}
missing = sorted(rules - rows)
print("not compressed:", missing)
sys.exit(bool(missing) or not rules)
P
}

for algorithm in two_shot one_shot cast hierarchical; do
    for ranks in 2 4 5; do
        expect "$algorithm, $ranks ranks" 0 with_policy shimmed "$ranks"
        check "all codecs were used" all_compressed
    done
done
if can_make_nodes; then
    algorithm=hierarchical
    for hosts in here:1,there:1 here:2,there:2 here:2,there:3; do
        expect "hierarchical, nodes $hosts" 0 with_policy on_nodes "$hosts"
        check "all codecs were used" all_compressed
    done
else
    skip "this user cannot give a process a hostname: hierarchical on two nodes"
fi
finish
