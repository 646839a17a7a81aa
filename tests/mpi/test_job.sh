#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks a job as a whole: policy errors, COMPSHIM=off, agreement between ranks, and the report.
. "$(dirname "$0")/../lib.sh"
# All ranks are on this host. Open MPI 5 also tries its networks, and prints warnings if they are unusable.
export OMPI_MCA_btl=self,vader
program=$build/tests/mpi_one_of_each

# A wrong policy ends the job before any work.
printf '[compshim]\nreport = summary\n\n[rule large]\nmin_size = 64KiB\ndtype = float32\ncodc = fp8\n' \
    >"$scratch/policy.ini"
cd "$scratch" || exit 3
output=$(shimmed 3 "$program" 2>&1)
status=$?
if [ "$status" != 0 ] && [ "$status" != 124 ]; then
    pass "a wrong policy ends the job"
else
    fail "a wrong policy ends the job" "status $status: $output"
fi
contains "it says where and what" "policy.ini:7: unknown key 'codc' (did you mean 'codec'?)"
case $output in
*"work done"*) fail "it ends before any work" "$output" ;;
*) pass "it ends before any work" ;;
esac
output=$(shimmed 2 COMPSHIM_POLICY=missing.ini "$program" 2>&1) && fail "a missing policy ends the job"
contains "a missing policy is named" "missing.ini"

# Rank 0's file is the policy of the whole job.
policy "$scratch/policy.ini" fp16
mkdir -p "$scratch/other"
printf '[rule wrong\n' >"$scratch/other/policy.ini"
expect "rank 0's policy is the job's" 0 differing \
    1 LD_PRELOAD="$preload" COMPSHIM_REPORT=report.json "$program" : \
    2 LD_PRELOAD="$preload" COMPSHIM_POLICY="$scratch/other/policy.ini" "$program"
check "all three ranks compressed" test "$(json 'r["ranks"], r["rows"][0]["codec"]')" = "3 fp16"

# Contents of the report.
cat >"$scratch/policy.ini" <<'P'
[rule small]
max_size = 64KiB
codec = none
[rule medium]
max_size = 1MiB
codec = fp16
dtype = float32
[rule large]
codec = fp8_e4m3
dtype = float32
P
expect "a job with a report" 0 shimmed 4 COMPSHIM_REPORT="$scratch/report.json" "$program"
contains "the table names the rule" "large"
contains "the table says what was passed through" "passed through"
check "the JSON has the two rows" test \
    "$(json '[(x["rule"], x["codec"], x["calls"]) for x in r["rows"]]')" = \
    "[('medium', 'fp16', 3), ('large', 'fp8_e4m3', 2)]"
check "fp8 sends at most 1/3.9" test "$(json 'r["rows"][1]["bytes_native"]/r["rows"][1]["bytes_wire"] > 3.9')" = True
check "fp16 sends at most 1/1.98" test "$(json 'r["rows"][0]["bytes_native"]/r["rows"][0]["bytes_wire"] > 1.98')" = True
check "native bytes are a ring's" test "$(json 'r["rows"][1]["bytes_native"] == 2*3*r["rows"][1]["bytes_in"]')" = True
check "the sampled error of exact sums is 0" test "$(json 'r["rows"][1]["rel_error"]')" = 0.0
check "what was passed through has its reason" test "$(json 'sorted(r["passed_through"].items())')" = \
    "[('derived_datatype', 4), ('dtype', 2), ('empty', 1), ('intercomm', 2), ('op', 2), ('rule_none', 1), ('single_rank', 4), ('too_small', 1)]"
check "all calls are counted" test \
    "$(json 'r["totals"]["calls"] == sum(r["passed_through"].values()) + r["totals"]["compressed_calls"]')" = True

expect "a job with random numbers" 0 shimmed 4 COMPSHIM_REPORT="$scratch/report.json" \
    "$build/allreduce_bench" --sizes 4MiB --seconds 0
check "its sampled error is that of fp8" test "$(json '0.01 < r["rows"][0]["rel_error"] < 0.06')" = True

# {jobid} in a file name, with a batch system's job number on rank 0's host, and without one.
unset SLURM_JOB_ID PBS_JOBID LSB_JOBID
mkdir jobs
for job in first second; do
    expect "the $job of two jobs" 0 shimmed 3 COMPSHIM_REPORT='jobs/{jobid}.json' \
        COMPSHIM_TRACE='jobs/{jobid}.{rank}.trace' "$program"
done
check "each has a report of its own" test "$(find jobs -name '*.json' | wc -l)" = 2
check "and traces of all ranks under the same name" test \
    "$(find jobs -name '*.json' | sed 's/json$//' | while read -r job; do echo "$job"{0,1,2}.trace; done | xargs ls | wc -l)" = 6
check "and nothing else" test "$(find jobs -type f | wc -l)" = 8
expect "a number on rank 0's host only" 0 differing \
    1 LD_PRELOAD="$preload" PBS_JOBID=1234.host COMPSHIM_REPORT=off COMPSHIM_TRACE='{jobid}.{rank}' "$program" : \
    2 LD_PRELOAD="$preload" "$program"
check "is that of all" ls 1234.host.0 1234.host.1 1234.host.2

# COMPSHIM=off behaves like a job without the preload.
native=$(mpi 3 "$program" 2>&1)
output=$(shimmed 3 COMPSHIM=off "$program" 2>&1)
check "off: the same output" test "$native" = "$output"
contains "the program does its work" "work done"
expect "the report can be turned off" 0 shimmed 3 COMPSHIM_REPORT=off "$program"
check "then nothing is printed" test "$output" = "$native"

# Without the engine beside it, the front warns, and the program runs.
cp "$build/libcompshim.so" "$scratch/"
output=$(mpi 2 LD_PRELOAD="${preload%"$build"*}$scratch/libcompshim.so" "$program" 2>&1)
contains "a missing engine is said" "cannot open the engine"
contains "and the program runs" "work done"
finish
