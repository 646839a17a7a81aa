#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks make install and uninstall: where files go, that the installed product works, and that nothing remains.
. "$(dirname "$0")/../lib.sh"
export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
cd "$top" || exit 1
prefix=$scratch/prefix

installation() { # TARGET VARIABLE=VALUE...: makes a target of the tested build
    make --no-print-directory -s "BUILD=$build" "SANITIZE=${SANITIZE-}" "$@"
}
files() { (cd "$1" && find . ! -type d | sed 's/^\.//' | sort); }

for wrong in "" "a folder"; do
    expect "BUILD='$wrong' is refused" 2 make "BUILD=$wrong" clean
    contains "and why" "is not the name of one folder"
done
check "make install" installation install "PREFIX=$prefix"
for file in bin/compshim lib/libcompshim.so lib/libcompshim-ompi.so lib/libcompshim-abi.so \
    libexec/compshim/allreduce_bench share/compshim/policy.ini share/doc/compshim/README.md share/man/man1/compshim.1 \
    share/man/man5/compshim-policy.5 share/bash-completion/completions/compshim; do
    check "$file is there" test -s "$prefix/$file"
done
for file in "$build"/libcompshim*.so; do
    check "$(basename "$file") is there, as built" cmp "$file" "$prefix/lib/$(basename "$file")"
done
for file in docs/man/*.in; do
    page=$(basename "$file" .in)
    check "$page is there, as built" cmp "$build/man/$page" "$prefix/share/man/man${page##*.}/$page"
done
check "no file can be written by others" \
    test -z "$(find "$prefix" -type f -perm /022)" -a -z "$(find "$prefix/lib" -name '*.so' -perm /111)"

check "the pages' links lead somewhere" diff /dev/null <({ cd "$prefix/share/doc/compshim" &&
    python3 "$top/tests/docs/links.py" ./*.md docs/*.md; } 2>&1)

cd "$scratch" || exit 1
printf '[compshim]\nreport = %s/report.json\n[rule all]\ncodec = fp16\n' "$scratch" >policy.ini
expect "the installed tool runs a job" 0 limited "$prefix/bin/compshim" run --policy policy.ini -- \
    mpirun --oversubscribe -n 2 "$prefix/libexec/compshim/allreduce_bench" --sizes 1MiB --seconds 0.2
check "that was compressed" python3 -c '
import json, sys
totals = json.load(open(sys.argv[1]))["totals"]
sys.exit(not totals["compressed_calls"] > 0)' report.json
expect "the installed tool checks" 0 "$prefix/bin/compshim" check "$prefix/libexec/compshim/allreduce_bench"
check "by the installed engine" test "$("$prefix/bin/compshim" check --json "$prefix/libexec/compshim/allreduce_bench" | grep -c "$prefix/lib/libcompshim-ompi.so")" -gt 0

cd "$top" || exit 1
expect "make uninstall from elsewhere is refused" 2 installation uninstall "PREFIX=$scratch/elsewhere"
contains "and why" "elsewhere/lib has no libcompshim.so"
check "make uninstall" installation uninstall "PREFIX=$prefix"
output=$(files "$prefix")
if [ -z "$output" ]; then pass "nothing is left"; else fail "nothing is left" "$output"; fi

expect "a stage with a blank is refused" 2 installation install "DESTDIR=$scratch/a stage"
contains "and why" "has a blank: name a folder without one"
check "and nothing is made" test ! -e "$scratch/a"
check "make install into a stage" installation install "DESTDIR=$scratch/stage" PREFIX=/usr \
    LIBDIR=/usr/lib/somewhere
check "the library is in its folder" test -s "$scratch/stage/usr/lib/somewhere/libcompshim.so"
check "nothing is outside /usr" test -z "$(files "$scratch/stage" | grep -v '^/usr/')"
touch "$scratch/stage/usr/share/compshim/of-the-user"
check "make uninstall from the stage" installation uninstall "DESTDIR=$scratch/stage" PREFIX=/usr \
    LIBDIR=/usr/lib/somewhere
check "only what it did not install is left there" test "$(files "$scratch/stage")" = /usr/share/compshim/of-the-user
finish
