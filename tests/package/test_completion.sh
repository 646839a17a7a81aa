#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the bash completion in a separate bash: the words offered for a command line that ends at the cursor.
. "$(dirname "$0")/../lib.sh"
export ASAN_OPTIONS=verify_asan_link_order=0
export PATH=$build:$PATH
completion=$top/packaging/completion/compshim
mkdir "$scratch/place" && cd "$scratch/place" || exit 1
touch job.ini report.json && mkdir folder

# offer WORD...: prints what bash would offer, one per line; the last WORD is incomplete
offer() {
    bash --norc -c '. "$1" && shift && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) && _compshim "$1" &&
        printf "%s\n" "${COMPREPLY[@]}"' bash "$completion" "$@" 2>&1 | sort -u
}
offers() { # NAME "OFFER OFFER" WORD...: checks the offers
    local name=$1 want=$2
    shift 2
    output=$(offer "$@" | paste -sd ' ')
    if [ "$output" = "$want" ]; then pass "$name"; else fail "$name" "offered: $output"; fi
}

check "it is a script" bash -n "$completion"
commands=$(compshim --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
check "the help lists commands" test "$(wc -l <<<"$commands")" -ge 5
offers "every command" "$(printf '%s\n' $commands help --help --version | sort -u | paste -sd ' ')" compshim ""
offers "a begun command" "report run" compshim r
offers "the commands of help" "explain" compshim help ex
offers "its other words" "policies policy" compshim help po
for command in $commands; do
    want=$(compshim "$command" --help | sed -nE 's/^ +(-[a-zA-Z], )? *(--[a-z-]+).*/\2/p' | sort -u | paste -sd ' ')
    offers "every option of $command" "$want" compshim "$command" --
done
offers "files for --policy" "job.ini" compshim run --policy j
offers "files for -p" "job.ini" compshim explain -p j
offers "built-in policies for --policy" "@default @exact @fp8 @small" compshim run --policy @
offers "a begun one for -p" "@exact" compshim explain -p @e
offers "one for --modes" "@small" compshim compare --modes @s
offers "words for --dtype" "bfloat16" compshim explain --dtype b
offers "all words for --op" "avg other sum" compshim explain --op ""
offers "nothing for a size" "" compshim explain --size ""
offers "files for report" "report.json" compshim report re
offers "programs for run" "compshim" compshim run compsh
offers "programs behind an option with a file" "compshim" compshim run --policy job.ini compsh
offers "programs behind --" "compshim" compshim run -- compsh
offers "launchers for tune" "compshim" compshim tune -- compsh
offers "files behind the program" "job.ini" compshim run -- true j
offers "no options of ours behind the program" "" compshim run true --po
offers "programs for check" "compshim" compshim check compsh
check "it is what bash calls" bash --norc -c '. "$1" && complete -p compshim' bash "$completion"

common=/usr/share/bash-completion/bash_completion
check "the package bash-completion is there" test -e "$common"
expect "with it, the other program's own completion" 0 bash --norc -c '
    . "$1" && . "$2" && COMP_WORDS=(compshim run make --vers) && COMP_CWORD=3 &&
    COMP_LINE="${COMP_WORDS[*]}" && COMP_POINT=${#COMP_LINE} && _compshim compshim && echo "${COMPREPLY[*]}"' \
    bash "$common" "$completion"
contains "is asked" "--version"
finish
