#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests/run.sh on made-up tests: checks its counts, and what it shows of a failure.
. "$(dirname "$0")/../lib.sh"
made=$scratch/made/tests/test_made_up
mkdir -p "$scratch/made/tests"
made() { # NAME: creates a test program from the script on standard input
    cat - >"${made}_$1"
    chmod +x "${made}_$1"
}
# totals [NAME...]: prints the runner's totals for the tests of these names
totals() {
    env -u MPI -u MPI_HOME -u NEED_CUDA BUILD="$scratch/made" "$top/tests/run.sh" "${@/#/made_up_}"
}
last() { test "$(tail -n 1 <<<"$output")" = "$1"; }
one_by_one() { JOBS=1 totals "$@"; }

made good <<E
#!/bin/bash
. "$top/tests/lib.sh"
check one true
check two true
skip "there is no third here"
finish
E
expect "a test that passes" 0 totals ""
check "its checks are the total" last "2 passed, 0 failed, 1 skipped"
contains "what was skipped is named" "test_made_up_good: there is no third here"
contains "and how long it took" " s test_made_up_good"
made left_out <<E
#!/bin/bash
. "$top/tests/lib.sh"
skip "nothing of it"
finish
E
expect "a test that is skipped as a whole" 0 totals ""
check "counts so" last "2 passed, 0 failed, 2 skipped"
made cmocka <<'E'
#!/bin/sh
printf '[       OK ] a\n[  FAILED  ] b\n[  SKIPPED ] c\n[==========] group: 3 test(s) run.\n'
printf '[  ERROR   ] --- 0x1 != 0x2\n[  FAILED  ] group: 1 test(s), listed below:\n[  FAILED  ] b\n[  SKIPPED ] c\n' >&2
exit 1
E
expect "a unit test that fails" 1 totals ""
check "is counted by its checks, too" last "3 passed, 1 failed, 3 skipped"
contains "what it found is shown" "0x1 != 0x2"
contains "with how to run it alone" "${made}_cmocka"
made bad <<E
#!/bin/bash
. "$top/tests/lib.sh"
for number in {1..100}; do pass "number \$number"; done
fail "the wrong one" "what it says"
for number in {1..100}; do pass "later \$number"; done
finish
E
expect "a check that fails among others" 1 totals bad
check "is one" last "200 passed, 1 failed, 0 skipped"
contains "it is shown" "not ok - the wrong one
    what it says"
check "and no other" test "$(grep -c "^ok - " <<<"$output")" = 0
made dying <<E
#!/bin/bash
. "$top/tests/lib.sh"
check one true
fail two
echo "the end is near"
kill -KILL \$\$
E
expect "a test that dies" 1 totals dying
check "is a failed check beside its own" last "1 passed, 2 failed, 0 skipped"
contains "its last words are shown" "the end is near"
made short <<E
#!/bin/bash
. "$top/tests/lib.sh"
check one true
exit
E
expect "a test that ends before its last check" 1 totals short
check "fails, whatever its status" last "1 passed, 1 failed, 0 skipped"
made wanting <<E
#!/bin/bash
. "$top/tests/lib.sh"
check one true
compshim-not-there | cat
finish
E
expect "a test of a command that is not installed" 1 totals wanting
contains "names it" "compshim-not-there: command not found"
expect "two words" 1 one_by_one bad good
check "choose the tests of either" last "202 passed, 1 failed, 1 skipped"
order() { test "$(sed -nE 's/^(ok|FAILED) +test_made_up_(\w+) .*/\2/p' <<<"$output" | xargs)" = "$1"; }
printf '9 s test_made_up_%s\n3 s test_made_up_%s\n' good bad >"$scratch/made/tests/durations"
expect "with times of a run before" 1 one_by_one bad good
check "the longest begins first" order "good bad"
printf '3 s test_made_up_%s\n9 s test_made_up_%s\n7 s test_made_up_%s\n' good bad dying >"$scratch/made/tests/durations"
expect "with other times" 1 one_by_one bad good
check "another does" order "bad good"
check "the time of what was left out is kept" grep -qx "7 s test_made_up_dying" "$scratch/made/tests/durations"
expect "no such test" 1 totals nobody
check "is not a success" last "0 passed, 0 failed, 0 skipped"
finish
