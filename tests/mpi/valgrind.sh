#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs MPI test programs under valgrind: no invalid access, no use of uninitialised data, and no leaked block with the
# engine in its call stack (Open MPI leaks some itself). `make test-valgrind`, not part of `make test`. valgrind has no
# AVX-512, so the codecs use at most AVX2.
. "$(dirname "$0")/../lib.sh"
command -v valgrind >/dev/null || {
    echo "valgrind.sh: needs valgrind: apt-get install valgrind" >&2
    exit 3
}
export COMPSHIM_POLICY=$scratch/policy.ini
LIMIT=3600
checker=(valgrind --quiet --error-exitcode=9 --num-callers=40 --fullpath-after= --leak-check=full
    --show-leak-kinds=definite --errors-for-leak-kinds=none --log-file="$scratch/log.%p"
    --suppressions="$top/tests/mpi/valgrind.supp")
# Suppressions that Debian's packages of Open MPI and PMIx come with.
for file in /usr/share/openmpi/openmpi-valgrind.supp /usr/lib/*/pmix2/share/pmix/pmix-valgrind.supp; do
    [ -e "$file" ] && checker+=(--suppressions="$file")
done

# no_findings: succeeds if the logs have only leaks, none of them with the engine in its call stack (the front is in
# the stack of every block that MPI_Init allocates)
no_findings() {
    python3 - "$scratch"/log.* <<'P'
import re, sys
found = []
for name in sys.argv[1:]:
    for record in re.split(r"^==\d+== *\n", open(name).read(), flags=re.M):
        lost = "lost in loss record" in record
        engine = re.search(r"/(shim/(mpi|host|core|report)|codecs|policy)/(\w+/)*\w+\.c:\d+\)|libcompshim-", record)
        if "==    at 0x" in record and (not lost or engine):
            found.append(record)
print(*found, sep="\n")
sys.exit(bool(found) or len(sys.argv) < 2)
P
}
# clean NAME RANKS PROGRAM [ARGUMENT...]: runs the program under valgrind, and checks that it has no findings
clean() {
    local name=$1 ranks=$2
    shift 2
    rm -f "$scratch"/log.*
    expect "$name, $ranks ranks" 0 shimmed "$ranks" COMPSHIM_REPORT="$scratch/report.json" \
        "${checker[@]}" "$@"
    check "$name: no findings" no_findings
}

policy "$scratch/policy.ini" fp8_e4m3
clean "calls of every kind" 3 "$build/tests/mpi_one_of_each"
clean "communicators" 3 "$build/tests/mpi_communicators" 5 1000000
clean "threads" 2 "$build/tests/mpi_threads"
clean "nonblocking and persistent" 2 "$build/tests/mpi_iallreduce" 3000
clean "nonblocking, in threads" 2 "$build/tests/mpi_iallreduce" threads
clean "reduce" 3 "$build/tests/mpi_reductions" fp8_e4m3 2 reduce
clean "reduce_scatter" 3 "$build/tests/mpi_reductions" fp8_e4m3 1 scatter
policy "$scratch/policy.ini" fp16 two_shot
clean "wrong arguments" 2 "$build/tests/mpi_error_handlers"
for algorithm in two_shot one_shot cast hierarchical; do
    "$build/tests/mpi_allreduce" --policy $algorithm >"$scratch/policy.ini"
    clean "$algorithm, every codec" 3 "$build/tests/mpi_allreduce" all $algorithm
done
finish
