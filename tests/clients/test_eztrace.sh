#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the shim with Debian's tracer EZTrace. Preloaded before the shim, EZTrace writes its trace, and the
# program's calls are compressed. Preloaded after it, EZTrace calls the library directly, and the shim prints a
# message.
. "$(dirname "$0")/lib.sh"
[ -z "${MPI_HOME-}" ] || not_here "EZTrace is Debian's, for Debian's MPIs"
needs eztrace libeztrace0
cd "$scratch" || exit 3
tracer=$(ldconfig -p | sed -n "s/.* => \(.*libeztrace-$MPI.so\)$/\1/p" | head -n 1)
[ -n "$tracer" ] || not_here "no libeztrace-$MPI.so"
printf '[rule all]\ncodec = fp8_e4m3\nworth = always\n' >fp8.ini
"mpicc.$MPI" -w -o program "$top/tests/mpi/tools/program.c" -lm

for where in before behind; do
    preloaded=$tracer:$preload
    [ $where = before ] || preloaded=$preload:$tracer
    expect "EZTrace $where the shim" 0 mpi 2 COMPSHIM_POLICY="$scratch/fp8.ini" \
        COMPSHIM_REPORT="$scratch/$where.json" EZTRACE_TRACE_DIR="$scratch/$where" LD_PRELOAD="$preloaded" ./program
    contains "$where: the results are right" "program: 0 wrong"
    check "$where: it writes a trace" test -n "$(find "$where" -name "*.otf2")"
done
contains "behind the shim it has to be said what to do" "put it before libcompshim.so in LD_PRELOAD"
facts before.json
number_holds "before it calls are compressed" "$compressed > 0"
finish
