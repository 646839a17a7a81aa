#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the answers of compshim explain for each type of call, and its errors.
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

check "a policy from a pipe is printed" cmp job.ini <("$tool" explain --policy <(cat job.ini))
explain "a large sum" --size 25MiB --ranks 4
printf '%s\n' "$output" >large.txt
# Replaces by N the numbers that depend on how segments are cut: the planner's tests check them.
output=$(sed -E '/^(segments|scratch|bytes on|  per rank, on|  between|ratio)/s/[0-9].*/N/' large.txt)
golden "a large sum's text" "$golden/explain_large.txt"
explain "a sum's operations" --size 120KiB --ranks 3 --nodes 2 --ops
printf '%s\n' "$output" | sed -n '/^operations/,$p' >operations.txt
output=$(<operations.txt)
golden "the list of operations" "$golden/explain_operations.txt"
expect "operations of many sizes" 2 "$tool" explain --sizes 1MiB,2MiB --ops
contains "says what goes with --ops" "--ops goes with --size"
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
explain "a sum of more bytes than JSON can count" --size 1073741824GiB --ranks 10 --json
check "has no negative number" python3 -c 'import json, sys
plan = json.loads(sys.argv[1])["plan"]
assert plan["bytes_native"] == 2**63 - 1 and plan["bytes_wire"] > 0, plan' "$output"
explain "two ranks" --size 25MiB --ranks 2
contains "two ranks gather" "one_shot"
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
contains "names the reason" "op: only sums are compressed"
explain "an odd size of unknown elements" --size 1000001 --dtype other
contains "names the reason" "dtype"
explain "nothing" --size 0
contains "names the reason" "empty"
expect "the default policy" 0 "$tool" explain --size 1MiB
contains "is named" "built-in default"
contains "compresses between nodes" "codec                    fp16"
expect "a rule with worth = foretold" 0 "$tool" explain --size 64KiB
contains "waits for the job's measurements" "compressed               once the job has measured that it gains (see worth)"
contains "and says what is tried then" "algorithm                two_shot"
expect "the default policy on one node" 0 "$tool" explain --size 16KiB --nodes 1
contains "compresses all-reduces" "codec                    raw"
expect "a reduce under it" 0 "$tool" explain --collective reduce --size 32MiB --nodes 1
contains "passes on up to 32 MiB" "too_small"
expect "a larger one" 0 "$tool" explain --collective reduce --size 33MiB --nodes 1
contains "compresses from there on" "codec                    fp16"
expect "the environment's policy" 0 env COMPSHIM_POLICY=job.ini "$tool" explain --size 1MiB
contains "is named" "large (job.ini:9)"

explain "a table of sizes" --sizes 16KiB-128KiB,25MiB
golden "a table's text" "$golden/explain_sizes.txt"
explain "the same as JSON" --sizes 16KiB-128KiB,25MiB --json
check "the JSON is the single answers" python3 - "$output" "$tool" <<'PY'
import json, subprocess, sys
answers = json.loads(sys.argv[1])
sizes = [answer["call"]["bytes"] for answer in answers]
assert sizes == [16384, 32768, 65536, 131072, 25 << 20], sizes
for answer in answers:
    size = str(answer["call"]["bytes"])
    single = subprocess.run([sys.argv[2], "explain", "--policy", "job.ini", "--size", size, "--json"],
                            stdout=subprocess.PIPE, check=True).stdout
    assert json.loads(single) == answer, answer
PY
for sizes in 64KiB-1KiB 0-4 many 4-x 1MiB,,2MiB ""; do
    expect "sizes '$sizes'" 2 "$tool" explain --sizes "$sizes"
done
expect "half an element in a list" 2 "$tool" explain --sizes 4,7
contains "is refused, by no other option's name" "compshim explain: 7 bytes are no whole number of float32"

