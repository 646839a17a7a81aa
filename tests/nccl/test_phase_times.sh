#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the times that events on the GPU measure, on the stand-in: the phases of each call in the report and in the
# trace (COMPSHIM_TRACE).
. "$(dirname "$0")/lib.sh"
trace=$scratch/trace.json
late=(STANDIN_DELAY_US=200 STANDIN_SEED=5)
rule() { # CODEC ALGORITHM: writes the policy
    printf '[rule all]\ndtype = float32\nmin_size = 1000\ncodec = %s\nalgorithm = %s\n' "$1" "$2" \
        >"$scratch/policy.ini"
}
traced() { # N [VARIABLE=VALUE...] PROGRAM...: runs a job with a trace
    rm -f "$scratch"/trace*.json
    preloaded "$1" COMPSHIM_TRACE="$trace" "${@:2}"
}
# traces NAME PYTHON: passes if the expression is true. Its variables, by rank: `calls`, the span of each call, by
# number (plus 1000 for each further communicator); `phases`, a list of (name, span) for each call; `names`, the set of
# their names for each call; `shared`, the calls that shared batches; `events`, all events. `rows` are those of the
# report, `spent` returns the seconds of a rank's phase.
cat >"$scratch/look.py" <<'P'
import glob, json, sys
folder, expression = sys.argv[1:]
near = 0.002  # microseconds
rows = json.load(open(folder + "/report.json"))["rows"]
calls, phases, shared, events = {}, {}, {}, {}
for path in glob.glob(folder + "/trace*.json"):
    data = json.load(open(path))
    assert data["otherData"]["dropped_events"] == 0
    rank, = {event["pid"] for event in data["traceEvents"]}
    assert path.endswith(f".rank{rank}.json" if rank else "/trace.json"), (path, rank)
    calls[rank], phases[rank], shared[rank], events[rank] = {}, {}, set(), data["traceEvents"]
    latest = {}  # a call's phases follow it
    for event in data["traceEvents"]:
        if event["ph"] == "M":
            continue
        line = event["tid"], event["args"]["call"]
        span = [event["ts"], event["ts"] + event.get("dur", 0)]
        if event["ph"] == "e":
            calls[rank][latest[line]][1] = event["ts"]
        elif event["cat"] == "compressed":
            latest[line] = line[1] + 1000 * sum(number % 1000 == line[1] for number in calls[rank])
            calls[rank][latest[line]] = span
            if event["ph"] == "b":
                shared[rank].add(latest[line])
        else:
            phases[rank].setdefault(latest[line], []).append((event["name"], span))
    for number, (begin, end) in calls[rank].items():
        assert 0 <= begin <= end < 100e6, (rank, number, begin, end)
        inside = sorted(span for name, span in phases[rank][number])
        assert begin - near <= inside[0][0] and inside[-1][1] <= end + near, (rank, number, begin, end, inside)
        assert all(a[1] <= b[0] + near / 10 for a, b in zip(inside, inside[1:])), (rank, number, inside)
    whole = sorted(calls[rank][number] for number in calls[rank].keys() - shared[rank])
    if len({event["tid"] for event in events[rank] if event["ph"] == "X"}) == 1:
        assert all(a[1] <= b[0] + near / 10 for a, b in zip(whole, whole[1:])), (rank, whole)
names = {rank: [{name for name, span in phases[rank][number]} for number in calls[rank]] for rank in calls}
def spent(rank, phase):
    return 1e-6 * sum(span[1] - span[0] for inside in phases[rank].values() for name, span in inside if name == phase)
if not eval(expression):
    sys.exit(f"not so: {expression}\n{calls}\n{phases}"[:3000])
P
traces() { check "$1" python3 "$scratch/look.py" "$scratch" "$2"; }
all_phases='{"encode", "exchange", "decode"}'
has_phases='0 < min(row[f"seconds_{phase}"] for row in rows for phase in ("encode", "exchange", "decode")) and all(row["seconds_encode"] + row["seconds_exchange"] + row["seconds_decode"] <= row["seconds"] + 2e-6 for row in rows)'
in_time='sum(row["seconds"] for row in rows) <= report["wall_seconds"]'

# The report -------------------------------------------------------------------------------------
# phases NAME RANKS PROGRAM...: each row has all three phases, which add up to no more than its time
phases() {
    expect "$1: runs" 0 preloaded "$2" "${late[@]}" "${@:3}"
    reports "$1: encode, exchange and decode are reported" "rows and $has_phases and $in_time"
}
for algorithm in two_shot one_shot; do
    rule raw $algorithm
    phases "$algorithm" 3 "$build/tests/nccl_lifetime" again
done
rule raw two_shot
phases "in one group" 3 "$build/tests/nccl_groups" several
phases "two communicators on one stream" 3 "$build/tests/nccl_groups" communicators
phases "two streams in one group" 3 "$build/tests/nccl_groups" streams_group
phases "several batches" 2 "$build/tests/nccl_groups" segments
phases "several devices of one thread" 1 "$build/tests/nccl_groups" devices_group
rule fp16 cast
phases "cast" 3 "$build/tests/nccl_allreduce" fp16 0
rule raw hierarchical
NODES=0,0,1,1 phases "hierarchical" 4 "$build/tests/nccl_lifetime" again

