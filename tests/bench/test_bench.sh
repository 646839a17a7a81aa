#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The benchmarks of one process run to their end and tell of every codec. How fast it was is not looked at. What
# is said of choices follows from the figures.
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

# At 16 KiB a job that is slow natively, too, passes a call on that fp16 would have made faster; at 64 KiB the
# policy's call is slower than natively.
cat >"$scratch/cells.json" <<'JSON'
{"network": "1gbit-4x1", "results": [
{"mode": "off", "bytes": 16384, "algorithm": "native", "seconds": 1e-4, "seconds_of_repeats": [1e-4]},
{"mode": "default", "bytes": 16384, "algorithm": "native", "seconds": 1.9e-4,
 "seconds_of_repeats": [1.01e-4, 1.9e-4, 2e-4], "native_seconds_of_repeats": [1e-4, 1.9e-4, 2e-4]},
{"mode": "fp16", "bytes": 16384, "algorithm": "two_shot", "seconds": 1.5e-4,
 "seconds_of_repeats": [1e-4, 1.5e-4, 2e-4], "native_seconds_of_repeats": [1.5e-4, 2.25e-4, 3e-4]},
{"mode": "off", "bytes": 65536, "algorithm": "native", "seconds": 1e-3, "seconds_of_repeats": [1e-3]},
{"mode": "default", "bytes": 65536, "algorithm": "two_shot", "seconds": 1.1e-3, "seconds_of_repeats": [1.1e-3]},
{"mode": "fp16", "bytes": 65536, "algorithm": "two_shot", "seconds": 1.1e-3, "seconds_of_repeats": [1.1e-3]}]}
JSON
expect "choices" 0 python3 "$top/tests/bench/summarize.py" choices "$scratch/cells.json"
contains "a gain that is missed, by pairs" "0.100   1.00x  fp16         1.50x  MISSED"
contains "a call that costs" "1.000   0.91x  fp16         0.91x  SLOWER MISSED"
contains "all cells" "2 cells: 1 slower than off, 2 miss the better choice"
finish
