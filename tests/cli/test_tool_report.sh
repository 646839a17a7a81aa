#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks compshim report: one or several reports as tables, CSV, Markdown, JSON and a page; and files that are no
# reports.
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

expect "Markdown" 0 "$tool" report --markdown report_fp16.json report_off.json
golden "the Markdown's text" "$golden/report.md"
expect "everything that a report can hold" 0 "$tool" report report_watched.json
golden "its text" "$golden/report_watched.txt"
expect "JSON" 0 "$tool" report --json report_fp16.json report_off.json
check "the JSON holds the reports" python3 -c '
import json, sys
reports = json.loads(sys.argv[1])["reports"]
assert [report["file"] for report in reports] == ["report_fp16.json", "report_off.json"], reports
assert all(report["report"] == json.load(open(report["file"])) for report in reports), reports
' "$output"
page() { python3 "$top/tests/cli/page.py" "$@"; }
"$tool" report --html report_fp16.json report_off.json report_watched.json >"$scratch/page.html"
check "the page: XML, whole, nothing fetched" page "$scratch/page.html"
output=$(page --text "$scratch/page.html")
golden "the page's text" "$golden/report_page.txt"
output=$(page --plain "$scratch/page.html")
contains "where scripts do not run, the tables are there" "passed through: too_small                19                 0"
check "the page holds the reports" python3 -c '
import json, sys
reports, printed = (json.loads(text)["reports"] for text in sys.argv[1:])
assert reports == printed, reports
' "$(page --data "$scratch/page.html")" "$("$tool" report --json report_fp16.json report_off.json report_watched.json)"
"$tool" report --html report_off.json >"$scratch/off.html"
check "a page without plots" page "$scratch/off.html"

# Reports may come from anywhere: neither a terminal nor a browser must interpret their contents.
sed 's/large, really/<!-- <script>alert(1)<\/script> \\u001b[31m \\"|/' report_fp16.json >"$scratch/evil.json"
expect "a report with markup and control characters" 0 "$tool" report "$scratch/evil.json"
check "has none left on a terminal" test -z "$(tr -d '[:print:]\n' <<<"$output")"
expect "the same as Markdown" 0 "$tool" report --markdown "$scratch/evil.json"
contains "is escaped" '\<!-- \<script>alert(1)\</script>  \[31m "\|'
"$tool" report --html "$scratch/evil.json" >"$scratch/evil.html"
check "the same as a page" page "$scratch/evil.html"
output=$(page --text "$scratch/evil.html")
contains "is text" '<!-- <script>alert(1)</script>  [31m "|, fp16'
check "and is not in the page as it was" test "$(grep -oF -e '<script' -e '<!-- <' "$scratch/evil.html" | sort | uniq -c)" = \
    "      2 <script"
cat >"$scratch/odd.json" <<'JSON'
{"compshim": "0.1.0", "totals": {}, "rows": [{}, {"rel_error": 1e-4, "verified": {"bias": -1}}, {"rel_error": null}],
 "observed": {"kinds": [{}]}, "later": [1, {"calls": "many"}]}
JSON
"$tool" report --html "$scratch/odd.json" >"$scratch/odd.html"
check "a page of a report that lacks members, and has others" page "$scratch/odd.html"
while IFS='|' read -r where totals rows more; do
    echo "{\"compshim\": \"0.1.0\", \"totals\": {$totals}, \"rows\": [$rows]$more}" >"$scratch/unsound.json"
    expect "a report with an unsound $where" 1 "$tool" report "$scratch/unsound.json"
    contains "is refused" "unsound.json: $where is not as compshim writes it"
done <<'ROWS'
rows[0]||1, 2|
rows[1].calls||{}, {"calls": null}|
rows[0].rule||{"rule": {"text": "<b>"}}|
rows[0].verified.calls||{"verified": {"calls": -1, "bias": -1}}|
ranks|||, "ranks": "two"
wall_seconds|||, "wall_seconds": "x"
totals.bytes_wire|"bytes_wire": "abc"||
totals.seconds|"seconds": -5e6||
moved|||, "moved": 1
passed_through.op|||, "passed_through": {"op": "many"}
not_compressed.MPI_Bcast.calls|||, "not_compressed": {"MPI_Bcast": {"calls": -7}}
observed.exchange[0].seconds|||, "observed": {"exchange": [{"seconds": -1}]}
observed.kinds[0].bytes|||, "observed": {"kinds": [{"bytes": "x"}]}
ROWS

printf '{"compshim": "0.1.0", "totals": {}, "rows": [], "learned": ["mpi 4/4 \\u001b[2J = raw"]}\n' >"$scratch/learned.json"
expect "choices with control characters" 0 "$tool" report --learned "$scratch/learned.json"
check "are printed without them" test "$(grep -c $'\033' <<<"$output")" = 0
expect "two forms at once" 2 "$tool" report --csv --html report_fp16.json
contains "are refused" "--csv, --html, --json, --learned and --markdown exclude each other"
first_line() { limited "$tool" report --html /dev/stdout report_off.json | head -n 1; }
check "a page on standard output, which is a pipe" test "$(first_line)" = '<!DOCTYPE html>'
check "a page that cannot be written is an error" \
    sh -c '"$1" report --html report_fp16.json >/dev/full 2>/dev/null; [ $? = 3 ]' sh "$tool"
expect "no file" 2 "$tool" report
expect "a missing file" 3 "$tool" report "$scratch/missing.json"
contains "is named" "missing.json: No such file or directory"
printf '{"compshim": "0.1.0",\n oops}\n' >"$scratch/broken.json"
expect "broken JSON" 1 "$tool" report "$scratch/broken.json"
contains "is told with its line" "broken.json:2: not JSON"
echo '{"compshim": "0.1.0", "totals": {}}' >"$scratch/other.json"
expect "other JSON" 1 "$tool" report "$scratch/other.json"
contains "is shown what it lacks" "it has no 'rows'"
finish
