#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests in a build that counts (make coverage) and prints for each folder of the product which part of
# its lines and branches ran, with what is wanted of the lines, and each file's lines that did not.
#   tests/coverage.sh [WORD...]     only the tests whose name contains one of the words (tests/run.sh)
# $BUILD/coverage has a page for each file. A process that is killed counts nothing.
set -u
cd "$(dirname "$0")/.." || exit 3
folders=(shim/core codecs policy shim/report shim/front shim/host shim/mpi shim/gloo shim/nccl)
find "$BUILD" -name '*.gcda' -delete
tests/run.sh "$@" || status=1
mkdir -p "$BUILD/coverage"
gcovr --root . --object-directory "$BUILD" "${folders[@]/#/--filter=}" --exclude-unreachable-branches \
    --exclude-throw-branches --gcov-ignore-parse-errors --json-summary "$BUILD/coverage/summary.json" \
    --html-details "$BUILD/coverage/index.html" --txt "$BUILD/coverage/files.txt" "$BUILD" || exit
cat "$BUILD/coverage/files.txt"
python3 - "$BUILD/coverage/summary.json" "${folders[@]}" <<'P'
import json, sys
files = json.load(open(sys.argv[1]))["files"]
wanted = {"shim/core": 95, "codecs": 95, "policy": 95, "shim/mpi": 90, "shim/gloo": 90, "shim/nccl": 90}
for folder in sys.argv[2:]:
    of = [file for file in files if file["filename"].startswith(folder + "/")]
    part = lambda what: 100 * sum(f[what + "_covered"] for f in of) / (sum(f[what + "_total"] for f in of) or 1)
    want = f", wanted {wanted[folder]}" if folder in wanted else ""
    print(f"{folder:12} lines {part('line'):5.1f} %{want}; branches {part('branch'):5.1f} %")
P
exit "${status:-0}"
