#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs Horovod's PyTorch trainer with its fused gradients in fp8: a quarter of the bytes, the same accuracy.
# Horovod is built once, into build/clients.
. "$(dirname "$0")/lib.sh"
needs python3-torch python3-numpy python3-cloudpickle python3-psutil python3-yaml python3-packaging \
    python3-cffi python3-setuptools python3-wheel python3-pip python3-dev libtorch-dev pybind11-dev cmake g++
digits
packages=$build/clients/horovod
bash "$clients/build_horovod.sh" "$packages" || not_here "Horovod does not build here"
export PYTHONPATH=$packages HOROVOD_LOG_LEVEL=error
trainer=("$python" "$top/examples/python/mnist_horovod.py" --data "$folder" --epochs 2)
# Horovod fuses the gradients that are ready: usually all of them, 85 KiB, sometimes fewer.
printf '[rule gradients]\ndtype = float32\nop = sum\nmin_size = 16KiB\ncodec = fp8_e4m3\nalgorithm = two_shot\n' \
    >fp8.ini

# Runs fuse and so round differently, and their accuracies differ by a tenth or two of a point. Therefore the means
# over two seeds are compared.
seeds="1 2"
checked "Horovod's extension" 0 "caught (interposed)" "$packages"/horovod/torch/mpi_lib_v2*.so

# judge NAME ACCESS RANKS: compares the runs in "with" and report.json with native ones
judge() {
    facts report.json
    number_holds "$1: at least 3.9 times fewer bytes" "$ratio >= 3.9"
    number_holds "$1: a call of most steps is compressed" "$compressed > 469"
    as_accurate "$1" "without$3" with
    row "Horovod, $3 ranks" "$2"
    rm -f report.json
}
for ranks in 2 4; do
    for seed in $seeds; do
        ran "$ranks ranks without the shim, seed $seed" "without$ranks.$seed" \
            mpi "$ranks" "${trainer[@]}" --seed "$seed"
        ran "$ranks ranks with fp8, seed $seed" "with.$seed" shimmed "$ranks" COMPSHIM_POLICY=fp8.ini \
            COMPSHIM_REPORT="$scratch/report.json" "${trainer[@]}" --seed "$seed"
    done
    judge "$ranks ranks" "extension module, thread" "$ranks"
done

# Runs under Horovod's own launcher, which starts the ranks by mpirun.
for seed in $seeds; do
    ran "2 ranks by horovodrun behind compshim run, seed $seed" "with.$seed" \
        env COMPSHIM_REPORT="$scratch/report.json" timeout --kill-after=5 "$LIMIT" \
        "$build/compshim" run -v --policy fp8.ini -- \
        "$packages/bin/horovodrun" --mpi -np 2 "${trainer[@]}" --seed "$seed"
done
check "the run says how the ranks get it" grep -q "horovodrun: it passes its environment to all ranks" with.1.errors
check "and has nothing to complain of" test -z "$(grep "nothing was caught" with.*.errors)"
judge "horovodrun" horovodrun 2
finish
