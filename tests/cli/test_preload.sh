#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the preloaded object: its exports and dependencies, and that it does not disturb processes without MPI, NCCL
# or gloo.
. "$(dirname "$0")/../lib.sh"
library=$build/libcompshim.so

# listed: prints the names that libcompshim.so has to export, by shim/front/mpi.def (with _c variants), nccl.def (without
# the rows `called`) and gloo.def, and those that libcompshim_dl.so and the address sanitizer call
listed() {
    local large name
    echo cshim_front_wrapper
    echo __asan_default_options
    sed -nE 's/.* (_ZN4gloo.*)$/\1/p' "$top/shim/front/gloo.def"
    sed -nE '/^#|^called /d; s/.* (nccl[A-Za-z]+)\(.*/\1/p' "$top/shim/front/nccl.def"
    sed -nE '/^#/d; s/^[^ ]+ +[^ ]+ +([^ ]+) +int (MPIX?_[A-Za-z_]+)\(.*/\1 \2/p' "$top/shim/front/mpi.def" |
        while read -r large name; do
            echo "$name"
            case $large in - | older) ;; *) echo "${name}_c" ;; esac
        done
}

exports() { nm -D --defined-only "$1" | awk '{ print $NF }' | sort; }
if [ "${SANITIZE:-0}" != 1 ]; then
    check "the front exports what its lists say" diff <(exports "$library") \
        <(listed | sed -E 's/^MPI.*/&\nP&/' | sort)
    for engine in ompi abi; do
        check "the engine exports its table only: $engine" \
            test "$(exports "$build/libcompshim-$engine.so")" = cshim_mpi_engine
    done
    check "the engine exports its table only: gloo" \
        test "$(exports "$build/libcompshim-gloo.so")" = cshim_gloo_engine
    check "seven functions of gloo are caught" \
        test "$(exports "$library" | c++filt | grep -c '^gloo::[a-z]*(gloo::[A-Za-z]*Options')" = 7
    check "the front needs libc only" test \
        "$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')" = libc.so.6
    check "nothing unresolved is of MPI, NCCL, gloo or CUDA" test -z \
        "$(nm -D --undefined-only "$library" "$build/libcompshim-gloo.so" |
            grep -E ' (P?MPI_|ompi_|p?nccl|_ZN4gloo|cu[A-Z])')"
    check "no text relocations, no executable stack" test -z \
        "$(readelf -dlW "$library" | grep -E 'TEXTREL|GNU_STACK.*RWE')"
fi

mkdir -p "$scratch/repo"
cd "$scratch/repo" || exit 3
git init -q .
printf 'int main(void) { return 0; }\n' >main.c
# Each line is a command whose output and status the preload must not change.
while IFS= read -r command; do
    want=$(bash -c "$command" 2>&1 </dev/null)
    want_status=$?
    got=$(LD_PRELOAD=$preload bash -c "$command" 2>&1 </dev/null)
    got_status=$?
    if [ "$want" = "$got" ] && [ $want_status = $got_status ]; then
        pass "same with the preload: $command"
    else
        fail "same with the preload: $command" "$want ($want_status), then $got ($got_status)"
    fi
done <<'E2'
sh -c 'echo $0 $#; exit 3'
ls -la / | wc -l
git status --short
git log
python3 -c 'import ctypes, json; print(json.dumps([1, 2]))'
mpirun --version
mpirun --oversubscribe -n 2 echo rank
mpirun --no-such-option
gcc -c main.c -o main.o && size main.o
perl -e 'print "$0\n"'
awk 'BEGIN { print 1 / 3 }'
false
E2

check "no COMPSHIM variable makes it speak" test -z \
    "$(LD_PRELOAD=$preload COMPSHIM=on COMPSHIM_POLICY=missing COMPSHIM_LOG=debug /bin/true 2>&1)"
finish
