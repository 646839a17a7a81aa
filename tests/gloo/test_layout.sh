#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks a library with gloo's names but another memory layout: calls are passed through. If the additional word is 0
# (even numbers), a message must say why.
. "$(dirname "$0")/lib.sh"
program=$build/tests/gloo_layout
rule "codec = raw"
expect "words in their places" 0 preloaded 1 "$program"
reports "are understood" 'passed == {"single_rank": 1}'
for number in {0..45}; do
    expect "a word more, $number" 0 limited env LD_PRELOAD="$preload" COMPSHIM_REPORT="$scratch/report.json" "$program" $number
    [ $((number % 2)) = 1 ] || check "one warning" test "$(grep -c '^compshim: .*laid out' <<<"$output")" = 1
    [ $((number % 8)) != 0 ] || reports "passed through by name" 'rows == [] and passed == {"unknown_layout": 1}'
    rm -f "$scratch/report.json"
done
finish
