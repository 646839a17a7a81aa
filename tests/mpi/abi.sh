#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares shim/mpi/abi/mpi.h with the header of an MPI that has the standard ABI: every value, size and offset, and
# the types of all functions.
#   MPI_HOME=FOLDER tests/mpi/abi.sh     FOLDER has bin/mpicc_abi: tools/get-mpi.sh mpich FOLDER
export MPI=mpich
. "$(dirname "$0")/../lib.sh"
header=$top/shim/mpi/abi/mpi.h
cd "$scratch" || exit 3
mapfile -t constants < <(sed -nE 's/^ *(#define )?(MPI_[A-Z0-9_]+) .*/\2/p' "$header")
mapfile -t types < <(sed -nE 's/^(typedef [^()]*[ *]|\} )(MPI_[A-Za-z_]+);$/\2/p' "$header")
mapfile -t members < <(sed -nE 's/^ +int (MPI_[A-Za-z]+)(\[[0-9]\])?;$/\1/p' "$header")
{
    printf '#include <mpi.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\nint main(void)\n{\n'
    for name in "${constants[@]}"; do echo "    printf(\"$name is %jd\\n\", (intmax_t)(intptr_t)$name);"; done
    for name in "${types[@]}"; do echo "    printf(\"$name has %zu bytes\\n\", sizeof($name));"; done
    for name in "${members[@]}"; do echo "    printf(\"$name is at %zu\\n\", offsetof(MPI_Status, $name));"; done
    echo '}'
} >facts.c
{
    echo '#include <mpi.h>'
    sed -nE '/^(typedef .*\(|int PMPI_)/{ :more; /;$/!{ N; b more }; p }' "$header"
} >functions.c

check "compile with our header" gcc -I"$top/shim/mpi/abi" -o ours facts.c
check "compile with the library's" "$MPI_HOME/bin/mpicc_abi" -o theirs facts.c
check "the functions have the same types" "$MPI_HOME/bin/mpicc_abi" -Werror -c functions.c
./ours >ours.txt
./theirs >theirs.txt
check "values, sizes and places are the same" diff ours.txt theirs.txt
check "there are some of each: ${#constants[@]} values, ${#types[@]} types, ${#members[@]} members" \
    test $((${#constants[@]} > 40 && ${#types[@]} > 10 && ${#members[@]} == 4)) = 1
check "and $(grep -c PMPI_ functions.c) functions" test "$(grep -c PMPI_ functions.c)" -gt 30
finish
