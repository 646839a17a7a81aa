#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs LAMMPS: a Lennard-Jones melt must have the same result with the shim, to the last digit.
. "$(dirname "$0")/lib.sh"
needs lammps
# 64000 cells, so that a sum of the density has half a MiB of float64.
printf '[rule sums]\ndtype = float64\nop = sum\nmin_size = 64KiB\ncodec = fp32\n' >fp32.ini

# simulate FOLDER RUNNER [VARIABLE=VALUE...]: saves thermodynamics, positions and densities in FOLDER/result
simulate() {
    local folder=$1 runner=$2
    shift 2
    mkdir "$folder" && cd "$folder" || exit 3
    ran "$folder: lmp" output "$runner" 4 "$@" lmp -in "$clients/melt.in"
    sed -n '/^Step/,/^Loop/{/^Loop/!p}' log.lammps | cat - positions.txt density.txt >result
    cd ..
}

checked "lmp" 0 "caught (interposed)" lmp
simulate plain mpi
check "the melt ran to its end" grep -q "Total wall time" plain/output
simulate default shimmed COMPSHIM_REPORT="$scratch/default.json"
facts default.json
same "the default policy changes nothing" plain/result default/result
is "it is caught" "$caught" yes
is "and nothing is compressed" "$compressed" 0
row "LAMMPS, 4 ranks" "through a library"

simulate narrowed shimmed COMPSHIM_POLICY="$scratch/fp32.ini" COMPSHIM_REPORT="$scratch/narrowed.json"
facts narrowed.json
same "counts are whole numbers, which float32 holds" plain/result narrowed/result
number_holds "the large sums are half as large" "$compressed > 0 && $ratio >= 1.9"
row "LAMMPS, fp32, 4 ranks" "through a library"

simulate exact shimmed COMPSHIM_POLICY=@exact COMPSHIM_REPORT="$scratch/exact.json"
facts exact.json
same "@exact changes none of its digits" plain/result exact/result
number_holds "and the sums are compressed" "$compressed > 0"
row "LAMMPS, \`@exact\`, 4 ranks" "through a library"
finish
