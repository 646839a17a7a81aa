#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs random legal programs (legal.c) for SECONDS seconds, or JOBS jobs however long they take. Ranks, nodes and
# policies of the jobs are random too. The first failing program is shrunk to a short list of steps, which is printed
# in words. SEED and a job's number determine the job; if nothing is found, the last line has a digest of all jobs'
# inputs.
# FEEDBACK=off excludes error feedback, LEGAL_JUMPS=0 error handlers that jump. legal.c avoids defects of Debian's MPICH
# 4.0, and splits communicators there instead of calling MPI_Comm_create_group.
#   BUILD=DIR [MPI=mpich] [FIRST_JOB=N] [SHRINK=no] [JOBS=N] tests/legal/legal.sh SECONDS [SEED]
. "$(dirname "$0")/../lib.sh"
seconds=${1:?} seed=${2:-$(date +%s)} jobs=${JOBS:-1000000}
[ -z "${JOBS-}" ] || seconds=100000000
program=$build/tests/mpi_legal
export COMPSHIM_POLICY=$scratch/policy.ini

# one_of VARIABLE WORD...: sets the variable to a random word; in a subshell the random numbers would not advance
one_of() {
    local -n drawn=$1
    local words=("${@:2}")
    drawn=${words[RANDOM % ${#words[@]}]}
}

# Prints the largest error allowed, as a share of the largest possible sum: 2.3 times the rounding error of a block's
# largest element in the worst codec that may be used; with stochastic rounding twice that, with a residual 2.4 times.
# Calls that exceed the tolerance move to a codec further right in `lost`.
bound_of() { # CODEC GATHER_CODEC ROUNDING FEEDBACK TOLERANCE
    python3 - "$@" <<'P'
import sys
codec, gather, rounding, feedback, tolerance = sys.argv[1:]
lost = {"mxfp4": 0.2, "nvfp4": 0.18, "int3": 0.168, "int4": 0.072, "mxfp8": 2**-4, "fp8_e5m2": 2**-3, "int5": 0.0336, "fp8_e4m3": 2**-4, "int6": 0.0163, "int8": 0.004, "bf16": 0, "fp16": 0, "raw": 0, "lossless": 0, "bounded": 0.0015}
later = list(lost)[list(lost).index(codec):] if tolerance != "0" else [codec]
later += [gather] if gather != "none" else []
print(2.3 * max(map(lost.get, later)) * (2 if rounding == "stochastic" else 1) * (2.4 if feedback == "on" else 1))
P
}

draw_policy() { # sets $bound
    local codec algorithm feedback=off rounding=nearest report largest collectives verify check tolerance=0
    local gather=none sums=allreduce,reduce,reduce_scatter
    one_of codec raw raw raw lossless bounded fp16 bf16 fp8_e4m3 fp8_e5m2 int8 int6 int5 int4 int3 mxfp8 mxfp4 nvfp4
    one_of algorithm auto auto one_shot two_shot hierarchical hierarchical grid grid cast
    [[ $algorithm != cast || $codec =~ ^(raw|fp16|bf16)$ ]] || algorithm=two_shot
    one_of report off off "$scratch/report.json"
    one_of largest 0 0 16 100 1KiB 5000
    one_of collectives allreduce $sums $sums $sums,{allgather,alltoall,broadcast{,}} $sums,allgather,alltoall,broadcast{,}
    one_of verify off off 1 3
    one_of check off 1 5
    if [ "$uneven" = yes ]; then
        one_of codec int4 int4 int5 int6
        algorithm=hierarchical
    fi
    printf '[compshim]\nfeedback_memory = 2MiB\nreport = %s\n[rule small]\nmax_size = %s\ncodec = none\n' "$report" "$largest"
    printf '[rule all]\ncollective = %s\ncodec = %s\nalgorithm = %s\nverify = %s\ncheck_ranks = %s\n' \
        "$collectives" "$codec" "$algorithm" "$verify" "$check"
    if [ "$codec" = bounded ]; then # a little less than bound_of allows: 0.00345 of 3, the largest magnitude
        printf 'abs_error = 0.01\n'
    elif [ "$algorithm" != cast ]; then
        one_of gather none none none raw lossless fp16 int8 int4
        [ "$gather" = none ] || printf 'gather_codec = %s\n' "$gather"
        one_of feedback ${FEEDBACK:-off off on}
        one_of rounding nearest nearest stochastic
        one_of tolerance 0 0 0 0.001 0.02 0.05
        [ "$uneven" = no ] || one_of tolerance 0.02 0.05
        printf 'error_feedback = %s\nrounding = %s\n' "$feedback" "$rounding"
        [ "$tolerance" = 0 ] || printf 'max_rel_error = %s\n' "$tolerance"
    fi
    bound=$(bound_of "$codec" "$gather" "$rounding" "$feedback" "$tolerance")
}

# Draws the node of each rank: one node for all, nodes with equally many ranks (but the last), or any node.
draw_nodes() { # sets $nodes
    local i even=$((RANDOM % 3)) per=$((1 + RANDOM % 4)) several=$((2 + RANDOM % 3))
    nodes=
    [ "$uneven" = no ] || even=2
    for ((i = 0; i < ranks; i++)); do
        case $even in 0) nodes+=0, ;; 1) nodes+=$((i / per)), ;; 2) nodes+=$((RANDOM % several)), ;; esac
    done
}

