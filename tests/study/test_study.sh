#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the convergence study: its statistics on made-up runs with known results, and a small study on generated
# digits that is interrupted and resumed.
. "$(dirname "$0")/../lib.sh"
study=$top/tests/study
results=$scratch/results
mkdir "$results"

# run SEED MODE ACCURACY: prints a line as the study writes it
run() {
    printf '{"seed": %s, "model": "mlp", "mode": "%s", "accuracy": %s, "loss": 0.5, "revision": "r1", ' "$@"
    printf '"bytes_native": 4000, "bytes_wire": 1000, "settings": {"data": "d", "images": 9, '
    printf '"epochs": 1, "batch": 1, "learning_rate": 1, "ranks": 2}}\n'
}
# The seeds differ far more than the modes, so only pairs show the differences -0.1, 0.1 and 0.3 (mean 0.1, standard
# deviation 0.2), three times 0.2 (0.2, 0), and -0.3, -0.5, -0.4 (-0.4, 0.1).
{
    for seed in 1 2 3; do run "$seed" off "9$seed.50"; done
    run 1 int8 91.40 && run 2 int8 92.60 && run 3 int8 93.80
    for seed in 1 2 3; do run "$seed" fp16 "9$seed.70"; done
    run 1 int4+feedback 91.20 && run 2 int4+feedback 92.00 && run 3 int4+feedback 93.10
    run 1 bf16 91.50
} >"$scratch/runs"
printf 'before\n<!-- results: %s -->\nold\n<!-- end of the results -->\nafter\n' \
    "\`make study\` writes what follows" >"$scratch/study.md"
expect "statistics" 0 python3 -B "$study/summarize.py" "$scratch/runs" "$scratch/study.json" \
    "$scratch/study.md" "$scratch/study.dat"
contains "without the shim: mean and deviation" "| \`off\` | 3 | 92.50 ± 1.00 |"
contains "paired differences, their standard error, aim met" "| +0.100 ± 0.115 | ±0.1: met |"
contains "an aim missed upwards" "| +0.200 ± 0.000 | ±0.1: missed |"
contains "an aim missed downwards" "| −0.400 ± 0.058 | ±0.3: missed |"
contains "too few seeds" "| +0.000 | ±0.1: too few seeds |"
contains "bytes" "(4.00 ×)"
contains "how many" "1 of 3 aims are met."
contains "just missed" "−0.400 ± 0.058 points where ±0.3 was aimed at, by less than two"
contains "clearly missed" "+0.200 ± 0.000 points where ±0.1 was aimed at, clearly."
output=$(cat "$scratch/study.md")
contains "the text before stays" "before
<!-- results"
contains "the text after stays" "end of the results -->
after"
check "the old results are gone" eval '! grep -q old "$scratch/study.md"'
check "the JSON has them" python3 - "$scratch/study.json" <<'END'
import json, sys
rows = {row["mode"]: row for row in json.load(open(sys.argv[1]))["results"]}
assert abs(rows["int8"]["difference_error"] - 0.2 / 3**0.5) < 1e-9, rows["int8"]
assert rows["int4+feedback"]["verdict"] == "missed" and rows["bf16"]["difference_error"] is None
END

small() {
    BUILD=$build "$study/study.sh" --data generated --images 256 --epochs 1 --ranks 2 --models mlp \
        --modes off,int4,int4+feedback --results "$results" --docs "$results" "$@"
}
expect "a small study" 0 small --seeds 1
contains "says how far it is" "run 3 of 3: seed 1, mlp, int4+feedback: "
check "keeps its runs" eval '[ "$(grep -c accuracy "$results/study.jsonl")" = 3 ]'
check "without the shim nothing is counted" eval '! head -n 1 "$results/study.jsonl" | grep -q bytes_wire'
check "feedback makes a difference" eval '
    [ "$(grep -o "\"accuracy.*loss[^,]*" "$results/study.jsonl" | sed 1d | sort -u | wc -l)" = 2 ]'
cp "$results/study.jsonl" "$scratch/first"
sed -i 3d "$results/study.jsonl" # as if interrupted in its third run
expect "resumed" 0 small --seeds 1 --resume
contains "runs what is missing" "run 1 of 1: seed 1, mlp, int4+feedback: "
check "with the same result" cmp <(sed 's/"seconds[^,]*//' "$scratch/first") \
    <(sed 's/"seconds[^,]*//' "$results/study.jsonl")
expect "other settings are not mixed in" 1 small --seeds 1 --resume --images 128
contains "and it says why" "study.jsonl:1: this run was made with other settings"

# A run that the shim did not compress is not recorded.
printf 'final: test accuracy 97.00 %%  loss 0.1  train time 1.0 s\n' >"$scratch/output"
printf '{"totals": {"calls": 8, "compressed_calls": 6}, "rows": [{"codec": "int8"}], "passed_through": {"dtype": 2}}' \
    >"$scratch/report"
expect "calls that passed" 1 python3 -B "$study/runs.py" record "$scratch/new" 1 mlp int8 r1 "$scratch/output" \
    "$scratch/report" ranks=4
contains "are told" "6 of 8 calls were compressed"
sed -i 's/"calls": 8/"calls": 6/' "$scratch/report"
expect "another codec" 1 python3 -B "$study/runs.py" record "$scratch/new" 1 mlp fp16 r1 "$scratch/output" \
    "$scratch/report" ranks=4
contains "is told" "as int8"
check "nothing is recorded" [ ! -e "$scratch/new" ]
finish
