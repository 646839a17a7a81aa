#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks compshim compare with programs that only print what a trainer would.
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
golden=$top/tests/cli/golden
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
cd "$scratch" || exit 1

# trainer RANKS MODE [LOG]: prints a time and an accuracy, and records its arguments and environment in `calls`. Writes
# a log of steps to LOG, and, if COMPSHIM_REPORT is set, a report to it and the policy to policy.MODE.
cat >trainer <<'SH'
#!/bin/bash
echo "$1 ranks, mode $2, shim ${LD_PRELOAD:+on}, policy ${COMPSHIM_POLICY##*/}" >>calls
echo "epoch 1/1  loss 0.2134  test accuracy 12.34 %  41.3 s"
case $2 in off | serial) time=40.0 ;; *) time=20.0 ;; esac
[ -z "${3-}" ] || printf 'step,seconds,accuracy\n1,%s,0.1\n2,%s,0.975\n3,' 1.5 "$time" >"$3"
[ -z "$COMPSHIM_REPORT" ] || {
    grep -h . "$COMPSHIM_POLICY" >"policy.$2"
    cp "$REPORT" "$COMPSHIM_REPORT"
}
echo "final: test accuracy 98.71 %  loss 0.0412  train time $time s  step 12.8 ms"
SH
chmod +x trainer
export REPORT=$golden/report_fp16.json

expect "a comparison" 0 "$tool" compare --modes off,fp16 --ranks 1,2 --repeat 2 --json out.json \
    --markdown out.md --html out.html --serial './trainer {ranks} {mode} {log}' \
    --title "A title <b>&</b>" --link "two tin cans" -- ./trainer '{ranks}' '{mode}' '{log}'
all=$output
contains "the title" "A title"
contains "the link" "two tin cans"
output=$(sed -n '/^Time/,$p' <<<"$all")
golden "the tables" "$golden/compare.txt"
output=$(sed '/^Environment/,/^Time/{/^Time/!d}' out.md)
golden "the tables as Markdown" "$golden/compare.md"
output=$(cat calls)
golden "the runs, in turn" "$golden/compare_calls.txt"
output=$(cat policy.fp16)
golden "the policy of a codec's mode" "$golden/compare_policy.txt"
check "the JSON" python3 - out.json <<'PY'
import json, sys
data = json.load(open(sys.argv[1]))
assert data["complete"] and data["title"] == "A title <b>&</b>", data["title"]
assert {"servers", "processors", "cards", "links", "operating system", "framework",
        "compshim", "date", "load"} == set(data["environment"]), data["environment"]
cells = {(cell["mode"], cell["ranks"]): cell for cell in data["results"]}
assert set(cells) == {("serial", 1), ("off", 1), ("off", 2), ("fp16", 2)}, cells.keys()
fp16 = cells["fp16", 2]
assert fp16["speed_up"] == 2 and fp16["time"] == 20 and fp16["accuracy"] == 98.71, fp16
assert fp16["bytes_native"] == 629145600 and fp16["bytes_wire"] == 315000000, fp16
assert len(fp16["runs"]) == 2 and fp16["runs"][0]["command"].startswith("./trainer 2 fp16 /"), fp16
assert "98.71" in fp16["runs"][1]["output_tail"], fp16
assert fp16["step_ms"] == 12.8 and fp16["runs"][0]["rows"][0]["rel_error"] == 0.00028, fp16
assert fp16["runs"][0]["accuracy_over_time"] == [[1.5, 10.0], [20.0, 97.5]], fp16
assert cells["off", 2]["bytes_wire"] is None, cells["off", 2]
assert cells["serial", 1]["runs"][0]["accuracy_over_time"][1] == [40.0, 97.5], cells["serial", 1]
PY
check "the page: XML, whole, nothing fetched" python3 "$top/tests/cli/page.py" out.html
page() { python3 "$top/tests/cli/page.py" "$@"; }
shows() { page --text "$1" | grep -q "$2"; }
lacks() { page --text "$1" >text && ! grep -q "$2" text; }
output=$(page --text out.html | sed '/^Environment/,/^The commands/{/^The commands/!d}; s|[^ ]*steps.csv|STEPS|')
golden "the page's text" "$golden/compare_page.txt"
check "the title is escaped" grep -qF '<h1>A title &#60;b&#62;&#38;&#60;/b&#62;</h1>' out.html
output=$(page --plain out.html)
contains "where scripts do not run, the tables are there" "fp16 (16 bit)  2 ranks  large, really  fp16   two_shot     100      300 MiB"
check "the page holds the results" python3 - "$(page --data out.html)" out.json <<'PY'
import json, sys
assert json.loads(sys.argv[1])["comparison"] == json.load(open(sys.argv[2]))
PY
check "no temporary file is left" test -z "$(ls -A "$TMPDIR")"