# A dry run: the report of an observed job with two sizes, a class of sizes, and calls of an unknown type.
cat >run.json <<'JSON'
{"compshim": "0.1.0", "library": "Open MPI", "ranks": 4, "nodes": 4, "wall_seconds": 100.0,
 "policy": {"source": "p", "sha256": ""}, "totals": {"calls": 100}, "rows": [], "moved": [],
 "observed": {"kinds": [
  {"collective": "allreduce", "dtype": "float32", "op": "sum", "ranks": 4, "nodes": 4, "ranks_per_node": 1,
   "bytes": 16777216, "calls": 20, "bytes_total": 335544320, "seconds": 8.0, "seconds_wait": 1.0},
  {"collective": "allreduce", "dtype": "float32", "op": "sum", "ranks": 4, "nodes": 4, "ranks_per_node": 1,
   "bytes": 1048576, "bytes_below": 2097152, "calls": 10, "bytes_total": 15000010, "seconds": 0.5, "seconds_wait": 0},
  {"collective": "allreduce", "dtype": "float32", "op": "sum", "ranks": 4, "nodes": 4, "ranks_per_node": 1,
   "bytes": 4096, "calls": 50, "bytes_total": 204800, "seconds": 0.1, "seconds_wait": 0},
  {"collective": "allreduce", "dtype": "other", "op": "other", "ranks": 4, "nodes": 4, "ranks_per_node": 1,
   "bytes": 8, "calls": 20, "bytes_total": 160, "seconds": 0.01, "seconds_wait": 0}],
  "unlisted": {"calls": 0, "bytes_total": 0, "seconds": 0},
  "exchange": [{"codec": "fp8_e4m3", "algorithm": "two_shot", "bytes": 65536, "bytes_wire": 99840, "seconds": 0.001},
   {"codec": "fp8_e4m3", "algorithm": "two_shot", "bytes": 4194304, "bytes_wire": 6345216, "seconds": 0.0135}]},
 "passed_through": {}}
JSON
explain "a dry run" --report run.json
golden "a dry run's text" "$golden/explain_report.txt"
explain "a dry run as JSON" --report run.json --json
check "its bytes follow from the plans, its seconds are the recorded ones" python3 - "$output" <<'PY'
import json, sys
answer = json.loads(sys.argv[1])
large, mixed, small, other = answer["kinds"]
totals = answer["totals"]
assert small["answer"]["reason"] == "too_small" and other["answer"]["reason"] == "dtype", answer
assert [kind["seconds_before"] for kind in answer["kinds"]] == [9, 0.5, 0.1, 0.01], answer
assert mixed["answer"]["call"]["bytes"] == 1500000, mixed
samples = (16 + 0) * 3 * 128 * 8
wire = 20 * large["answer"]["plan"]["bytes_wire"] + 10 * mixed["answer"]["plan"]["bytes_wire"] + samples
assert abs(totals["bytes_wire"] - wire) < 1, (totals, wire)
assert totals["wall_before"] == 100 and totals["compressed_calls"] == 30, totals
assert large["limit"] is large["seconds_after"] is totals["wall_after"] is totals["limit"] is None, answer
PY
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = one_shot\n' >more.ini
expect "a dry run that sends more than a ring" 0 "$tool" explain --policy more.ini --report run.json
contains "says so" "sends 2.0 GiB: 2.0x more"
explain "a dry run on a link" --report run.json --link 10Gbit
golden "its text" "$golden/explain_report_link.txt"
explain "a dry run on a link, as JSON" --report run.json --link 10Gbit --json
check "has the link's limits" python3 - "$output" <<'PY'
import json, sys
answer = json.loads(sys.argv[1])
large, mixed, small, other = (kind["limit"] for kind in answer["kinds"])
bytes = answer["kinds"][0]["answer"]["plan"]["bytes_network"]
assert large["bytes_per_second"] == 1.25e9, large
assert abs(large["native"] - 20 * 1.5 * 16777216 / 1.25e9) < 1e-9, large
assert abs(large["policy"] - 20 * bytes / 4 / 1.25e9) < 1e-9, large
assert small["native"] == small["policy"] == 50 * 1.5 * 4096 / 1.25e9, small
for key in "native", "policy":
    assert abs(answer["totals"]["limit"][key] - sum(limit[key] for limit in (large, mixed, small, other))) < 1e-9
