#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that machines whose GPUs are connected by NVLink, as NVML reports, count as one node, and that other machines
# are nodes of their own.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_lifetime
printf '[rule inside]\nnodes = 1\ncodec = none\n[rule between]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' \
    >"$scratch/policy.ini"
export NODES=0,0,1,1

two_nodes='[row["rule"] for row in rows] == ["between"]'
one_node='rows == [] and passed["rule_none"] > 0'
nodes() { # NAME EXPECTED SETTINGS...: checks an expression on the report of a job with these settings
    expect "$1" 0 preloaded 4 "${@:3}" "$program" kept
    reports "$1: nodes" "$2"
}
nodes "two machines" "$two_nodes"
nodes "two machines in a domain" "$one_node" STANDIN_CLIQUE=1
nodes "two machines in two cliques" "$two_nodes" STANDIN_CLIQUE=1 sh "$top/tests/nccl/rank_setting.sh" "2 3" STANDIN_CLIQUE=2
nodes "a domain that NCCL is told not to use" "$two_nodes" STANDIN_CLIQUE=1 NCCL_MNNVL_ENABLE=0
nodes "cliques that the user sets" "$two_nodes" STANDIN_CLIQUE=1 NCCL_MNNVL_CLIQUE_ID=1 \
    sh "$top/tests/nccl/rank_setting.sh" "2 3" NCCL_MNNVL_CLIQUE_ID=2
nodes "a domain with half of the ranks" "$two_nodes" sh "$top/tests/nccl/rank_setting.sh" "0 1" STANDIN_CLIQUE=1
finish
