#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Times are foretold: rank 0's facts count on all ranks, what does not gain is passed on, and a job measures
# only what it needs.
. "$(dirname "$0")/../lib.sh"
unset COMPSHIM_MACHINE
cd "$scratch" || exit 1
tests=$build/tests
export COMPSHIM_POLICY=$scratch/policy.ini COMPSHIM_REPORT=$scratch/report.json

# facts NAME BYTES_PER_SECOND: a machine with such links
facts() {
    printf '%s\n' "latency_between = 1e-6" "latency_inside = 1e-6" "cores = 1" "add = 1e10" \
        "bandwidth_between = $2" "bandwidth_inside = $2" >"$1"
    for codec in $(codecs); do printf 'encode_%s = 5e9\ndecode_%s = 5e9\n' "$codec" "$codec"; done >>"$1"
}
facts slow 1e7
facts fast 1e12
# on_nodes NODES [VARIABLE=VALUE...] PROGRAM...: four ranks on emulated nodes
on_nodes() {
    local nodes=$1
    shift
    mpi 4 STANDIN_NODES="$nodes" LD_PRELOAD="$tests/standin_nodes.so:$preload" "$@"
}
sum=("$tests/mpi_repeated_sum" 5)
printf '[rule all]\nmin_size = 64KiB\ncodec = fp8_e4m3\n' >policy.ini

expect "links slower than the codec" 0 on_nodes 0,1,2,3 COMPSHIM_MACHINE=slow "${sum[@]}"
reports "are worth it: foretold and taken is told" \
    'rows[0]["calls"] == 5 and rows[0]["seconds_foretold"] > 0 and report["machine"]["source"] == "slow"'
contains "in the table, too" "compshim: foretold "
expect "links faster than the codec" 0 on_nodes 0,1,2,3 COMPSHIM_MACHINE=fast "${sum[@]}"
reports "are not" 'rows == [] and passed["no_gain"] == 5'
if [ "$MPI" = mpich ]; then
    skip "with mpich: the same bits (how MPICH 5 adds depends on how many calls it made before)"
else
    native=$(mpi 4 "${sum[@]}")
    contains "with the library's own results" "${native:-(the program printed none)}"
fi
sed 's/^codec.*/&\nworth = always/' policy.ini >always.ini
expect "worth = always" 0 on_nodes 0,1,2,3 COMPSHIM_MACHINE=fast COMPSHIM_POLICY=always.ini "${sum[@]}"
reports "compresses them all the same" 'rows[0]["calls"] == 5'
expect "COMPSHIM_MACHINE=off" 0 on_nodes 0,1,2,3 COMPSHIM_MACHINE=off "${sum[@]}"
reports "foretells nothing" 'rows[0]["calls"] == 5 and "seconds_foretold" not in rows[0] and "machine" not in report'

expect "a file of other ranks'" 0 differing 1 COMPSHIM_MACHINE=fast STANDIN_NODES=0,1,2,3 \
    LD_PRELOAD="$tests/standin_nodes.so:$preload" "${sum[@]}" : 3 COMPSHIM_MACHINE=/nowhere STANDIN_NODES=0,1,2,3 \
    LD_PRELOAD="$tests/standin_nodes.so:$preload" "${sum[@]}"
reports "does not count: rank 0's does" 'passed["no_gain"] == 5'
printf 'bandwith_between = 1\n' >wrong
output=$(on_nodes 0,1,2,3 COMPSHIM_MACHINE=wrong "${sum[@]}" 2>&1) && fail "a wrong file ends the job"
contains "a wrong file is told of" "wrong:1: unknown fact 'bandwith_between' (did you mean 'bandwidth_between'?)"

# Uneven nodes: rank 0 has one of its own, ranks 1 and 2 measure what is inside.
expect "a job that measures" 0 on_nodes 0,1,1,2 COMPSHIM_POLICY=always.ini "${sum[@]}"
reports "has all facts of its links and codecs" \
    'set(report["machine"]) >= {"latency_between", "bandwidth_between", "bandwidth_pair", "busy_between", "latency_inside", "bandwidth_inside",
     "message", "cores", "add", "encode_fp8_e4m3"} and "encode_int4" not in report["machine"] and rows[0]["seconds_foretold"] > 0'
{
    printf '[rule a]\nmax_size = 16KiB\ncodec = lossless\n[rule b]\nmax_size = 32KiB\ncodec = bounded\nabs_error = 0.1\n'
    printf '[rule c]\nmax_size = 64KiB\ncodec = topk\nkeep = 8\nerror_feedback = on\n'
    cat always.ini
} >packed.ini
expect "codecs whose messages may be longer than their floats" 0 on_nodes 0,1,1,2 COMPSHIM_POLICY=packed.ini "${sum[@]}"
reports "are measured, too" 'set(report["machine"]) >= {"encode_lossless", "encode_bounded", "encode_topk"}'
expect "one node" 0 on_nodes 0,0,0,0 "${sum[@]}"
reports "measures nothing" 'rows[0]["calls"] == 5 and "machine" not in report'
apart=(STANDIN_UNSHARED=2 LD_PRELOAD="$tests/standin_unshared.so:$preload")
printf '[rule all]\ncodec = raw\n' >raw.ini
printf "[rule all]\ncodec = raw\nworth = always\n" >raw_always.ini
expect "one node, where a rank cannot share memory" 0 mpi 4 "${apart[@]}" COMPSHIM_POLICY=raw.ini "${sum[@]}"
reports "passes on what would be copied as natively" 'rows == [] and passed["no_gain"] == 5'
expect "the same, compressed" 0 mpi 4 "${apart[@]}" "${sum[@]}"
reports "goes by messages" 'rows[0]["calls"] == 5'
expect "the same in raw with worth = always" 0 mpi 4 "${apart[@]}" COMPSHIM_POLICY=raw_always.ini "${sum[@]}"
reports "does, too" 'rows[0]["calls"] == 5'
expect "an observed job" 0 on_nodes 0,1,2,3 COMPSHIM=observe "${sum[@]}"
reports "measures nothing, since it compresses nothing" '"machine" not in report'
printf '[rule all]\ncodec = none\n' >none.ini
expect "a policy that compresses nothing" 0 on_nodes 0,1,2,3 COMPSHIM_POLICY=none.ini "${sum[@]}"
reports "measures nothing either" '"machine" not in report'
finish
