#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Times a Fourier transform with MPI_Alltoall transposes on four emulated hosts, alternately without and with the
# shim. Needs root, iproute2, and Debian's libfftw3-dev.
#
#   fft.sh [RATE [SIDE [ROUNDS]]]         default: 1gbit 2048 3
#
# Each line has medians of the rounds: a mode, milliseconds of the transform and of its calls of MPI_Alltoall, the
# speed of both relative to native, and the relative L2 error against float64.
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/lib.sh
build=$(realpath "${BUILD:-build}")
rate=${1-1gbit} side=${2-2048} rounds=${3-3}
make --silent BUILD="$build" "$build/fft_bench"
begin tests/net/hosts.sh --name cshimfft
up "$rate-4x1"
for round in $(seq "$rounds"); do
    for mode in natively raw lossless fp16 fp8_e4m3 "bounded 1e-2"; do
        set -- $mode
        printf '[rule transposes]\ncollective = alltoall\ncodec = %s\n' "$1" >"$scratch/policy.ini"
        [ $# = 1 ] || echo "abs_error = $2" >>"$scratch/policy.ini"
        [ "$mode" = natively ] && preload= || preload=$build/libcompshim.so
        LD_PRELOAD=$preload COMPSHIM_REPORT=off COMPSHIM_POLICY=$scratch/policy.ini "${hosts[@]}" run \
            "$build/fft_bench" "$side" 5 | sed "s/^/$1 /" >>"$scratch/lines"
    done
done
python3 - "$scratch/lines" <<'P'
import statistics, sys
modes = {}
for line in open(sys.argv[1]):
    name, *figures = line.split()
    modes.setdefault(name, []).append([float(figure) for figure in figures])
medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in modes.items()}
for name, (whole, moving, error) in medians.items():
    native = medians["natively"]
    print(f"{name:10} {whole:8.1f} ms {moving:8.1f} ms {native[0] / whole:6.2f} x {native[1] / moving:6.2f} x   {error:.2e}")
P
