# shellcheck shell=bash
# Functions for the tests of the NCCL engine. Sources tests/lib.sh.
#
#   preloaded N [VARIABLE=VALUE...] PROGRAM... runs a job of N ranks with compshim, on the stand-ins,
#                                              with the policy $scratch/policy.ini; writes the report to
#                                              $scratch/report.json and the calls that NCCL got to
#                                              $scratch/RANK.calls
#   calls NAME PYTHON                          passes if the expression is true; `calls` is a list of
#                                              calls for each process, none of them empty
#   exact N CASE COMPRESSED [VARIABLE=VALUE...] passes if $program runs a case natively and preloaded, and
#                                              COMPRESSED of its calls are compressed
#   total PYTHON                               returns 0 if the expression is true; `rows` and `passed` (calls
#                                              passed through, by reason) are of all processes' reports
#
# $cuda is the folder of CUDA's toolkit.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
standin=$build/tests/standin_nccl
if [ ! -e "$standin/libnccl.so.2" ] || [ ! -e "$build/libcompshim-nccl.so" ]; then
    skip "built without CUDA's toolkit and nccl.h"
    finish
fi
cuda=${CUDA_HOME:-$(dirname "$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")}
case $cuda in /*) ;; *) cuda=$top/$cuda ;; esac
export LD_LIBRARY_PATH=$standin STANDIN_DEVICES=8
export COMPSHIM_POLICY=$scratch/policy.ini

preloaded() {
    local ranks=$1
    shift
    rm -f "$scratch"/*.calls "$scratch"/report*.json
    job "$ranks" LD_PRELOAD="$preload" COMPSHIM_REPORT="$scratch/report.json" \
        STANDIN_LOG="$scratch/{rank}.calls" "$@"
}
calls() {
    check "$1" python3 - "$scratch" "$2" <<'P'
import glob, json, sys
calls = [[json.loads(line) for line in open(name)] for name in sorted(glob.glob(sys.argv[1] + "/*.calls"))]
if not calls or not all(calls) or not eval(sys.argv[2]):
    sys.exit(f"not so: {sys.argv[2]}\n{calls}"[:3000])
P
}
exact() {
    expect "$2 natively" 0 job "$1" "${@:4}" "$program" "$2"
    expect "$2${*:4}" 0 preloaded "$1" "${@:4}" "$program" "$2"
    reports "$2: $3 calls were compressed" "sum(row['calls'] for row in rows) == $3"
}
total() {
    python3 - "$scratch" "$1" <<'P'
import collections, glob, json, sys
rows, passed = [], collections.Counter()
for name in glob.glob(sys.argv[1] + "/report*.json"):
    report = json.load(open(name))
    rows += report["rows"]
    passed.update(report["passed_through"])
print(rows, passed)
sys.exit(not eval(sys.argv[2]))
P
}
