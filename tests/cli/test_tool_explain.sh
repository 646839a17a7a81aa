#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# compshim explain: answers for each kind of call, and what it refuses.
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
golden=$top/tests/cli/golden
cd "$scratch" || exit 1
cat >job.ini <<'INI'
[rule small]
max_size = 64KiB
codec    = none

[rule integers_and_all]
dtype = float64
codec = none

[rule large]
dtype = float32
op    = sum
ranks = 2-
codec = fp8_e4m3
INI
explain() {
    expect "$1" 0 "$tool" explain --policy job.ini "${@:2}"
}

explain "a large sum" --size 25MiB --ranks 4
printf '%s\n' "$output" >large.txt
# The planner's tests say how segments are cut; here N stands for what follows from that.
output=$(sed -E '/^(segments|scratch|bytes on|  per rank, on|  between|ratio)/s/[0-9].*/N/' large.txt)
golden "a large sum's text" "$golden/explain_large.txt"
explain "a large sum as JSON" --size 25MiB --ranks 4 --json
check "the JSON's numbers agree with the text" python3 - "$output" large.txt <<'PY'
import json, sys
plan = json.loads(sys.argv[1])["plan"]
text = open(sys.argv[2]).read()
assert plan["codec"] == "fp8_e4m3" and plan["algorithm"] == "two_shot", plan
assert plan["bytes_native"] == 2 * 3 * (25 << 20), plan
assert 3.9 < plan["ratio"] <= 4, plan
assert abs(plan["ratio"] - plan["bytes_native"] / plan["bytes_wire"]) < 1e-9, plan
for key in "bytes_native", "bytes_wire", "scratch_bytes", "segments", "segment_elements":
    assert str(plan[key]) in text, (key, plan[key])
PY
explain "two ranks" --size 25MiB --ranks 2
contains "two ranks gather" "allgather"
explain "two nodes of two ranks" --size 25MiB --ranks 4 --nodes 2 --json
check "share the work, and send half as much between them" python3 - "$output" <<'PY'
import json, sys
answer = json.loads(sys.argv[1])
plan = answer["plan"]
assert answer["call"]["nodes"] == 2 and plan["algorithm"] == "hierarchical", answer
encoded = (25 << 20) / 4 * (1 + 1 / 128)
assert encoded * 2 < plan["bytes_network"] < encoded * 2 * 1.01, plan
PY
expect "more nodes than ranks" 2 "$tool" explain --policy job.ini --size 1MiB --ranks 2 --nodes 3
contains "is refused" "2 ranks do not fill 3 nodes"
explain "a small sum" --size 64KiB
golden "a small sum's text" "$golden/explain_small.txt"
explain "a rule with codec none" --size 1MiB --dtype float64
contains "names the reason" "rule_none: the rule says codec = none"
explain "no rule" --size 1MiB --dtype float16
contains "names the reason" "no_rule: no rule of the policy matches"
explain "one rank" --size 1MiB --ranks 1
contains "names the reason" "single_rank"
explain "another operation" --size 1MiB --op other
contains "names the reason" "op: only sums and averages"
explain "an odd size of unknown elements" --size 1000001 --dtype other
contains "names the reason" "dtype"
explain "nothing" --size 0
contains "names the reason" "empty"
expect "the default policy" 0 "$tool" explain --size 1MiB
contains "is named" "built-in default"
contains "compresses between nodes" "codec                    fp16"
expect "the default policy on one node" 0 "$tool" explain --size 32MiB --nodes 1
contains "passes on up to 32 MiB" "too_small"
expect "the default policy on one node" 0 "$tool" explain --size 33MiB --nodes 1
contains "compresses from there on" "codec                    fp16"
expect "the environment's policy" 0 env COMPSHIM_POLICY=job.ini "$tool" explain --size 1MiB
contains "is named" "large (job.ini:9)"

expect "no size" 2 "$tool" explain
contains "is missed" "--size is missing"
expect "half an element" 2 "$tool" explain --size 10
contains "is refused" "10 bytes are no whole number of float32 (4 bytes)"
expect "no size at all" 2 "$tool" explain --size many
contains "is quoted" "'many' is not a size"
expect "an unknown type" 2 "$tool" explain --size 4 --dtype flota32
contains "has a hint" "(did you mean 'float32'?)"
expect "an unknown operation" 2 "$tool" explain --size 4 --op sun
contains "has a hint" "(did you mean 'sum'?)"
expect "an unknown library" 2 "$tool" explain --size 4 --library ncl
contains "has a hint" "(did you mean 'nccl'?)"
expect "a word too many" 2 "$tool" explain --size 4 more
printf '[rule large]\ndtype = float32\ncodc = fp8_e4m3\n' >bad.ini
expect "a bad policy" 1 "$tool" explain --size 4 --policy bad.ini
contains "names file, line and hint" "bad.ini:3: unknown key 'codc' (did you mean 'codec'?)"
expect "a missing policy" 1 "$tool" explain --size 4 --policy none.ini
contains "is named" "none.ini"
finish
