#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the manual pages as built. docs/man/page.awk takes options and keys from the tables in the sources: it must
# read them as the compiler does, and reject a template that lacks one. Options, words, variables and fields in the
# prose are compared with the program's.
. "$(dirname "$0")/../lib.sh"
export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
manual=$build/man
cd "$top" || exit 1

facts() { python3 tests/docs/facts.py "$@"; }
same() { # NAME FILE FILE: checks that the files are equal and not empty
    if text=$(diff -u "$2" "$3") && [ -s "$2" ]; then pass "$1"; else fail "$1" "$text"; fi
}
within() { # NAME FILE FILE: checks that every line of the first file is in the second
    if [ -s "$2" ] && text=$(comm -23 "$2" "$3") && [ -z "$text" ]; then
        pass "$1"
    else
        fail "$1" "not there: $text"
    fi
}

facts help "$build/compshim" >"$scratch/help"
facts manual "$manual/compshim.1" >"$scratch/manual"
same "compshim(1) has the options of the help texts" "$scratch/help" "$scratch/manual"
# The page may mention an option alone, or after its command. --export is an option of srun.
sed -E 's/^(\w+) .*(--[a-z-]+).*/\1 \2\n\2/; $a --help\n--version\nrun --export' "$scratch/help" | sort -u >"$scratch/options"
facts mentioned "$manual/compshim.1" >"$scratch/mentioned"
within "it mentions no other" "$scratch/mentioned" "$scratch/options"
facts variables shim/*/*.[ch] tools/*.c tools/*/*.c policy/*.c >"$scratch/read"
facts items "$manual/compshim.1" ENVIRONMENT >"$scratch/variables"
# The library in mpirun sets COMPSHIM_FORWARDED when it executes mpirun again; it is not for users.
grep -vx COMPSHIM_FORWARDED "$scratch/read" >"$scratch/known"
within "compshim(1) has every variable that is read" "$scratch/known" "$scratch/variables"
grep -x 'COMPSHIM.*' "$scratch/variables" >"$scratch/ours"
within "and no other of ours" "$scratch/ours" "$scratch/known"

key_sections=("Section [compshim]" "Sections [rule NAME]")
facts keys "$build/compshim" >"$scratch/keys"
facts words "$manual/compshim-policy.5" "${key_sections[@]}" >"$scratch/words"
within "compshim-policy(5) has every key, and every word it takes" "$scratch/keys" "$scratch/words"
facts items "$manual/compshim-policy.5" "${key_sections[@]}" >"$scratch/items"
within "and has no other" "$scratch/items" "$scratch/keys"

facts defaults "$build/compshim" >"$scratch/defaults"
facts table docs/policy.md >"$scratch/table"
same "the table of policy.md has every key with its default" "$scratch/defaults" "$scratch/table"
check "and every key has one" test "$(cut -d ' ' -f 1 "$scratch/defaults" | sort)" = "$(grep -v ' ' "$scratch/keys" | sort)"

facts fields shim/report/json.c shim/core/row.c >"$scratch/fields"
grep -E '^\.' "$manual/compshim-report.5" | grep -oE '\w+' | sort -u >"$scratch/described"
within "compshim-report(5) has every field" "$scratch/fields" "$scratch/described"
facts items "$manual/compshim-report.5" "The job" "The calls" "A row" >"$scratch/items"
within "and describes no other" "$scratch/items" "$scratch/fields"

for page in "$manual"/*.[1-9]; do
    check "mandoc has nothing to say of $(basename "$page")" mandoc -T lint -W warning "$page"
done

# page.awk on templates that lack an option, have one too many, or ask for an unknown key.
page() { awk -f docs/man/page.awk "$@" 2>&1; }
grep -v '^\.Option off$' docs/man/compshim.1.in >"$scratch/lacks.in"
expect "an option without a line is refused" 1 page tools/*.c tools/*/*.c "$scratch/lacks.in"
contains "and named" "no line describes 'off' of tools/run/run.c"
sed 's/^\.Option off$/&\n.Option of/' docs/man/compshim.1.in >"$scratch/more.in"
expect "so is a line without an option" 1 page tools/*.c tools/*/*.c "$scratch/more.in"
contains "with its place" "more.in:$(grep -nx '.Option of' "$scratch/more.in" | cut -d : -f 1): no table has this"
printf '.Key codecs\n' >"$scratch/key.in"
expect "so is an unknown key" 1 page policy/keys.c "$scratch/key.in"
finish
