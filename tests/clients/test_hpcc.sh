#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs HPCC, which checks its own results: the outcomes must be the same under @exact.
. "$(dirname "$0")/lib.sh"
[ "$MPI${MPI_HOME-}" = openmpi ] || not_here "Debian's HPCC is one of Open MPI"
needs hpcc
sed -E '6s/^[0-9]+ /300 /; 12s/^[0-9]+ /2 /' /usr/share/doc/hpcc/examples/_hpccinf.txt >hpccinf.txt

# measured NAME RUNNER [VARIABLE=VALUE...]: saves the outcome of each check in NAME.checks
measured() {
    rm -f hpccoutf.txt
    ran "$1: hpcc" "$1.output" "$2" 4 "${@:3}" hpcc
    # Keeps the outcomes without times; of each transpose, a line with its sizes.
    sed -nE -e 's/^ *(WALL|CPU) +([0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+) .*(PASSED|FAILED).*/\1 \2 \3/p' \
        -e '/^(WALL|CPU) /!{/PASSED|FAILED|^Success=|^CommWorldProcs=|Found [0-9]+ errors/p}' hpccoutf.txt >"$1.checks"
}
measured plain mpi
check "HPCC is content" grep -q "Success=1" plain.checks
check "so is its solver" grep -q "PASSED" plain.checks
measured exact shimmed COMPSHIM_POLICY=@exact COMPSHIM_REPORT="$scratch/exact.json"
facts exact.json
same "its checks say the same under @exact" plain.checks exact.checks
is "it is caught" "$caught" yes
row "HPCC, \`@exact\`, 4 ranks" linked
finish
