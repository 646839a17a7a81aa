#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks libcompshim_dl.so: it catches programs that look MPI's functions up with dlsym, and changes no other use of
# dlsym. Also checks the shim together with another tool, in either order.
. "$(dirname "$0")/../lib.sh"
programs=$top/tests/programs
both=$preload:$build/libcompshim_dl.so
cd "$scratch" || exit 1
policy fp16.ini fp16
sed -i 's/^report = off/report = summary/' fp16.ini
export COMPSHIM_POLICY=$scratch/fp16.ini
gcc -O1 -D_GNU_SOURCE -o fetch "$programs/fetch.c"
gcc -O1 -D_GNU_SOURCE -rdynamic -o odd "$programs/odd_dlsym.c"
mpicc.openmpi -O1 -fPIC -shared -o tool.so "$programs/tool.c"
mpicc.openmpi -std=c11 -D_GNU_SOURCE -O1 -o linked "$top/tests/clients/sums.c"
mpi_library=libmpi.so.40

lacks() {
    case $output in *"$2"*) fail "$1" "'$2' is in: $output" ;; *) pass "$1" ;; esac
}
# caught NAME CALLS COMMAND...: checks that the sums are right, and CALLS calls are compressed
caught() {
    local name=$1 calls=$2
    shift 2
    expect "$name" 0 mpi 2 "$@"
    contains "$name: the sums are right" "2 ranks: 0 wrong"
    check "$name: $calls compressed" grep -Eq "^compshim: all +fp16 +[a-z_]+ +$calls " <<<"$output"
}

expect "without it, a handle's function" 0 mpi 2 LD_PRELOAD="$preload" ./fetch $mpi_library handle
contains "is right" "2 ranks: 0 wrong"
lacks "is not caught" "compshim: all"
for libraries in "$both" "${both#*:}:$preload"; do
    [ "${SANITIZE:-0}" = 1 ] && libraries=$both
    for from in handle default next; do
        caught "from $from" 2 LD_PRELOAD="$libraries" ./fetch $mpi_library $from
    done
done
caught "in a second thread" 2 LD_PRELOAD="$both" ./fetch $mpi_library handle thread
caught "ctypes" 1 LD_PRELOAD="$both" /usr/bin/python3 "$programs/fetch.py" $mpi_library
expect "compshim run --dlsym" 0 limited "$build/compshim" run --dlsym -- \
    "${launch[@]}" -n 2 ./fetch $mpi_library handle
contains "catches" "compshim: all"
expect "an older preload of both" 0 env LD_PRELOAD="$both" "$build/compshim" run sh -c 'echo "$LD_PRELOAD"'
lacks "is not named twice" "_dl.so"

# Together with another tool, before or after the shim: the tool is called, and the program's two sums are compressed.
for libraries in "tool.so:$preload" "$preload:tool.so" "tool.so:$both" "$both:tool.so"; do
    [ "${SANITIZE:-0}" = 1 ] && libraries=${libraries/tool.so:"$preload"/"$preload":tool.so}
    expect "linked, with ${libraries//"$(dirname "$preload")/"/}" 0 mpi 2 LD_PRELOAD="${libraries//tool.so/$scratch/tool.so}" ./linked
    check "both sums are right" test "$(grep -c ': 0 of 262144 wrong' <<<"$output")" = 2
    contains "the tool lives" "tool: "
    check "two calls are compressed" grep -Eq '^compshim: all +fp16 +[a-z_]+ +2 ' <<<"$output"
done

# Two copies of a library: a lookup in the second one finds its own function.
gcc -shared -fPIC -o libmpi.so.40 -Wl,-soname,libmpi.so.40 "$programs/library.c" -DFUNCTION=MPI_Allreduce \
    -DANSWER=0
mkdir -p second && gcc -shared -fPIC -o second/libmpi.so.12 "$programs/library.c" -DFUNCTION=MPI_Allreduce -DANSWER=1
gcc -O1 -o two "$programs/caller.c" -DOPENED='"second/libmpi.so.12"' -DFLAGS=RTLD_LOCAL \
    -Wl,--no-as-needed libmpi.so.40 -Wl,-rpath,"$scratch"
expect "the second copy's function" 0 env LD_PRELOAD="$both" ./two
contains "is the second copy's" preload # caller.c prints this word for the answer 1

# Other uses of dlsym.
native=$(LD_PRELOAD=${preload%"$build/libcompshim.so"} ./odd 2>&1) # preloads only the sanitizer, if any
expect "odd uses of dlsym" 0 env LD_PRELOAD="$both" ./odd
if [ "$output" = "$native" ]; then pass "give what they give without"; else fail "give what they give without" "$native, then $output"; fi
contains "an error is told as ever" "undefined symbol: MPI_Allreduce_that_nobody_has"
gcc -fsanitize=address -O1 -D_GNU_SOURCE -rdynamic -o odd_asan "$programs/odd_dlsym.c"
asan=$(gcc -print-file-name=libasan.so)
native=$(ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$asan ./odd_asan 2>&1)
expect "under the address sanitizer" 0 env ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 \
    LD_PRELOAD="$asan:$build/libcompshim.so:$build/libcompshim_dl.so" ./odd_asan
if [ "$output" = "$native" ]; then pass "too"; else fail "too" "$native, then $output"; fi
jemalloc=$(ls /usr/lib/*/libjemalloc.so.2 2>/dev/null)
[ "${SANITIZE:-0}" = 1 ] && jemalloc= # the address sanitizer has its own allocator
while IFS= read -r command; do
    command -v "${command%% *}" >/dev/null || {
        skip "no ${command%% *}"
        continue
    }
    native=$(bash -c "$command" 2>&1 </dev/null)
    for libraries in "$both" ${jemalloc:+"$jemalloc:$both"}; do
        expect "same with the preload: $command" 0 env LD_PRELOAD="$libraries" bash -c "$command"
        check "the same output" test "$output" = "$native"
    done
done <<'E2'
/usr/bin/python3 -c 'import ctypes, json, ssl, sqlite3; print(ctypes.CDLL(None).abs(-3))'
perl -e 'use POSIX; print floor(2.5), "\n"'
java -version
node -e 'console.log(1 + 1)'
git --version
gcc --version
E2

if [ "${SANITIZE:-0}" != 1 ]; then
    library=$build/libcompshim_dl.so
    check "it exports dlsym only" test "$(nm -D --defined-only "$library" | awk '{ print $NF }')" = dlsym
    check "it needs libc only" test \
        "$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')" = libc.so.6
    check "no text relocations, no executable stack" test -z \
        "$(readelf -dlW "$library" | grep -E 'TEXTREL|GNU_STACK.*RWE')"
fi
finish
