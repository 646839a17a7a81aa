#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks compshim run with PyTorch's launcher, torchrun: workers that train over gloo, workers that are restarted after
# one has died, and, with Debian's PyTorch, workers that use mpi4py, each of which is a job of its own.
. "$(dirname "$0")/lib.sh"
pytorch
[ -n "${TORCH-}" ] || needs python3-mpi4py
digits
torchrun+=(--nproc_per_node 2)
trainer=("$top/examples/python/mnist_ddp.py" --data "$folder" --limit 6400)
run=("$build/compshim" run -v)
line="compshim: nothing was caught"
printf '[rule all]\ncodec = fp8_e4m3\n' >fp8.ini

ran "the trainer behind compshim run" with env COMPSHIM_REPORT="$scratch/report.json" \
    "${run[@]}" --policy fp8.ini -- "${torchrun[@]}" "${trainer[@]}"
check "the run says how the workers get it" grep -q "the workers of this node inherit" with.errors
check "and has nothing to complain of" test -z "$(grep "^$line" with.errors)"
facts report.json
number_holds "a call of each step is compressed" "$compressed >= 50"
number_holds "at least 3.9 times fewer bytes" "$ratio >= 3.9"
is "all ranks have the same parameters" "$(sed -n 's/.*: parameters //p' with | sort -u | wc -l)" 1
answers=$(sed -n 's/.*test \(accuracy.*\)/\1/p' with)
row "DDP MNIST, 2 ranks" torchrun

restarts() { "$@" "${torchrun[@]}" --max_restarts 1 --monitor_interval 0.5 "$clients/gloo_shapes.py" restart; }
printf '[rule all]\ncodec = raw\n' >raw.ini
rm -f report.json
ran "a worker that dies once" without restarts
ran "a worker that dies once, behind compshim run" with restarts env COMPSHIM_REPORT="$scratch/report.json" \
    "${run[@]}" --policy raw.ini --
for output in without with; do grep '^rank .*: after restart 1' $output | sort >$output.told; done
is "both workers come to the end" "$(wc -l <without.told)" 2
same "with the same answers" without.told with.told
facts report.json
number_holds "the new workers' calls are compressed" "$compressed >= 2"

if [ -n "${TORCH-}" ]; then
    skip "workers with mpi4py, which is Debian's"
    finish
fi
cat >worker.py <<'P'
import os

import numpy
from mpi4py import MPI

ones = numpy.ones(1 << 18, "f")
total = numpy.empty_like(ones)
MPI.COMM_WORLD.Allreduce(ones, total)
print(f"worker {os.environ['RANK']}: {os.environ.get('LD_PRELOAD')}, {(total == 1).sum()} right", flush=True)
P
mkdir reports
ran "workers with mpi4py" workers env COMPSHIM_REPORT="$scratch/reports/{jobid}.json" \
    "${run[@]}" "${torchrun[@]}" worker.py
for worker in 0 1; do
    check "worker $worker has the library" grep -qx "worker $worker: $build/libcompshim.so, 262144 right" workers
done
reports=(reports/*.json)
is "each of them is caught" "${#reports[@]}" 2
for report in "${reports[@]}"; do
    facts "$report"
    is "and its call counted" "$calls" 1
done
check "the run has nothing to complain of" test -z "$(grep "^$line" workers.errors)"
finish