# varying MODE: prints times of 10, 20 and 12 s in its runs in mode off, else of 6, 5 and 4 s. Counts its runs in
# runs.MODE. Fails in the run that $FAILS names: off2 is the second run in mode off.
cat >varying <<'SH'
#!/bin/bash
echo run >>"runs.$1"
run=$(wc -l <"runs.$1")
[ "$1$run" != "$FAILS" ] || exit 1
case $1 in off) times=(10 20 12) ;; *) times=(6 5 4) ;; esac
[ -z "${COMPSHIM_REPORT-}" ] || cp "$REPORT" "$COMPSHIM_REPORT"
echo "train time ${times[run - 1]} s"
SH
chmod +x varying
FAILS='' expect "runs that differ" 0 "$tool" compare --modes off,fp16 --repeat 3 --html spread.html --json spread.json \
    -- ./varying '{mode}'
check "have medians" grep -qE '^fp16 \(16 bit\) +5\.0 +2\.40$' <<<"$output"
check "and their spread; that of the speed-up within repeats" \
    grep -qE '^  lowest-highest +4\.0-6\.0 +1\.67-4\.00$' <<<"$output"
check "on the page too" shows spread.html '^lowest-highest | 4.0-6.0 | 1.67-4.00 |'
check "and in its headline" shows spread.html '^2.4× as fast as without compshim: fp16 (16 bit) on 2 ranks, 1.67 to 4.00 in 3 runs'
check "and under the first line" grep -qx '1.67 to 4.00 times in 3 runs' <<<"$output"
check "and as JSON" python3 - spread.json <<'PY'
import json, sys
off, fp16 = json.load(open(sys.argv[1]))["results"]
assert off["spread"]["time"] == [10, 20] and off["time"] == 12, off
assert fp16["spread"]["time"] == [4, 6] and abs(fp16["spread"]["speed_up"][0] - 10 / 6) < 1e-9, fp16
assert fp16["spread"]["accuracy"] is None, fp16
PY
rm runs.*
FAILS=fp162 expect "a repeat that fails" 1 "$tool" compare --modes off,fp16 --repeat 3 --html spread.html -- ./varying '{mode}'
check "leaves a single run, and says so" grep -qE '^  lowest-highest +1 run +1 run$' <<<"$output"
check "on the page, too: how many runs a mode has" shows spread.html '^fp16 (16 bit) | 1 run 2.50 |'
check "its headline counts no others" shows spread.html ' a single run of each'
rm runs.*
FAILS=off2 expect "a second round that fails at once" 1 "$tool" compare --modes off,fp16 --repeat 3 --html spread.html -- ./varying '{mode}'
check "is no median" shows spread.html '^A single run each. Speed-up'
expect "an accuracy of 100 %" 0 "$tool" compare --modes off --metric-accuracy 'score=([0-9.]+)' --html full.html -- echo score=100
check "is at the end of its axis" shows full.html '^99.0 99.5 100.0 2 ranks off 100.00 %'

