#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds goals of the Makefile for 64-bit Arm with Debian's compiler, in the folder BUILD-arm. Fetches Debian's
# packages for Arm once, into BUILD-arm/root: see root.sh.
# usage: tests/arm/make.sh GOAL...
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}-arm
root=$PWD/$build/root
tests/arm/root.sh "$root" libc6-dev libstdc++-12-dev libcmocka-dev libinih-dev libmd-dev libjansson-dev libelf-dev \
    zlib1g-dev libopenblas-dev openmpi-bin libopenmpi-dev libgloo-dev
# Debian chooses among several BLAS and MPI where packages are installed; these are only unpacked.
libraries=$root/usr/lib/aarch64-linux-gnu
compiler() {
    echo "aarch64-linux-gnu-$1 --sysroot=$root -L$libraries/openblas-pthread -I$root/usr/include/aarch64-linux-gnu/openblas-pthread"
}
# Make's variables of this build are not for that one.
env -u MAKEFLAGS -u MAKELEVEL make -s -j"$(nproc)" BUILD="$build" CC="$(compiler gcc)" CXX="$(compiler g++)" MPICH_CC=none NVCC= nccl_header= \
    gloo_header="$root/usr/include/gloo/allreduce.h" \
    MPICC="$(compiler gcc) -I$libraries/openmpi/include -L$libraries/openmpi/lib -Wl,-rpath-link,$libraries -Wl,--no-as-needed -lmpi -Wl,--as-needed" "$@"
