#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures the cost of a passed-through call: allocations, and the instructions that callgrind counts between the
# program's call and the library's function.
# Not for coverage: it counts instructions, and coverage counters are instructions too.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_passed_on
limit=$(limit_of 300) calls=10000 # so many that the lookups of the first call do not count
[ -z "${MPI_HOME-}" ] || limit=400 # may include instructions of MPICH's library for the standard ABI
export COMPSHIM_REPORT=off
printf '[rule tiny]\nmax_size = 1KiB\ncodec = none\n[rule rest]\ncodec = fp16\n' >"$scratch/policy.ini"
printf '[rule one]\nnodes = 1\nmax_size = 1KiB\ncodec = none\n[rule rest]\ncodec = fp16\n' \
    >"$scratch/nodes.ini"

if [ "${SANITIZE:-0}" = 1 ]; then
    skip "with sanitizers neither instructions nor allocations are the library's own"
    expect "calls that pass" 0 shimmed 2 COMPSHIM_POLICY="$scratch/policy.ini" "$program" 2000 int world
    contains "are right" "0 wrong"
    finish
fi

# Intel MPI chooses its algorithms by the processor, and valgrind emulates another one. Ranks with different
# algorithms could deadlock, so all run under valgrind.
others=()
[ ! -e "${MPI_HOME-}/bin/impi_info" ] || others=(valgrind --quiet --tool=none)

# instructions RANKS KIND COMMUNICATOR: prints the instructions that the shim adds to a call on rank 0, under $policy;
# "none" if the calls are not found
instructions() {
    local out=$scratch/callgrind.%p
    rm -f "$scratch"/callgrind.*
    differing 1 COMPSHIM_POLICY="$policy" LD_PRELOAD="$preload" valgrind --tool=callgrind \
        --callgrind-out-file="$out" "$program" $calls "$2" "$3" : $(($1 - 1)) \
        COMPSHIM_POLICY="$policy" LD_PRELOAD="$preload" "${others[@]}" "$program" $calls "$2" "$3" \
        >"$scratch/output" 2>&1
    # Takes a wrapper's instructions minus those of the library's function that it calls. callgrind_annotate runs in
    # $scratch because it shortens file names that begin with the current directory, and with a shortened name of the
    # build folder the patterns might not match.
    cd "$scratch" && callgrind_annotate --tree=calling --inclusive=yes --threshold=100 --show-percs=no \
        "$scratch"/callgrind.* | tr -d , | awk -v calls="$calls" '
            $2 == "*" { ours = /[:_](PMPI_Allreduce|MPI_Allreduce|allreduce) .*libcompshim/ }
            $2 == "*" && ours && $1 > total { total = $1 }
            $2 == ">" && ours && /:P?MPI_Allreduce .*libmpi(ch|_abi)?\.so/ { real += $1 }
            END { if (total && real) print int((total - real) / calls); else print "none" }'
}
cheap() { # NAME RANKS KIND COMMUNICATOR: checks that the shim adds more than 20 and at most $limit instructions
    local count
    count=$(instructions "$2" "$3" "$4")
    if [ "$count" != none ] && [ "$count" -gt 20 ] && [ "$count" -le "$limit" ]; then
        pass "$1: $count instructions"
    else
        fail "$1: at most $limit instructions" "$count: $(tail -n 5 "$scratch/output")"
    fi
}
policy=$scratch/policy.ini
cheap "integers" 2 int world
cheap "too small" 2 float world
cheap "another operation" 2 max world
cheap "too small, on another communicator" 2 float other
policy=$top/policy/default.ini
cheap "a type that the built-in policy does not compress" 2 double world
policy=$scratch/nodes.ini
cheap "too small by a rule for nodes" 2 float world
# Calls of 64 bytes that are native: first by the choice in the file of COMPSHIM_MACHINE, then, with worth =
# foretold, because nothing is learned yet.
printf '[rule all]\ncodec = fp16\n' >"$scratch/all.ini"
policy=$scratch/all.ini
printf 'mpi 2/1 float32 fp16 64 all = native\n' >"$scratch/learned"
export COMPSHIM_MACHINE=$scratch/learned
cheap "native by what was learned" 2 float world
export COMPSHIM_MACHINE=off
echo "worth = foretold" >>"$scratch/all.ini"
cheap "native before anything was learned" 2 float world

# On one rank the library's own calls allocate nothing, so every allocation would be the shim's.
for kind in "int world" "float world" "float self" "float other" "max other"; do
    expect "$kind, counting allocations" 0 mpi 1 COMPSHIM_POLICY="$scratch/policy.ini" \
        LD_PRELOAD="$build/tests/standin_malloc.so:$preload" "$program" 3000 $kind
    contains "allocates nothing" "0 wrong, 0 allocations in 1000 calls"
done
finish
