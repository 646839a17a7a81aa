#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The convergence study: trains the MNIST networks with the shim off and with several codecs, over several seeds, and
# reports how compression changes the accuracy.
#
#   study.sh [--seeds N] [--models conv,mlp] [--modes LIST] [--epochs N] [--images N] [--ranks N]
#            [--data DIR|generated] [--resume] [--results DIR] [--docs DIR]
#
# Modes: off, codecs (raw is the control: exact, but in another order of addition), and CODEC+feedback with error
# feedback. Every float32 sum of the trainer is a gradient and is compressed, whatever its size. Seeds: 3 for conv and
# 4 for mlp, which is cheaper; N is for both. All modes of a seed run before the next seed begins.
# examples/find_mnist.sh finds the real MNIST data.
#
# Results: DIR/study.jsonl gets a line for each run when it is done, DIR/study.json the statistics of all lines (DIR
# is tests/bench/results). In --docs (docs), the results in study.md are replaced, and with gnuplot study.svg is
# written. --resume keeps existing lines and runs only the missing ones, after an interruption or for more seeds.
# Otherwise the study starts over.
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cd "$top"
trap 'exit 130' INT TERM
models=conv,mlp seeds= epochs=3 images=60000 ranks=4 batch=128 rate=0.05
modes=off,raw,fp16,bf16,fp8_e4m3,fp8_e5m2,int8,int4,int4+feedback
directory= resume=false results=tests/bench/results docs=docs

usage() {
    sed -n '3,/^set -eu/p' tests/study/study.sh | sed '/^set -eu/d; s/^# \{0,1\}//' >&2
    exit 2
}
while [ $# -gt 0 ]; do
    if [ "$1" = --resume ]; then
        resume=true
        shift
        continue
    fi
    [ $# -ge 2 ] || usage
    case $1 in
    --seeds) seeds=$2 ;;
    --models) models=$2 ;;
    --modes) modes=$2 ;;
    --epochs) epochs=$2 ;;
    --images) images=$2 ;;
    --ranks) ranks=$2 ;;
    --data) directory=$2 ;;
    --results) results=$2 ;;
    --docs) docs=$2 ;;
    *) usage ;;
    esac
    shift 2
done
[ "$ranks" -ge 2 ] || usage # a single rank sends nothing
if [ -n "$directory" ]; then
    data=(--data "$directory")
else
    . examples/find_mnist.sh
fi
settings=(data="$(basename "${data[1]}")" images="$images" epochs="$epochs" batch="$batch"
    learning_rate="$rate" ranks="$ranks")
revision=$(git describe --always --dirty 2>/dev/null || echo unknown)
mkdir -p "$results" "$docs"
runs=$results/study.jsonl
$resume || : >"$runs"

# plan: prints the runs of the study in order, "SEED MODEL MODE" each
plan() {
    local seed model mode last
    for seed in $(seq "${seeds:-4}"); do
        for model in ${models//,/ }; do
            case $model in conv) last=${seeds:-3} ;; *) last=${seeds:-4} ;; esac
            [ "$seed" -le "$last" ] || continue
            for mode in ${modes//,/ }; do
                echo "$seed $model $mode"
            done
        done
    done
}

train() { # SEED MODEL MODE: saves the trainer's output and the shim's report in $scratch
    local variables=()
    rm -f "$scratch/report.json"
    if [ "$3" != off ]; then
        policy "$scratch/policy.ini" "${3%+feedback}"
        case $3 in *+feedback) echo 'error_feedback = on' >>"$scratch/policy.ini" ;; esac
        variables=("LD_PRELOAD=$preload" "COMPSHIM_POLICY=$scratch/policy.ini"
            "COMPSHIM_REPORT=$scratch/report.json")
    fi
    timeout --foreground --kill-after=5 3600 mpirun --oversubscribe -n "$ranks" \
        env "${variables[@]}" "$build/mnist_train" "${data[@]}" --model "$2" --epochs "$epochs" \
        --limit "$images" --batch "$batch" --lr "$rate" --seed "$1" --quiet \
        </dev/null >"$scratch/output" 2>&1
}

plan >"$scratch/plan"
python3 -B tests/study/runs.py missing "$runs" "${settings[@]}" <"$scratch/plan" >"$scratch/missing"
mapfile -t missing <"$scratch/missing"
for ((i = 0; i < ${#missing[@]}; i++)); do
    read -r seed model mode <<<"${missing[i]}"
    printf 'run %s of %s: seed %s, %s, %s: ' $((i + 1)) ${#missing[@]} "$seed" "$model" "$mode" >&2
    if ! train "$seed" "$model" "$mode" || ! python3 -B tests/study/runs.py record "$runs" "$seed" \
        "$model" "$mode" "$revision" "$scratch/output" "$scratch/report.json" "${settings[@]}" >&2; then
        cat "$scratch/output" >&2
        echo "study.sh: this run failed; --resume goes on here when the cause is gone" >&2
        exit 1
    fi
done

python3 -B tests/study/summarize.py "$runs" "$results/study.json" "$docs/study.md" "$scratch/study.dat"
if command -v gnuplot >/dev/null; then
    gnuplot -e "file='$scratch/study.dat'; picture='$docs/study.svg'" tests/study/study.gp
fi
