#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Translates the kernels' machine code in FATBIN to C++ (translate.py), and builds host programs that run it
# (machine.cc): FOLDER/NAME for each architecture, and for the PTX if FATBIN has it. Prints their paths. Needs
# cuobjdump and nvdisasm: tools/get-cuda.sh fetches them.
#   build.sh FATBIN FOLDER
set -eu
fatbin=$(realpath "$1") folder=$2
cd "$(dirname "$0")/../../.."
build=${BUILD:-build}
export PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$PATH
mkdir -p "$folder"
folder=$(realpath "$folder")
rm -f "$folder"/*.cubin "$folder"/*.ptx
(cd "$folder" && cuobjdump -xelf all -xptx all "$fatbin" >extracted)
compile="${CXX:-g++} -std=c++17 -ffp-contract=off -frounding-math -Wall -Wextra -Werror -I. -c"
$compile -O2 -o "$folder/machine.o" tests/nccl/machine/machine.cc
objects=("$folder/machine.o" "$build/obj/tests/nccl/kernels/arrays.o" "$build/obj/kernels/kernels.o" "$build"/obj/codecs/*.o)
shopt -s nullglob # the intermediate code may be missing
for code in "$folder"/*.cubin "$folder"/*.ptx; do
    name=${code##*/}
    name=${name#*.*.}
    name=${name%.*}
    case $code in
    *.ptx)
        name=ptx_${name#sm_}
        from=("$code")
        ;;
    *)
        nvdisasm -hex -c "$code" >"$folder/$name.listing"
        from=("$code" "$folder/$name.listing")
        ;;
    esac
    python3 tests/nccl/machine/translate.py "$name" "${from[@]}" >"$folder/$name.cc"
    $compile -O1 -o "$folder/$name.o" "$folder/$name.cc"
    ${CXX:-g++} -o "$folder/$name" "$folder/$name.o" "$build/obj/tests/nccl/kernels/"{{,cast_,sum_,large_}cases,products}.o "${objects[@]}" -lm
    echo "$folder/$name"
done
