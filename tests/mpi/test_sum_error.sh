#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The error of two_shot against float64: within the published bound for data of every kind, and the
# same whatever the number of ranks.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/nodes.sh"
program=$build/tests/mpi_sum_error

# equal_errors: 2, 4 and 7 ranks within 15 %, where quantization is what makes the error and the
# data of a sum are like those of one rank
equal_errors() {
    python3 - "$scratch" <<'P'
import re, sys
errors = {}
for ranks in (2, 4, 7):
    for line in open(f"{sys.argv[1]}/two_shot.{ranks}"):
        if found := re.match(r"error (\S+) (normal|heavy|tiny) (\S+) ", line):
            errors.setdefault(found.group(1, 2), []).append(float(found[3]))
errors = {key: values for key, values in errors.items() if key[0] not in ("raw", "fp32")}
apart = {key: v for key, v in errors.items() if len(v) != 3 or max(v) > 1.15 * min(v)}
print(f"{len(errors)} compared; apart: {apart}")
sys.exit(bool(apart) or len(errors) < 15)
P
}

# within_bound ALGORITHM RANKS COMMAND...
within_bound() {
    local algorithm=$1 ranks=$2
    shift 2
    "$program" "$algorithm" --policy >"$scratch/policy.ini"
    expect "$algorithm, $ranks ranks: within the bound" 0 "$@" COMPSHIM_REPORT=off \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" "$algorithm"
    printf '%s\n' "$output" >"$scratch/$algorithm.$ranks"
}

for ranks in 2 4 7; do
    within_bound two_shot $ranks shimmed $ranks
done
check "the error is the same for 2, 4 and 7 ranks" equal_errors
within_bound one_shot 5 shimmed 5
within_bound cast 5 shimmed 5
within_bound hierarchical 5 shimmed 5
if can_make_nodes; then
    within_bound hierarchical 2+3 on_nodes here:2,there:3
fi
finish
