#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A library that has gloo's names, and other structures behind them: every call is passed on, and said.
. "$(dirname "$0")/lib.sh"
program=$build/tests/gloo_layout
rule "codec = raw"
expect "natively" 0 job 1 "$program" moved
expect "members in their places" 0 preloaded 1 "$program" right
reports "they are understood" 'passed == {"single_rank": 1}'
expect "members moved by 8 bytes" 0 preloaded 1 "$program" moved
check "one warning" test "$(grep -c '^compshim: .*unknown layout' <<<"$output")" = 1
calls=$(sed -n 's/ calls, 0 failures$//p' <<<"$output")
reports "they are passed on by name" "rows == [] and passed == {'unknown_layout': $calls} and $calls > 20"
finish