PY
sed 's/"nodes": 4, "ranks_per_node": 1/"nodes": 1, "ranks_per_node": 4/' run.json >one_node.json
explain "a link for a run on one node" --report one_node.json --link 1Gbit
contains "has nothing to do with it" "calls within one node cross none (--nodes N)"
for option in --library=mpi --collective=allreduce --dtype=float32 --op=sum --ranks=4; do
    expect "$option beside a report" 2 "$tool" explain --report run.json $option
    contains "is refused" "--report FILE says itself what was called: leave out "
done
printf '[rule all]\ncodec = none\n' >nothing.ini
expect "a dry run of nothing" 0 "$tool" explain --report run.json --policy nothing.ini
contains "says so" "nothing would be compressed"
expect "a report of a run that was not observed" 1 "$tool" explain --report "$golden/report_off.json"
contains "says how to observe one" "run the program with COMPSHIM=observe COMPSHIM_REPORT=FILE"
sed 's/"ranks_per_node": 1/"ranks_per_node": 7/' run.json >damaged.json
expect "a damaged report" 1 "$tool" explain --report damaged.json
contains "says where" "damaged.json: observed.kinds[0].nodes is not as compshim writes it"
sed 's/"bytes": 4096/"bytes": -1/' run.json >damaged.json
expect "a negative size" 1 "$tool" explain --report damaged.json
contains "says where" "observed.kinds[2].bytes"
sed 's/"ranks": 4, "nodes": 4/"ranks": 1073741824, "nodes": 4/' run.json >damaged.json
expect "more ranks than any job has" 1 "$tool" explain --report damaged.json
contains "are no others instead" "observed.kinds[0].ranks is not"
expect "a report that is not there" 3 "$tool" explain --report none.json
contains "is named" "none.json: No such file"
expect "a rate that is none" 2 "$tool" explain --report run.json --link fast
contains "is quoted" "'fast' is not a rate (such as 1Gbit, 200Mbit or 12.5GB)"
expect "two things at once" 2 "$tool" explain --size 4 --sizes 4
contains "is one too many" "take one of --size, --sizes and --report"
expect "an unknown collective" 2 "$tool" explain --size 4 --collective alreduce
contains "has a hint" "(did you mean 'allreduce'?)"

