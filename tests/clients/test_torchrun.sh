#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch's own launcher, torchrun, behind compshim run. Over gloo there is nothing to catch, and the run
# says so. Workers that use mpi4py, each a job of its own, show that the library reaches every one.
. "$(dirname "$0")/lib.sh"
needs python3-torch python3-numpy python3-mpi4py
digits
# In Debian's PyTorch a word for no redirection is not understood (Python 3.11): redirect a worker that
# is not there.
torchrun=(timeout --kill-after=5 "$LIMIT" torchrun --rdzv_backend c10d --rdzv_endpoint localhost:0
    --nproc_per_node 2 --redirects 9:1 --tee 9:1)
trainer=("$top/examples/python/mnist_ddp.py" --data "$folder" --limit 6400)
run=("$build/compshim" run -v)
line="compshim: nothing was caught"

ran "the trainer without the shim" without "${torchrun[@]}" "${trainer[@]}"
ran "the trainer behind compshim run" with env COMPSHIM_REPORT="$scratch/report.json" \
    "${run[@]}" "${torchrun[@]}" "${trainer[@]}"
for output in without with; do grep accuracy $output >$output.accuracy; done
same "the same accuracy" without.accuracy with.accuracy
check "the run tells how the workers get it" grep -q "the workers of this node inherit" with.errors
check "and that nothing was caught" grep -q "^$line" with.errors
facts report.json
is "nothing is caught" "$caught" no
mpi_library="none: gloo"
row "PyTorch DDP MNIST trainer, 2 ranks" "extension module, run torchrun" Python

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
