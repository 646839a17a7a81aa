#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the bytes of a unique id that NCCL leaves zero, into which compshim writes the address of its rendezvous: with
# the stand-in and, if it is installed, with the real NCCL, which makes ids without a GPU.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_unique_id
magic=6373686e

tail_of() { sed -n 's/^id .*\(.\{96\}\)$/\1/p' <<<"$output"; }
zeros=$(printf '0%.0s' {1..96})

check_ids() { # NAME FOLDER: checks the ids that the NCCL in a folder makes
    export LD_LIBRARY_PATH=$2
    expect "$1: an id" 0 "$program"
    if [ "$(tail_of)" = "$zeros" ]; then pass "$1 leaves room"; else fail "$1 leaves room" "$output"; fi
    expect "$1: an id with compshim" 0 env LD_PRELOAD="$preload" "$program"
    case $(tail_of) in "${zeros:0:16}$magic"*) pass "$1: the address is there" ;; *) fail "$1: the address is there" "$output" ;; esac
    expect "$1: switched off" 0 env LD_PRELOAD="$preload" COMPSHIM=off "$program"
    if [ "$(tail_of)" = "$zeros" ]; then pass "$1: untouched"; else fail "$1: untouched" "$output"; fi
}
: >"$COMPSHIM_POLICY"
check_ids "the stand-in" "$standin"
real=$(ls "${CUDA_HOME:-/usr/local/cuda}"/lib*/libnccl.so.2 /usr/lib/*/libnccl.so.2 2>/dev/null | head -1)
if [ -n "$real" ]; then
    check_ids "NCCL" "$(dirname "$real")"
else
    skip "no real libnccl.so.2 is installed"
fi
finish
