#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs PyTorch's DistributedDataParallel over gloo, unmodified, with gradients in fp8: a quarter of the bytes, the
# same accuracy, and the same parameters on all ranks.
. "$(dirname "$0")/lib.sh"
pytorch
digits
printf '[rule all]\ncodec = fp8_e4m3\n' >fp8.ini
digits_trainer=("$top/examples/python/mnist_ddp.py" --data "$folder" --epochs 2 --lr 0.1)
characters_trainer=("$top/examples/python/chars_ddp.py" --steps 100)
seeds="1 2"

# workers RANKS PROGRAM...: runs without the shim; with_fp8 RANKS PROGRAM...: runs with it
workers() { "${torchrun[@]}" --nproc_per_node "$@"; }
with_fp8() {
    rm -f report.json
    LD_PRELOAD=$preload COMPSHIM_POLICY=fp8.ini COMPSHIM_REPORT=$scratch/report.json workers "$@"
}
# judge NAME RANKS OUTPUT: checks the run with fp8 that wrote report.json
judge() {
    facts report.json
    number_holds "$1: at least 3.9 times fewer bytes" "$ratio >= 3.9"
    number_holds "$1: a call of each step is compressed" "$compressed >= $4"
    is "$1: a digest of each rank's parameters" "$(grep -c ': parameters ' "$3")" "$2"
    is "$1: all ranks have the same" "$(sed -n 's/.*: parameters //p' "$3" | sort -u | wc -l)" 1
}
module=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__file__))')/lib/libtorch_cpu.so
checked "PyTorch" 0 "caught (interposed)" "$module"

for ranks in 2 4; do
    for seed in $seeds; do
        ran "$ranks ranks without the shim, seed $seed" "without.$seed" \
            workers "$ranks" "${digits_trainer[@]}" --seed "$seed"
        ran "$ranks ranks with fp8, seed $seed" "with.$seed" with_fp8 "$ranks" "${digits_trainer[@]}" --seed "$seed"
        judge "$ranks ranks, seed $seed" "$ranks" "with.$seed" 938
    done
    as_accurate "$ranks ranks" without with
    row "DDP MNIST, $ranks ranks" "opened RTLD_LOCAL"
done

last_loss() { sed -n 's/.* loss \(.*\) on the text that was kept/\1/p' "$1"; }
ran "the transformer without the shim" without workers 2 "${characters_trainer[@]}"
ran "the transformer with fp8" with with_fp8 2 "${characters_trainer[@]}"
judge "the transformer" 2 with 100
native=$(last_loss without) lossy=$(last_loss with)
number_holds "the transformer: it has learnt" "${native:-9} < 3"
number_holds "the transformer: at most 5 % more loss" "${lossy:-9} <= 1.05 * $native"
answers=$(printf "loss %.2f, %.2f" "$lossy" "$native")
row "DDP transformer, 2 ranks" "opened RTLD_LOCAL"
finish
