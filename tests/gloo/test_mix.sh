#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs random gloo programs: contexts that come and go, threads, tags, types and operations, under random policies.
# SEED=N selects others, PROGRAMS=N their number.
. "$(dirname "$0")/lib.sh"
unset COMPSHIM_MACHINE # so that calls try several candidates
seed=${SEED:-1}
one_of() { # sets a variable; in a subshell the random numbers would not advance
    local -n drawn=$1
    local words=("${@:2}")
    drawn=${words[RANDOM % ${#words[@]}]}
}

# draw_policy: prints a random policy. Its codecs are exact for sums of up to 16.
draw_policy() {
    local codec algorithm largest moves verify check feedback rounding
    one_of codec raw raw fp16 bf16 fp8_e4m3 fp8_e4m3
    one_of algorithm auto one_shot two_shot two_shot cast hierarchical
    [[ $algorithm != cast || $codec != fp8_e4m3 ]] || algorithm=auto
    one_of largest 0 0 16 1KiB 20KiB
    one_of verify off off 1 3
    one_of check off 1 4
    printf '[rule small]\nmax_size = %s\ncodec = none\n' "$largest"
    # A rule for other collectives, whose calls may have the tag of an all-reduce.
    one_of moves none raw lossless fp8_e4m3
    printf '[rule moves]\ncollective = allgather, alltoall, broadcast\ndtype = float32\ncodec = %s\ncheck_ranks = %s\n' \
        "$moves" "$check"
    printf '[rule all]\ncodec = %s\nalgorithm = %s\nverify = %s\ncheck_ranks = %s\n' \
        "$codec" "$algorithm" "$verify" "$check"
    if [ "$algorithm" != cast ]; then
        one_of feedback off off on
        one_of rounding nearest nearest stochastic
        printf 'error_feedback = %s\nrounding = %s\n' "$feedback" "$rounding"
    fi
}
# all_reported: succeeds if the reports have all calls, and some were compressed. A process reports the calls of the
# contexts in which it is rank 0.
all_reported() {
    python3 - "$scratch" "$(awk '/all-reduces led/ { led += $3 + $6 } END { print led }' <<<"$output")" <<'P'
import glob, json, sys
reports = [json.load(open(name)) for name in glob.glob(sys.argv[1] + "/report*.json")]
calls = sum(report["totals"]["calls"] for report in reports)
compressed = sum(report["totals"]["compressed_calls"] for report in reports)
print(f"{calls} calls reported, {compressed} compressed, {sys.argv[2]} made", *reports, sep="\n")
sys.exit(calls != int(sys.argv[2]) or compressed == 0)
P
}

for ((program = 0; program < ${PROGRAMS:-6}; program++)); do
    RANDOM=$(((seed * 7919 + program) % 32749))
    one_of ranks 2 3 3 4 5
    setting=()
    one_of nodes "" "" 0,0,1,1,1
    [ -z "$nodes" ] || on_nodes $nodes || nodes=
    draw_policy >"$scratch/policy.ini"
    name="program $program of seed $seed, $ranks ranks${nodes:+ on nodes $nodes}"
    command=("$build/tests/gloo_mix" $((seed * 1000 + program)) ${STEPS:-40})
    expect "$name, natively" 0 job $ranks "${command[@]}"
    expect "$name, $(paste -s -d ' ' "$scratch/policy.ini")" 0 preloaded $ranks "${setting[@]}" "${command[@]}"
    check "$name: every call is reported" all_reported
done

# Some of the first calls come late, on threads, in a different order on each rank. Calls before the agreement are
# passed through, later ones may be compressed, and all ranks must do the same with each call.
passed_before() {
    python3 - "$scratch" <<'P'
import glob, json, sys
reports = [json.load(open(name)) for name in glob.glob(sys.argv[1] + "/report*.json")]
sys.exit(not any("not_agreed" in report["passed_through"] for report in reports))
P
}
rule "codec = raw" "check_ranks = 1" "collective = allreduce, allgather, alltoall, broadcast"
for ((program = 0; program < ${LATE_PROGRAMS:-2}; program++)); do
    expect "late calls, program $program of seed $seed" 0 preloaded 4 "$build/tests/gloo_mix" $((seed * 1000 + 500 + program)) 15 24 900
    check "every call is reported" all_reported
    passed_before && early=1
done
check "some were passed through before the ranks had agreed" test -n "${early-}"
finish
