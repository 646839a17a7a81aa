#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Counts the instructions of each codec per float32 element: encode, decode, reduce of two inputs, and reduce with
# encoding the sum. An emulator (Debian's qemu-user) runs build/instructions and records each instruction.
# usage: tests/bench/instructions.sh PROGRAM [LEVEL...]
# PROGRAM is build/instructions, for this or another processor. LEVEL is scalar or avx2; the default is the best level
# of the emulator. No emulator has AVX-512.
set -eu
program=$1
shift
case $(file -bL "$program") in
*aarch64*) emulator=(qemu-aarch64 -cpu max) ;;
*x86-64*) emulator=(qemu-x86_64 -cpu max) ;;
*) echo "$0: $program is no program for x86-64 or 64-bit Arm" >&2 && exit 2 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Reads the program's lines, then the trace.
count() {
    awk '
        FILENAME != "-" { codec[NR] = $1; level[NR] = $2; elements[NR] = $3; codecs = NR; next }
        $NF == "mark_begin" { marked = 1; n = 0; next }
        $NF == "mark_end" { if (marked) counts[pieces++] = n; marked = 0; next }
        marked { n++ }
        END {
            if (codecs == 0 || pieces != 8 * codecs) {
                print "the trace has " pieces + 0 " pieces of " codecs + 0 " codecs" >"/dev/stderr"
                exit 1
            }
            for (i = 1; i <= codecs; i++) {
                printf "%-9s %-7s", codec[i], level[i]
                for (work = 0; work < 4; work++)
                    printf " %8.2f", (counts[8 * i - 4 + work] - counts[8 * i - 8 + work]) / elements[i]
                print ""
            }
        }' "$1" -
}

printf '%-9s %-7s %8s %8s %8s %8s\n' codec level encode decode reduce reencode
for level in "${@:-}"; do
    "${emulator[@]}" "$program" $level >"$folder/lines"
    mkfifo "$folder/trace"
    "${emulator[@]}" -singlestep -d exec,nochain -D "$folder/trace" "$program" $level >/dev/null &
    count "$folder/lines" <"$folder/trace"
    wait $!
    rm "$folder/trace"
done
