#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs jobs in which the first or the second half of the ranks, or one of ten, lacks the shim, and either half may start
# late. The results must be right, and exactly one warning must name the ranks. Also runs jobs in which all ranks have
# the shim, and one joins the agreement late.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_one_of_each
preloaded="LD_PRELOAD=$preload"
policy "$scratch/policy.ini" fp8_e4m3 two_shot
export COMPSHIM_POLICY=$scratch/policy.ini

# parts NAME RANKS COMMAND [RANKS COMMAND]...: runs one job, in which RANKS ranks run each shell command. Saves its
# output in $scratch/NAME.
parts() {
    local name=$1 words=()
    shift
    while [ $# -gt 0 ]; do
        words+=(${words[0]+:} "$1" sh -c "$2")
        shift 2
    done
    TMPDIR=$(mktemp -d "$scratch/XXXX") differing "${words[@]}" >"$scratch/$name" 2>&1
}
run="exec '$program'" with="exec env '$preloaded' '$program'" late="sleep 3;"

# The jobs run at once, because they mostly wait. Each has its own TMPDIR: mpiruns that start at the same moment fail to
# create Open MPI's session folder in a common one.
parts "the first half without the shim, prompt" 2 "$run" 2 "$with" &
parts "the first half without the shim, late" 2 "$late $run" 2 "$with" &
parts "the first half without the shim, early" 2 "$run" 2 "$late $with" &
parts "the second half without the shim, prompt" 2 "$with" 2 "$run" &
parts "the second half without the shim, late" 2 "$with" 2 "$late $run" &
parts "the second half without the shim, early" 2 "$late $with" 2 "$run" &

# In the agreement's tree of ten ranks, rank 9 is a child of rank 1, not of rank 0.
parts "rank 1 of ten without the shim" 1 "$with" 1 "$run" 8 "$with" &
parts "rank 9 of ten without the shim" 9 "$with" 1 "$run" &

# A rank joins the agreement itself late, while the others wait or after they stopped waiting. All ranks must decide
# alike, or the job would hang.
late_rank() { TMPDIR=$(mktemp -d "$scratch/XXXX") shimmed "$1" COMPSHIM_REPORT=summary "$build/tests/mpi_late_rank" "$2" "$3" >"$scratch/late.$2.$3" 2>&1; }
late_rank 3 0 2 &
late_rank 3 2 2 &
late_rank 10 1 2 &
late_rank 3 0 13 &
late_rank 3 2 13 &
late_rank 10 9 13 &
wait
for late in "3 0 2 by two_shot" "3 2 2 by two_shot" "10 1 2 by two_shot" "3 0 13 nothing is compressed" \
    "3 2 13 nothing is compressed" "10 9 13 nothing is compressed"; do
    read -r ranks rank seconds text <<<"$late"
    output=$(cat "$scratch/late.$rank.$seconds")
    check "rank $rank of $ranks late by $seconds s: the results are right" \
        test "$(grep -c 'rank [0-9]: 0 wrong$' <<<"$output")" = "$ranks"
    contains "rank $rank of $ranks late by $seconds s: $text" "${text#by }"
done

# judge NAME PATTERN: checks the output of parts, with PATTERN for the named ranks
judge() {
    local warnings
    output=$(cat "$scratch/$1")
    contains "$1: the result is right" "work done, 0 failures"
    warnings=$(grep -c compshim: <<<"$output")
    if [ "$warnings" = 1 ]; then
        pass "$1: one warning"
    else
        fail "$1: one warning" "$warnings warnings: $output"
    fi
    check "$1: it names the ranks" grep -Eq "compshim:.*nothing is compressed.*($2)" <<<"$output"
}
for when in prompt late early; do
    judge "the first half without the shim, $when" "ranks 0-1|rank 0.*rank 1"
    judge "the second half without the shim, $when" "ranks 2-3|rank 2.*rank 3"
done
for lacking in 1 9; do
    judge "rank $lacking of ten without the shim" "have this shim: rank $lacking [^,]*;"
done
finish