printf '[rule all]\ncodec = bf16\n' >job.ini
expect "a codec of no fixed size" 0 "$tool" compare --modes lossless -- ./trainer 2 '{mode}'
check "has no number of bits" grep -qE '^lossless +20.0 ' <<<"$output"
expect "a policy file as a mode" 0 "$tool" compare --modes off --policy job.ini --html job.html -- ./trainer 2 '{mode}'
contains "is a row" "job.ini"
check "and the headline of the page, which marks a single run" \
    shows job.html '^2.0× as fast as without compshim: job.ini on 2 ranks, a single run of each, 2.00 times fewer'
check "as the plot does" shows job.html 'What a step of the program takes, from a single run'
contains "and the table" "Time, a single run each (--repeat shows the spread); speed-up"
check "is the policy of the run" cmp job.ini policy.job.ini
expect "other metrics" 0 "$tool" compare --modes off --metric-time 'took ([0-9.]+)' \
    --metric-accuracy 'score=([0-9.]+)' --metric-step 'each ([0-9.]+)' \
    -- echo took 3.5 score=77.25 each 8.5
check "are found" grep -qE 'off \(native\) +3\.5 +1\.00 +8\.5$' <<<"$output"
check "as is the accuracy" grep -qE 'off \(native\) +77\.25$' <<<"$output"
check "and nothing is warned of" test "${output#*not every output}" = "$output"
expect "metrics that nothing matches" 0 "$tool" compare --modes off --repeat 2 --metric-time 'took ([0-9.]+)' \
    --metric-step 'each ([0-9.]+)' -- echo nothing
contains "are warned of" "compshim: --metric-time 'took ([0-9.]+)': not every output has a match"
check "once each" test "$(grep -c "': not every output has a match" <<<"$output")" = 2
expect "no metrics" 0 "$tool" compare --modes off -- echo nothing
contains "the wall clock stands in, and is told" "Time of the whole command"
expect "a log that is not left" 0 "$tool" compare --modes off -- true '{log}'
contains "is warned of" "the run left no log of its steps at {log}: No such file or directory"
expect "a log of something else" 0 "$tool" compare --modes off --html log.html \
    -- sh -c 'echo a,b >"$0"' '{log}'
contains "is warned of" "the log of steps at {log} has no columns 'seconds' and 'accuracy'"
check "the page has no plot of it" lacks log.html "Accuracy over time"
expect "a log of a single step, and accuracy that stays" 0 "$tool" compare --modes off --ranks 1,2 --html flat.html \
    -- sh -c '[ {ranks} = 1 ] && printf "seconds,accuracy\n0,0.5\n" >"$0" || printf "seconds,accuracy\n1,1\n2,1\n" >"$0"' '{log}'
check "have plots of usual axes" shows flat.html '^50.0 50.2 .* 51.0 0.0 '
check "that are whole" page flat.html
seq 1000 | awk 'BEGIN { print "accuracy,seconds" } { print $1 / 1000 "," $1 }' >long.csv
expect "a long log" 0 "$tool" compare --modes off --json long.json -- cp long.csv '{log}'
check "is thinned, its ends kept" python3 - long.json <<'PY'
import json, sys
curve = json.load(open(sys.argv[1]))["results"][0]["runs"][0]["accuracy_over_time"]
assert len(curve) == 200 and curve[0] == [1, 0.1] and curve[-1] == [1000, 100], curve
PY
script -qec "'$tool' compare --modes off --repeat 2 -- sleep 2" /dev/null >terminal </dev/null
check "a terminal sees progress" grep -qE '\[1/2\] off \(native\), 2 ranks  [0-9]+ s' terminal
check "and the time left" grep -qE '\[2/2\] off \(native\), 2 ranks  [0-9]+ s, about [0-9]+ s left' terminal
unset REPORT
launchers=(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe
    PRTE_MCA_rmaps_default_mapping_policy)
expect "more ranks than cores, and root" 0 env "${launchers[@]/#/-u}" \
    "$tool" compare --modes off --ranks "2,$(($(nproc) + 2))" -- mpirun -n '{ranks}' true
