#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the kernels' binary for drivers from R525 (CUDA 12.0) on. The output of CUDA 13's nvcc alone does not load
# there, for three reasons:
#   * its ptxas writes cubins of ELF ABI version 8; CUDA 12's ptxas writes version 7;
#   * --compress-mode=size means zstd, which drivers read from CUDA 12.4 on; speed means LZ4, which all drivers read;
#   * its PTX names the newest version; 8.0 suffices and, from sm_100 on, 8.7 (otherwise ptxas would report an error).
# Usage:
#   kernels/fatbin.sh NVCC PTXAS_OF_CUDA_12 OUTPUT "ARCHITECTURE..." "INTERMEDIATE..."
# Writes ptxas's statistics of each kernel to stderr.
set -eu
nvcc=$1 ptxas=$2 output=$3
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
intermediate() { # ARCHITECTURE: writes its PTX
    "$nvcc" -std=c++17 --fmad=false -I. -ptx -arch="compute_$1" -o "$work/$1.newest" kernels/device.cu
    sed "s/^\.version .*/.version $([ "$1" -lt 100 ] && echo 8.0 || echo 8.7)/" "$work/$1.newest" >"$work/$1.ptx"
}
images=""
for architecture in $4; do
    intermediate "$architecture"
    "$ptxas" -v --fmad false -arch="sm_$architecture" -o "$work/$architecture.cubin" "$work/$architecture.ptx"
    images="$images --image3=kind=elf,sm=$architecture,file=$work/$architecture.cubin"
done
for architecture in $5; do
    intermediate "$architecture"
    images="$images --image3=kind=ptx,sm=$architecture,file=$work/$architecture.ptx"
done
# shellcheck disable=SC2086
"$(dirname "$nvcc")/fatbinary" -64 --create="$output" --compress-all --compress-mode=speed $images
