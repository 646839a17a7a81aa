#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every codec by every algorithm, with data of every kind, and with Inf, -Inf and NaN on each rank: what
# is not finite stays so, everything else is within the published bound, and the error is the same
# whatever the number of ranks. The policy gives each codec lengths of its own, so that one job tries
# them all.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/nodes.sh"
program=$build/tests/mpi_allreduce

# tries NAME ALGORITHM COMMAND... : under its policy; leaves its errors in $scratch/NAME
tries() {
    local name=$1 algorithm=$2
    shift 2
    rm -f "$scratch/report.json"
    "$program" --policy "$algorithm" >"$scratch/policy.ini"
    expect "$algorithm, $name" 0 "$@" COMPSHIM_POLICY="$scratch/policy.ini" \
        COMPSHIM_REPORT="$scratch/report.json" "$program" all "$algorithm"
    printf '%s\n' "$output" >"$scratch/$algorithm.$name"
    check "$algorithm, $name: all codecs were used" all_compressed
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
# equal_errors: 2, 4 and 7 ranks within 15 %, where quantization is what makes the error and the
# data of a sum are like those of one rank; with int3 the tails are too heavy for that
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
    tries $ranks two_shot shimmed $ranks
done
check "two_shot: the error is the same for 2, 4 and 7 ranks" equal_errors
for algorithm in one_shot cast hierarchical; do
    for ranks in 2 5; do
        tries $ranks $algorithm shimmed $ranks
    done
done
tries 5 grid shimmed 5
tries 7 grid shimmed 7
if can_make_nodes; then
    for hosts in here:1,there:1 here:2,there:2 here:2,there:3; do
        tries $hosts hierarchical on_nodes "$hosts"
    done
else
    skip "this user cannot give a process a hostname: hierarchical on two nodes"
fi
finish