[ "$(id -u)" != 0 ] || contains "root is told" "note: mpirun is allowed to run as root, by OMPI_ALLOW_RUN_AS_ROOT"
# compshim sets only the variables that are needed, and none that the user has set.
cat >mpirun <<'SH'
#!/bin/bash
echo "root ${OMPI_ALLOW_RUN_AS_ROOT-no}, Open MPI 4 ${OMPI_MCA_rmaps_base_oversubscribe-no}, 5 ${PRTE_MCA_rmaps_default_mapping_policy-no}"
SH
chmod +x mpirun
root=$([ "$(id -u)" = 0 ] && echo 1 || echo no)
says() { # NAME WHAT WORD...: checks the variables that the fake mpirun finds
    expect "$1" 0 env "${launchers[@]/#/-u}" "${own[@]}" "$tool" compare --modes off --json mpirun.json -- "${@:3}"
    check "$1: $2" grep -qF "\"output_tail\": \"$2\"" mpirun.json
}
own=()
says "fewer ranks than cores" "root $root, Open MPI 4 no, 5 no" ./mpirun -n 1 true
says "more ranks than cores" "root $root, Open MPI 4 1, 5 :oversubscribe" env A=1 ./mpirun -np 10000 true
says "two parts" "root $root, Open MPI 4 1, 5 :oversubscribe" ./mpirun -n 1 true : -n 10000 true
says "a program's own -n" "root $root, Open MPI 4 no, 5 no" ./mpirun -n 1 true -n 10000
says "hosts" "root $root, Open MPI 4 no, 5 no" ./mpirun -n 10000 --host a:9000,b:9000 true
own=(OMPI_ALLOW_RUN_AS_ROOT=0 PRTE_MCA_rmaps_default_mapping_policy=core)
says "the user's own settings" "root 0, Open MPI 4 1, 5 core" ./mpirun -n 10000 true
expect "a run without a report" 0 "$tool" compare --modes fp16 -- echo nothing
contains "is warned of" "fp16: the run left no report"
REPORT=$golden/report_off.json expect "a run without compression" 0 \
    "$tool" compare --modes fp16 -- sh -c "cp $golden/report_off.json \"\$COMPSHIM_REPORT\""
contains "is warned of" "fp16: nothing was compressed"

expect "a report of another process" 0 "$tool" compare --modes fp16 --json ranks.json \
    -- sh -c "cp $golden/report_fp16.json \"\${COMPSHIM_REPORT%.json}.rank2.json\""
check "is read" grep -q '"compressed_calls": [1-9]' ranks.json
check "and removed" test -z "$(ls "$TMPDIR")"
expect "a failing run" 1 "$tool" compare --modes off --ranks 1,2 --json failed.json \
    --html failed.html -- sh -c 'echo "train time 5 s"; [ {ranks} = 1 ] || { echo "out of luck" >&2; exit 9; }'
contains "tells its status" "this run failed (exit status 9)"
contains "tells its output" "out of luck"
check "what is finished is printed" grep -qE 'off \(native\) +5\.0 ' <<<"$output"
check "the JSON says that it is not complete" grep -q '"complete": false' failed.json
check "the page too" shows failed.html "Stopped early"
check "the page is whole" page failed.html
expect "a program that is not there" 1 "$tool" compare --modes off --html none.html -- ./missing
contains "is named" "cannot run './missing'"
check "no table is printed" test "${output#*Environment}" = "$output"
check "the page of no runs is whole" page none.html
check "and has no plots" lacks none.html Plots

# The signal goes only to the tool. The program's child must end too.
mkfifo started
"$tool" compare --modes off --ranks 1,2 --json stopped.json --markdown stopped.md --html stopped.html \
    -- sh -c 'echo "train time 5 s"; [ {ranks} = 1 ] || { sleep 1000 & echo $! >started; wait; }' \
    >stopped 2>&1 &
