#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks sums in C++ and Fortran, of numbers that are exact in fp16: at most half the bytes, equal results.
. "$(dirname "$0")/lib.sh"
needs g++ gfortran
printf '[rule singles]\ndtype = float32, float64\nop = sum\ncodec = fp16\n' >fp16.ini

# client PROGRAM LANGUAGE ACCESS COMPRESSED LINES: checks that LINES sums on 3 ranks are right, COMPRESSED compressed
client() {
    local program=$1 language=$2 access=$3 wanted=$4 lines=$5
    checked "$program" 0 "caught (interposed)" "./$program"
    ran "$program without the shim" without mpi 3 "./$program"
    is "$program: every sum is right" "$(grep -c ': 0 of 262144 wrong' without)" "$lines"
    ran "$program with fp16" with shimmed 3 COMPSHIM_POLICY=fp16.ini COMPSHIM_REPORT="$scratch/$program.json" \
        "./$program"
    same "$program: equal answers" without with
    facts "$program.json"
    is "$program: all calls are caught" "$calls" "$lines"
    is "$program: sums of floating-point numbers are compressed" "$compressed" "$wanted"
    number_holds "$program: half the bytes and less" "$ratio >= 1.98"
    row "sums in $language, 3 ranks" "$access"
}

# Open MPI 4's own C++ bindings do not compile without warnings.
check "compile C++" "mpicxx.$MPI" -DOMPI_SKIP_MPICXX -O2 -Wall -Wextra -Werror -o cxx "$clients/sums.cpp"
client cxx C++ linked 4 8
# fortran INTERFACE OPTION...: builds the Fortran program with this interface
fortran() {
    check "compile Fortran, $1" "mpif90.$MPI" -O2 -D"INTERFACE_$1" "${@:2}" -o "fortran_$1" "$clients/sums.F90"
}
fortran F08 -Wall
module=(-Wall) # Open MPI's module declares buffers of every type, MPICH's none
only_open_mpi "the module mpi with all warnings" || module=(-fallow-argument-mismatch -w)
fortran MODULE "${module[@]}"
fortran INCLUDE -fallow-argument-mismatch -w # mpif.h has no argument declarations
client fortran_F08 Fortran mpi_f08 4 5
client fortran_MODULE Fortran "module mpi" 4 5
client fortran_INCLUDE Fortran mpif.h 4 5
finish
