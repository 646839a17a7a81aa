#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the choices that jobs make by measuring: compares the time of the chosen candidate with those of native calls,
# one_shot, two_shot, with several ranks on each host hierarchical, and on four hosts or more grid, in the policy's
# codec and (not with gloo) in raw. In one job, calls under a policy alternate with calls of each of these, which a
# rule forces (allreduce_bench --beside). Each has its own size, 4 bytes longer than the previous one.
#
#   choices.sh [--networks LIST] [--policies LIST] [--sizes LIST] [--seconds S] [--gloo PYTHON] [--results FILE]
#
# A network is shm-RANKS, or RATE-HOSTSxRANKS (ranks per host), as in bench.sh. A policy is default (the built-in one)
# or a codec. S (0.1) is the time per candidate and size. PYTHON, with PyTorch, makes the calls by gloo instead of
# MPI. The lines of a job, NETWORK POLICY CANDIDATE BYTES CALLS MEDIAN MINIMUM, are appended to FILE. `summarize.py
# choices FILE` makes the table that is printed at the end. HOSTS is a script with the commands up, run and down,
# instead of tests/net/hosts.sh. A size's own calls are first made up to 1000 times: an emulated link whose rate is
# limited lets the first 256 KiB pass at once, so classes of small calls learn again after some hundred calls.
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/lib.sh
build=$(realpath "${BUILD:-build}")
networks=shm-2,shm-4,1gbit-4x1,1gbit-2x2 policies=default,fp8_e4m3 seconds=0.1 gloo= results=
sizes=1KiB,4KiB,16KiB,64KiB,128KiB,256KiB,512KiB,1MiB,4MiB,16MiB
while [ $# -gt 0 ]; do
    case $1 in
    --networks) networks=${2-} ;;
    --policies) policies=${2-} ;;
    --sizes) sizes=${2-} ;;
    --seconds) seconds=${2-} ;;
    --gloo) gloo=${2-} ;;
    --results) results=${2-} ;;
    *) usage ;;
    esac
    shift 2
done
# shellcheck disable=SC2086 # HOSTS may be several words
begin ${HOSTS:-tests/net/hosts.sh} --name choices
results=${results:-$scratch/results}
[[ $networks,shm- =~ ^(shm-[0-9]*,)*shm-$ ]] || [ "$(id -u)" = 0 ] || {
    echo "choices.sh: not root: only networks of shared memory can be measured" >&2
    exit 2
}

# candidates_of NETWORK POLICY: prints the forced candidates besides the policy's own choice, as CODEC/ALGORITHM. Within
# a node they leave out the built-in policy's fp16, which it uses there in no all-reduces but gloo's above 32 MiB.
candidates_of() {
    local codec=$2 algorithm
    [ "$2" != default ] || codec=fp16
    echo none/auto
    for algorithm in one_shot two_shot $layered; do
        [ "${1%-*}-$2" = shm-default ] || echo "$codec/$algorithm"
        [ -n "$gloo" ] || echo "raw/$algorithm"
    done
}

bytes_of() {
    local number=${1%[KM]iB}
    case $1 in
    *KiB) echo $((number << 10)) ;;
    *MiB) echo $((number << 20)) ;;
    *) echo "$1" ;;
    esac
}

# rules_of POLICY SIZES CANDIDATES: prints the rules of the forced candidates, then those of the policy
rules_of() {
    local size bytes candidate
    printf '[compshim]\nreport = off\n'
    for size in ${2//,/ }; do
        bytes=$(bytes_of "$size")
        for candidate in $3; do
            bytes=$((bytes + 4))
            printf '[rule forced_%s]\nmin_size = %s\nmax_size = %s\ncodec = %s\nalgorithm = %s\nworth = always\n' \
                "$bytes" "$bytes" "$bytes" "${candidate%/*}" "${candidate#*/}"
        done
    done
    if [ "$1" = default ]; then
        sed '/^\[compshim\]/,/^$/d' policy/default.ini
    else
        printf '[rule all]\ncodec = %s\n' "$1"
    fi
}

# measure NETWORK POLICY SIZES: runs one job, and prints its lines for FILE
measure() {
    local candidates job options=()
    candidates=$(candidates_of "$1" "$2")
    rules_of "$2" "$3" "$candidates" >"$scratch/policy.ini"
    job=("$build/allreduce_bench")
    [ -z "$gloo" ] || job=("$gloo" tests/bench/choices_gloo.py)
    job+=(--sizes "$3" --seconds "$seconds" --settle 1000 --beside "$(wc -w <<<"$candidates")")
    local variables=("LD_PRELOAD=$build/libcompshim.so" "COMPSHIM_POLICY=$scratch/policy.ini")
    [ -z "$gloo" ] || job=(env MASTER_ADDR="$master" "${job[@]}")
    echo "$1 $2 ($3)" >&2
    run_job "$1" | awk -v network="$1" -v policy="$2" -v names="chosen ${candidates//$'\n'/ }" '
        BEGIN { count = split(names, name, " ") }
        { print network, policy, name[(NR - 1) % count + 1], $0 }'
}

for network in ${networks//,/ }; do
    layered= master=127.0.0.1
    case $network in
    shm-*) ;;
    *)
        master=choices1 host_count=${network#*-} host_count=${host_count%x*}
        [ "${network##*x}" = 1 ] || layered=hierarchical
        [ "$host_count" -lt 4 ] || layered+=" grid"
        ;;
    esac
    up "$network"
    for policy in ${policies//,/ }; do
        measure "$network" "$policy" "$sizes" >>"$results"
    done
    down "$network"
done
python3 tests/bench/summarize.py choices "$results"
