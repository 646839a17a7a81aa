#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs PETSc: a Poisson equation by conjugate gradients with a coarse level, whose digits must be the same under @exact.
. "$(dirname "$0")/lib.sh"
[ "$MPI${MPI_HOME-}" = openmpi ] || not_here "Debian's PETSc is one of Open MPI"
needs libpetsc-real-dev pkg-config
read -ra flags < <(pkg-config --cflags --libs petsc)
check "the solver is built" mpicc.openmpi -O2 -o solve "$clients/solve.c" "${flags[@]}"

# solved NAME RUNNER [VARIABLE=VALUE...]: saves the solver's output in NAME
solved() {
    ran "$1: solve" "$1" "$2" 4 "${@:3}" ./solve
}
solved plain mpi
check "it converged" grep -q "iterations, residual .*e-1[0-9], norm" plain
solved exact shimmed COMPSHIM_POLICY=@exact COMPSHIM_REPORT="$scratch/exact.json"
facts exact.json
same "@exact changes none of its digits" plain exact
number_holds "its coarse sums are compressed, once in each iteration" "$compressed > 100"
row "PETSc, \`@exact\`, 4 ranks" "through a library"
finish
