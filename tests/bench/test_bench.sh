#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The benchmarks of one process run to their end and tell of every codec. How fast it was is not looked at.
. "$(dirname "$0")/../lib.sh"
expect "codec_bench" 0 "$build/codec_bench" --size 1 --repeats 1 --json "$scratch/codecs.json"
for codec in fp32 fp16 bf16 fp8_e4m3 fp8_e5m2 int8 int6 int5 int4 int3 lossless; do
    contains "tells of $codec" "$codec "
done
check "writes the same as JSON" python3 -c 'import json, sys
told = json.load(open(sys.argv[1]))
works = [work for codec in told.values() if isinstance(codec, dict) for work in codec.values()]
sys.exit(len(works) != 55 or min(works) <= 0)' "$scratch/codecs.json"

# 3 of 4 elements are zero.
python3 -c 'import struct, sys
sys.stdout.buffer.write(struct.pack("<4000f", *(i % 7 * (i % 4 == 0) for i in range(4000))))' >"$scratch/floats"
for type in float32 float64 float16 bfloat16; do
    expect "lossless_bench $type" 0 "$build/lossless_bench" $type "$scratch/floats"
    contains "reads the whole file" "floats 16000 "
done
expect "lossless_bench of nothing" 3 "$build/lossless_bench" float32 "$scratch/none"
contains "names the file" "cannot read: $scratch/none"
expect "lossless_bench of an unknown type" 2 "$build/lossless_bench" float8 "$scratch/floats"
finish
