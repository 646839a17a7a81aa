#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks compshim top on a running job, a killed one and none, and that no live figures are published without
# COMPSHIM_LIVE.
# Runs alone: it sees the live figures of all jobs on this host.
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
program=("$build/allreduce_bench" --sizes 16MiB --seconds)
cd "$scratch" || exit 1
printf '[compshim]\nreport = report.json\n[rule little]\nmax_size = 64KiB\ncodec = none\n[rule live-%s]\ndtype = float32\ncodec = int8\n' \
    $$ >policy.ini
published() { grep -ls "live-$$" "/dev/shm/compshim-$(id -u)-"*; }
shows_calls() { "$tool" top --once | grep -qE "live-$$ +int8 .*[1-9]"; }
is_published() { [ -n "$(published)" ]; }
top_removes_them() { # top removes a killed process's file once the file is more than a second old
    "$tool" top --once
    ! is_published
}

expect "a word too many" 2 "$tool" top more
expect "no interval" 2 "$tool" top --interval 0

# A job that runs until it is killed.
shimmed 2 COMPSHIM_POLICY=policy.ini COMPSHIM_LIVE=on COMPSHIM_REPORT=off "${program[@]}" "$LIMIT" >/dev/null 2>&1 &
job=$!
check "a running job is shown" eventually shows_calls
output=$("$tool" top --once)
contains "with its program and ranks" "allreduce_bench (mpi): 2 of 2 ranks here"
contains "with its policy" "policy policy.ini"
check "in 80 columns" test -z "$(grep -E '.{81}' <<<"$output")"
check "the rule has calls, a rate, bytes and a ratio" grep -qE \
    "^live-$$ +int8 +one_shot +[0-9]+ +[0-9.]+ +[0-9.]+ [KMGT]iB +3.[89]x +[0-9.]+e-03$" <<<"$output"
check "what is passed through is counted" grep -qE '^passed through: [1-9][0-9]* calls, [0-9.]+ per second$' <<<"$output"
env --default-signal=INT "$tool" top >plain.txt &
looking=$!
looks_twice() { [ "$(grep -c allreduce_bench plain.txt)" -ge 2 ]; }
check "without a terminal it prints one look after the other" eventually looks_twice
kill -INT $looking
wait $looking
check "an interrupt ends it well" test "$?" = 0
check "and no controls" test -z "$(grep -c $'\033' plain.txt | grep -v '^0')"
kill "$(children_of $job)" && wait $job # kills timeout, and thereby all ranks
check "top removes the files of ranks that were killed" eventually top_removes_them

expect "a job that ends" 0 shimmed 2 COMPSHIM_POLICY=policy.ini COMPSHIM_LIVE=on "${program[@]}" 1
contains "goes well" "16777216 "
check "its file is gone" test -z "$(published)"
check "the report has its calls" python3 -c '
import json
report = json.load(open("report.json"))
assert report["rows"][0]["calls"] > 5 and report["passed_through"]["op"] > 5, report'

# A killed process leaves its file, which top removes.
COMPSHIM_LIVE=on COMPSHIM_POLICY=policy.ini LD_PRELOAD=$preload "${program[@]}" 100 >/dev/null 2>&1 &
victim=$!
check "one process alone is published, too" eventually is_published
{ kill -KILL $victim && wait $victim; } 2>/dev/null
check "it was killed and left its file" test -n "$(published)"
check "top removes it" eventually top_removes_them

pipe=/dev/shm/compshim-$$-pipe
mkfifo "$pipe"
limited "$tool" top --once >/dev/null
check "a pipe of that name holds nobody up" test $? != 124
rm "$pipe"

says_that_it_waits() { timeout -s INT 2 "$tool" top | grep -qF 'COMPSHIM_LIVE=on; Ctrl-C ends the waiting)'; }
check "without a job it says that it waits" eventually says_that_it_waits

expect "a job that is not asked to" 0 shimmed 2 COMPSHIM_POLICY=policy.ini COMPSHIM_REPORT=off "${program[@]}" 0
check "publishes nothing" test -z "$(published)"

# A single process with one page of shared memory, too small for the file of its live figures.
cramped() {
    # shellcheck disable=SC2016
    unshare --mount sh -c 'mount -t tmpfs -o size=4k tmpfs /dev/shm && "$@"; status=$?; ls -A /dev/shm; exit $status' \
        sh env COMPSHIM_LIVE=on COMPSHIM_POLICY=policy.ini LD_PRELOAD="$preload" "${program[@]}" 0
}
if unshare --mount true 2>/dev/null; then
    expect "a process that cannot be published goes on" 0 cramped
    contains "says why" "compshim top will not see this process: /dev/shm/compshim-"
    contains "with the error's reason" ": No space left on device"
    check "and leaves nothing" test -z "$(grep '^compshim-' <<<"$output")"
else
    skip "no namespaces of mounts: a full /dev/shm"
fi
finish
