#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# compshim run: what the program that it starts finds in its environment.
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
library=$(realpath "$build/libcompshim.so")
cd "$scratch" || exit 1
printf '[rule all]\ncodec = fp16\n' >job.ini
# shellcheck disable=SC2016 # the program's shell expands them
show='echo "$LD_PRELOAD|${COMPSHIM-unset}|${COMPSHIM_POLICY-unset}"'

# Only matters where the tool is built with the address sanitizer.
export ASAN_OPTIONS=verify_asan_link_order=0

is() {
    if [ "$output" = "$2" ]; then pass "$1"; else fail "$1" "$output"; fi
}
expect "a plain run" 0 "$tool" run -- sh -c "$show"
is "preloads the library" "$library|unset|unset"
expect "a run with a policy" 0 "$tool" run --policy job.ini sh -c "$show"
is "sets its absolute name" "$library|unset|$(realpath job.ini)"
expect "a run that is off" 0 "$tool" run --off -- sh -c "$show"
is "preloads and switches off" "$library|off|unset"
ln -s "$library" other.so
expect "an older preload" 0 env "LD_PRELOAD=$scratch/other.so" "$tool" run -- sh -c "$show"
is "stays behind" "$library:$scratch/other.so|unset|unset"
expect "a shim that is there already" 0 env "LD_PRELOAD=$library" "$tool" run -- sh -c "$show"
is "is not named twice" "$library|unset|unset"
expect "a run that tells" 0 "$tool" run -v --policy job.ini -- true
contains "the preload" "LD_PRELOAD=$library"
contains "the policy" "COMPSHIM_POLICY=$(realpath job.ini)"
expect "the program's status" 7 "$tool" run -- sh -c 'exit 7'
expect "options of the program" 0 "$tool" run echo --off -v
is "are left to it" "--off -v"

expect "no command" 2 "$tool" run
expect "a program that is not there" 3 "$tool" run -- ./missing
contains "is named" "cannot run './missing': No such file or directory"
printf '[rule all]\ncodec = fp17\n' >bad.ini
expect "a bad policy" 1 "$tool" run --policy bad.ini -- echo started
contains "names file and line" "bad.ini:2:"
check "nothing is started" test "${output%started*}" = "$output"
mkdir alone && cp "$tool" alone/
expect "a tool without its library" 3 alone/compshim run -- true
contains "says where it looked" "no libcompshim.so in $(realpath alone)"
mkdir -p prefix/bin prefix/lib && cp "$tool" prefix/bin/ && cp "$library" prefix/lib/
expect "an installed tool" 0 prefix/bin/compshim run -- sh -c "$show"
is "finds the library of its prefix" "$(realpath prefix/lib/libcompshim.so)|unset|unset"
mkdir "a b" && cp "$tool" "$library" "a b/"
expect "a path that LD_PRELOAD cannot hold" 3 "a b/compshim" run -- true
contains "is refused" "a space or a colon"
finish
