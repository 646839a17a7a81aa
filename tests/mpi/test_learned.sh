#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks COMPSHIM_MACHINE: a job's report has its learned choices, and they fix the choices of another job; "off"
# tries nothing.
. "$(dirname "$0")/../lib.sh"
unset COMPSHIM_MACHINE
cd "$scratch" || exit 1
tests=$build/tests
export COMPSHIM_POLICY=$scratch/policy.ini COMPSHIM_REPORT=$scratch/report.json
sums=("$tests/mpi_repeated_sum" 60 20000)
printf '[rule all]\ncodec = fp8_e4m3\n' >policy.ini

expect "a job that learns" 0 shimmed_on 0,1,2,3 "$tests/mpi_repeated_sum" 200 20000
reports "says what it has learned" 'len(report["learned"]) == 1 and report["learned"][0].startswith("mpi 4/4 float32 fp8_e4m3 65536 all = ")'
expect "the report's choices" 0 "$build/compshim" report --learned report.json
echo "$output" >learned
for way in native "two_shot fp8_e4m3" "two_shot raw"; do
    sed "s/= .*/= $way/" learned >file
    expect "a file that says $way" 0 shimmed_on 0,1,2,3 COMPSHIM_MACHINE=file "${sums[@]}"
    if [ "$way" = native ]; then
        reports "passes all calls on" 'rows == [] and passed == {"no_gain": 60}'
    else
        reports "makes all calls so" "[(r['algorithm'] + ' ' + r['codec'], r['calls']) for r in rows] == [('$way', 60)] and passed == {}"
    fi
    first=$output
    expect "the same again" 0 shimmed_on 0,1,2,3 COMPSHIM_MACHINE=file "${sums[@]}"
    [ "$MPI" = mpich ] || check "has the same bits" test "$(grep digest <<<"$first")" = "$(grep digest <<<"$output")"
done
sed "s/ 4.4 / 8\/8 /" learned >other
for file in other off; do
    expect "COMPSHIM_MACHINE=$file: classes of which nothing is known" 0 shimmed_on 0,1,2,3 COMPSHIM_MACHINE=$file "${sums[@]}"
    reports "take the rule's way" 'rows[0]["calls"] == 60 and passed == {} and "learned" not in report'
done
sed 's/codec.*/&\nworth = foretold/' policy.ini >foretold.ini
expect "worth = foretold" 0 shimmed_on 0,1,2,3 COMPSHIM_MACHINE=off COMPSHIM_POLICY=foretold.ini "${sums[@]}"
reports "is native before it is known to gain" 'rows == [] and passed == {"no_gain": 60}'
printf 'latency_between = 1e-6\ncores = 1\n' >facts
expect "a file of version 0.2" 0 shimmed_on 0,1,2,3 COMPSHIM_MACHINE=facts "${sums[@]}"
reports "has learned nothing" 'rows[0]["calls"] == 60'

sed "s/= .*/= native/" learned >file
expect "a file of other ranks'" 0 differing 1 COMPSHIM_MACHINE=file STANDIN_NODES=0,1,2,3 \
    LD_PRELOAD="$tests/standin_nodes.so:$preload" "${sums[@]}" : 3 COMPSHIM_MACHINE=/nowhere STANDIN_NODES=0,1,2,3 \
    LD_PRELOAD="$tests/standin_nodes.so:$preload" "${sums[@]}"
reports "does not count: rank 0's does" 'passed == {"no_gain": 60}'
printf 'mpi 4/4 float32 fp8_e4m3 65536 all = two_shot\n' >wrong
output=$(shimmed_on 0,1,2,3 COMPSHIM_MACHINE=wrong "${sums[@]}" 2>&1) && fail "a wrong file ends the job"
contains "a wrong file is reported" "wrong:1: a way is 'native' or 'ALGORITHM CODEC'; COMPSHIM_MACHINE takes what 'compshim report"
output=$(shimmed_on 0,1,2,3 COMPSHIM_MACHINE=/nowhere "${sums[@]}" 2>&1) && fail "no file ends the job"
contains "and one that is not there" "/nowhere: cannot read the choices that COMPSHIM_MACHINE names: No such file"

# Nonblocking calls try nothing, and follow the choice of blocking calls. With older versions of MPICH they
# are passed through.
sed "s/= .*/= native/; s/ 4.4 / 2\/1 /; s/ 65536 / 262144 /" learned >file
if compresses_nonblocking "$tests/mpi_iallreduce"; then
    expect "nonblocking calls with a file" 0 mpi 2 LD_PRELOAD="$preload" COMPSHIM_MACHINE=file "$tests/mpi_iallreduce"
    reports "those of its class are native" 'rows and passed["no_gain"] > 0'
    expect "nonblocking calls without a file" 0 mpi 2 LD_PRELOAD="$preload" COMPSHIM_MACHINE=off "$tests/mpi_iallreduce"
else
    skip "this MPI passes nonblocking calls through: learned choices for them"
fi

# Calls for which no choice is learned.
apart=(STANDIN_UNSHARED=2 LD_PRELOAD="$tests/standin_unshared.so:$preload")
printf '[rule all]\ncodec = raw\n' >raw.ini
expect "one node, where a rank cannot share memory" 0 mpi 4 "${apart[@]}" COMPSHIM_MACHINE=off COMPSHIM_POLICY=raw.ini "${sums[@]}"
reports "passes on what would be copied as natively" 'rows == [] and passed["no_gain"] == 60'
expect "an observed job" 0 shimmed_on 0,1,2,3 COMPSHIM=observe "${sums[@]}"
reports "tries nothing" '"learned" not in report'
finish
