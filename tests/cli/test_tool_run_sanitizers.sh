#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks programs built with sanitizers or run with another allocator: they start with the preload and under compshim
# run, their calls are compressed, and the sanitizers find their defects.
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
library=$(realpath "$build/libcompshim.so")
cd "$scratch" || exit 1
if [ "${SANITIZE:-0}" != 0 ]; then
    skip "the shim has a sanitizer of its own"
    finish
fi
only_open_mpi "programs with sanitizers" || finish
unset ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS LD_LIBRARY_PATH "${!SLURM@}"
policy fp16.ini fp16
sed -i 's/report = off/report = summary/; $aworth = always' fp16.ini
export COMPSHIM_POLICY=$scratch/fp16.ini
ranks=("${launch[@]}" -n 2)

# Sums small integers, exact in fp16. With an argument, commits the defect that a sanitizer reports: a leak, an access
# beyond an array, an overflow, a race.
cat >sums.c <<'C'
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int counter = 2147483647;
static void *count(void *unused) { counter = counter / 2 + 1; return unused; }
int main(int argc, char **argv)
{
    int rank, n = 100000, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float *mine = malloc(n * sizeof *mine), *sum = malloc(n * sizeof *sum);
    for (int i = 0; i < n; i++)
        mine[i] = rank + i % 7;
    const char *defect = argc > 1 ? argv[1] : "";
    MPI_Allreduce(mine, sum, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        wrong += sum[i] != 1 + 2 * (i % 7);
    if (strcmp(defect, "access") == 0)
        wrong += mine[n + 1] > 1e30f;
    if (strcmp(defect, "overflow") == 0)
        counter += argc;
    if (strcmp(defect, "race") == 0) {
        pthread_t thread[2];
        for (int i = 0; i < 2; i++)
            pthread_create(&thread[i], NULL, count, NULL);
        for (int i = 0; i < 2; i++)
            pthread_join(thread[i], NULL);
    }
    if (strcmp(defect, "leak") != 0)
        free(mine);
    mine = NULL;
    free(sum);
    printf("rank %d: %s\n", rank, wrong ? "wrong" : "right");
    MPI_Finalize();
    return wrong;
}
C
cp sums.c sums_options.c
echo 'const char *__asan_default_options(void) { return "detect_leaks=0"; }' >>sums_options.c

# builds COMPILER SOURCE OPTION...: sets $program and builds it. If the compiler or the sanitizer's runtime is missing,
# counts a skipped check, and fails.
builds() {
    program=./${2%.c}_$1_$(tr -dc a-z <<<"${*:3:2}")
    type -P "$1" >/dev/null || { skip "no $1: ${*:3}" && return 1; }
    OMPI_CC=$1 mpicc -g -pthread -o "$program" "$2" "${@:3}" 2>told || { skip "$1 cannot link ${*:3}: $(head -n 1 told)" && return 1; }
}
# Open MPI has leaks and races of its own. Leaks are checked at the end.
export LSAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1:detect_deadlocks=0
served() { # NAME COMMAND...: checks that both ranks have the right sums, and that the call was compressed
    expect "$1" 0 limited "${@:2}"
    [ "$(grep -c '^rank .: right$' <<<"$output")" = 2 ] || echo "$output" | head -n 40
    check "$1: right on all ranks" test "$(grep -c '^rank .: right$' <<<"$output")" = 2
    check "$1: compressed" grep -Eq '^compshim: all +fp16 .* 1 ' <<<"$output"
}
finds() { # DEFECT TEXT: checks that the sanitizer reports the defect under the shim, too
    output=$(LD_PRELOAD=$library limited "${ranks[@]}" "$program" "$1" 2>&1)
    contains "$program reports a defect: $1" "$2"
}
works() { # checks $program with the shim preloaded, and under compshim run, started by a script
    served "$program, preloaded" env LD_PRELOAD="$library" "${ranks[@]}" "$program"
    served "$program, in a run" "$tool" run --dlsym -- "${ranks[@]}" ./script "$program"
}
printf '#!/bin/sh\nexec "$@"\n' >script && chmod +x script

if builds gcc sums.c; then
    for allocator in libjemalloc.so.2 libtcmalloc_minimal.so.4; do
        if [ -z "$(LD_PRELOAD=$allocator true 2>&1)" ]; then
            served "$allocator before the shim" env LD_PRELOAD="$allocator:$library" "${ranks[@]}" "$program"
            served "$allocator behind the shim" env LD_PRELOAD="$library:$allocator" "${ranks[@]}" "$program"
            served "$allocator in a run --dlsym" env LD_PRELOAD=$allocator "$tool" run --dlsym -- "${ranks[@]}" "$program"
        else
            skip "no $allocator"
        fi
    done
fi
export ASAN_OPTIONS=detect_leaks=0
for compiler in gcc clang; do
    command -v $compiler >/dev/null || { skip "no $compiler"; continue; }
    for runtime in "" static shared; do
        case $compiler$runtime in
        gccstatic) option=-static-libasan ;;
        clangshared) option="-shared-libasan -Wl,-rpath,$(clang -print-resource-dir)/lib/linux" ;;
        gcc | clang) option= ;;
        *) continue ;;
        esac
        # shellcheck disable=SC2086
        builds $compiler sums.c -fsanitize=address $option || continue
        works
        finds access heap-buffer-overflow
    done
    if builds $compiler sums.c -fsanitize=leak; then # gcc 13's hangs on some kernels, even without the shim
        if LIMIT=100 limited "${ranks[@]}" "$program" >/dev/null 2>&1; then
            works
        else
            skip "$compiler's leak sanitizer does not end without the shim"
        fi
    fi
    builds $compiler sums.c -fsanitize=undefined && works && finds overflow "signed integer overflow"
    if builds $compiler sums.c -fsanitize=thread; then
        if limited "${ranks[@]}" "$program" >/dev/null 2>&1; then
            works
            finds race "data race"
        else
            skip "$compiler's thread sanitizer does not start on this kernel"
        fi
    fi
