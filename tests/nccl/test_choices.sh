#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that NCCL's all-reduces choose the candidate with the shortest measured duration. Durations come from the
# stand-in's clock US,MIB: US microseconds for each of NCCL's operations, a tenth for each kernel, and MIB MiB/s for
# what NCCL sends. By it, an all-reduce of 64 KiB in fp8 on two ranks takes
#
#   clock US,MIB    native     one_shot    two_shot    raw
#   10,250          260 us     75 us       86 us       262 us
#   1000,250        1250 us    1263 us     2363 us     1450 us
. "$(dirname "$0")/lib.sh"
unset COMPSHIM_MACHINE
program=$build/tests/nccl_choices
fast=10,250 slow=1000,250
export CALLS=160 STANDIN_CLOCK=$fast
rules() { printf '%s\n' "[rule all]" "dtype = float32" "$@" >"$COMPSHIM_POLICY"; }
# learned NAME RANKS CASE CHOICE [VARIABLE=VALUE...]: passes if the case does, and all its classes choose CHOICE
learned() {
    expect "$1" 0 preloaded "$2" "${@:5}" "$program" "$3"
    reports "$1: chooses $4" "len(report['learned']) > 0 and all(line.split(' = ')[1].startswith('$4 ') for line in report['learned'])"
}
rules "codec = fp8_e4m3"

# Candidates -------------------------------------------------------------------------------------
learned "two ranks" 2 steady "one_shot fp8_e4m3"
reports "each candidate is tried" "{(row['codec'], row['algorithm']) for row in rows} == {('fp8_e4m3', 'one_shot'), ('fp8_e4m3', 'two_shot'), ('raw', 'one_shot')}"
reports "natively a few times" "3 <= passed['no_gain'] <= 16"
reports "what it brought is true of the clock" "3.2 <= report['totals']['speedup'] <= 3.7"
reports "few calls are of another candidate" "sum(row['calls'] for row in rows if (row['codec'], row['algorithm']) == ('fp8_e4m3', 'one_shot')) >= 120"
reports "the host waits for a few answers at most" "report['host_waits'] <= 12"
learned "a slow start of each operation" 2 steady native STANDIN_CLOCK=$slow
reports "most calls are native" "passed['no_gain'] >= 60 and 'host_waits' in report"
learned "three ranks" 3 steady "two_shot fp8_e4m3"
learned "on two nodes" 4 steady "two_shot fp8_e4m3" NODES=0,0,1,1
export NODES=0,0,1,1
expect "hierarchical" 0 preloaded 4 "$program" steady
reports "is tried, too" "'hierarchical' in {row['algorithm'] for row in rows}"
unset NODES
learned "of several sizes" 2 classes "one_shot fp8_e4m3"
reports "each is a class" "len(report['learned']) == 5"
learned "a host ahead of the GPU" 2 ahead "one_shot fp8_e4m3" CALLS=400
learned "a GPU that starts when it is waited for" 2 ahead "one_shot fp8_e4m3" STANDIN_LAZY=1 CALLS=800
learned "a GPU that is late" 3 ahead "two_shot fp8_e4m3" STANDIN_DELAY_US=300 CALLS=400
learned "a network that becomes slow to start" 2 changes native CALLS=1000 CLOCK=$slow
learned "a network that becomes quick to start" 2 changes "one_shot fp8_e4m3" CALLS=1000 CLOCK=$fast STANDIN_CLOCK=$slow

# By its clock, one rank measures long native calls, as if it waited for the other one. The shortest durations of all
# ranks decide.
uneven() { preloaded 2 "$@" sh "$top/tests/nccl/rank_setting.sh" "$rank" STANDIN_CLOCK=1,150 "$program" steady; }
for rank in 0 1; do
    expect "rank $rank waits for the other" 0 uneven STANDIN_CLOCK=100,25000
    reports "rank $rank: the least durations decide" "'= native ' in report['learned'][0]"
done
expect "a rank without events" 0 preloaded 2 sh "$top/tests/nccl/rank_setting.sh" 1 \
    STANDIN_FAIL="$(printf 'cuEventCreate:%d,' {8..19} | sed 's/,$//')" "$program" steady
reports "the other's durations decide" "'= one_shot ' in report['learned'][0]"

# Communicators ----------------------------------------------------------------------------------
for ranks in 2 3; do
    expect "two communicators in crossed order, $ranks ranks" 0 preloaded $ranks "$program" crossed
    expect "in crossed order, as the GPU lags, $ranks ranks" 0 preloaded $ranks STANDIN_DELAY_US=100 "$program" crossed
done
learned "a thread for each of two communicators" 3 threads "two_shot fp8_e4m3"
learned "ncclCommInitAll" 1 all "two_shot fp8_e4m3"
learned "one thread for three ranks" 1 one_thread "two_shot fp8_e4m3"
learned "parts of parts" 2 parts "one_shot fp8_e4m3"
learned "non-blocking" 2 nonblocking "one_shot fp8_e4m3"
learned "after a revocation" 3 revoked "two_shot fp8_e4m3"

