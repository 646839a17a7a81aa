#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks `worth = measured`: the job tries native and compressed calls, all ranks choose alike, and the report has the
# times of both. No check depends on which is faster.
. "$(dirname "$0")/../lib.sh"
unset COMPSHIM_MACHINE
cd "$scratch" || exit 1
tests=$build/tests
export COMPSHIM_POLICY=$scratch/policy.ini COMPSHIM_REPORT=$scratch/report.json
measured() { printf '[rule all]\ncodec = %s\nworth = measured\n' "$1" >policy.ini; }

# Each candidate, native among them, makes three calls, and at least four more unless it is clearly slower; then the
# class is settled.
measured fp8_e4m3
expect "400 calls of one class" 0 mpi 3 LD_PRELOAD="$preload" "$tests/mpi_repeated_sum" 400 20000
reports "are all compared with native ones" \
    '{r["compared_calls"] - r["calls"] for r in rows} == {0} and sum(r["calls"] for r in rows) + passed["no_gain"] == 400'
reports "which are all counted" '3 <= sum(r["native_calls"] for r in rows) == passed["no_gain"]'
reports "the rows say what both took" \
    'all(r["seconds_compared"] > 0 and r["seconds_native_estimate"] >= 0 for r in rows if r["compared_calls"]) and sum(r["seconds_native"] for r in rows) > 0'
contains "the table's last line is the answer" "compshim: saved "
reports "and how much faster, with the spread" \
    'all(r["speedup_low"] <= r["speedup"] <= r["speedup_high"] for r in rows if "speedup" in r)'
reports "the totals are their sums" \
    'abs(sum(r.get("seconds_saved", 0) for r in rows) - report["totals"]["seconds_saved"]) < 1e-5 and report["totals"]["compared_calls"] == sum(r["calls"] for r in rows)'
expect "COMPSHIM_LOG=debug" 0 mpi 3 LD_PRELOAD="$preload" COMPSHIM_LOG=debug "$tests/mpi_repeated_sum" 400 20000
check "shows what the choice was measured by" grep -Eq \
    "compshim: all-reduces from [0-9]+ bytes under rule all: native.* us, fp8_e4m3 two_shot.* us" <<<"$output"
check "and the choice" grep -q "(chosen)" <<<"$output"
expect "compshim report" 0 "$build/compshim" report report.json
contains "shows what was saved" "saved of native time "
contains "and by row" "What compressing saved"

# Makes few calls per class, because sizes and communicators change. Uses three ranks, because from four on grid is a
# candidate, which rounds once more than the program's bound allows.
measured fp16
expect "sums of many sizes and communicators" 0 mpi 3 LD_PRELOAD="$preload" "$tests/mpi_allreduce" fp16 2
reports "are compressed" 'sum(r["calls"] for r in rows) > 10'
if compresses_nonblocking "$tests/mpi_iallreduce"; then
    expect "18 blocking calls beside 280 others" 0 mpi 2 LD_PRELOAD="$preload" "$tests/mpi_iallreduce"
    reports "nonblocking calls are not measured" \
        'sum(r["calls"] for r in rows if (r["codec"], r["algorithm"]) == ("fp16", "one_shot")) >= 280 and not any("compared_calls" in r for r in rows)'
fi
expect "calls of several threads" 0 mpi 2 LD_PRELOAD="$preload" "$tests/mpi_threads"

# The first call of a class uses the choice that applies without measurements.
expect "a single call" 0 mpi 3 LD_PRELOAD="$preload" "$tests/mpi_repeated_sum" 1 20000
reports "is compressed, and nothing is said of native ones" \
    'rows[0]["calls"] == 1 and "no_gain" not in passed and "native_calls" not in rows[0]'
printf '[rule all]\ncodec = fp16\nalgorithm = two_shot\nworth = measured\n' >policy.ini
expect "a named algorithm" 0 mpi 4 LD_PRELOAD="$preload" "$tests/mpi_repeated_sum" 100 20000
reports "is the only one that is tried" '{r["algorithm"] for r in rows} == {"two_shot"} and passed["no_gain"] >= 3'
printf '[rule all]\ncodec = fp16\nworth = always\n' >policy.ini
expect "worth = always" 0 mpi 4 LD_PRELOAD="$preload" "$tests/mpi_repeated_sum" 100 20000
reports "tries nothing" 'rows[0]["calls"] == 100 and "native_calls" not in rows[0]'
finish
