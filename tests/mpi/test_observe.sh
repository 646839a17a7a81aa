#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks COMPSHIM=observe: calls on intracommunicators are recorded, the results are native, and the bytes that
# `explain` predicts for a policy are within 1 % of those that a job under this policy sends.
. "$(dirname "$0")/../lib.sh"
# All ranks are on this host. Open MPI 5 also tries its networks, and prints warnings if they are unusable.
export OMPI_MCA_btl=self,vader
program=$build/tests/mpi_one_of_each tool=$build/compshim
cd "$scratch" || exit 3
cat >policy.ini <<'P'
[rule small]
max_size = 64KiB
codec = none
[rule medium]
max_size = 1MiB
codec = fp16
dtype = float32
[rule large]
codec = fp8_e4m3
dtype = float32
P

# At its end the job times one codec after another, and begins no further one after two seconds. On a busy machine it
# might not reach the last codecs, so the test slows the job's clock down.
native=$(mpi 4 "$program" 2>&1)
expect "an observed job" 0 mpi 4 LD_PRELOAD="$build/tests/standin_clock.so:$preload" STANDIN_CLOCK_RATE=0.001 \
    COMPSHIM=observe COMPSHIM_REPORT=observed.json "$program"
check "does what it does natively" test "$(grep -v '^compshim' <<<"$output")" = "$native"
contains "says that nothing was compressed" "COMPSHIM=observe: nothing was compressed"
contains "shows the largest kinds" "2 allreduce       3.8 MiB  float32  sum   4 on 1"
check "the report has every call" python3 - $(codecs) <<'PY'
import json, sys
report = json.load(open("observed.json"))
kinds = report["observed"]["kinds"]
found = {(k["dtype"], k["op"], k["ranks"], k["bytes"]): k["calls"] for k in kinds}
want = {("float32", "sum", 4, 4000000): 2, ("float32", "sum", 4, 400000): 3,
        ("float32", "sum", 4, 400): 1, ("float32", "sum", 4, 0): 1, ("float32", "sum", 1, 400000): 4,
        ("other", "sum", 4, 4): 2, ("float64", "sum", 4, 24): 1, ("float32", "other", 4, 8): 2,
        ("other", "other", 1, 0): 4}
assert found == want, found
assert all(k["bytes_total"] == k["calls"] * k["bytes"] and k["seconds"] >= 0 and k["seconds_wait"] >= 0
           for k in kinds), kinds
assert [k["bytes_total"] for k in kinds] == sorted((k["bytes_total"] for k in kinds), reverse=True)
assert report["totals"]["compressed_calls"] == 0 and report["rows"] == [], report
assert report["passed_through"]["disabled"] == 5, report["passed_through"]
assert report["passed_through"]["intercomm"] == 2, report["passed_through"]
exchange = report["observed"]["exchange"]
codecs = sys.argv[1:]
assert {p["codec"] for p in exchange} == set(codecs), exchange
assert all(p["seconds"] > 0 and p["bytes_wire"] > 0 for p in exchange), exchange
PY
expect "an observed job on two nodes of two ranks" 0 shimmed_on 0,0,1,1 \
    COMPSHIM=observe COMPSHIM_REPORT=nodes.json "$program"
check "its exchange is measured by hierarchical" grep -q '"algorithm": "hierarchical"' nodes.json
for codec in fp8_e4m3 bf16; do
    sed -i "s/^codec = fp8.*/codec = $codec/" policy.ini
    expect "a dry run with $codec" 0 "$tool" explain --report observed.json --policy policy.ini --json
    printf '%s\n' "$output" >foretold.json
    expect "the job with $codec" 0 shimmed 4 COMPSHIM_REPORT=real.json "$program"
    check "bytes on the wire are within 1 % of those foretold" python3 - <<'PY'
import json
foretold = json.load(open("foretold.json"))["totals"]
real = json.load(open("real.json"))["totals"]
assert foretold["compressed_calls"] == real["compressed_calls"] == 5, (foretold, real)
assert foretold["bytes_native"] == real["bytes_native"], (foretold, real)
assert abs(foretold["bytes_wire"] / real["bytes_wire"] - 1) < 0.01, (foretold, real)
PY
done

expect "one rank alone" 0 shimmed 1 COMPSHIM=observe COMPSHIM_REPORT=one.json "$program"
expect "can be explained, too" 0 "$tool" explain --report one.json --policy policy.ini
contains "nothing would be compressed" "nothing would be compressed"
expect "rank 0 decides" 0 differing \
    1 COMPSHIM=observe LD_PRELOAD="$preload" "$program" : 2 LD_PRELOAD="$preload" "$program"
contains "all observe" "COMPSHIM=observe: nothing was compressed"
for off in OFF no False 0; do
    expect "COMPSHIM=$off" 0 shimmed 2 COMPSHIM=$off COMPSHIM_REPORT=off.json "$program"
    check "is off" test ! -e off.json
done
finish
