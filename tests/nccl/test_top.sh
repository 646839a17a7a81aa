#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that compshim top shows NCCL jobs while they run, only if asked, and not after their end.
# Runs alone: it sees the live figures of all jobs on this host.
. "$(dirname "$0")/lib.sh"
tool=$build/compshim
printf '[rule live-%s]\ndtype = float32\ncodec = int8\n' $$ >"$scratch/policy.ini"
published() { grep -ls "live-$$" /dev/shm/compshim-"$(id -u)"-*-nccl; }
export SLURM_JOB_ID=$$ # keeps top from merging this job with another one of the same program
# Passes if top shows calls of the rule with their error, which is known once later calls have read it from the GPU.
shows_calls() { "$tool" top --once | grep -qE "live-$$ +int8 .*[1-9]e-"; }

expect "a job that ends" 0 preloaded 2 COMPSHIM_LIVE=on "$build/tests/nccl_call_time" 1 5
reports "reports the calls that it has published" "sum(row['calls'] for row in rows) == 6"
check "its files are gone" test -z "$(published)"
expect "a job without COMPSHIM_LIVE" 0 preloaded 2 "$build/tests/nccl_call_time" 1 5
check "publishes nothing" test -z "$(published)"

preloaded 2 COMPSHIM_LIVE=on "$build/tests/nccl_call_time" 8 1000 >"$scratch/job.txt" 2>&1 &
launcher=$!
check "a running job is shown" eventually shows_calls
check "it has files" test -n "$(published)"
output=$("$tool" top --once)
contains "with its program, library and ranks" "nccl_call_time (nccl): 2 of 2 ranks here"
contains "with its policy" "policy $scratch/policy.ini"
check "the rule has calls, a rate, bytes, a ratio and an error" grep -qE \
    "^live-$$ +int8 +one_shot +[0-9]+ +[0-9.]+ +[0-9.]+ [KMGT]iB +3.[89]x +[1-9][.][0-9]e-0[0-9] *$" <<<"$output"
kill "$(children_of $launcher)" && wait $launcher # ends timeout, which ends all ranks
finish