# The trace --------------------------------------------------------------------------------------
rule raw two_shot
expect "a traced job, a rank of which is late" 0 \
    traced 3 sh "$top/tests/nccl/rank_setting.sh" 1 A=b sh -c '[ -z "${A-}" ] || sleep 1; exec "$0" behind' \
    "$build/tests/nccl_groups"
traces "has both calls with their phases on every rank" \
    "[sorted(calls[rank]) for rank in range(3)] == [[1, 2]] * 3 and all(one == $all_phases for rank in names for one in names[rank])"
traces "by one clock: a collective needs all ranks" \
    'all(max(calls[rank][n][0] for rank in calls) <= min(calls[rank][n][1] for rank in calls) + 100e3 for n in (1, 2))'
traces "has the same times as the report" \
    'all(abs(spent(0, phase) - sum(row[f"seconds_{phase}"] for row in rows)) < 1e-5 for phase in ("encode", "exchange", "decode"))'
traces "names its lanes" \
    'all([e["args"]["name"] for e in events[rank] if e["name"] == "thread_name"] == [f"device {rank}, stream 0"] for rank in range(3))'
traces "names rule and algorithm" \
    'all(e["args"]["rule"] == "all" and e["args"]["algorithm"] == "two_shot" and e["name"] == "allreduce raw" for e in events[2] if e.get("cat") == "compressed")'
expect "calls of one group" 0 traced 2 "${late[@]}" "$build/tests/nccl_groups" several
traces "share their batches" 'len(calls[0]) == len(shared[0]) == len(shared[1]) == 40'
traces "and together take the report's times" \
    'all(abs(spent(0, phase) - sum(row[f"seconds_{phase}"] for row in rows)) < 1e-5 for phase in ("encode", "exchange", "decode"))'
expect "calls on several streams" 0 traced 3 "$build/tests/nccl_groups" streams
traces "have a lane for each stream" 'all(len({e["tid"] for e in events[rank] if e["ph"] == "X"}) == 3 and len(calls[rank]) == 27 for rank in range(3))'
expect "calls in several batches" 0 traced 2 "$build/tests/nccl_groups" segments
traces "have several of each phase" \
    'sum(name == "encode" for name, span in phases[1][2]) > 1 and sorted(calls[1]) == [1, 2, 3]'
expect "a thread for each device" 0 traced 1 "$build/tests/nccl_groups" threads
traces "each has a lane" 'len({e["tid"] for e in events[0] if e["ph"] == "X"}) == 4 and len(calls[0]) == 20'
expect "a graph" 0 traced 3 "$build/tests/nccl_graphs" graph
traces "has no times of captured calls" 'all(sorted(calls[rank]) == [1, 4, 5, 6] for rank in range(3))'
expect "an abort" 0 traced 3 "$build/tests/nccl_lifetime" abort_later
traces "has no times of the aborted call" 'all(sorted(calls[rank]) == [1, 2] for rank in range(3))'
expect "communicators that are aborted after their calls" 0 traced 3 "$build/tests/nccl_lifetime" again
traces "has times of all calls" 'all(len(calls[rank]) == 6 for rank in range(3))'

rm -f "$scratch"/trace*.json
expect "a file for each rank" 0 preloaded 2 COMPSHIM_TRACE="$scratch/trace-{rank}.json" "$build/tests/nccl_lifetime" again
check "has that name" test -s "$scratch/trace-0.json" -a -s "$scratch/trace-1.json"
expect "a trace that cannot be written" 0 preloaded 2 COMPSHIM_TRACE="$scratch/none/trace.json" "$build/tests/nccl_lifetime" again
contains "is logged" "cannot write the trace $scratch/none/trace.rank1.json: No such file"
expect "a trace whose name is too long" 0 \
    preloaded 2 COMPSHIM_TRACE="$(printf '%05000d' 1)" "$build/tests/nccl_lifetime" again
contains "is logged, too" "the trace's file name is too long: 0000"

# Bounds -----------------------------------------------------------------------------------------
# All 400 calls but the first are in progress at once.
rm -f "$scratch"/trace*.json
expect "more calls than events" 0 traced 2 STANDIN_FAIL=cuEventCreate:1060 "$build/tests/nccl_groups" queue
reports "all are counted" "[row['calls'] for row in rows] == [400] and $has_phases"
traces "some are timed" 'all(100 < len(calls[rank]) < 400 for rank in range(2))'
check "events are bounded" test -z "$(grep 'cuEventCreate fails' <<<"$output")"
expect "without a report there are no events" 0 \
    preloaded 2 COMPSHIM_REPORT=off STANDIN_FAIL=cuEventCreate:6 "$build/tests/nccl_lifetime" kept
check "except those of the workspace" test -z "$(grep 'cuEventCreate fails' <<<"$output")"
expect "with a report there are more" 0 preloaded 2 STANDIN_FAIL=cuEventCreate:6 "$build/tests/nccl_lifetime" again
contains "and calls succeed if they cannot be made" "call 6 of cuEventCreate fails"
reports "later calls are timed" 'rows[0]["calls"] == 6 and rows[0]["seconds"] > 0'
finish
