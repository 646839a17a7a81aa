#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks models of the agreements: SPIN tries every order in which ranks can come, stop waiting, lack the shim and
# end. Models of wrong agreements show that it would find errors.
#   VERBOSE=1: prints SPIN's counts
. "$(dirname "$0")/../lib.sh"

# search MODEL DEFINE...: prints SPIN's output for a model of this folder; status 1 if it found an error, or could not
# search deep enough. Compiling takes longer than searching a small model, so only large ones are optimized.
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

# holds NAME ARGUMENT...: checks that there is no error
holds() {
    local name=$1
    shift
    expect "$name" 0 search "$@"
    [ -z "${VERBOSE-}" ] || grep -E 'states, stored|transitions|elapsed' <<<"$output"
}

# fails NAME CLAIM ARGUMENT...: checks that SPIN finds an error, and that the first one violates this claim
fails() {
    local name=$1 claim=$2
    shift 2
    expect "$name" 1 search "$@"
    check "$name: $claim" grep -qE "^pan:1: assertion violated .*\b$claim\b" <<<"$output"
}

# holds_throughout NAME ARGUMENT...: checks that there is no error, and every step of the model is reached
holds_throughout() {
    holds "$@"
    check "$1: every step is taken" test -z "$(sed -nE '/^unreached/ { N; /\(0 of/! p }' <<<"$output")"
}

prompt=(-DSERIAL -DONE_VERSION -DENDS=0 -DCALLS=4)
holds_throughout "MPI, 3 ranks in a row" mpi_agreement
holds_throughout "MPI, 2 ranks below rank 0" mpi_agreement -DWIDTH=2
optimize=1 holds_throughout "MPI, 4 ranks of one version" mpi_agreement -DRANKS=4 -DWIDTH=2 -DONE_VERSION
optimize=1 holds_throughout "gloo, 2 ranks, any of which may end" gloo_agreement -DRANKS=2
optimize=1 holds "gloo, 3 ranks, calls one after the other" gloo_agreement -DSERIAL -DENDS=0
holds "gloo, calls that may end early" gloo_agreement -DRANKS=2 -DENDS=0 -DEARLY
fails "gloo, early ones are forgotten" waits_for_ever gloo_agreement -DRANKS=2 -DENDS=0 -DEARLY -DFORGOTTEN
fails "MPI without acknowledgements" alone mpi_agreement -DNO_COMMIT
fails "MPI without a launcher that ends the job" waits_for_ever mpi_agreement -DNO_LAUNCHER
fails "MPI, never on" is_on mpi_agreement -DNEVER_ON

holds "gloo, a call's own limit may pass" gloo_agreement -DRANKS=2 -DENDS=0 -DLIMIT
holds "gloo, messages that take no time: 3 calls are passed through" gloo_agreement -DRANKS=2 "${prompt[@]}" -DPROMPT=3
fails "gloo, messages that take no time: not fewer" lost gloo_agreement -DRANKS=2 "${prompt[@]}" -DPROMPT=2
fails "gloo without acknowledgements" waits_for_ever gloo_agreement -DRANKS=2 -DENDS=0 -DNO_COMMIT
fails "gloo, calls under way are not named" waits_for_ever gloo_agreement -DENDS=0 -DONE_VERSION -DNO_MARKS
fails "gloo, rank 0 does not say what it passes through" waits_for_ever gloo_agreement -DRANKS=2 -DENDS=0 -DNO_WORD
fails "gloo, rank 0 waits for a rank that does not wait" waits_for_ever gloo_agreement -DRANKS=2 -DENDS=0 -DSTUBBORN
fails "gloo, a call that is passed through is compressed" alone gloo_agreement -DRANKS=2 -DENDS=0 -DMARKED
fails "gloo, connections stay open" waits_for_ever gloo_agreement -DENDS=1 -DSERIAL -DNO_BREAK
fails "gloo, never on" is_on gloo_agreement -DRANKS=2 -DENDS=0 -DNEVER_ON

holds "NCCL, 3 ranks" nccl_agreement -DRANKS=3
holds "NCCL, 3 ranks, the maker is none of them" nccl_agreement -DRANKS=3 -DOUTSIDE
optimize=1 holds "NCCL, 4 ranks, no connection breaks" nccl_agreement -DRANKS=4 -DBREAKS=0
fails "NCCL without the decision" alone nccl_agreement -DNO_COMMIT
fails "NCCL, never on" is_on nccl_agreement -DNEVER_ON
# Violations that the agreement still has. If the maker ends, there is one only at the decision.
outside=(-DOUTSIDE -DMAKER_ENDS -DENDS=0 -DBREAKS=0)
fails "NCCL, a maker that is no rank ends" differ nccl_agreement "${outside[@]}"
holds "NCCL, it ends, but not at the decision" nccl_agreement "${outside[@]}" -DEXCUSED
fails "NCCL, a maker that is stopped for long" differ nccl_agreement -DSLOW
fails "NCCL, a connection breaks in the all-gather" differ nccl_agreement -DBREAKS_IN_NCCL
finish
