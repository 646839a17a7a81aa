#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks COMPSHIM_TRACE: the timeline has the reductions of every rank on one clock. If the variable is not set, there
# is no file.
. "$(dirname "$0")/../lib.sh"
program=("$build/allreduce_bench" --sizes "4KiB,1MiB" --seconds 0)
cd "$scratch" || exit 3
printf '[compshim]\nreport = off\n[rule large]\ndtype = float32\nmin_size = 64KiB\ncodec = int8\n' >policy.ini

# look.py expects six compressed calls, of 1 MiB, on each of four ranks. No rank can finish an all-reduce before all
# ranks have begun it.
cat >look.py <<'PY'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
calls, phases, passed = {}, {}, []
for event in events:
    if event["ph"] != "X":
        continue
    span = (event["ts"], event["ts"] + event["dur"])
    if event["cat"] == "compressed":
        assert event["name"] == "allreduce int8" and event["args"]["rule"] == "large", event
        calls[event["pid"], event["args"]["call"]] = span
    elif event["cat"] == "phase":
        phases.setdefault((event["pid"], event["args"]["call"]), []).append((event["name"], span))
    else:
        passed.append(event)
ranks = range(4)
assert set(calls) == {(rank, call) for rank in ranks for call in range(1, 7)}, sorted(calls)
assert len(passed) == 4 * 20 and {p["name"] for p in passed} == {
    "allreduce passed: too_small", "allreduce passed: op", "reduce passed: no_rule"}, len(passed)
for call in range(1, 7):
    spans = [calls[rank, call] for rank in ranks]
    assert max(begin for begin, _ in spans) <= min(end for _, end in spans) + 50000, (call, spans)
for key, (begin, end) in calls.items():
    assert {name for name, _ in phases[key]} == {"encode", "exchange", "decode"}, phases[key]
    inside = sorted(span for _, span in phases[key])
    assert begin - 0.01 <= inside[0][0] and inside[-1][1] <= end + 0.01, (key, inside)
    assert all(a[1] <= b[0] + 0.01 for a, b in zip(inside, inside[1:])), (key, inside)
    assert sum(span[1] - span[0] for span in inside) > 0, (key, inside)
assert min(span[0] for span in calls.values()) >= 0 and max(span[1] for span in calls.values()) < 60e6
PY
run() { # NAME [VARIABLE=VALUE...]: runs a job of four ranks under policy.ini
    expect "$1" 0 shimmed 4 COMPSHIM_POLICY=policy.ini "${@:2}" "${program[@]}"
}
looked_at() { # TRACE [VARIABLE=VALUE...]: runs a job and checks its trace
    shimmed 4 COMPSHIM_POLICY=policy.ini COMPSHIM_TRACE="$1" "${@:2}" "${program[@]}" && python3 look.py "$1"
}
check "a traced job has every call with its phases on every rank" looked_at trace.json
printf 'mpi 4/1 float32 int8 1048576 large = native\n' >native.txt
run "a job that has learned to make its calls natively" COMPSHIM_MACHINE=native.txt COMPSHIM_TRACE=native.json
check "its trace has these calls on every rank, with the reason" python3 - <<'PY'
import json
events = json.load(open("native.json"))["traceEvents"]
passed = [event["pid"] for event in events if event["name"] == "allreduce passed: no_gain"]
assert all(passed.count(rank) == 6 for rank in range(4)), passed
PY
mkdir clocks
check "a job whose clocks differ comes to one clock" looked_at clocks/trace.json \
    LD_PRELOAD="$build/tests/standin_clock.so:$preload"
run "a file for each rank" COMPSHIM_TRACE='trace-{rank}.json'
check "there are four, each of one rank" python3 - <<'PY'
import json
for rank in range(4):
    events = json.load(open(f"trace-{rank}.json"))["traceEvents"]
    assert {event["pid"] for event in events} == {rank}, rank
    assert sum(event.get("cat") == "compressed" for event in events) == 6, rank
PY
long=$(printf '%1016s' '' | tr ' ' n){jobid} # longer once {jobid} is replaced
run "a trace whose name is too long" PBS_JOBID=12345678 COMPSHIM_TRACE="$long"
contains "is said, and left out" "the trace's file name is too long: nnn"
rm -f ./*.json
run "no trace"
run "a trace switched off" COMPSHIM_TRACE=off
check "leaves no file" test -z "$(ls ./*.json off 2>/dev/null)"
run "an observed job, traced" COMPSHIM=observe COMPSHIM_TRACE=trace.json
check "has its calls as passed through" test "$(grep -c 'allreduce passed: disabled' trace.json)" = 24
only_open_mpi "tracing nonblocking calls, which pass there" || finish
policy exact.ini fp16
expect "several nonblocking calls at once" 0 shimmed 2 COMPSHIM_POLICY=exact.ini COMPSHIM_TRACE=trace.json \
    "$build/tests/mpi_iallreduce"
check "have lines of their own, each with a beginning and an end" python3 - <<'PY'
import json
events = json.load(open("trace.json"))["traceEvents"]
begun = {(e["pid"], e["id"]): e["ts"] for e in events if e["ph"] == "b"}
ended = {(e["pid"], e["id"]): e["ts"] for e in events if e["ph"] == "e"}
assert begun and begun.keys() == ended.keys(), (len(begun), len(ended))
assert all(0 <= begun[key] <= ended[key] for key in begun), begun
PY
finish
