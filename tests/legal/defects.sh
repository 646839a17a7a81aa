#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mutation test of the generator: puts one defect at a time into a copy of the shim. The line of a found defect has
# the number of programs that it took. FEEDBACK and LEGAL_JUMPS are as in legal.sh.
#   [BUILD=DIR] tests/legal/defects.sh [SECONDS [NAME]]
. "$(dirname "$0")/../lib.sh"
seconds=${1:-120} only=${2-}

# defect NAME FILE SED: checks that legal.sh finds a wrong program with the edited file
defect() {
    local tree=$scratch/tree told
    [[ $1 == *"$only"* ]] || return
    rm -rf "$tree"
    mkdir -p "$tree/build/tests"
    cp -a "$top"/{Makefile,codecs,examples,kernels,policy,shim,tests} "$tree"
    cp -a "$build"/{generated,libcompshim.so,libcompshim-ompi.so} "$tree/build"
    cp -a "$build"/tests/{mpi_legal,standin_nodes.so} "$tree/build/tests"
    cp -a "$build/obj" "$tree/build"
    find "$tree/build" -type f -exec touch {} + # newer than all sources but the one edited below
    sed -i -E "$3" "$tree/$2"
    if cmp -s "$top/$2" "$tree/$2" || ! told=$(make -s -C "$tree" BUILD=build CC="${CC:-gcc}" build/libcompshim.so build/libcompshim-ompi.so 2>&1); then
        fail "$1" "cannot be put into $2: ${told-}"
        return
    fi
    # The first line has the number of programs up to the first failure, the first "legal:" line describes the failure.
    if told=$(BUILD=$tree/build LEGAL_SECONDS=20 SHRINK=no bash "$tree/tests/legal/legal.sh" "$seconds" "${SEED:-1}") ||
        ! grep -qE '^legal: (program|memory) |please report' <<<"$told"; then
        fail "$1" "$told"
    else
        pass "$1: $(sed -n '1s/ in job.*//p' <<<"$told"): $(sed -n 's/^legal: //p' <<<"$told" | head -n 1)"
    fi
}
defect "persistent calls in one sequence with the others" shim/mpi/requests.c 's/&found->plan, found->comm,/\&found->plan, found->comm->parent,/'
defect "a tolerance told to the own peers only" shim/host/call.c 's/(\.is_shared) && !plan->schedule->staged/\1/'
defect "scratch shared between calls under way" shim/host/scratch.c 's/^( *)unused_blocks = block->next;/\1(void)0;/'
defect "one number for two communicators" shim/mpi/communicator.c 's/numbers_used\[candidate \/ 64\] \|= bit;//; s/next_number = number \+ 1;/next_number = number;/; s/^        number = candidate/&/'
defect "tags without the rank that gave the number" shim/mpi/communicator.c 's/state->carrier_ranks\[0\] \* CSHIM_MESSAGES;/0;/'
defect "a blocking call overtakes nonblocking ones" shim/mpi/nonblocking.c 's/^( *)cshim_nonblocking_drain\(state\);/\1(void)0;/'
defect "an all-gather in place from its beginning" shim/host/exchange.c 's/exchange->input \+= own\.begin \* exchange->element_bytes/exchange->input += 0/'
defect "a reduce with root 0 always" shim/mpi/describe.c 's/call->root = \(uint32_t\)arguments->root;/call->root = 0;/'
defect "the root of a reduce by nodes is taken for a node" shim/core/segment.c 's/role->root = \(uint32_t\)role->layout.*//'
defect "results of one length only, by nodes" shim/host/node.c 's/chunk_begins\[node\] = .*/chunk_begins[node] = node * (int)chunk.length;/'
defect "a call that was jumped out of is not left" shim/front/nesting.h 's/nesting->depth > 0, 0\) && cshim_(is_left|same_caller)/0, 0) \&\& cshim_\1/'
defect "a residual of any size" codecs/floats.h 's/\(magnitude < largest \? magnitude : largest\)\) & \(0u - is_near\)/magnitude) | (0u \& is_near \& largest)/'
defect "complex numbers of an MPI_Allgatherv are compressed as if they were not" shim/mpi/describe.c 's/if \(arguments->recvcounts != NULL\)$/if (false)/'
defect "an empty call whose buffers are NULL has another description" shim/mpi/describe.h 's/ && !cshim_describe_is_empty\(arguments\)//'
defect "a call goes before its communicator has a number" shim/mpi/nonblocking.c 's/ && !is_prepared\(comm_of\(pending\), status\)/ \&\& false/'
defect "a broadcast writes what its root may only read" shim/mpi/movement.c 's/return !cshim_plan_leaves_root\(/return false \&\& !cshim_plan_leaves_root(/'
defect "a frame that small stacks have no room for" shim/host/call.c '/^int cshim_call_run/,/^\{/s/^\{/{ volatile char room[100000]; room[0] = (char)(exchange == NULL); (void)room[0];/'
in_call='({ static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(\&one);'
in_call+=' int s = cshim_mpi.real->NAME arguments; pthread_mutex_unlock(\&one); s; })'
defect "a lock held over the callbacks of a call" shim/mpi/collectives.c "s/(ENDED\(call, )cshim_mpi\.real->NAME arguments/\1$in_call/"
defect "scratch that no later call takes" shim/host/scratch.c 's/struct block \*block = unused_blocks;/struct block *block = NULL;/'
finish
