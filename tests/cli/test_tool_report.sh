#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# compshim report: tables of one and of two reports, CSV, and files that are no reports.
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
golden=$top/tests/cli/golden
cd "$golden" || exit 1

expect "one report" 0 "$tool" report report_fp16.json
golden "one report's text" "$golden/report_one.txt"
expect "two reports" 0 "$tool" report report_fp16.json report_off.json
golden "two reports' text" "$golden/report_two.txt"
expect "CSV" 0 "$tool" report --csv report_fp16.json report_off.json
golden "the CSV's text" "$golden/report.csv"

expect "no file" 2 "$tool" report
expect "a missing file" 3 "$tool" report "$scratch/missing.json"
contains "is named" "missing.json: No such file or directory"
printf '{"compshim": "0.1.0",\n oops}\n' >"$scratch/broken.json"
expect "broken JSON" 1 "$tool" report "$scratch/broken.json"
contains "is told with its line" "broken.json:2: not JSON"
echo '{"compshim": "0.1.0", "totals": {}}' >"$scratch/other.json"
expect "other JSON" 1 "$tool" report "$scratch/other.json"
contains "is told what it lacks" "it has no 'rows'"
finish