printf '[rule all]\ncodec = fp16\nmax_rel_error = 0.01\n[rule parameters]\ncollective = allgather\ncodec = bf16\n' >both.ini
explain "more ranks than the scratch has pieces for" --policy both.ini --size 1GiB --ranks 1000000
contains "is passed through, and why" "no_memory: no memory or tags for so many ranks or communicators"
explain "an average in MPI" --policy both.ini --size 1MiB --op avg
contains "is none" "op: only sums are compressed, and NCCL's averages"
explain "an option that NCCL has not" --policy both.ini --size 1MiB --library nccl
contains "passes calls on, and why" "option: an option or a codec that is not there for this library"
explain "the same in gloo" --policy both.ini --size 1MiB --library gloo
contains "is passed through, too" "option: an option or a codec that is not there for this library"
explain "an all-gather of NCCL" --policy both.ini --size 1MiB --library nccl --collective allgather
contains "has its rule" "parameters (both.ini:4)"
explain "an all-gather of MPI" --policy both.ini --size 1MiB --collective allgather
contains "has its rule, too" "parameters (both.ini:4)"
expect "a reduce of NCCL" 2 "$tool" explain --size 4 --collective reduce --library nccl
contains "is refused" "--collective: reduce is never compressed in nccl"
expect "a reduce_scatter of gloo" 2 "$tool" explain --size 4 --collective reduce_scatter --library gloo
contains "is refused" "--collective: reduce_scatter is never compressed in gloo"
sed 's/Open MPI/NCCL 2.21.5/; s/"op": "sum"/"op": "avg"/' run.json >nccl.json
explain "a dry run of NCCL" --report nccl.json --policy both.ini
contains "is planned for NCCL" "native (option)"
sed -i '/max_rel_error/d' both.ini
sed -i 's/"nodes": [0-9]*, "ranks_per_node": [0-9]*/"nodes": 0, "ranks_per_node": 0/' nccl.json
explain "a dry run of NCCL, which may record no nodes" --report nccl.json --policy both.ini
explain "a dry run of NCCL's averages" --report nccl.json --policy both.ini
contains "compresses them" "16.0 MiB float32 avg"
contains "as the rule says" "fp16, two_shot"
sed '/^codec/s/$/\nverify = 2/' both.ini >verify.ini
unverified=${output//both.ini/verify.ini}
explain "a dry run of NCCL with verify" --report nccl.json --policy verify.ini
check "has no more bytes: NCCL verifies nothing" test "$output" = "$unverified"
sed 's/Open MPI/gloo of libgloo.so.0/' run.json >gloo.json
explain "a dry run of gloo" --report gloo.json --policy both.ini
contains "is planned for gloo" "fp16, two_shot"

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
expect "a type by another name" 2 "$tool" explain --size 4 --dtype double
contains "is answered by all types" "unknown --dtype 'double' (known: float32, "
expect "a library by another name" 2 "$tool" explain --size 4 --library pytorch
contains "is answered by all libraries" "unknown --library 'pytorch' (known: mpi, nccl, gloo)"
expect "an unknown library" 2 "$tool" explain --size 4 --library ncl
contains "has a hint" "(did you mean 'nccl'?)"
expect "a word too many" 2 "$tool" explain --size 4 more
printf '[rule large]\ndtype = float32\ncodc = fp8_e4m3\n' >bad.ini
expect "a bad policy" 1 "$tool" explain --size 4 --policy bad.ini
contains "names file, line and hint" "bad.ini:3: unknown key 'codc' (did you mean 'codec'?)"
expect "a missing policy" 1 "$tool" explain --size 4 --policy none.ini
contains "is named" "none.ini"

# limit COLLECTIVE CODEC RANKS NODES LIBRARY NATIVE COMPRESSED: checks the link's least times of a call of 8 MiB at
# 8 Gbit/s, in milliseconds: the multiple of the buffer that the busiest node sends or receives, times 8.39 ms.
limit() {
    printf '[rule a]\ncollective = %s\ncodec = %s\n' "$1" "$2" >limit.ini
    expect "a $1 of $3 ranks on $4 nodes by $5" 0 "$tool" explain --policy limit.ini --collective "$1" --size 8MiB \
        --ranks "$3" --nodes "$4" --library "$5" --link 8Gbit
    output=$(awk '/at least/ { print $(NF - 1), $NF }' <<<"$output" | paste -sd ' ')
    contains "needs as much of the link" "$6 ms $7 ms"
}
limit allreduce raw 4 4 mpi 12.6 12.6
limit allreduce fp16 8 2 mpi 8.4 4.2
limit reduce raw 8 4 mpi 8.4 12.6
limit reduce_scatter raw 4 4 mpi 6.3 6.3
limit allgather raw 4 4 mpi 6.3 6.3
limit alltoall raw 8 2 mpi 16.8 16.8
limit broadcast raw 4 4 mpi 8.4 12.6
limit broadcast fp16 8 4 nccl 8.4 4.2
explain "a table with a link" --sizes 64KiB,16MiB --link 1Gbit
contains "has the limits" "link natively     link"
contains "and says what they are" "link at 1Gbit: a limit of the link, no prediction"
for rate in 1Gb/s 1gbps 1000Mb 0.125GB/s; do
    explain "a link of $rate" --size 16MiB --link $rate
    contains "is one of 1 Gbit/s" "natively, at least     201 ms"
done
explain "a call within a node" --size 16MiB --nodes 1 --link 1Gbit
contains "crosses no link" "1Gbit for each node: calls within one node cross none"
cat >choices <<'CHOICES'
mpi 4/4 float32 fp8_e4m3 16777216 large = two_shot raw  ; 0.56 ms, natively 4.14 ms
mpi 4/4 float32 fp8_e4m3 8388608 large = native
CHOICES
explain "a machine's choices" --size 16MiB --machine choices
contains "say how such calls are made" "learned                  raw by two_shot (by --machine"
explain "a machine's choices" --size 16MiB --machine choices --json
check "are in the JSON, too" python3 -c 'import json, sys
assert json.loads(sys.argv[1])["learned"] == {"native": False, "algorithm": "two_shot", "codec": "raw"}' "$output"
explain "a machine's choices" --size 8MiB --machine choices
contains "say that they are native" "learned                  native"
explain "a machine's choices" --size 4MiB --machine choices
check "say nothing of other calls" test -z "$(grep learned <<<"$output")"
echo nonsense >wrong
expect "a file that holds no choices" 1 "$tool" explain --size 1MiB --machine wrong
contains "is told with its line" "compshim: --machine: wrong:1: "
expect "a machine that is not there" 1 "$tool" explain --size 1MiB --machine nofile
contains "is told by its option" "compshim: --machine: nofile: cannot read the choices that COMPSHIM_MACHINE names: No such file or directory"
expect "a machine that is a folder" 1 "$tool" explain --size 1MiB --machine .
contains "is told so" ": Is a directory"
# A report recorded on one machine, evaluated for two.
sed 's/"nodes": 4, "ranks_per_node": 1/"nodes": 1, "ranks_per_node": 4/; s/"nodes": 4/"nodes": 1/' run.json >laptop.json
explain "a laptop's run on two nodes" --report laptop.json --nodes 2 --link 1Gbit --json
check "has the limits of two links" python3 - "$output" <<'PY'
import json, sys
large = json.loads(sys.argv[1])["kinds"][0]
assert large["answer"]["call"]["nodes"] == 2 and large["seconds_before"] == 9, large
assert abs(large["limit"]["native"] - 20 * 16777216 / 125e6) < 1e-9, large
PY
explain "as text" --report laptop.json --nodes 2
contains "says where" "laptop.json on 2 nodes under policy job.ini"
contains "and how to ask for a limit" "each job measures it; --link RATE gives a link's limit"
expect "bfloat16 in MPI" 2 "$tool" explain --size 1MiB --dtype bfloat16
contains "is promised by nobody" "MPI has no bfloat16"
expect "a call that a larger one would be compressed for" 0 "$tool" explain --policy job.ini --size 16KiB
contains "names the size" "compressed from"

# Built-in policies, and printing the text of any policy.
expect "a built-in policy" 0 "$tool" explain --policy @fp8 --size 25MiB
contains "is named so" "policy                   @fp8"
contains "with the line of its rule" "(@fp8:"
expect "a policy's text" 0 "$tool" explain --policy job.ini
check "is the file" test "$output" = "$(cat job.ini)"
expect "its text as JSON" 0 "$tool" explain --policy ./job.ini --json
check "is the file, too" python3 -c 'import json, sys; d = json.loads(sys.argv[1])
sys.exit(d != {"policy": "./job.ini", "text": open("job.ini").read()})' "$output"
expect "an option of a call without a size" 2 "$tool" explain --policy @fp8 --ranks 4
contains "is no wish for the text" "--size is missing"
expect "an unknown name" 1 "$tool" explain --policy @exatc
contains "lists the names" "did you mean '@exact'? known: @default, @exact, @fp8, @small); a file of such a name is ./@exatc"
cp job.ini @exact
expect "a file of a built-in policy's name" 0 "$tool" explain --policy ./@exact
check "is reached by its folder" test "$output" = "$(cat job.ini)"
finish
