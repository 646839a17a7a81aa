#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program that MPICH's compiler has built for the standard ABI of MPI 5, on the MPI in MPI_HOME. run.sh runs the
# same file on the MPICH and the Intel MPI that it downloads.
. "$(dirname "$0")/lib.sh"
needs gcc
printf '[rule all]\nop = sum\ncodec = fp16\n' >fp16.ini
program=$build/clients/sums_abi
compiler=$build/mpis/mpich/bin/mpicc_abi
[ -x "$compiler" ] || not_here "no compiler for it: tools/get-mpi.sh mpich $build/mpis/mpich"
if [ ! -e "$program" ]; then
    mkdir -p "$build/clients"
    check "compile it" "$compiler" -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror \
        -o "$program" "$clients/sums.c"
fi
checked "it" 0 "libcompshim-abi.so serves it" "$program"
ran "without the shim" without mpi 3 "$program"
is "both sums are right" "$(grep -c ': 0 of 262144 wrong' without)" 2
ran "with fp16" with shimmed 3 COMPSHIM_POLICY=fp16.ini COMPSHIM_REPORT="$scratch/report.json" "$program"
same "equal answers" without with
facts report.json
is "both calls are compressed" "$compressed" 2
mpi_library="$mpi_library, standard ABI"
row "sums in C, 3 ranks" "linked, one file"
finish
