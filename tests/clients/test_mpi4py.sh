#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the mpi4py trainer with gradients in fp8: a quarter of the bytes, the same accuracy. Debian's mpi4py is for
# Debian's Open MPI; for Debian's MPICH it is built once, into build/clients. The MPI in MPI_HOME, if any, is used
# through PyPI's wheel, which supports Open MPI, MPICH and Intel MPI.
. "$(dirname "$0")/lib.sh"
version=4.1.2 # version of the wheel
if [ -n "${MPI_HOME-}" ]; then
    needs python3-numpy python3-pip
    packages=$build/clients/mpi4py-$version
    [ -e "$packages/mpi4py" ] || "$python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --only-binary mpi4py --target "$packages" "mpi4py==$version" || not_here "no wheel of mpi4py $version"
    export PYTHONPATH=$packages
elif [ "$MPI" = openmpi ]; then
    needs python3-mpi4py python3-numpy
else
    needs python3-numpy python3-pip python3-setuptools python3-wheel python3-dev
    bash "$clients/build_mpi4py.sh" "$build/clients/mpi4py-$MPI" || not_here "mpi4py does not build here"
    export PYTHONPATH=$build/clients/mpi4py-$MPI
fi
digits
trainer=("$python" "$top/examples/python/mnist_mpi4py.py" --data "$folder" --epochs 3)
# Only the first layer's weights have 64 KiB or more.
printf '[rule gradients]\ndtype = float32\nop = sum\nmin_size = 64KiB\ncodec = fp8_e4m3\n' >fp8.ini

accuracy() { sed -n 's/.*test accuracy \(.*\) %/\1/p' "$1"; }
module=$("$python" -c 'import mpi4py; print(mpi4py.__path__[0])')
extension=("$module"/MPI${MPI_HOME:+.$MPI}.cpython-*.so)
checked "mpi4py's extension" 0 "caught (interposed)" "${extension[0]}"

for ranks in 2 4; do
    ran "$ranks ranks without the shim" without mpi "$ranks" "${trainer[@]}"
    ran "$ranks ranks with fp8" with shimmed "$ranks" COMPSHIM_POLICY=fp8.ini \
        COMPSHIM_REPORT="$scratch/report$ranks.json" "${trainer[@]}"
    facts "report$ranks.json"
    number_holds "$ranks ranks: at least 3.9 times fewer bytes" "$ratio >= 3.9"
    number_holds "$ranks ranks: a call of each step is compressed" "$compressed * 4 == $calls && $calls > 0"
    native=$(accuracy without) lossy=$(accuracy with)
    number_holds "$ranks ranks: it has learnt" "${native:-0} > 97"
    number_holds "$ranks ranks: accuracy within 0.3 points" "(${lossy:-0} - ${native:-0}) ^ 2 <= 0.3 ^ 2"
    answers="accuracy $lossy, $native %"
    row "mpi4py, $ranks ranks" "extension module"
done
# Each rank writes to a file, because Hydra may lose a rank's output just before it ends the job.
expect "a folder without the files" 1 mpi 2 sh -c "exec \"\$@\" 2>'$scratch/said.'\$\$" sh "${trainer[@]}" --data /nowhere
output=$(cat "$scratch"/said.*)
contains "says what is missing" "/nowhere/train-images-idx3-ubyte: no such file, nor"
finish
