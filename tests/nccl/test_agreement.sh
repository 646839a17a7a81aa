#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks jobs whose ranks differ. If some ranks lack compshim, or NCCL_COMM_ID keeps ranks from agreeing, all calls are
# native, with a message that says why. If policies differ, rank 0's counts. Results must be right, nothing may hang.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_lifetime
rank_setting=$top/tests/nccl/rank_setting.sh
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"
export STANDIN_LOG=$scratch/{rank}.calls

messages() { # NAME COUNT TEXT: checks the number of messages, and that the output has TEXT
    check "$1: $2 messages" test "$(grep -c '^compshim: ' <<<"$output")" = "$2"
    contains "$1: says why" "$3"
}
native='all(c["call"] == "ncclAllReduce" for rank in calls for c in rank)'
for ranks in "0 1" "2 3" "0 2" "1 3" "3"; do
    rm -f "$scratch"/*.calls
    expect "only ranks $ranks have compshim" 0 \
        job 4 COMPSHIM_REPORT=off sh "$rank_setting" "$ranks" LD_PRELOAD="$preload" "$program" kept
    calls "only ranks $ranks: native on all" "$native"
    # If rank 0, which makes the id, has compshim, it alone warns. Otherwise each rank with compshim warns, because they
    # cannot find each other.
    case $ranks in
    0*) messages "only ranks $ranks" 1 "without compshim: is LD_PRELOAD set on every host?" ;;
    esac
    contains "only ranks $ranks: the warning" "not compressed: "
done

# Rank 0's policy is the job's.
printf '[rule other]\ndtype = float32\ncodec = int8\n' >"$scratch/other.ini"
expect "another policy on ranks 1 and 2" 0 preloaded 3 sh "$rank_setting" "1 2" \
    COMPSHIM_POLICY="$scratch/other.ini" "$program" kept
reports "rank 0's policy is the job's" '[row["codec"] for row in rows] == ["raw"]'
printf '[rule all]\ndtype = float32\ncodc = raw\n' >"$scratch/wrong.ini"
expect "a wrong policy ends the job" 1 preloaded 3 COMPSHIM_POLICY="$scratch/wrong.ini" "$program" kept
contains "a wrong policy: file, line and remedy" "wrong.ini:3: unknown key 'codc' (did you mean 'codec'?)"
expect "a wrong policy on other ranks than 0 is ignored" 0 preloaded 3 sh "$rank_setting" "1 2" \
    COMPSHIM_POLICY="$scratch/wrong.ini" "$program" kept

expect "COMPSHIM=off" 0 preloaded 3 COMPSHIM=off "$program" kept
calls "COMPSHIM=off: native on all" "$native"
check "COMPSHIM=off: no report" test ! -e "$scratch/report.json"

expect "NCCL_COMM_ID" 0 preloaded 3 NCCL_COMM_ID=127.0.0.1:1 "$program" kept
calls "NCCL_COMM_ID: native on all" "$native"
contains "NCCL_COMM_ID: says why" "with NCCL_COMM_ID every rank makes the id for itself"
finish
