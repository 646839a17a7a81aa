# SPDX-License-Identifier: Apache-2.0
"""Prints, separated by tabs, what a JSON report of compshim says: calls, compressed calls, how many times
fewer bytes the compressed calls sent, and two cells of the table: what was compressed, and bytes saved."""
import json
import sys


def binary(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


with open(sys.argv[1]) as file:
    report = json.load(file)
totals = report["totals"]
native, wire = totals["bytes_native"], totals["bytes_wire"]
codecs = sorted({row["codec"] for row in report["rows"]})
passed = ", ".join(f"{count} {reason}" for reason, count in sorted(report["passed_through"].items()))
compressed = f"{totals['compressed_calls']} of {totals['calls']} calls"
if codecs:
    compressed += f": {', '.join(codecs)}"
if passed:
    compressed += f" (passed on: {passed})"
saved = "0"
if native > wire:
    saved = f"{binary(native - wire)} of {binary(native)} ({native / wire:.2f} times fewer)"
print(totals["calls"], totals["compressed_calls"], native / wire if wire else 1, compressed, saved, sep="\t")
