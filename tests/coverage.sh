#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests in a build with counters (make coverage). Prints the coverage of lines and branches for the folders of C
# and C++ code that programs load (not tools, kernels and examples), with the required coverage of lines where there is
# one, and each file's lines that did not run. All tests together have to reach the required coverage.
#   tests/coverage.sh [WORD...]     only the tests whose name contains one of the words (tests/run.sh)
# $BUILD/coverage has a page for each file. A killed process counts nothing. Tests with a line "# Not for coverage:
# REASON" are skipped. Only the MPI engine under test counts
# (obj/shim): the others (obj/mpich/shim, obj/abi/shim) have the same sources and do not run, and gcovr cannot merge
# functions whose lines differ between them.
set -u
cd "$(dirname "$0")/.." || exit 3
folders=(shim/core codecs policy shim/report shim/front shim/host shim/mpi shim/gloo shim/nccl)
find "$BUILD" -name '*.gcda' -delete
COVERAGE=1 tests/run.sh "$@" || status=1
mkdir -p "$BUILD/coverage"
gcovr --root . --object-directory "$BUILD" "${folders[@]/#/--filter=}" --exclude-unreachable-branches \
    --exclude-throw-branches --gcov-ignore-parse-errors \
    --exclude-directories '.*/obj/[^/]+/shim(/|$)' --json-summary "$BUILD/coverage/summary.json" \
    --html-details "$BUILD/coverage/index.html" --txt "$BUILD/coverage/files.txt" "$BUILD" || exit
cat "$BUILD/coverage/files.txt"
python3 - "$BUILD/coverage/summary.json" "$#" "${folders[@]}" <<'P' || status=1
import json, sys
files = json.load(open(sys.argv[1]))["files"]
wanted = {"shim/core": 95, "codecs": 95, "policy": 95, "shim/mpi": 90, "shim/gloo": 90, "shim/nccl": 90}
below = []
for folder in sys.argv[3:]:
    of = [file for file in files if file["filename"].startswith(folder + "/")]
    part = lambda what: 100 * sum(f[what + "_covered"] for f in of) / (sum(f[what + "_total"] for f in of) or 1)
    want = f", wanted {wanted[folder]}" if folder in wanted else ""
    print(f"{folder:12} lines {part('line'):5.1f} %{want}; branches {part('branch'):5.1f} %")
    if part("line") < wanted.get(folder, 0):
        below.append(folder)
if below and sys.argv[2] == "0":
    sys.exit("below what is wanted: " + ", ".join(below))
P
exit "${status:-0}"
