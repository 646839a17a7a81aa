#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the kernels' binary for drivers from R525 (CUDA 12.0) on. What nvcc of CUDA 13 makes by itself has three
# things that older drivers lack, and each is asked for differently here:
#   * its ptxas writes cubins of ELF ABI version 8, CUDA 12's of version 7 for all that CUDA 12.0 knew;
#   * --compress-mode=size is zstd, which drivers know from CUDA 12.4 on; speed is LZ4, which all know;
#   * PTX names the newest version, though it uses nothing newer than 8.0: ptxas would say so. sm_120 needs 8.7.
#   kernels/fatbin.sh NVCC PTXAS_OF_CUDA_12 OUTPUT "ARCHITECTURE..." "INTERMEDIATE..."
# Writes to stderr what ptxas says of each kernel.
set -eu
nvcc=$1 ptxas=$2 output=$3
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
intermediate() { # ARCHITECTURE
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
