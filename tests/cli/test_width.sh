#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that these texts have at most 80 columns: the help of every command, the output of check, explain, report,
# compare and top, and the table at the end of a job.
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
golden=$top/tests/cli/golden
cd "$scratch" || exit 1
cp "$golden"/*.json .
cat >p.ini <<'P'
[rule small]
max_size = 4KiB
codec = none
[rule a-name-that-is-longer-than-its-column]
dtype = float32
codec = fp8_e4m3
P
cat >run.json <<'P'
{"compshim": "0.1.0", "library": "mpi", "ranks": 4, "nodes": 4, "wall_seconds": 100.0,
 "totals": {}, "rows": [], "passed_through": {}, "policy": {}, "observed": {"kinds": [
 {"collective": "reduce_scatter", "dtype": "bfloat16", "op": "sum", "ranks": 1024, "nodes": 128, "ranks_per_node": 8,
  "bytes": 1048576, "bytes_below": 2097152, "calls": 10, "bytes_total": 15000000, "seconds": 0.5, "seconds_wait": 0.1},
 {"collective": "allreduce", "dtype": "float32", "op": "sum", "ranks": 4, "nodes": 4, "ranks_per_node": 1,
  "bytes": 16777216, "calls": 20, "bytes_total": 335544320, "seconds": 9.0, "seconds_wait": 1.0}]}}
P
# narrow NAME STATUS CMD...: checks the status, and for text of at most 80 columns
narrow() {
    expect "$@"
    check "it says something, in 80 columns" awk 'length > 80 { print length ": " $0; bad = 1 } END { exit bad || !NR }' <<<"$output"
}
narrow "the help" 0 "$tool" --help
mapfile -t commands < <("$tool" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
check "the help names commands" test "${#commands[@]}" -ge 7
for command in "${commands[@]}" policy; do
    narrow "help $command" 0 "$tool" help "$command"
done
printf 'int main(void) { return 0; }\n' | gcc -x c -o none -
narrow "check" 1 "$tool" check ./none
narrow "check of a script" 1 "$tool" check "$top/tools/get-mpi.sh"
narrow "explain" 0 "$tool" explain --policy p.ini --size 25MiB
narrow "explain of a call that is passed through" 0 "$tool" explain --policy p.ini --size 4KiB
narrow "explain --sizes" 0 "$tool" explain --policy p.ini --sizes 1KiB-1GiB
narrow "explain --report" 0 "$tool" explain --policy p.ini --report run.json
narrow "report" 0 "$tool" report report_watched.json
narrow "report of an observed run" 0 "$tool" report run.json
narrow "report of several" 0 "$tool" report report_fp16.json report_off.json report_watched.json
# Error messages are not wrapped, so that people can search for them.
tables() { "$@" 2>&3; }
exec 3>/dev/null
narrow "compare" 0 tables "$tool" compare --title compared --ranks 1,2,4 --modes off,fp16,fp8_e4m3 -- sh -c 'echo "time 1.5 s"' {ranks}
narrow "compare of many numbers of ranks" 0 tables "$tool" compare --ranks 2,4,8,16 --modes off -- \
    sh -c 'echo "train time 1.5 s step 2 ms"' {ranks}
check "both parts of its table end with the last figure of some ranks" test "$(grep -c '^mode .*step ms$' <<<"$output")" = 2
check "and none within their figures" test -z "$(grep -E '^mode .*(time s|speed-up)$' <<<"$output")"
narrow "top, with the jobs that there are" 0 sh -c '"$1" top --once || [ $? = 1 ]' sh "$tool"
narrow "the table of a job" 0 shimmed 2 COMPSHIM_POLICY=p.ini "$build/tests/mpi_one_of_each"
contains "with reasons in words" "too small, by the sizes in the rules of the policy"
narrow "the table of an observed job" 0 shimmed 2 COMPSHIM=observe COMPSHIM_POLICY=p.ini "$build/tests/mpi_one_of_each"
finish
