#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks which programs that are linked to NCCL, or load it, are compressed, that the others get right results, and
# what the preloaded library loads into a process.
. "$(dirname "$0")/lib.sh"
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"

compile() { # OUTPUT OPTIONS...: compiles nccl_sum.c
    gcc -std=c11 -O1 -D_GNU_SOURCE -Wall -I"$top" -isystem "$cuda/include" -Wno-unused-function \
        -o "$scratch/$1" "$top/tests/programs/nccl_sum.c" "${@:2}" -lm
}
nccl=$standin/libnccl.so.2 driver=$standin/libcuda.so.1
check "linked: built" compile linked "$nccl" "$driver"
check "a library: built" compile libsum.so -shared -fPIC -DLIBRARY "$nccl" "$driver"
check "a library's user: built" compile user -DUSES="\"$scratch/libsum.so\""
check "fetched: built" compile fetched -DFETCHES "$driver"
check "fetched in a library: built" compile libfetch.so -shared -fPIC -DLIBRARY -DFETCHES "$driver"
check "fetched in a library, its user: built" compile fetch_user -DUSES="\"$scratch/libfetch.so\""

compressed="[row['calls'] for row in rows] == [1]"
for program in linked user; do
    expect "$program natively" 0 job 3 "$scratch/$program"
    expect "$program" 0 preloaded 3 "$scratch/$program"
    reports "$program: compressed" "$compressed"
done
hook=$build/libcompshim_dl.so
for program in fetched fetch_user; do
    expect "$program without the hook" 0 preloaded 3 "$scratch/$program"
    calls "$program without the hook: native" 'all(c["call"] == "ncclAllReduce" for rank in calls for c in rank)'
    [ -e "$hook" ] || continue
    preload=$preload:$hook expect "$program" 0 preloaded 3 "$scratch/$program"
    reports "$program: compressed" "$compressed"
done

needed() { readelf -dW "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v -e '^libc\.so' -e '^libm\.so' -e '^ld-linux'; }
if [ "${SANITIZE:-0}" != 1 ]; then
    check "the engine needs libc and libm only" test -z "$(needed "$build/libcompshim-nccl.so")"
    check "the front needs libc only" test -z "$(needed "$build/libcompshim.so")"
    check "the engine exports its table only" test \
        "$(nm -D --defined-only "$build/libcompshim-nccl.so" | awk '{ print $NF }')" = cshim_nccl_engine
    check "the engine needs no symbol of NCCL or CUDA" test -z \
        "$(nm -D --undefined-only "$build/libcompshim-nccl.so" | grep -E ' (p?nccl|cu[A-Z])')"
fi
# A process without NCCL loads neither the engine nor CUDA.
mapped() { LD_PRELOAD=$preload python3 -c 'print(open("/proc/self/maps").read())' | grep -E 'libcompshim-|libcuda|libnccl'; }
check "python3 loads neither the engine nor CUDA" test -z "$(mapped)"
finish
