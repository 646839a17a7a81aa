#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures the cost of a passed-through call: the instructions that callgrind counts, minus those of gloo itself.
# Not for coverage: it counts instructions, and coverage counters are instructions too.
. "$(dirname "$0")/lib.sh"
calls=2000 limit=$(limit_of 2500) # about a microsecond
if [ "${SANITIZE:-0}" = 1 ]; then
    skip "with sanitizers instructions are not the library's own"
    finish
fi
cat >"$scratch/counted.sh" <<'E2'
[ "$RANK" != 0 ] || exec valgrind --tool=callgrind --callgrind-out-file="$1/callgrind.out" "${@:2}"
exec "${@:2}"
E2
printf '[rule small]\nmax_size = 1KiB\ncodec = none\n[rule rest]\ncodec = fp16\n' >"$scratch/policy.ini"
expect "small calls" 0 job 2 LD_PRELOAD="$preload" COMPSHIM_REPORT=off COMPSHIM_POLICY="$scratch/policy.ini" \
    bash "$scratch/counted.sh" "$scratch" "$build/tests/gloo_cases" sums $calls 16
count=$(callgrind_annotate --tree=calling --inclusive=yes --threshold=100 --show-percs=no "$scratch/callgrind.out" |
    tr -d , | awk -v calls="$calls" '
        $2 == "*" { ours = /gloo::allreduce.*libcompshim/; engine = /engine\.c:make .*libcompshim-gloo/ }
        $2 == "*" && ours { total = $1 }
        $2 == ">" && engine && /:gloo::allreduce/ && /libgloo/ { real = $1 }
        END { print total && real ? int((total - real) / calls) : "none" }')
if [ "$count" != none ] && [ "$count" -gt 100 ] && [ "$count" -le $limit ]; then
    echo "each costs $count instructions"
    pass "each costs at most $limit instructions"
else
    fail "each costs at most $limit instructions" "$count"
fi
finish
