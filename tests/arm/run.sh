#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds the codecs for 64-bit Arm and runs their unit tests in an emulator: the bytes of the wire, the loops
# against their definition, and what the codecs promise. Nothing of MPI or gloo is built or run.
# Needs gcc-aarch64-linux-gnu and qemu-user (tools/install-packages.sh arm), and fetches Debian's packages for Arm once.
# usage: tests/arm/run.sh
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}-arm
root=$PWD/$build/root
tests="golden reference table numerics values"
tests/arm/root.sh "$root" libc6-dev libcmocka-dev libinih-dev libmd-dev libjansson-dev
programs=$(printf " $build/tests/test_codec_%s" $tests)
make -s BUILD="$build" CC="aarch64-linux-gnu-gcc --sysroot=$root" MPICH_CC=none NVCC= $programs
failed=0
for program in $programs; do
    if QEMU_LD_PREFIX=$root timeout 900 qemu-aarch64 -cpu max "$program" >"$build/log" 2>&1; then
        echo "ok   $program"
    else
        cat "$build/log"
        echo "FAIL $program"
        failed=1
    fi
done
exit $failed
