#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the number of bytes on the wire, as the stand-in and the report count them.
. "$(dirname "$0")/lib.sh"

# wire RANKS CODEC BYTES: checks the bytes that nccl_allreduce sends. Only its call of 400009 floats is compressed,
# by two_shot. BYTES is a Python expression for the encoded size of N elements, without headers.
wire() {
    printf '[rule all]\ndtype = float32\nmin_size = 1000000\ncodec = %s\nalgorithm = two_shot\n' "$2" \
        >"$scratch/policy.ini"
    expect "$2, $1 ranks" 0 preloaded "$1" "$build/tests/nccl_allreduce" "$2" 2
    check "$2, $1 ranks: bytes" python3 - "$scratch" "$1" "$2" "$3" <<'P'
import glob, json, sys
folder, n, codec, N = sys.argv[1], int(sys.argv[2]), sys.argv[3], 400009
report = json.load(open(folder + "/report.json"))
ranks = [[json.loads(line) for line in open(name)] for name in glob.glob(folder + "/*.calls")]
assert len(ranks) == n
large = [c for rank in ranks for c in rank if c["dtype"] == "float32" and c["count"] * 4 >= 1000000]
assert not large, f"float32 on the wire: {large[0]}"
small = sum(c["dtype"] == "float32" and c["op"] == "sum" for c in ranks[0])
passed = report["passed_through"]
assert small == passed["too_small"] > 10, (small, passed)
sent = [sum(c["bytes_sent"] for c in rank if c["call"] == "ncclSend") for rank in ranks]
ideal = eval(sys.argv[4]) * 2 * (n - 1)  # bytes of all ranks, without headers and padding
messages = sum(c["call"] == "ncclSend" for rank in ranks for c in rank)
assert messages == 2 * n * (n - 1), messages
assert ideal <= sum(sent) <= ideal + 64 * messages + 256 * n, (sum(sent), ideal)
row, = report["rows"]
assert row["calls"] == 1 and row["bytes_in"] == 4 * N
samples = [sum(c["bytes_sent"] for c in rank if c["call"] == "ncclAllGather" and c["count"] == 520) for rank in ranks]
assert samples == [(n - 1) * 520] * n, samples
assert row["bytes_wire"] == sum(sent) + sum(samples), (row["bytes_wire"], sum(sent), samples)
assert row["bytes_native"] == 2 * (n - 1) * 4 * N, row["bytes_native"]
assert report["library"].startswith("NCCL 2."), report["library"]
assert report["ranks"] == n
P
}
for ranks in 2 4 8; do
    wire $ranks fp8_e4m3 'N * (1 + 1 / 128)'
done
wire 3 int4 'N * (0.5 + 2 / 32)'
wire 3 int6 'N * (0.75 + 2 / 64)'
wire 3 int5 'N * (0.625 + 2 / 32)'
wire 4 fp16 'N * (2 + 1 / 256)'
finish
