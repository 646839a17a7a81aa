#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Counts the instructions that each codec runs per element of float32: to encode, to decode, to reduce two encoded
# inputs to floats, and to reduce them to an encoded sum. Single-steps a program for this machine's processor; runs one
# for another processor in an emulator that logs each instruction (Debian's qemu-user).
# usage: tests/bench/instructions.sh PROGRAM [LEVEL...]
# PROGRAM is build/instructions, or the same built for another processor. The default is each LEVEL of scalar, avx2 and
# avx512 that the processor has.
set -eu
program=$(realpath "$1")
shift
case $(file -bL "$program") in
*aarch64*) processor=aarch64 ;;
*x86-64*) processor=x86_64 ;;
*) echo "$0: $program is no program for x86-64 or 64-bit Arm" >&2 && exit 2 ;;
esac
# Avoids `rep movsb`, which single-stepping would count once for each copied byte.
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000:glibc.cpu.x86_rep_stosb_threshold=1000000
emulator=()
[ "$processor" = "$(uname -m)" ] || emulator=("qemu-$processor" -cpu max)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# has LEVEL: succeeds if the processor has it; in an emulator, and on 64-bit Arm, only for scalar
has() {
    [ "$1" = scalar ] || { [ "$processor" = x86_64 ] && [ ${#emulator[@]} = 0 ] &&
        grep -q "^flags.* ${1/avx512/avx512bw} " /proc/cpuinfo; }
}
# count LEVEL: writes a number for each piece of work to $folder/counts
count() {
    if [ ${#emulator[@]} = 0 ]; then
        "$program" count "$1" >"$folder/counts"
        return
    fi
    mkfifo "$folder/trace"
    "${emulator[@]}" -singlestep -d exec,nochain -D "$folder/trace" "$program" trace "$1" &
    awk '$NF == "mark_begin" { marked = 1; n = 0; next }
        $NF == "mark_end" { if (marked) print n; marked = 0; next }
        marked { n++ }' "$folder/trace" >"$folder/counts"
    wait $!
    rm "$folder/trace"
}

if [ $# = 0 ]; then
    for level in scalar avx2 avx512; do
        ! has $level || set -- "$@" $level
    done
fi
"${emulator[@]}" "$program" codecs >"$folder/codecs"
printf '%-9s %-7s %8s %8s %8s %8s\n' codec level encode decode reduce reencode
for level in "$@"; do
    count "$level"
    # The longer array has 512 elements more than the shorter.
    awk -v level="$level" '
        NR == FNR { codec[++codecs] = $1; next }
        { counts[pieces++] = $1 }
        END {
            if (pieces != 8 * codecs) {
                print pieces + 0 " counts of " codecs " codecs" >"/dev/stderr"
                exit 1
            }
            for (i = 1; i <= codecs; i++) {
                printf "%-9s %-7s", codec[i], level
                for (work = 0; work < 4; work++)
                    printf " %8.2f", (counts[8 * i - 4 + work] - counts[8 * i - 8 + work]) / 512
                print ""
            }
        }' "$folder/codecs" "$folder/counts"
done
