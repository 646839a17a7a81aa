# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Shared by the mutation tests of unit tests. Source it after tests/lib.sh.
#
#   must_fail NAME SECONDS    runs ./test of $scratch; passes if one of its tests fails in time, by a check. A crash,
#                             which cmocka calls an exception, and a run that does not end find nothing.
must_fail() {
    local output status found
    output=$(cd "$scratch" && timeout "$2" ./test 2>&1)
    status=$?
    found=$(grep '^\[  FAILED  \] [a-z]' <<<"$output" | sort -u | wc -l)
    case $status:$output in
    0:*) fail "$1: not found" ;;
    124:*) fail "$1: did not end in $2 s" "$output" ;;
    *'Test failed with exception'*) fail "$1: crashed" "$output" ;;
    *) if [ "$found" = "$status" ]; then
        pass "$1: found by $found tests$(grep -m 1 -oE ', seed [0-9]+: .*' <<<"$output")"
    else
        fail "$1: status $status, $found failed tests" "$output"
    fi ;;
    esac
}
