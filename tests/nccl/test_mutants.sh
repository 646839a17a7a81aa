#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests can fail: three mistakes are put into copies of the engine, one each, and found.
# Not for coverage: it links what is built here with what it builds itself, without counters.
. "$(dirname "$0")/lib.sh"

copy() { # DIR: what the engine is built of, and what is built of it
    mkdir -p "$1/build" "$1/tools/html" "$1/tests"
    cp -a "$top"/{Makefile,codecs,kernels,policy,shim} "$1"
    cp -a "$top/tools/html/page.css" "$1/tools/html"
    cp -a "$top/tests/tests.mk" "$1/tests"
    cp -a "$build"/{obj,generated,kernels,libcompshim.so} "$1/build"
    # The same times: only what is changed is built again.
    find "$1/build/kernels" "$1/build/generated" "$1/build/obj" -type f -exec touch {} +
    rm -f "$1/build/libcompshim-nccl.so"
}
# mutant NAME FILE SED: the engine with the mistake in $preload from then on
mutant() {
    local tree=$scratch/${1// /_}
    copy "$tree"
    sed -i -E "$3" "$tree/$2"
    check "$1: was put into $2" test -n "$(diff "$top/$2" "$tree/$2")"
    check "$1: builds" make -s -C "$tree" BUILD=build CUDA_HOME="$cuda" SANITIZE="${SANITIZE:-}" build/libcompshim-nccl.so
    preload=${real_preload/"$build/libcompshim.so"/$tree/build/libcompshim.so}
}
real_preload=$preload

group() { preloaded 3 "$build/tests/nccl_groups" behind; }
streams() { preloaded 3 STANDIN_DELAY_US=2000 STANDIN_RACES="$1" "$build/tests/nccl_groups" streams; }
order() { preloaded 3 "$build/tests/nccl_allreduce" raw 2; }

printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"
expect "no mistake: groups" 0 group
expect "no mistake: streams" 0 streams 1
expect "no mistake: order" 0 order

mutant "decoded before the group has ended" shim/nccl/group.c \
    '/^ncclResult_t cshim_group_add/,/^}/ s/group\.depth > 0 \? ncclSuccess : //'
expect "decoded before the group has ended: found" 1 group
contains "decoded before the group has ended: by its result" "the data of the group's end: element"

mutant "scratch shared without ordering" shim/nccl/workspace.c \
    '/^CUresult cshim_workspace_await/,/^}/ s/if \(!workspace->used\)/if (true)/'
expect "scratch shared without ordering: found" 1 streams 0
contains "scratch shared without ordering: by its result" "one of several streams: element"
expect "scratch shared without ordering: found before it does harm" 3 streams 1
contains "scratch shared without ordering: as a race" "is not ordered with"

mutant "added from the own rank on" shim/nccl/steps.c '
    s/segment->received \+ peer \* segment->stride/segment->received + (peer + segment->peers - segment->rank) % segment->peers * segment->stride/
    s/segment->received \+ segment->rank \* segment->stride/segment->received/'
expect "added from the own rank on: found" 1 order
contains "added from the own rank on: as what it is" "not the sum in rank order"
finish
