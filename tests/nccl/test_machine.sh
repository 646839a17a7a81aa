#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the shipped kernels' machine code and PTX, translated for the host, with the codecs on the set of cases
# named `few`. make test-machine takes the larger set, `quick`.
. "$(dirname "$0")/machine/lib.sh"

check "every instruction of the binary can be translated" build_machines "$fatbin" "$scratch/machines"
mapfile -t machines <"$scratch/machines.programs"
check "the binary has five architectures and PTX" test "${#machines[@]}" = 6
for machine in "${machines[@]}"; do
    check "${machine##*/}: agrees with the codecs" limited "$machine" few
done
finish