done

# A program that defines its own options function hides the shim's, so compshim run sets the environment variable.
if builds gcc sums_options.c -fsanitize=address; then
    expect "a program with options of its own" 0 "$tool" check "$program"
    contains "is told of" "built with the address sanitizer, and has __asan_default_options"
    served "$program, in a run" "$tool" run -- "${ranks[@]}" "$program"
    served "$program, in a run that has options" env ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 "$tool" run -- "${ranks[@]}" "$program"
    expect "an option that forbids it" 1 env ASAN_OPTIONS=verify_asan_link_order=1 "$tool" run -- "$program"
    contains "stays" "ASan runtime does not come first"
    runtime=$("$tool" check --json "$program" | python3 -c 'import json, sys; print(json.load(sys.stdin)["address_sanitizer"])')
    served "$program, as check says" "${ranks[@]}" env LD_PRELOAD="$runtime:$library" "$program"
fi

# allocators: prints for each leak the frame that allocated it: the first in the stack other than the sanitizer and
# libc. The MPI library leaks memory of its own below the shim's wrappers. Frames of the shim have a source; an address
# without one may belong to a plugin that is no longer loaded, whatever object the sanitizer names.
allocators() {
    awk '/^ *#0 /{ found = 0 } /^ *#[1-9]/ && !found && !/libasan|libc\.so/ { found = 1; print }'
}

# Leaks: the program's is found, and the shim has none. The tool suppresses reports of its own memory.
if builds gcc sums.c -fsanitize=address; then
    expect "a program without" 0 "$tool" check "$program"
    contains "is told of" "built with the address sanitizer (libasan.so"
    export ASAN_OPTIONS=fast_unwind_on_malloc=0 LSAN_OPTIONS=
    for preload in "" "$library"; do
        # shellcheck disable=SC2069
        output=$(LD_PRELOAD=$preload limited "${ranks[@]}" "$program" leak 2>&1)
        contains "a leak is reported${preload:+ with the preload}" "Direct leak of 400000 byte(s)"
        check "in main" grep -q 'in main .*sums.c' <<<"$output"
        check "and none of compshim${preload:+ with it}" test "$(allocators <<<"$output" | grep -cE '(shim|codecs|policy)/[a-z_/]+\.[ch]:')" = 0
    done
    unset ASAN_OPTIONS
    runtime=$(gcc -print-file-name=libasan.so)
    expect "a run with a leak checker preloaded" 0 env LD_PRELOAD="$(realpath "$runtime")" "$tool" run -- true
    check "has none itself" test "${output#*LeakSanitizer}" = "$output"
fi
finish
