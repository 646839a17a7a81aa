#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds `make all`, without the engine for NCCL, for 64-bit Arm. Runs in an emulator: the unit tests, except those
# of the MNIST reader and of NCCL's agreement; a job of two ranks with MPI and one with gloo, in every codec except
# bounded and topk; and many calls of eight ranks that read each other's memory. The sums of the two jobs have to be
# those of this machine bit by bit.
# This machine's mpirun starts the emulated ranks of MPI.
# Needs what `make test` needs, Debian's cross compiler and qemu-user, and fetches Debian's packages for Arm once.
# usage: tests/arm/run.sh [quick]
# quick: only the codecs' golden bytes and table, and the two jobs; skipped if the packages cannot be installed
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
arm=$build-arm
root=$PWD/$arm/root
if ! { tools/install-packages.sh arm && tests/arm/root.sh "$root"; }; then
    [ "${1-}" = quick ] || exit 1
    echo "skipped - 64-bit Arm: the cross compiler, the emulator or Debian's packages for Arm cannot be had"
    exit 0
fi
# shellcheck source=examples/ranks.sh
. examples/ranks.sh
export QEMU_LD_PREFIX=$root QEMU_CPU=max
logs=$arm/logs
rm -rf "$logs" && mkdir -p "$logs"

# Leaves out the tests of the MNIST reader, which is no part of the library, and of NCCL's agreement.
units=(tests/unit/test_*.c)
[ "${1-}" != quick ] || units=(tests/unit/test_codec_golden.c tests/unit/test_codec_table.c)
mapfile -t units < <(basename -s .c "${units[@]}" | grep -v -e mnist -e rendezvous)
jobs=(tests/mpi_allreduce tests/gloo_allreduce)
make -s --no-print-directory all "${jobs[@]/#/$build/}"
tests/arm/make.sh all "$arm/tests/mpi_soak" "${jobs[@]/#/$arm/}" "${units[@]/#/$arm/tests/}"

failed=0
outcome() { # NAME CMD...: runs CMD, prints whether it succeeded, and its output if not
    local log=$logs/$1
    if "${@:2}" >"$log" 2>&1; then
        echo "ok - $1"
    else
        echo "not ok - $1"
        sed 's/^/# /' "$log"
        return 1
    fi
}
run_unit() { outcome "$1" timeout 900 qemu-aarch64 "$arm/tests/$1"; }

# run_job mpi|gloo BUILD LAUNCHER...: prints the digest of all sums, and the codecs of the report
run_job() {
    local program=$2/tests/$1_allreduce scratch
    scratch=$(mktemp -d)
    "$build/tests/$1_allreduce" --policy two_shot >"$scratch/policy.ini"
    COMPSHIM_MACHINE=off COMPSHIM_POLICY=$scratch/policy.ini COMPSHIM_REPORT=$scratch/report.json \
        timeout 600 "${@:3}" "$program" all two_shot >"$scratch/output" 2>&1 || { cat "$scratch/output" && return 1; }
    grep -o 'digest [0-9a-f]*' "$scratch/output" | sort -u
    grep -o '"codec": "[a-z0-9_]*"' "$scratch/report.json" | sort -u
    rm -rf "$scratch"
}
run_jobs() { # mpi|gloo LAUNCHER...: compares this machine's job with the emulated one
    local own emulated
    own=$(run_job "$1" "$build" "${@:2}" env LD_PRELOAD="$PWD/$build/libcompshim.so") || { echo "$own" && return 1; }
    emulated=$(run_job "$1" "$arm" "${@:2}" qemu-aarch64 -E LD_PRELOAD="$PWD/$arm/libcompshim.so") ||
        { echo "$emulated" && return 1; }
    diff <(echo "$own") <(echo "$emulated") && grep -q digest <<<"$own" && grep -q lossless <<<"$own"
}
# run_shared RANKS: checks 1000 calls of changing size, in which ranks read each other's scratch. An emulator on x86-64
# keeps that processor's order of reads and writes: this finds memory that is written too early, not a missing fence.
run_shared() {
    local policy=$logs/shared.ini
    printf '[rule %s]\nmax_size = %s\ncodec = %s\nalgorithm = %s\n' a 128KiB fp8_e4m3 one_shot b 1GiB raw two_shot >"$policy"
    COMPSHIM_LOG=info COMPSHIM_MACHINE=off COMPSHIM_POLICY=$policy timeout 600 mpirun --oversubscribe -n "$1" \
        qemu-aarch64 -E LD_PRELOAD="$PWD/$arm/libcompshim.so" "$arm/tests/mpi_soak" 1000 100000 2>&1 | tee "$logs/shared"
    [ "${PIPESTATUS[0]}" = 0 ] && ! grep -q "instead of sharing memory" "$logs/shared"
}

export -f outcome run_unit
export logs arm
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -I{} bash -c 'run_unit {}' || failed=1
outcome "two ranks of MPI: sums in every codec, as on this machine" run_jobs mpi mpirun -n 2 || failed=1
outcome "two ranks of gloo: sums in every codec, as on this machine" run_jobs gloo bash tests/nccl/launch.sh 2 || failed=1
[ "${1-}" = quick ] || outcome "eight ranks of MPI read each other's memory" run_shared 8 || failed=1
exit $failed
