#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The agreements as models: SPIN tries every order in which ranks can come, wait too long, lack the
# shim and end. The models of wrong agreements show that it would find out.
#   VERBOSE=1: prints SPIN's counts, which docs/agreement.md quotes
. "$(dirname "$0")/../lib.sh"

# search MODEL DEFINE...: SPIN's words about a model of this folder; status 1 if it found an error. To compile
# takes longer than to search a small model: only what is large is optimized.
search() {
    local model=$1 folder
    shift
    folder=$(mktemp -d "$scratch/XXXXXX")
    cd "$folder" || return 2
    spin -a "$@" "$top/tests/model/$model.pml" || return 2
    gcc -w -O"${optimize:-0}" -DSAFETY -o pan pan.c || return 2
    limited ./pan -m100000 >verdict || return 2
    cat verdict
    grep -q 'errors: 0$' verdict && ! grep -q 'max search depth too small' verdict
}

# holds NAME ARGUMENT...: there is no error
holds() {
    local name=$1
    shift
    expect "$name" 0 search "$@"
    [ -z "${VERBOSE-}" ] || grep -E 'states, stored|transitions|elapsed' <<<"$output"
}

# fails NAME CLAIM ARGUMENT...: a claim does not hold, and it is this one
fails() {
    local name=$1 claim=$2
    shift 2
    expect "$name" 1 search "$@"
    check "$name: $claim" grep -qE "^pan:1: assertion violated .*\b$claim\b" <<<"$output"
}

# holds_throughout NAME ARGUMENT...: there is no error, and every step of the model is taken
holds_throughout() {
    holds "$@"
    check "$1: every step is taken" test -z "$(sed -nE '/^unreached/ { N; /\(0 of/! p }' <<<"$output")"
}

holds_throughout "MPI, 3 ranks in a row" mpi_agreement
holds_throughout "MPI, 2 ranks below rank 0" mpi_agreement -DWIDTH=2
optimize=1 holds_throughout "MPI, 4 ranks of one version" mpi_agreement -DRANKS=4 -DWIDTH=2 -DONE_VERSION
holds_throughout "gloo, 3 ranks" gloo_agreement -DRANKS=3
optimize=1 holds_throughout "gloo, 4 ranks" gloo_agreement -DRANKS=4
fails "MPI without acknowledgements" alone mpi_agreement -DNO_COMMIT
fails "MPI without a launcher that ends the job" waits_for_ever mpi_agreement -DNO_LAUNCHER
fails "MPI, never on" is_on mpi_agreement -DNEVER_ON

holds "gloo, a call's own limit may pass" gloo_agreement -DLIMIT
fails "gloo without acknowledgements" alone gloo_agreement -DNO_COMMIT
fails "gloo, connections stay open" waits_for_ever gloo_agreement -DNO_BREAK
fails "gloo, never on" is_on gloo_agreement -DNEVER_ON

holds "NCCL, 3 ranks" nccl_agreement -DRANKS=3
holds "NCCL, 3 ranks, the maker is none of them" nccl_agreement -DRANKS=3 -DOUTSIDE
optimize=1 holds "NCCL, 4 ranks, no connection breaks" nccl_agreement -DRANKS=4 -DBREAKS=0
fails "NCCL without the decision" alone nccl_agreement -DNO_COMMIT
fails "NCCL, never on" is_on nccl_agreement -DNEVER_ON
# The residue, and that there is no other one.
outside=(-DOUTSIDE -DMAKER_ENDS -DENDS=0 -DBREAKS=0)
fails "NCCL, a maker that is no rank ends" differ nccl_agreement "${outside[@]}"
holds "NCCL, it ends, but not at the decision" nccl_agreement "${outside[@]}" -DEXCUSED
fails "NCCL, a maker that is stopped for long" differ nccl_agreement -DSLOW
fails "NCCL, a connection breaks in the all-gather" differ nccl_agreement -DBREAKS_IN_NCCL
finish
