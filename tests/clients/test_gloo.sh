#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch's DistributedDataParallel over gloo, started by mpirun: gloo is not MPI, so there is nothing to
# catch; compshim check must say so, and the preload must change nothing.
. "$(dirname "$0")/lib.sh"
needs python3-torch python3-numpy
digits
trainer=("$python" "$top/examples/python/mnist_ddp.py" --data "$folder" --limit 6400)
module=$("$python" -c 'import torch; print(torch._C.__file__)')

checked "PyTorch" 1 "not caught (no_call)" "$module"
contains "why is said" "PyTorch DDP over gloo is not MPI"
port=$((20000 + RANDOM % 10000))
ran "without the shim" without mpi 2 MASTER_PORT=$port "${trainer[@]}"
ran "with it" with shimmed 2 MASTER_PORT=$((port + 1)) COMPSHIM_REPORT="$scratch/report.json" "${trainer[@]}"
same "the same accuracy" without with
check "no word of the shim" test -z "$(grep compshim with.errors)"
facts report.json
is "nothing is caught" "$caught" no
mpi_library="none: gloo"
row "PyTorch DDP MNIST trainer, 2 ranks" "extension module" Python
finish