# Draws COMPSHIM_MACHINE. If it is empty, jobs try all candidates; if it is off, none.
draw_machine() { one_of COMPSHIM_MACHINE off "" ""; }

draw_job() { # NUMBER
    RANDOM=$(((seed * 7919 + $1) % 32749))
    one_of ranks 2 2 3 3 4 4 5 6 7 8
    # Adaptive precision on unevenly filled nodes would be rare by chance, so some jobs are given such nodes.
    one_of uneven no no no no yes
    draw_nodes
    one_of threads 0 0 1
    first=$((seed * 1000000 + $1 * 1000))
    programs=$((240 / ranks)) # few, so that many policies and placements are tried
    preloads=$build/tests/standin_nodes.so:$preload
    [ $(($1 % 10)) != 9 ] || preloads=$build/tests/standin_nodes.so # without the shim
    draw_policy >"$COMPSHIM_POLICY"
    draw_machine
}

# run SEED PROGRAMS REPEATS [STEPS]: sets $output and $status
run() {
    output=$(mpi "$ranks" STANDIN_NODES="$nodes" LD_PRELOAD="$preloads" LEGAL_JUMPS="${LEGAL_JUMPS:-1}" "$program" "$1" "$2" "$bound" "$threads" "${@:3}" 2>&1)
    status=$?
    [[ $output != *"please report"* ]] || status=1
}
fails() {
    run "$@"
    [ "$status" != 0 ]
}

# leaks: succeeds if the last job's memory grew by over 1 MiB per quarter more than without the shim, and grows by over
# 4 MiB more in a job of four times as many programs, or if that job fails. MPI libraries keep a little memory of each
# program and grow in jumps.
leaks() {
    local times grown native with=$preloads
    for times in 1 4; do
        [ "$times" = 1 ] || ! fails "$first" $((times * programs)) 1 || return 0
        grown=$(growth)
        [ "${grown:-0}" -gt $((1024 * times)) ] || return
        preloads=$build/tests/standin_nodes.so
        run "$first" $((times * programs)) 1
        native=$(growth) preloads=$with
        [ $((grown - ${native:-0})) -gt $((1024 * times)) ] || return
    done
    output="legal: memory grows by $grown KiB in $programs programs, natively by ${native:-0} KiB"
}
growth() { sed -n 's/^legal: .* growth \(.*\) KiB$/\1/p' <<<"$output"; }

# Drops steps of a failing program while it still fails: first 16 at once, then 8, down to one.
shrink() { # SEED
    local steps=({0..31}) size=16 from fewer
    while [ "$size" -ge 1 ]; do
        for ((from = 0; from < ${#steps[@]}; )); do
            fewer=("${steps[@]:0:from}" "${steps[@]:from+size}")
            if fails "$1" 1 20 "$(printf '%s,' "${fewer[@]}")"; then
                steps=("${fewer[@]}")
            else
                from=$((from + size))
            fi
        done
        size=$((size / 2))
    done
    kept=$(printf '%s,' "${steps[@]}")
    fails "$1" 1 20 "$kept" || fails "$1" 1 20 "$kept" || echo "it fails now and then"
}

tell() {
    local found
    found=$(printf '%s\n' "$output" | sed -n 's/^legal: program \([0-9]*\),.*/\1/p' | head -n 1)
    echo "FOUND after $((total + 1 + ${found:-first + programs - 1} - first)) programs in job $job of seed $seed: $ranks ranks on nodes $nodes threads $threads bound $bound, preloaded: $preloads"
    cat "$COMPSHIM_POLICY"
    echo "COMPSHIM_MACHINE=$COMPSHIM_MACHINE"
    printf '%s\n' "$output" | grep -a -E 'legal:|compshim:' | head -n 20
    [ "${SHRINK:-yes}" = yes ] || return
    export LEGAL_SECONDS=${SHRINK_SECONDS:-10}
    if [ -n "$found" ] && fails "$found" 1 20; then
        shrink "$found"
        printf '%s\n' "$output" | grep -a -E '^program|^  step|legal:|compshim:' | sort -u -k 1,4 | sort -V | head -n 40
        echo "once more: STANDIN_NODES=$nodes LD_PRELOAD=$preloads mpirun -n $ranks $program $found 1 $bound $threads 20 $kept"
    else
        echo "it does not fail alone"
    fi
    echo "the same again: JOBS=1 FIRST_JOB=$job make legal SEED=$seed"
}

# Prints the inputs of the job, without the folders of this run.
inputs() {
    echo "$job $ranks $nodes $threads $first $programs $bound ${preloads//"$build"}"
    sed "s|$scratch||" "$COMPSHIM_POLICY"
    echo "$COMPSHIM_MACHINE"
}
total=0 end=$((SECONDS + seconds)) digest=
for ((job = ${FIRST_JOB:-0}; jobs-- > 0 && SECONDS < end; job++)); do
    draw_job "$job"
    digest=$({ echo "$digest" && inputs; } | sha256sum | cut -c 1-16)
    if fails "$first" "$programs" 1 || leaks; then
        tell
        exit 1
    fi
    total=$((total + programs))
done
echo "legal: $total programs in $job jobs, seed $seed, digest $digest, nothing found"
