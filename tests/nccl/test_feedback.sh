#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks error_feedback and rounding = stochastic of NCCL's calls, on the stand-ins: the mean of many sums of one buffer
# approaches the exact sum.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_feedback

# mean NAME STATUS RANKS LIMIT KEYS...: passes if a job of 16 calls ends with STATUS: 0 if the relative error of the
# results' mean is at most LIMIT, otherwise 1. The variable MODE is passed to the program.
mean() {
    local name=$1 status=$2 ranks=$3 limit=$4
    shift 4
    printf '%s\n' "[rule all]" "dtype = float32" "$@" >"$COMPSHIM_POLICY"
    expect "$name" "$status" preloaded "$ranks" "$program" 16 "$limit" ${MODE:+"$MODE"}
}
same() {
    local digests
    digests=$(sed -n 's/.*digest \([0-9a-f]*\),.*/\1/p' <<<"$output" | sort -u | wc -l)
    if [ "$digests" = 1 ]; then pass "$1"; else fail "$1" "$output"; fi
}

mean "int4 alone is coarse" 1 3 0.05 "codec = int4"
mean "int4 with feedback, two_shot" 0 3 0.015 "codec = int4" "error_feedback = on"
same "all ranks have the same bits"
mean "int4 with feedback, one_shot" 0 2 0.015 "codec = int4" "error_feedback = on"
NODES=0,0,1,1 mean "fp8 with feedback, hierarchical" 0 4 0.005 "codec = fp8_e4m3" "error_feedback = on" "algorithm = hierarchical"
reports "used hierarchical" 'rows[0]["algorithm"] == "hierarchical"'
expect "one call after larger numbers in the same memory" 0 preloaded 4 "$program" 1 0.2 larger
mean "fp8 with stochastic rounding" 0 3 0.02 "codec = fp8_e4m3" "rounding = stochastic"
same "all ranks have the same bits, rounded at random"
MODE=anew mean "stochastic rounding differs between communicators" 0 3 0.02 "codec = fp8_e4m3" "rounding = stochastic"
mean "without memory for residuals: continues without feedback" 1 3 0.05 "codec = int4" "error_feedback = on" "[compshim]" "feedback_memory = 1KiB"
contains "without memory for residuals: warns" "no memory for another residual"
MODE=shorter mean "a shorter tensor in the same memory makes room" 0 3 0.015 "codec = int4" "error_feedback = on" "[compshim]" "feedback_memory = 700KiB"
mean "max_rel_error is not supported for NCCL" 0 2 0.001 "codec = fp8_e4m3" "max_rel_error = 0.5"
reports "such calls are passed through, with their reason" 'passed["option"] == 16'
finish
