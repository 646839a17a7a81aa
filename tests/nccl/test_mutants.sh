#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Shows that the tests can fail: plants a defect in each of three copies of the engine, and tests must find it.
# Not for coverage: it links the objects built here with its own, which have no counters.
. "$(dirname "$0")/lib.sh"

copy() { # DIR: copies the engine's sources and objects
    mkdir -p "$1/build" "$1/tools/html" "$1/tests"
    cp -a "$top"/{Makefile,codecs,kernels,policy,shim} "$1"
    cp -a "$top/tools/html/page.css" "$1/tools/html"
    cp -a "$top/tests/tests.mk" "$1/tests"
    cp -a "$build"/{obj,generated,kernels,libcompshim.so} "$1/build"
    # Newer than the sources, so that make rebuilds only what is changed.
    find "$1/build/kernels" "$1/build/generated" "$1/build/obj" -type f -exec touch {} +
    rm -f "$1/build/libcompshim-nccl.so"
}
# mutant NAME FILE SED: builds an engine with a defect, and sets $preload to it
mutant() {
    local tree=$scratch/${1// /_}
    copy "$tree"
    sed -i -E "$3" "$tree/$2"
    check "$1: is planted in $2" test -n "$(diff "$top/$2" "$tree/$2")"
    check "$1: builds" make -s -C "$tree" BUILD=build CUDA_HOME="$cuda" SANITIZE="${SANITIZE:-}" build/libcompshim-nccl.so
    preload=${real_preload/"$build/libcompshim.so"/$tree/build/libcompshim.so}
}
real_preload=$preload

group() { preloaded 3 "$build/tests/nccl_groups" behind; }
streams() { preloaded 3 STANDIN_DELAY_US=2000 STANDIN_RACES="$1" "$build/tests/nccl_groups" streams; }
order() { preloaded 3 "$build/tests/nccl_allreduce" raw 2; }

printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"
expect "no defect: groups" 0 group
expect "no defect: streams" 0 streams 1
expect "no defect: order" 0 order

mutant "decoded before the group has ended" shim/nccl/group.c \
    '/^ncclResult_t cshim_group_add/,/^}/ s/group\.depth > 0 \? ncclSuccess : //'
expect "decoded before the group has ended: found" 1 group
contains "decoded before the group has ended: by a wrong result" "the data of the group's end: element"

mutant "scratch shared without ordering" shim/nccl/workspace.c \
    '/^CUresult cshim_workspace_await/,/^}/ s/if \(!workspace->used\)/if (true)/'
expect "scratch shared without ordering: found" 1 streams 0
contains "scratch shared without ordering: by a wrong result" "one of several streams: element"
expect "scratch shared without ordering: found as a race, without a wrong result" 3 streams 1
contains "scratch shared without ordering: the race is named" "is not ordered with"

mutant "added from the own rank on" shim/nccl/steps.c '
    s/segment->received \+ peer \* segment->stride/segment->received + (peer + segment->peers - segment->rank) % segment->peers * segment->stride/
    s/segment->received \+ segment->rank \* segment->stride/segment->received/'
expect "added from the own rank on: found" 1 order
contains "added from the own rank on: by the order of the sum" "not the sum in rank order"
finish