# Calls that are not timed -----------------------------------------------------------------------
learned "groups of two" 2 groups native STANDIN_CLOCK=$slow
reports "are not tried, and follow what single calls have learned" \
    "sum(row['calls'] for row in rows if (row['codec'], row['algorithm']) == ('fp8_e4m3', 'one_shot')) >= 320 and passed['no_gain'] >= 320 + 60"
learned "a captured call" 2 captured native STANDIN_CLOCK=$slow
calls "follows what others have learned" "all(sum(call['captured'] for call in rank) == 1 == sum(call['captured'] and call['call'] == 'ncclAllReduce' for call in rank) for rank in calls)"
expect "a captured call of a class that has learned nothing" 0 preloaded 2 CALLS=1 "$program" captured
calls "follows the rule" "not any(call['captured'] and call['call'] == 'ncclAllReduce' for rank in calls for call in rank)"

# Ranks that end ---------------------------------------------------------------------------------
for after in 1 17 33; do
    for rank in 0 1; do
        expect "rank $rank ends after $after calls" 0 preloaded 3 DIES=$rank AFTER=$after "$program" dies
        expect "rank $rank aborts after $after calls" 0 preloaded 3 DIES=$rank AFTER=$after "$program" aborts
    done
done

# The user's settings: COMPSHIM_MACHINE, worth, algorithm, error feedback ------------------------
expect "no file" 0 preloaded 2 "$program" steady
"$build/compshim" report --learned "$scratch/report.json" >"$scratch/learned"
for way in "two_shot fp8_e4m3" "one_shot fp8_e4m3"; do
    sed "s/= .*/= $way/" "$scratch/learned" >"$scratch/file"
    expect "a file that says $way" 0 preloaded 2 COMPSHIM_MACHINE="$scratch/file" "$program" steady
    reports "$way: nothing is tried" "len(rows) == 1 and rows[0]['calls'] == 160 and rows[0]['algorithm'] == '${way%% *}' and 'learned' not in report and 'host_waits' not in report"
done
sed "s/= .*/= native/" "$scratch/learned" >"$scratch/file"
expect "a file that says native" 0 preloaded 2 COMPSHIM_MACHINE="$scratch/file" "$program" steady
reports "native: nothing is tried" "rows == [] and passed['no_gain'] == 160"
sed "s| 2/1 | 3/1 |" "$scratch/file" >"$scratch/three"
expect "ncclCommInitAll with a file" 0 preloaded 1 COMPSHIM_MACHINE="$scratch/three" "$program" all
reports "is native, too" "rows == [] and passed['no_gain'] > 0 and 'learned' not in report"
expect "a file that rank 1 alone has" 0 preloaded 2 sh "$top/tests/nccl/rank_setting.sh" 1 COMPSHIM_MACHINE="$scratch/file" "$program" steady
reports "rank 0's environment counts" "len(rows) == 3"
expect "a file that rank 0 alone has" 0 preloaded 2 sh "$top/tests/nccl/rank_setting.sh" 0 COMPSHIM_MACHINE="$scratch/file" "$program" parts
reports "goes to all ranks and parts" "rows == [] and passed['no_gain'] > 0 and 'learned' not in report"
echo "nonsense" >"$scratch/file"
expect "a wrong file" 1 preloaded 2 COMPSHIM_MACHINE="$scratch/file" "$program" steady
contains "is said" "COMPSHIM_MACHINE"
expect "off" 0 preloaded 2 COMPSHIM_MACHINE=off "$program" steady
reports "off: the rule decides" "len(rows) == 1 and rows[0]['calls'] == 160"
rules "codec = fp8_e4m3" "worth = always"
expect "worth = always" 0 preloaded 2 STANDIN_CLOCK=$slow "$program" steady
reports "always: nothing is tried" "len(rows) == 1 and rows[0]['calls'] == 160 and 'host_waits' not in report"
rules "codec = fp8_e4m3" "algorithm = two_shot"
expect "a named algorithm" 0 preloaded 2 "$program" steady
reports "is tried against native calls" "{row['algorithm'] for row in rows if row['codec'] != 'raw'} == {'two_shot'} and 3 <= passed['no_gain'] <= 16"
rules "codec = fp8_e4m3" "worth = foretold"
learned "worth = foretold" 2 steady "one_shot fp8_e4m3"
rules "codec = int8" "error_feedback = on"
learned "error feedback" 2 steady "one_shot int8"
# The first calls are three by one_shot, then three by two_shot.
rules "codec = int4" "error_feedback = on"
first() { # N: prints the digest of result N
    preloaded 2 CALLS=6 PRINT=1 TOLERANCE=4 "$program" steady | grep -xE '[0-9a-f]{16}' | sed -n "$1p"
}
fourth=$(first 4) third=$(first 3)
rules "codec = int4" "error_feedback = on" "worth = always" "algorithm = two_shot"
check "residuals begin anew where the algorithm changes" test -n "$fourth" -a "$fourth" = "$(first 1)"
check "and serve where it does not" test "$(first 1)" != "$(first 2)" -a "$third" != "$fourth"
rules "codec = int8" "error_feedback = on"
learned "error feedback where algorithms change" 3 changes "two_shot int8" CALLS=1000 CLOCK=$fast STANDIN_CLOCK=$slow
finish
