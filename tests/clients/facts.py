# SPDX-License-Identifier: Apache-2.0
"""Prints figures of the JSON report in FILE, separated by tabs: calls, compressed calls, the compression ratio of the
compressed calls, and two table cells: the calls, and the rounded ratio, if it is above 1. facts.py FILE
"""
import json
import sys


with open(sys.argv[1]) as file:
    report = json.load(file)
totals = report["totals"]
native, wire = totals["bytes_native"], totals["bytes_wire"]
codecs = sorted({row["codec"] for row in report["rows"]})
passed = ", ".join(f"{count} {reason}" for reason, count in sorted(report["passed_through"].items()))
compressed = f"{totals['compressed_calls']} of {totals['calls']}"
if codecs:
    compressed += f" as {', '.join(codecs)}"
if passed:
    compressed += f"; {passed}"
saved = f"{native / wire:.2f}" if native > wire > 0 else "-"
print(totals["calls"], totals["compressed_calls"], native / wire if wire else 1, compressed, saved, sep="\t")