process=$!
sleeper=$(limited cat started)
kill -INT "$process"
wait "$process"
status=$?
check "an interrupt gives status 130" test "$status" = 130
check "an interrupt ends the whole group" eventually has_ended "$sleeper"
output=$(sed '/^Environment/,/^Time/{/^Time/!d}' stopped)
golden "an interrupt still prints what was measured" "$golden/compare_stopped.txt"
check "and writes it as JSON" grep -q '"time": 5.0' stopped.json
check "and as Markdown" grep -qF '| off (native) | 5.0 |' stopped.md
check "and as a page" page stopped.html
check "that says so" shows stopped.html "Stopped early"
check "an interrupt leaves no temporary file" test -z "$(ls -A "$TMPDIR")"

expect "no command" 2 "$tool" compare
expect "an unknown mode" 2 "$tool" compare --modes off,fp61 -- true
contains "is named" "'fp61' is neither off, nor a codec that needs no other key, nor a file.ini"
for codec in bounded topk; do
    expect "$codec, whose rule needs another key" 2 "$tool" compare --modes off,$codec -- true
    contains "is no mode" "'$codec' is neither off, nor a codec that needs no other key, nor a file.ini"
    check "nor offered" test "${output#*known: off, raw,*$codec}" = "$output"
done
expect "a mode given twice" 2 "$tool" compare --modes off,off -- true
contains "is named" "'off' is given twice"
expect "rank counts without a place" 2 "$tool" compare --modes off --ranks 1,2 -- true
contains "is told" "no {ranks} in the command"
expect "a bad rank count" 2 "$tool" compare --modes off --ranks 2,x -- true
contains "is named" "--ranks: 'x' is not a whole number from 1 to 1000000"
expect "a bad expression" 2 "$tool" compare --metric-time '(' -- true
expect "an expression without a group" 2 "$tool" compare --metric-time 'x' -- true
contains "is told" "no group"
expect "built-in policies as modes" 0 "$tool" compare --modes off,@fp8 --policy @exact -- ./trainer 2 '{mode}'
for mode in @fp8 @exact; do
    check "$mode is the policy of the run" grep -q "mode $mode, shim on, policy $mode$" calls
done
expect "an unknown name" 1 "$tool" compare --modes @fp9 -- true
contains "lists the names" "known: @default, @exact, @fp8, @small"
expect "a bad policy" 1 "$tool" compare --modes missing.ini -- true
expect "results that cannot be written" 3 "$tool" compare --modes off --json no/where -- true
contains "are named before any run" "no/where: No such file or directory"
expect "a page that cannot be written" 3 "$tool" compare --modes off --html no/where -- true
contains "is named before any run" "no/where: No such file or directory"
expect "a failed run, of a parent that ignores SIGCHLD" 1 python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])' "$tool" compare --modes off -- false
mkfifo gone # a pipe without a reader
expect "a reader of the output that ends" 3 bash -c 'exec 8<>gone 9>gone 8<&-
    exec env --default-signal=PIPE "$@" >&9 2>&9' bash "$tool" compare --modes off --json piped.json -- true
check "leaves the files" python3 -m json.tool piped.json
expect "output with a byte 0" 0 "$tool" compare --modes off -- printf 'a\0 train time 5.0 s\n'
contains "is read to its end" " 5.0 "
mkdir "{x}"
TMPDIR={x} expect "a temporary folder with a brace" 3 "$tool" compare --modes fp16 -- ./trainer 2 fp16
contains "is refused" "has a brace in its name"
expect "a log without a good line" 0 "$tool" compare --modes off -- sh -c 'echo seconds,accuracy >"$1"' sh '{log}'
contains "is told from one without columns" "has no line with seconds and an accuracy"
expect "a full disk" 3 "$tool" compare --modes off --html /dev/full --markdown /dev/full -- echo nothing
contains "is told" "cannot write /dev/full: "
finish
