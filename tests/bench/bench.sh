#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures this machine: the codecs on one core, and all-reduces over shared memory and emulated hosts, native, with
# the shim, and by Open MPI's ring.
#
#   bench.sh [--quick] [--networks LIST] [--modes LIST] [--sizes LIST] [--repeats N]
#            [--results DIR] [--picture FILE] [--paced]
#
# A network is shm-RANKS, or RATE-HOSTSxRANKS (ranks per host): 1gbit-4x1, 10gbit-4x1, 1gbit-2x2; none-4x1 has
# unlimited links. Networks other than shared memory need root (tests/net/hosts.sh), and are skipped without it.
# Modes: off, ring (Open MPI's), default (the built-in policy, whose jobs learn), bf16-allreduce (16 bits by MPI's own
# algorithm), and codecs. Sizes are in MiB or KiB; those above 64 MiB are measured in one repeat only. The modes take
# turns in every repeat, and each figure is the median of the repeats' medians. Writes DIR/NETWORK.json and
# DIR/codecs.json (DIR is tests/bench/results), with gnuplot also the picture (docs/bandwidth.svg), and prints tables.
# choices.sh evaluates the choices of jobs that measure.
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/lib.sh
build=$(realpath "${BUILD:-build}")
networks=1gbit-4x1,shm-2,1gbit-2x1,1gbit-2x2,10gbit-4x1
modes=off,ring,bf16-allreduce,raw,fp16,fp8_e4m3,int8,default
sizes=1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB,256MiB
repeats=3 results=tests/bench/results picture=docs/bandwidth.svg paced=()
while [ $# -gt 0 ]; do
    case $1 in
    --quick)
        networks=1gbit-4x1,shm-2 sizes=64KiB,1MiB,16MiB
        shift
        continue
        ;;
    --paced)
        paced=(--paced)
        shift
        continue
        ;;
    --networks) networks=${2-} ;;
    --modes) modes=${2-} ;;
    --sizes) sizes=${2-} ;;
    --repeats) repeats=${2-} ;;
    --results) results=${2-} ;;
    --picture) picture=${2-} ;;
    *) usage ;;
    esac
    shift 2
done
mkdir -p "$results"
begin tests/net/hosts.sh --name cshimbench

# policy_of MODE: prints the path of the mode's policy file, or nothing for modes without the shim
policy_of() {
    local codec=$1 algorithm=auto
    case $1 in
    off | ring) return ;;
    default)
        echo policy/default.ini
        return
        ;;
    *-allreduce) codec=${1%-allreduce} algorithm=cast ;;
    esac
    printf '[compshim]\nreport = off\n[rule all]\ncodec = %s\nalgorithm = %s\nworth = always\n' \
        "$codec" "$algorithm" >"$scratch/$1.ini"
    echo "$scratch/$1.ini"
}

# give_up WHAT: prints the error output of a failed job, and exits
give_up() {
    cat "$scratch/errors" >&2
    echo "bench.sh: $1 failed" >&2
    exit 1
}

# launch NETWORK MODE SIZES SECONDS: runs one job, which prints allreduce_bench's lines. Between hosts, the shim's calls
# of up to 1 MiB alternate with native ones, because the speed of jobs varies by chance.
launch() {
    local network=$1 mode=$2 policy variables=()
    local job=("$build/allreduce_bench" --sizes "$3" --seconds "$4")
    policy=$(policy_of "$mode")
    [ -z "$policy" ] || variables=("LD_PRELOAD=$build/libcompshim.so" "COMPSHIM_POLICY=$policy" COMPSHIM_REPORT=off)
    [ -z "$policy" ] || [[ $network = shm-* || ,$3 =~ ,([2-9]|[1-9][0-9]+)MiB ]] || job+=(--alternate)
    [ "$mode" != default ] || job+=(--settle 64)
    [ "$mode" != ring ] || set -- "$@" --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 4
    run_job "$network" "${@:5}"
}

# plan MODE SIZES: prints a line for each size: the mode, and the planner's answer in JSON
plan() {
    local size policy
    policy=$(policy_of "$1")
    for size in ${2//,/ }; do
        echo "$1 $("$build/compshim" explain --policy "${policy:-policy/default.ini}" --size "$size" \
            --ranks "$ranks" --nodes "$host_count" --json | tr -d '\n')"
    done
}

# sample NETWORK SIZES SECONDS REPEATS: appends the plans, and lines of samples: network, mode, repeat, bytes, calls,
# median and minimum seconds, processor seconds per GiB, and the median seconds of native calls if they alternate
sample() {
    local network=$1 list=$2 seconds=$3 count=$4 repeat mode
    [ -n "$list" ] || return 0
    for mode in ${modes//,/ }; do
        plan "$mode" "$list" >>"$scratch/$network.plans"
    done
    for repeat in $(seq "$count"); do
        for mode in ${modes//,/ }; do
            printf '%s, repeat %s of %s: %s (%s)\n' "$network" "$repeat" "$count" "$mode" "$list" >&2
            launch "$network" "$mode" "$list" "$seconds" >"$scratch/lines" 2>"$scratch/errors" ||
                give_up "$network: $mode"
            sed "s/^/$network $mode $repeat /" "$scratch/lines" >>"$scratch/$network.samples"
        done
    done
}

# sizes_matching PATTERN: prints the matching sizes of the list, comma-separated
sizes_matching() {
    tr , '\n' <<<"$sizes" | grep -E "$1" | paste -sd , || true
}

measure() {
    local network=$1 ranks host_count
    case $network in
    shm-*) ranks=${network#shm-} host_count=1 ;;
    *)
        if [ "$(id -u)" != 0 ]; then
            echo "bench.sh: not root: $network is left out, only shared memory is measured" >&2
            return
        fi
        host_count=${network#*-} host_count=${host_count%x*}
        ranks=$((host_count * ${network##*x}))
        ;;
    esac
    up "$network" "${paced[@]}"
    sample "$network" "$(sizes_matching '^[0-9]+KiB$|^1MiB$')" 0.1 "$repeats"
    sample "$network" "$(sizes_matching '^([2-9]|[1-5][0-9]|6[0-4])MiB$')" 0.3 "$repeats"
    sample "$network" "$(sizes_matching '^(6[5-9]|[7-9][0-9]|[0-9]{3,})MiB$')" 0.3 1
    down "$network"
    python3 tests/bench/summarize.py network "$scratch/$network.samples" "$scratch/$network.plans" \
        >"$scratch/$network.json"
    mv "$scratch/$network.json" "$results/$network.json"
}

"$build/codec_bench" --json "$scratch/codecs.json" >"$scratch/codecs.txt"
cp "$scratch/codecs.json" "$results/"
for network in ${networks//,/ }; do
    measure "$network"
done
cat "$scratch/codecs.txt"
python3 tests/bench/summarize.py table "$results"/{1gbit,10gbit,shm}*.json
if command -v gnuplot >/dev/null; then
    curves=()
    for network in 1gbit-4x1 shm-2; do
        [ -e "$results/$network.json" ] || continue
        python3 tests/bench/summarize.py curves "$results/$network.json" >"$scratch/$network.dat"
        curves+=("$scratch/$network.dat")
    done
    [ ${#curves[@]} = 0 ] || gnuplot -e "files='${curves[*]}'; picture='$picture'" tests/bench/bandwidth.gp
fi
