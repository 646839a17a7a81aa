#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that codec_bench and lossless_bench complete, that codec_bench reports every codec but raw, bounded and topk,
# and that the summary of choices follows from given figures. Speed is not checked.
. "$(dirname "$0")/../lib.sh"
expect "codec_bench" 0 "$build/codec_bench" --size 1 --repeats 1 --json "$scratch/codecs.json"
for codec in fp32 fp16 bf16 fp8_e4m3 fp8_e5m2 int8 int6 int5 int4 int3 mxfp8 mxfp4 nvfp4 lossless; do
    contains "tells of $codec" "$codec "
done
check "writes the same as JSON" python3 -c 'import json, sys
told = json.load(open(sys.argv[1]))
works = [work for codec in told.values() if isinstance(codec, dict) for work in codec.values()]
sys.exit(len(works) != 70 or min(works) <= 0)' "$scratch/codecs.json"

# At least three of four elements of the file are zero, read as float32.
python3 -c 'import struct, sys
sys.stdout.buffer.write(struct.pack("<4000f", *(i % 7 * (i % 4 == 0) for i in range(4000))))' >"$scratch/floats"
for type in float32 float64 float16 bfloat16; do
    expect "lossless_bench $type" 0 "$build/lossless_bench" $type "$scratch/floats"
    contains "reads the whole file" "floats 16000 "
done
expect "lossless_bench of nothing" 3 "$build/lossless_bench" float32 "$scratch/none"
contains "names the file" "cannot read: $scratch/none"
expect "lossless_bench of an unknown type" 2 "$build/lossless_bench" float8 "$scratch/floats"

# The choice is slower than another candidate at 16 KiB, and slower than native at 64 KiB. At 4 KiB it is right, by
# the medians of two jobs.
cat >"$scratch/cells" <<'LINES'
1gbit-4x1 fp16 chosen 16384 9 1.5e-4 1e-4
1gbit-4x1 fp16 none/auto 16388 9 2e-4 1e-4
1gbit-4x1 fp16 fp16/two_shot 16392 9 1e-4 1e-4
1gbit-4x1 fp16 chosen 65536 9 1.1e-3 1e-3
1gbit-4x1 fp16 none/auto 65540 9 1e-3 1e-3
1gbit-4x1 fp16 fp16/two_shot 65544 9 2e-3 1e-3
1gbit-4x1 fp16 chosen 4096 9 5e-5 1e-3
1gbit-4x1 fp16 none/auto 4100 9 1e-4 1e-3
1gbit-4x1 fp16 chosen 4096 9 7e-5 1e-3
1gbit-4x1 fp16 none/auto 4100 9 1e-4 1e-3
1gbit-4x1 fp16 fp16/two_shot 4104 9 6e-5 1e-3
LINES
expect "choices" 0 python3 "$top/tests/bench/summarize.py" choices "$scratch/cells"
contains "a job that is as fast as the best" "4 KiB     0.100   1.67x  fp16/two_shot          1.67x"
contains "a candidate that is missed" "0.200   1.33x  fp16/two_shot          2.00x  MISSED"
contains "a call that costs" "1.000   0.91x  none/auto              1.00x  SLOWER"
contains "all cells" "3 cells: 1 slower than off, 1 below 90% of the best, 1 by more than 25%"
finish
