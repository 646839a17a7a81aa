#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the quick cases on the translated kernels, and checks that cases find deleted instructions and defects in the
# source. make test-machine runs it.
. "$(dirname "$0")/lib.sh"

check "every instruction of the binary can be translated" build_machines "$fatbin" "$scratch/machines"
mapfile -t machines <"$scratch/machines.programs"
for machine in "${machines[@]}"; do
    for seed in 1 2; do
        check "${machine##*/}: agrees with the codecs (seed $seed)" env MACHINE_SEED=$seed "$machine" quick
    done
done

python3 tests/nccl/machine/mutants.py 50 1 "${machines[@]}" | tee "$scratch/mutants"
found=$(sed -nE 's/^([0-9]+) of 50 deletions are found.*$/\1/p' "$scratch/mutants")
# A few deletions change no result and cannot be found: guards of loops that always run, instructions that make
# NaNs canonical where only finite values matter, clamps beyond the range of the formats. With other seeds 45 to 49
# were found.
check "of 50 deleted instructions at least 45 are found: $found" test "${found:-0}" -ge 45

# defect NAME FILE SED: plants a defect in a copy of the kernels, compiled for one architecture; the few
# cases must find it
defect() {
    local tree=$scratch/defect
    rm -rf "$tree" && mkdir -p "$tree"
    cp -a kernels codecs shim "$tree"
    sed -i -E "$3" "$tree/kernels/$2"
    check "$1: is planted in $2" test -n "$(diff "kernels/$2" "$tree/kernels/$2")"
    check "$1: builds" nvcc -std=c++17 --fmad=false -I"$tree" -fatbin -gencode arch=compute_90,code=sm_90 \
        -o "$tree/fatbin" "$tree/kernels/device.cu"
    check "$1: is translated" build_machines "$tree/fatbin" "$tree/machines"
    output=$("$tree/machines/sm_90" few 2>&1)
    check "$1: is found: $(grep -m 1 '^not ok' <<<"$output" | cut -d ' ' -f 3-)" grep -q '^not ok' <<<"$output"
}
defect "accesses of 16 bytes at multiples of 8" memory.cuh 's/\(uint64_t\)address % 16 == 0/(uint64_t)address % 8 == 0/'
defect "codes loaded past the end" message.cuh 's/= min\(lane_number\(\), .*;/= lane_number();/'
defect "codes stored past the end" message.cuh 's/i < bits && i < left/i < bits/'
defect "a warp that skips no piece" memory.cuh 's/grain.piece \+= grain.number \/ grains/grain.piece += grain.number >= grains/'
defect "halves in the wrong order" values.cuh '0,/"f"\(second\), "f"\(first\)/s//"f"(first), "f"(second)/'
defect "the first pair of fp8 taken twice" values.cuh 's/codes\[i \/ 2\] >> i % 2 \* 16/codes[i \/ 2]/'
defect "the maximum of half of a block" formats.cuh '/^template <int BLOCK>/,/^}/s/distance > 0/distance > 1/'
defect "lanes that all write a fault" message.cuh '/fault\[1\] = number/s/^/;/'
defect "a vote of part of a warp" message.cuh 's/if \(!__any_sync\(ALL_LANES, differs\)\)/if (lane < 16 \&\& !__any_sync(ALL_LANES, differs))/'
defect "one byte of padding too many" message.cuh 's/at < padded\(end\) && lane/at <= padded(end) \&\& lane/'
finish
