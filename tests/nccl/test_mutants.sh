#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Shows that the tests can fail: plants one defect in each of eight copies of the engine, and tests must find it.
# Not for coverage: it links the objects built here with its own, which have no counters.
. "$(dirname "$0")/lib.sh"

copy() { # DIR: copies the engine's sources and objects
    mkdir -p "$1/build" "$1/tests"
    cp -a "$top"/{Makefile,codecs,kernels,policy,shim} "$1"
    cp -a "$top/tests/tests.mk" "$1/tests"
    cp -a "$build"/{obj,generated,kernels,libcompshim.so} "$1/build"
    # Makes built files newer than the sources, so that make rebuilds only what is changed.
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
    s/real->Recv\(place/real->Recv(type != CSHIM_MESSAGE_PARTS ? place : place - operation->index * plan->piece_bytes + (operation->index + plan->peers - (uint32_t)segment->call->role.peer) % plan->peers * plan->piece_bytes/
    s/parameters->own = place/&  - message->index * parameters->stride/'
expect "added from the own rank on: found" 1 order
contains "added from the own rank on: by the order of the sum" "not the sum in rank order"

# Defects in choosing. In `uneven` rank 1's clock says that compressing is faster, rank 0's that it is not.
unset COMPSHIM_MACHINE
choices="$build/tests/nccl_choices"
uneven() {
    preloaded 2 CALLS=160 STANDIN_CLOCK=100,25000 sh "$top/tests/nccl/rank_setting.sh" 1 STANDIN_CLOCK=1,150 "$choices" steady &&
        grep -q '= native ' "$scratch/report.json"
}
# result N: prints the digest of result N
result() { grep -xE '[0-9a-f]{16}' | sed -n "$1p"; }
residuals() { # the fourth call is the first by two_shot; returns 1 if its result differs, 2 if there are no results
    local fourth first
    printf '[rule all]\ncodec = int4\nerror_feedback = on\n' >"$scratch/policy.ini"
    fourth=$(preloaded 2 CALLS=4 PRINT=1 TOLERANCE=4 STANDIN_CLOCK=10,250 "$choices" steady | result 4)
    printf 'worth = always\nalgorithm = two_shot\n' >>"$scratch/policy.ini"
    first=$(preloaded 2 CALLS=1 PRINT=1 TOLERANCE=4 "$choices" steady | result 1)
    [ -n "$fourth" ] && [ -n "$first" ] || return 2
    [ "$fourth" = "$first" ]
}
# parts NAME: checks that rank 0 and rank 1 send messages of different candidates
parts() {
    expect "$1: found" 3 uneven
    contains "$1: the ranks choose differently" "ranks do not match"
}
compressing() { printf '[rule all]\ncodec = fp8_e4m3\n' >"$scratch/policy.ini"; }
preload=$real_preload
compressing
check "no mistake: choices" uneven
check "no mistake: residuals" residuals
compressing

mutant "decides alone" shim/nccl/choose.c 's/sizeof answer->seconds/0 * sizeof answer->seconds/'
parts "decides alone"
mutant "takes the largest durations" shim/nccl/rendezvous_durations.c \
    's/(\(\*place\)->seconds\[i\] =) INFINITY/\1 0/; s/ask->seconds\[i\] < record/ask->seconds[i] > record/'
expect "takes the largest durations: found" 1 uneven
reports "takes the largest durations: by the choice" "'= one_shot ' in report['learned'][0]"
mutant "decides before all durations are there" shim/nccl/rendezvous_durations.c 's/record->ranks == collection->ranks \&\& //'
parts "decides before all durations are there"
mutant "says no to one rank and yes to another" shim/nccl/rendezvous_durations.c 's/( && ask->window > record->asked)\)$/)/'
parts "says no to one rank and yes to another"
mutant "keeps another algorithm's residuals" shim/nccl/feedback.c 's/residual->algorithm == plan->algorithm/true/'
expect "keeps another algorithm's residuals: found" 1 residuals
finish
