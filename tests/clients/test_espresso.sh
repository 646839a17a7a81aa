#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs Quantum ESPRESSO, with and without the shim: the self-consistent field of two silicon atoms, one of them
# slightly displaced.
. "$(dirname "$0")/lib.sh"
needs quantum-espresso quantum-espresso-data
packed=$(dpkg -L quantum-espresso-data | grep -m 1 'Si.pz-vbc.UPF.gz$')
[ -f "$packed" ] || not_here "quantum-espresso-data is here without its pseudopotentials"
gunzip -c "$packed" >Si.UPF

# field NAME RUNNER [VARIABLE=VALUE...]: saves the output without times and dates in NAME.result
field() {
    local name=$1 runner=$2
    shift 2
    ran "$name: pw.x" "$name.output" "$runner" 2 "$@" pw.x -in "$clients/silicon.in"
    sed -E '/ starts on | terminated on|cpu time spent|CPU .* WALL/d' "$name.output" >"$name.result"
    rm -rf wavefunctions
}

checked "pw.x" 0 "caught (interposed)" pw.x
field plain mpi
check "the field converged" grep -q "convergence has been achieved" plain.result
field default shimmed COMPSHIM_REPORT="$scratch/default.json"
facts default.json
same "the default policy changes nothing" plain.result default.result
is "it is caught" "$caught" yes
is "and nothing is compressed" "$compressed" 0
row "Quantum ESPRESSO, 2 ranks" "Fortran layer"

field exact shimmed COMPSHIM_POLICY=@exact COMPSHIM_REPORT="$scratch/exact.json"
facts exact.json
same "@exact changes none of its digits" plain.result exact.result
row "Quantum ESPRESSO, \`@exact\`, 2 ranks" "Fortran layer"
finish
