#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks compshim(1): help, version, wrong use, exit statuses.
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
golden=$top/tests/cli/golden

expect "the help" 0 "$tool" --help
golden "the help's text" "$golden/help.txt"
for command in run check explain report compare tune top; do
    expect "$command --help" 0 "$tool" "$command" --help
    golden "$command --help's text" "$golden/help_$command.txt"
    expect "help $command" 0 "$tool" help "$command"
    golden "help $command is the same" "$golden/help_$command.txt"
done
expect "help policy" 0 "$tool" help policy
golden "help policy's text" "$golden/help_policy.txt"
expect "help policies" 0 "$tool" help policies
golden "help policies' text" "$golden/help_policies.txt"
for policy in "$top"/policy/*.ini; do
    name=@$(basename "$policy" .ini)
    contains "it lists $name" "  $name "
    check "explain prints $name" cmp "$policy" <("$tool" explain --policy "$name")
done
expect "the version" 0 "$tool" --version
check "the version is three numbers" grep -qxE 'compshim [0-9]+\.[0-9]+\.[0-9]+' <<<"$output"

expect "help --help" 0 "$tool" help --help
golden "is the help, too" "$golden/help.txt"
expect "--help run" 0 "$tool" --help run
golden "is the help of run" "$golden/help_run.txt"
for words in "--version x" "help run x" "--help run x"; do
    # shellcheck disable=SC2086
    expect "a word too many: $words" 2 "$tool" $words
    contains "is named" "unexpected argument 'x'"
done

expect "no command" 2 "$tool"
expect "an unknown command" 2 "$tool" explane
contains "names the nearest command" "unknown command 'explane' (did you mean 'explain'?)"
expect "an unknown command near to none" 2 "$tool" xyzzy
contains "is answered by all commands" "unknown command 'xyzzy' (known: help, --version, run, check, explain, "
expect "help for a word near to policy" 2 "$tool" help polcy
contains "is pointed to it" "unknown command 'polcy' (did you mean 'policy'?)"
expect "an unknown option" 2 "$tool" explain --sise 4
contains "names the nearest option" "unknown option '--sise' (did you mean '--size'?)"
expect "an unknown letter" 2 "$tool" explain -q
contains "is named" "unknown option '-q'"
expect "a long name with one dash" 2 "$tool" explain --json -link 1Gbit
contains "is named, not the option before it" "unknown option '-l'"
expect "a missing argument" 2 "$tool" explain --size
contains "is said" "option '--size' needs an argument"
for words in "report --html --csv o.json" "compare --link -- true" "run --policy -- true" "tune -o -f -- true"; do
    # shellcheck disable=SC2086
    expect "an option in the place of an argument: $words" 2 "$tool" $words
    contains "is not taken for it" "' needs an argument before '-"
done
expect "an argument that begins with a dash" 2 "$tool" explain --size 4 --dtype=-x
contains "is taken behind =" "unknown --dtype '-x'"
expect "an argument to a flag" 2 "$tool" explain --json=3
contains "is refused" "option '--json=3': it takes no argument"
expect "a bad number" 2 "$tool" explain --size 4 --ranks -3
contains "is quoted" "'-3' is not a whole number"
check "output that cannot be written is an error" \
    sh -c '"$1" --help >/dev/full 2>/dev/null; [ $? = 3 ]' sh "$tool"
finish
