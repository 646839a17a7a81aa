#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The manual pages against the help texts and the sources: neither may know what the other does not.
. "$(dirname "$0")/../lib.sh"
export ASAN_OPTIONS=verify_asan_link_order=0
manual=$top/docs/man
cd "$top" || exit 1

facts() { python3 tests/docs/facts.py "$@"; }
same() { # NAME FILE FILE
    if text=$(diff -u "$2" "$3") && [ -s "$2" ]; then pass "$1"; else fail "$1" "$text"; fi
}
within() { # NAME FILE FILE: every line of the first is in the second
    if [ -s "$2" ] && text=$(comm -23 "$2" "$3") && [ -z "$text" ]; then
        pass "$1"
    else
        fail "$1" "not described: $text"
    fi
}

# A flag that is alone in its command may be described in its text: .Fl -json
flags() {
    awk '/^\.S[hs] / { command = $2 } /^\.Fl -/ { sub(/^-/, "", $2); print command, "-" "-" $2 }' \
        "$manual/compshim.1" | sort -u
}
facts help "$build/compshim" >"$scratch/help"
facts manual "$manual/compshim.1" >"$scratch/manual"
sort -u "$scratch/manual" <(flags) >"$scratch/mentioned"
within "compshim(1) has every option of the help texts" "$scratch/help" "$scratch/mentioned"
within "and no other" "$scratch/manual" "$scratch/help"
facts variables shim/*.c shim/*/*.c tools/*.c policy/*.c >"$scratch/read"
facts items "$manual/compshim.1" ENVIRONMENT >"$scratch/variables"
# COMPSHIM_FORWARDED is a word from mpirun to itself.
grep -vx COMPSHIM_FORWARDED "$scratch/read" >"$scratch/known"
within "compshim(1) has every variable that is read" "$scratch/known" "$scratch/variables"

facts keys policy/keys.c >"$scratch/keys"
facts items "$manual/compshim-policy.5" "Section [compshim]" "Sections [rule NAME]" >"$scratch/items"
same "compshim-policy(5) has every key, and no other" "$scratch/keys" "$scratch/items"
cd "$scratch" || exit 1
while read -r key; do
    other='codec = fp16'
    [ "$key" = codec ] && other=
    printf '[rule all]\n%s\n%s = zzzzzzzzzzzz\n' "$other" "$key" >word.ini
    "$build/compshim" explain --policy word.ini --size 1MiB 2>&1 | grep -v 'unknown key' |
        sed -n 's/.*(known: \(.*\)).*/\1/p' | tr -s ', ' '\n' >words
    [ -s words ] || continue # it takes no word
    text=
    while read -r word; do
        grep -qw -- "$word" "$manual/compshim-policy.5" || text="$text $word"
    done <words
    if [ -z "$text" ]; then pass "it has every word of $key"; else fail "it has every word of $key" "$text"; fi
done <keys
cd "$top" || exit 1

if [ -e "$manual/compshim-report.5" ]; then
    facts fields shim/report_json.c >"$scratch/fields"
    grep -E '^\.' "$manual/compshim-report.5" | grep -oE '\w+' | sort -u >"$scratch/described"
    within "compshim-report(5) has every field" "$scratch/fields" "$scratch/described"
else
    echo "skipped: there is no compshim-report(5) yet to compare the report's fields with"
fi

for page in "$manual"/*.[1-9]; do
    check "mandoc has nothing to say of $(basename "$page")" mandoc -T lint -W warning "$page"
done
finish
