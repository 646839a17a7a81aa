#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that docs/troubleshooting.md has every warning and error of the library, no others, and every reason for
# passing a call through.
. "$(dirname "$0")/../lib.sh"
cd "$top" || exit 1
page=docs/troubleshooting.md

mapfile -t sources < <(find shim policy kernels -name '*.c')
check "messages are found in the sources" python3 tests/docs/messages.py sources "${sources[@]}"
python3 tests/docs/messages.py sources "${sources[@]}" >"$scratch/printed"
python3 tests/docs/messages.py page "$page" >"$scratch/explained"
check "more than 50 of them" test "$(wc -l <"$scratch/printed")" -gt 50
if text=$(diff -u "$scratch/explained" "$scratch/printed"); then
    pass "the page explains each, and no other"
else
    fail "the page explains each, and no other" "$text"
fi

# messages.py finds only calls whose level is a constant, so no call of cshim_log may have a variable level.
check "no message is put together where the search cannot see it" test -z \
    "$(grep -hoE 'cshim_log\([a-z]\w*,' "${sources[@]}")"

sed -n 's/^REASON([A-Z_]*, \([a-z_]*\),.*/\1/p' shim/core/reasons.def | grep -vx compress >"$scratch/reasons"
check "reasons are found in the sources" test -s "$scratch/reasons"
while read -r reason; do
    check "the page explains the reason $reason" grep -qE "^\| .*\`$reason\`.*\|.*\|" "$page"
done <"$scratch/reasons"
finish
