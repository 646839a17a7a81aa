#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the speed-up that reports give with an A/B comparison: all-reduces of one size in jobs without the shim and
# in jobs with it, which alternate.
#
#   truth.sh [--networks LIST] [--sizes LIST] [--codec CODEC] [--seconds S] [--repeats N] [--paced]
#
# Networks are those of bench.sh (those other than shm-RANKS need root); with --paced, hosts send without bursts
# (tests/net/hosts.sh). Each line has the medians, over N (5) pairs, of a call's milliseconds without and with the shim,
# the A/B's speed-up with its quartiles, the median of the reports' speed-ups, and how far that is off.
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "${BUILD:-build}")
networks=shm-2,1gbit-4x1,1gbit-2x2,10gbit-4x1 sizes=64KiB,256KiB,1MiB,4MiB codec=fp8_e4m3 seconds=2 repeats=5 paced=()
while [ $# -gt 0 ]; do
    case $1 in
    --networks) networks=${2-} ;;
    --sizes) sizes=${2-} ;;
    --codec) codec=${2-} ;;
    --seconds) seconds=${2-} ;;
    --repeats) repeats=${2-} ;;
    --paced)
        paced=(--paced)
        shift
        continue
        ;;
    *)
        sed -n '3,/^set -eu/p' "$0" | sed '/^set -eu/d; s/^# \{0,1\}//'
        exit 2
        ;;
    esac
    shift 2
done
scratch=$(mktemp -d)
hosts=(tests/net/hosts.sh --name truth)
clean_up() {
    rm -rf "$scratch"
    [ "$(id -u)" != 0 ] || "${hosts[@]}" down >/dev/null
}
trap clean_up EXIT
trap 'exit 130' INT TERM
root=()
[ "$(id -u)" != 0 ] || root=(--allow-run-as-root)
printf '[rule all]\ncodec = %s\n' "$codec" >"$scratch/policy.ini"

# job NETWORK SIZE VARIABLE...: prints the median seconds of a call
job() {
    local network=$1 job=("$build/allreduce_bench" --sizes "$2" --seconds "$seconds" --settle 5)
    shift 2
    case $network in
    shm-*)
        mpirun "${root[@]}" -n "${network#shm-}" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
            env "$@" "${job[@]}"
        ;;
    *) env "$@" "${hosts[@]}" run --ranks-per-host "${network##*x}" "${job[@]}" ;;
    esac | awk '{ print $3 }'
}

for network in ${networks//,/ }; do
    if [[ $network != shm-* ]]; then
        host_count=${network#*-}
        "${hosts[@]}" up --hosts "${host_count%x*}" --rate "${network%%-*}" "${paced[@]}" >&2
    fi
    for size in ${sizes//,/ }; do
        for repeat in $(seq "$repeats"); do
            for mode in $([ $((repeat % 2)) = 0 ] && echo off on || echo on off); do
                variables=(COMPSHIM=off)
                [ "$mode" = off ] || variables=("LD_PRELOAD=$build/libcompshim.so" "COMPSHIM_REPORT=$scratch/report"
                    "COMPSHIM_POLICY=$scratch/policy.ini")
                echo "$mode $(job "$network" "$size" "${variables[@]}")"
            done
            echo "told $(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["totals"]["speedup"])' "$scratch/report")"
        done | python3 -c 'import statistics, sys
values = {"off": [], "on": [], "told": []}
for line in sys.stdin:
    kind, value = line.split()
    values[kind].append(float(value))
low, middle, high = statistics.quantiles((off / on for off, on in zip(values["off"], values["on"])), n=4)
off, on, told = (statistics.median(values[kind]) for kind in ("off", "on", "told"))
print(f"{sys.argv[1]:12} {sys.argv[2]:>7} {1e3 * off:9.3f} {1e3 * on:9.3f}   {middle:5.2f} ({low:.2f} to {high:.2f})"
      f"   {told:5.2f}  {100 * (told / middle - 1):+4.0f} %", flush=True)' "$network" "$size"
    done
    [[ $network = shm-* ]] || "${hosts[@]}" down >&2
done
