#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the speed-up that reports give with an A/B comparison: all-reduces of one size in jobs without the shim and
# in jobs with it, which alternate.
#
#   truth.sh [--networks LIST] [--sizes LIST] [--codec CODEC] [--seconds S] [--repeats N] [--paced]
#
# Networks are those of bench.sh (those other than shm-RANKS need root); with --paced, hosts send without bursts
# (tests/net/hosts.sh). Each line has the medians, over N (5) pairs, of a call's milliseconds without and with the shim,
# the A/B's speed-up with its quartiles, the median of the speed-ups in the last line of the reports' tables, and how far
# that is off, or "-" if the jobs were too short for an answer. As in that line, a job's calls count by their mean, its
# native trials included.
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/lib.sh
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
    *) usage ;;
    esac
    shift 2
done
begin tests/net/hosts.sh --name truth
printf '[rule all]\ncodec = %s\n' "$codec" >"$scratch/policy.ini"

# measure MODE: prints the median seconds of a call; with MODE `on`, the job has the shim and writes a report
measure() {
    local job=("$build/allreduce_bench" --sizes "$size" --seconds "$seconds" --mean) variables=(COMPSHIM=off)
    [ "$1" = off ] || variables=("LD_PRELOAD=$build/libcompshim.so" "COMPSHIM_REPORT=$scratch/report"
        "COMPSHIM_POLICY=$scratch/policy.ini")
    run_job "$network" | awk '{ print $3 }'
}

for network in ${networks//,/ }; do
    up "$network" "${paced[@]}"
    for size in ${sizes//,/ }; do
        for repeat in $(seq "$repeats"); do
            rm -f "$scratch/report"
            for mode in $([ $((repeat % 2)) = 0 ] && echo off on || echo on off); do
                echo "$mode $(measure "$mode")"
            done
            python3 -c 'import json, sys
totals = json.load(open(sys.argv[1]))["totals"]
if "seconds_native" in totals:
    native = totals["seconds_native"]
    print("reported", (totals["seconds_native_estimate"] + native) / (totals["seconds_compared"] + native))
' "$scratch/report"
        done >"$scratch/samples"
        printf '%-12s %7s ' "$network" "$size"
        python3 tests/bench/summarize.py truth "$scratch/samples"
    done
    down "$network"
done
