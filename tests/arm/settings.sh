# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced in the project's root by scripts that cross-build for 64-bit Arm. Sets $root to $build/root, unpacks Debian's
# packages for Arm into it (root.sh), and sets $settings to the Makefile's variables for it. dpkg's programs then see
# these packages instead of the machine's.
root=$PWD/$build/root
tests/arm/root.sh "$root"
export DPKG_ADMINDIR=$root/var/lib/dpkg
# Installing a package would select one of several BLAS and MPI libraries; these packages are only unpacked.
libraries=$root/usr/lib/aarch64-linux-gnu
blas="-I$root/usr/include/aarch64-linux-gnu/openblas-pthread -L$libraries/openblas-pthread"
mpi="-I$libraries/openmpi/include -L$libraries/openmpi/lib -Wl,--no-as-needed -lmpi -Wl,--as-needed"
cc="aarch64-linux-gnu-gcc --sysroot=$root -Wl,-rpath-link,$libraries $blas"
# shellcheck disable=SC2034 # used by the scripts that source this file
settings=("CC=$cc" "CXX=aarch64-linux-gnu-g++ --sysroot=$root" "MPICC=$cc $mpi"
    "MPICH_CC=$cc -I$root/usr/include/aarch64-linux-gnu/mpich" NVCC= nccl_header=
    "gloo_header=$root/usr/include/gloo/allreduce.h")
