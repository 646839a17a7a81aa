#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks every codec (bounded and topk have tests of their own) by every algorithm that takes it, with all data, and
# with Inf, -Inf and NaN on each rank: sums that are not finite stay so, all other results are within the published
# bound, and the error of two_shot does not depend on the number of ranks. The policy gives each codec its own lengths
# of calls, so that one job covers them all.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/nodes.sh"
program=$build/tests/mpi_allreduce

# check_codecs NAME ALGORITHM COMMAND...: runs the sums by COMMAND; saves their output in $scratch/ALGORITHM.NAME
check_codecs() {
    local name=$1 algorithm=$2
    shift 2
    rm -f "$scratch/report.json"
    "$program" --policy "$algorithm" >"$scratch/policy.ini"
    expect "$algorithm, $name" 0 "$@" COMPSHIM_POLICY="$scratch/policy.ini" \
        COMPSHIM_REPORT="$scratch/report.json" "$program" all "$algorithm"
    printf '%s\n' "$output" >"$scratch/$algorithm.$name"
    check "$algorithm, $name: all codecs were used" all_compressed
}
# all_compressed: succeeds if the report has a row for each rule of the policy
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
# equal_errors: succeeds if the errors of 2, 4 and 7 ranks are within 15 % of each other. Considers only lossy codecs,
# and data whose sum is distributed like one rank's; not int3 with heavy data, whose errors vary too much.
equal_errors() {
    python3 - "$scratch" <<'P'
import re, sys
errors = {}
for ranks in (2, 4, 7):
    for line in open(f"{sys.argv[1]}/two_shot.{ranks}"):
        if found := re.match(r"error (\S+) (normal|heavy|tiny) (\S+)", line):
            errors.setdefault(found.group(1, 2), []).append(float(found[3]))
errors = {key: values for key, values in errors.items() if key[0] not in ("raw", "fp32", "lossless") and key != ("int3", "heavy")}
apart = {key: v for key, v in errors.items() if len(v) != 3 or max(v) > 1.15 * min(v)}
print(f"{len(errors)} compared; apart: {apart}")
sys.exit(bool(apart) or len(errors) < 15)
P
}

for ranks in 2 4 7; do
    check_codecs $ranks two_shot shimmed $ranks
done
check "two_shot: the error is the same for 2, 4 and 7 ranks" equal_errors
for algorithm in one_shot cast hierarchical grid; do
    check_codecs 5 $algorithm shimmed 5
done
if can_make_nodes; then
    for hosts in here:1,there:1 here:2,there:3; do
        check_codecs $hosts hierarchical on_nodes "$hosts"
    done
else
    skip "this user cannot give a process a hostname: hierarchical on two nodes"
fi
finish
