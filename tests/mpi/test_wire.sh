#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares digests with golden ones: of the bytes sent, and of the results, for nine codecs, all algorithms but cast,
# all collectives but allgather, stochastic rounding and error feedback (not every combination). If
# golden/wire.txt has to change, the wire format or the results have changed (docs/wire-format.md): ranks of different
# versions then no longer understand each other, or get different results. No rank reads another's scratch here, so
# that all data is sent. At the end, ranks that read it must get the same results.
. "$(dirname "$0")/../lib.sh"
codecs="raw fp32 fp16 bf16 fp8_e4m3 fp8_e5m2 int8 int4"
some="raw fp16 fp8_e4m3 int4" # for algorithms other than two_shot, and for data movement

# sends TITLE CODEC ALGORITHM [KEY=VALUE [moves]]: prints the digests; $standins is preloaded too
standins=:$build/tests/standin_unshared.so
sends() {
    printf '[compshim]\nreport = off\n[rule all]\nop = sum\ncodec = %s\nalgorithm = %s\n%s\n' \
        "$2" "$3" "${4-}" >"$scratch/policy.ini"
    echo "$1"
    local peers=4
    [ "$3" != hierarchical ] || peers=2 # one on each node
    mpi 4 LD_PRELOAD="$preload:$build/tests/standin_nodes.so:$build/tests/standin_wire.so$standins" \
        STANDIN_NODES=0,1,0,1 COMPSHIM_POLICY="$scratch/policy.ini" "$build/tests/mpi_wire" $peers ${5-}
}
all() {
    local codec algorithm
    for codec in $codecs; do
        sends "$codec two_shot" "$codec" two_shot
    done
    for codec in $some; do
        for algorithm in one_shot hierarchical grid; do
            sends "$codec $algorithm" "$codec" $algorithm
        done
    done
    for codec in int8 int4; do
        sends "$codec stochastic" $codec two_shot "rounding = stochastic"
        sends "$codec feedback" $codec hierarchical "error_feedback = on"
        sends "$codec stochastic" $codec grid "rounding = stochastic"
        sends "$codec feedback" $codec grid "error_feedback = on"
    done
    for codec in $some lossless; do
        for algorithm in one_shot two_shot; do
            sends "$codec $algorithm, moves" "$codec" $algorithm "collective = alltoall, broadcast" moves
        done
    done
}
if only_open_mpi "what goes over the wire"; then
    output=$(all 2>&1)
    golden "bytes on the wire and results are golden" "$top/tests/mpi/golden/wire.txt"
    sent=$output
    # results: removes the first digest of each pair, that of the bytes sent
    results() { sed -E 's/([a-z]) [0-9a-f]{16} /\1 /g'; }
    # like CODEC ALGORITHM: prints the golden run's lines for them
    like() { sed -n "/^$1 $2\$/,/^[a-z]/p" <<<"$sent" | sed '$d'; }
    # Ranks 0 and 2 share a node, and ranks 1 and 3. mpi_wire makes each call twice, with 1, 300, 3000 and 20000
    # elements. Messages of all-reduces are read in place from 4 KiB on: with 20000 elements, and in one_shot, which
    # does not divide the elements, with 3000, too.
    for algorithm in one_shot two_shot; do
        large=4
        [ $algorithm = one_shot ] || large=2
        standins='' output=$(sends "raw $algorithm" raw $algorithm 2>&1)
        check "$algorithm: ranks that read each other's scratch have the same results" \
            diff <(like raw $algorithm | results) <(results <<<"$output")
        differing=$(diff <(like raw $algorithm) - <<<"$output" | grep -c '^>')
        check "$algorithm: and send less in large calls only" test "$differing" = $large
        output=$(standins=:$build/tests/standin_unshared.so STANDIN_UNSHARED=3 sends "raw $algorithm" raw $algorithm 2>&1)
        check "$algorithm: where a rank cannot share, neither do the others of its node" \
            diff <(like raw $algorithm | results) <(results <<<"$output")
        lone=$(diff <(like raw $algorithm) - <<<"$output" | grep -c '^>')
        check "$algorithm: but those of other nodes do" test "$lone" = $large
    done
fi
finish
