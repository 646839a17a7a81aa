#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mutation test of tests/unit/test_operations.c: applies one SED script at a time to a copy of a compiler of
# shim/core/algorithms or of the loops that they share, builds the test with it, and checks that the simulated machine
# finds the defect.
#   [BUILD=DIR] tests/unit/operation_defects.sh
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/defects.sh"

mkdir -p "$scratch/tests" "$scratch/shim"
cp -r "$top/shim/core" "$scratch/shim"
cp -r "$top/codecs" "$top/policy" "$scratch"
cp -r "$top/tests/unit" "$scratch/tests"
objects=$(find "$build"/obj/{codecs,policy,shim/core} -name '*.o' ! -path '*/algorithms/*' \
    ! -name compiler.o ! -name log.o)
sources=$(cd "$scratch" && echo shim/core/compiler.c shim/core/algorithms/*.c)

# defect NAME FILE SED: applies SED to a copy of FILE in shim/core/algorithms; passes if the test then fails
defect() {
    local source=shim/core/algorithms/$2 output
    cp -r "$top/shim/core" "$scratch/shim"
    sed -i -E "$3" "$scratch/$source"
    if cmp -s "$top/$source" "$scratch/$source"; then
        fail "$1: cannot be put into $2"
    elif ! output=$(cd "$scratch" && gcc -std=c11 -D_GNU_SOURCE -O1 -I. -I"$build/generated" -o test \
        tests/unit/test_operations.c tests/unit/machine.c tests/unit/unit.c $sources $objects "$build/obj/shim/core/log.o" \
        -lcmocka -linih -lmd -lm 2>&1); then
        fail "$1: does not compile" "$output"
    else
        must_fail "$1" 300
    fi
}

defect "a peer's contribution is read from another's buffer" two_shot.c 's/contributions\(compiler, from\), outgoing/contributions(compiler, (from + 1) % row->ranks), outgoing/'
defect "the receiver reads the wrong buffer of its sender" two_shot.c 's/CSHIM_OUTGOING, row->rank/CSHIM_OUTGOING, (row->rank + 1) % row->ranks/'
defect "an own contribution is added twice" one_shot.c 's/\(unsigned\)from\);/from == own \&\& from > 0 ? (unsigned)from - 1 : (unsigned)from);/; s/contributions\(compiler, from\), contributions\(compiler, from\),/contributions(compiler, own), contributions(compiler, own),/'
defect "reduced chunks share a buffer with contributions" two_shot.c 's/CSHIM_REDUCED/CSHIM_CONTRIBUTIONS/'
defect "nobody waits for the contributions" two_shot.c '/cshim_emit_wait_received\(compiler, CSHIM_MESSAGE_PARTS/d'
defect "reduced chunks are decoded before they have come" two_shot.c '/cshim_emit_wait_received\(compiler, CSHIM_MESSAGE_SUMS/d'
defect "sends are not waited for" two_shot.c '/cshim_emit_wait_sent\(compiler, CSHIM_MESSAGE_SUMS/d; /if \(compiler->plan->collective != CSHIM_REDUCE_SCATTER\)/d'
defect "a reduce sends to all" ../compiler.c 's/\(uint32_t\)peer == compiler->role->root/true/'
defect "the own chunk is left out" two_shot.c 's/for \(int from = 0; from < row->ranks; from\+\+\) \{$/for (int from = row->rank == 1; from < row->ranks; from++) {/'
defect "a column waits for its sums before it adds" grid.c 's/CSHIM_MESSAGE_COLUMN_PARTS, 2\)/CSHIM_MESSAGE_COLUMN_SUMS, 2)/'
defect "an owner outside its column is sent nothing" grid.c 's/if \(to != column->rank\)/if (to != column->rank \&\& !is_outside(compiler, to))/'
defect "pieces are forwarded in another order" grid.c 's/for \(int from = 0; from < column->ranks; from\+\+\) \{/for (int from = column->ranks - 1; from >= 0; from--) {/'
defect "a segment's first peer forwards nothing" broadcast.c 's/if \(own\.length > 0\) \{/if (own.length > 0 \&\& row->rank > 0) {/'
defect "an all-to-all sends the blocks of the next rank" blocks.c 's/cshim_segment_sent\(compiler->segment, to\)/cshim_segment_sent(compiler->segment, (to + 1) % row->ranks)/'
defect "ranks without a share do not help their node" hierarchical.c 's/^( *)cshim_emit_node\(compiler, CSHIM_OPERATION_NODE_REDUCE\);/\1if (compiler->role->peer >= 0) &/'
defect "the node gathers before the reduced chunks have come" hierarchical.c 's/compiler->depth = CSHIM_PIPELINE_DEPTH;/compiler->depth = 1;/'
finish
