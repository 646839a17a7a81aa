#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks a program whose locale has a decimal comma: policies are read and files written with decimal points, and the
# program keeps its own format.
. "$(dirname "$0")/../lib.sh"
cat >"$scratch/comma" <<'L'
LC_NUMERIC
decimal_point ","
thousands_sep ""
grouping -1
END LC_NUMERIC
L
make_locale() {
    localedef -c -i "$scratch/comma" "$scratch/xx_XX" # localedef exits with 1 because it warns about missing categories
    test -e "$scratch/xx_XX/LC_NUMERIC"
}
check "a locale is made" make_locale
comma=(LOCPATH="$scratch" LC_ALL= LC_NUMERIC=xx_XX)
expect "there is such a locale" 0 mpi 2 "${comma[@]}" "$build/tests/mpi_locale"
contains "the program's number" "the sum is 1,5"

printf '[rule all]\ndtype = float32\ncodec = fp16\nmax_rel_error = 0.25\n' >"$scratch/policy.ini"
expect "with the shim" 0 shimmed 2 "${comma[@]}" COMPSHIM_POLICY="$scratch/policy.ini" \
    COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_TRACE="$scratch/trace.json" "$build/tests/mpi_locale"
contains "the program's number is as before" "the sum is 1,5"
check "report and trace are JSON" python3 - "$scratch" <<'P'
import json, sys
row, = json.load(open(sys.argv[1] + "/report.json"))["rows"]
assert row["calls"] == 1 and 0 < row["seconds"] < 60, row
events = json.load(open(sys.argv[1] + "/trace.json"))["traceEvents"]
assert any(event.get("dur", 0) > 0 for event in events), events
P
finish
