#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks which files the shim touches: where tables and reports go, and which policy files it trusts.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_stderr
policy "$scratch/policy.ini" fp16
sed -i 's/^report = off/report = summary/' "$scratch/policy.ini"
export COMPSHIM_POLICY=$scratch/policy.ini

expect "standard error is closed, and a file of data gets its number" 0 shimmed 2 "$program" reused "$scratch/reused"
contains "the table goes to what standard error was" "all      fp16"
check "and not into the data" test "$(cat "$scratch"/reused.* | sort | uniq -c | tr -s ' ')" = " 2 data"
expect "a report to a file that the program writes" 0 shimmed 2 COMPSHIM_REPORT="$scratch/own.json" "$program" taken "$scratch/own.json"
contains "is not written" "cannot write the report $scratch/own.json: the program, or somebody else, has put something else there"
check "and leaves the file" test "$(cat "$scratch/own.json")" = data
for what in full broken; do
    expect "standard error is $what" 0 shimmed 2 "$program" $what
    contains "$what: the program goes on" "work done, 0 failures"
done
if only_open_mpi "a rank's child that lives on, for which Hydra waits"; then
    expect "a rank's child that has closed its standard error lives on" 0 shimmed 2 "$program" helper "$scratch/go"
    check "and keeps nobody waiting" test ! -e "$scratch/go.ended"
    touch "$scratch/go"
fi
expect "the environment is emptied after MPI_Init" 0 shimmed 2 COMPSHIM_REPORT="$scratch/kept.json" "$program" cleared
check "the report is written all the same" grep -q '"compressed_calls"' "$scratch/kept.json"
echo "before" >"$scratch/log"
ends_in_log() { LD_PRELOAD=$preload COMPSHIM_REPORT=/dev/stdout "$program" >>"$scratch/log" && cat "$scratch/log"; }
expect "a report to standard output, which a file with text receives" 0 ends_in_log
contains "leaves the text" "before"
contains "follows it" '"compressed_calls"'

# Reports in a folder that every user may write to.
mkdir -m 1777 "$scratch/folder"
report=$scratch/folder/report.json
run() { shimmed 2 COMPSHIM_REPORT="$report" "$program"; }
echo '{"compshim": "0.1.0", "library": "a report of before"}' >"$scratch/victim"
ln -s "$scratch/victim" "$report"
expect "a report to a link of the user's own" 0 run
check "is written where the link leads" grep -q '"compressed_calls"' "$scratch/victim"
echo "somebody's" >"$scratch/victim"
if [ "$(id -u)" = 0 ] && chown -h nobody "$report" 2>/dev/null; then
    expect "a report to a link that somebody else made in a sticky folder" 0 run
    contains "is refused, and said" "cannot write the report $report: it is a link that somebody else has made"
    check "the file stays" grep -qx "somebody's" "$scratch/victim"
    rm "$report"
    echo "somebody's" >"$report"
    chown nobody "$report"
    expect "a report to a file of somebody else" 0 run
    contains "is refused, too" "cannot write the report $report: it is no file of yours"
    check "that file stays" grep -qx "somebody's" "$report"
else
    skip "only root can make files of other users"
fi
rm -f "$report"
expect "a new report" 0 run
check "is written" grep -q '"compressed_calls"' "$report"
expect "once more" 0 run
check "is overwritten" python3 -m json.tool "$report" /dev/null
# A reader that is slower than the next job can still read all of the report that it opened.
for kind in report trace; do
    file=$scratch/folder/$kind.json
    variable=COMPSHIM_${kind^^}
    shimmed 2 "$variable=$file" "$program" >/dev/null 2>&1
    sed -i 's/": /":  /' "$file" # makes it differ from every report of a job
    cp "$file" "$scratch/before.json"
    exec 3<"$file"
    expect "a $kind that somebody reads" 0 shimmed 2 "$variable=$file" "$program"
    check "is replaced as a whole" cmp "$scratch/before.json" /dev/fd/3
    exec 3<&-
    check "by another" test "$(grep -c '":  ' "$file")" = 0
done
check "nothing is left beside" test "$(ls -A "$scratch/folder" | xargs)" = "report.json trace.json"

# A policy in the working folder.
unset COMPSHIM_POLICY
cd "$scratch" || exit 1
sed -i "s|^report = .*|report = $scratch/planted.json|" policy.ini
chmod 644 policy.ini
expect "a policy found in the working folder" 0 shimmed 2 "$program"
contains "is obeyed" "all      fp16"
contains "but names no files" "no report is written to $scratch/planted.json"
check "there is none" test ! -e planted.json
chmod 666 policy.ini
expect "a policy that others can write" 0 shimmed 2 "$program"
contains "is not obeyed" "policy.ini: this policy is not obeyed, because others than you and root can write it"
output=$(sed -z 's/\ncompshim:   \(policy\|default\)/ \1/g' <<<"$output") # joins the first line of the table if it is wrapped
contains "but the next one" "policy built-in default"
finish
