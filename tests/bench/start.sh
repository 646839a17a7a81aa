#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures the start of a job on emulated hosts (tests/net/hosts.sh), alternately without and with the shim: the seconds
# of MPI_Init and of the whole job, and the largest number of sockets of a rank. Prints medians. Needs root.
#
#   start.sh [HOSTSxRANKS [REPEATS]]         default: 16x4 5
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/lib.sh
build=$(realpath "${BUILD:-build}")
shape=${1:-16x4} repeats=${2:-5} job=("$build/start_bench")
begin tests/net/hosts.sh --name cshimstart
up "none-$shape"
for _ in $(seq "$repeats"); do
    for mode in off on; do
        variables=()
        [ $mode = off ] || variables=("LD_PRELOAD=$build/libcompshim.so" COMPSHIM_POLICY=policy/default.ini COMPSHIM_REPORT=off)
        began=$EPOCHREALTIME
        printed=$(run_job "none-$shape")
        echo "$mode $printed $(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')" >>"$scratch/samples"
    done
done
python3 - "$scratch/samples" <<'P'
import collections, statistics, sys
samples = collections.defaultdict(list)
for line in open(sys.argv[1]):
    mode, *figures = line.split()
    samples[mode].append([float(figure) for figure in figures])
print("mode  MPI_Init s   sockets   whole job s")
for mode, rows in samples.items():
    init, sockets, job = (statistics.median(column) for column in zip(*rows))
    print(f"{mode:5} {init:10.3f} {sockets:9.0f} {job:13.2f}")
P
