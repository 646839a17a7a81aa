#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks every codec that NCCL's engine has by every algorithm that takes it, with every type of data, and with Inf,
# -Inf and NaN on each rank. The policy has rules of distinct sizes for each codec, so that one job tests all of them.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_allreduce

# tries RANKS ALGORITHM: tests all codecs by an algorithm
tries() {
    "$program" --policy "$2" >"$scratch/policy.ini"
    expect "$2, $1 ranks${NODES:+, nodes $NODES}" 0 preloaded "$1" "$program" all "$2"
    reports "all codecs were used" \
        "len(rows) == $(grep -c '^\[rule .*_' "$scratch/policy.ini") and all(row['calls'] for row in rows)"
}
for ranks in 2 5; do
    tries $ranks two_shot
    tries $ranks one_shot
    tries $ranks cast
done
NODES=0,0,1,1 tries 4 hierarchical
finish
