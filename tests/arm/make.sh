#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds goals of the Makefile for 64-bit Arm with Debian's compiler, into the folder BUILD-arm, whose root has
# Debian's packages for Arm (root.sh).
# usage: tests/arm/make.sh GOAL...
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}-arm
root=$PWD/$build/root
tests/arm/root.sh "$root"
# These packages are only unpacked, so Debian's choice among several BLAS and MPI is missing; set the folders here.
libraries=$root/usr/lib/aarch64-linux-gnu
blas="-I$root/usr/include/aarch64-linux-gnu/openblas-pthread -L$libraries/openblas-pthread"
mpi="-I$libraries/openmpi/include -L$libraries/openmpi/lib -Wl,--no-as-needed -lmpi -Wl,--as-needed"
cc="aarch64-linux-gnu-gcc --sysroot=$root -Wl,-rpath-link,$libraries $blas"
cxx="aarch64-linux-gnu-g++ --sysroot=$root"
# A make that runs this script exports variables for this machine's build.
unset MAKEFLAGS MFLAGS MAKELEVEL
make -s -j"$(nproc)" BUILD="$build" CC="$cc" CXX="$cxx" MPICC="$cc $mpi" MPICH_CC=none NVCC= nccl_header= \
    gloo_header="$root/usr/include/gloo/allreduce.h" "$@"
