#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The agreements as models: SPIN tries every order in which ranks can come, wait too long, lack the
# shim and end. The models of wrong agreements show that it would find out.
#   VERBOSE=1: prints SPIN's counts, which docs/agreement.md quotes
. "$(dirname "$0")/../lib.sh"

# search MODEL DEFINE...: SPIN's words about a model of this folder; status 1 if it found an error
search() {
    local model=$1 folder
    shift
    folder=$(mktemp -d "$scratch/XXXXXX")
    cd "$folder" || return 2
    spin -a "$@" "$top/tests/model/$model.pml" || return 2
    gcc -w -O2 -DSAFETY -DCOLLAPSE -o pan pan.c || return 2
    limited ./pan -m100000 >verdict || return 2
    cat verdict
    grep -q 'errors: 0$' verdict && ! grep -q 'max search depth too small' verdict
}

# holds NAME ARGUMENT...: there is no error, and no step that is never taken
holds() {
    local name=$1
    shift
    expect "$name" 0 search "$@"
    check "$name: every step is taken" test -z "$(sed -nE '/^unreached/ { N; /\(0 of/! p }' <<<"$output")"
    [ -z "${VERBOSE-}" ] || grep -E 'states, stored|transitions|elapsed' <<<"$output"
}

# fails NAME CLAIM ARGUMENT...: a claim does not hold, and it is this one
fails() {
    local name=$1 claim=$2
    shift 2
    expect "$name" 1 search "$@"
    check "$name: $claim" grep -qE "^pan:1: assertion violated .*\b$claim\b" <<<"$output"
}

for ranks in 3 4; do
    holds "MPI, $ranks ranks" mpi_agreement -DRANKS=$ranks
done
fails "MPI without acknowledgements" alone mpi_agreement -DNO_COMMIT
fails "MPI without a launcher that ends the job" waits_for_ever mpi_agreement -DNO_LAUNCHER
fails "MPI, never on" is_on mpi_agreement -DNEVER_ON
finish
