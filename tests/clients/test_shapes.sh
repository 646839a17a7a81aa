#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks one C program that is linked to MPI, opened as a library, or opens MPI itself.
. "$(dirname "$0")/lib.sh"
needs gcc
printf '[rule all]\nop = sum\ncodec = fp16\n' >fp16.ini

# client PROGRAM ACCESS CAUGHT COMMAND...: checks COMMAND on 3 ranks
client() {
    local program=$1 access=$2 wanted=$3
    shift 3
    ran "$program without the shim" without mpi 3 "$@"
    is "$program: both sums are right" "$(grep -c ': 0 of 262144 wrong' without)" 2
    ran "$program with fp16" with shimmed 3 COMPSHIM_POLICY=fp16.ini COMPSHIM_REPORT="$scratch/$program.json" "$@"
    same "$program: equal answers" without with
    facts "$program.json"
    is "$program: caught" "$caught" "$wanted"
    [ "$caught" = no ] || is "$program: both calls are compressed" "$compressed" 2
    row "sums in C, 3 ranks" "$access"
}

options=(-std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror)
check "compile the host" gcc "${options[@]}" -o host "$clients/host.c"
check "compile linked" "mpicc.$MPI" "${options[@]}" -o linked "$clients/sums.c"
check "compile a library" "mpicc.$MPI" "${options[@]}" -fPIC -shared -Dmain=run_sums -o libsums.so "$clients/sums.c"
check "compile opened" "mpicc.$MPI" "${options[@]}" -DOPENED -c -o opened.o "$clients/sums.c"
check "link opened" gcc -o opened opened.o

checked "linked" 0 "caught (interposed)" ./linked
client linked linked yes ./linked
checked "a library" 0 "caught (interposed)" ./libsums.so
client local "opened RTLD_LOCAL" yes ./host "$PWD/libsums.so" local
client deep "opened RTLD_DEEPBIND" no ./host "$PWD/libsums.so" deep
checked "opened" 1 "maybe (opened)" ./opened
client opened dlsym no ./opened
preload=$preload:$build/libcompshim_dl.so client hooked "dlsym, run --dlsym" yes ./opened
finish
