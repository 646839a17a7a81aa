#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# compshim explain --report over emulated links: the time foretold is the time it then takes, within 25 %.
# A measurement, for an idle machine: make test-foretold. That the estimate follows from a report's numbers
# is tested in cli/test_tool_explain.sh.
. "$(dirname "$0")/../lib.sh"
prefix=cshimguess
hosts() { "$top/tests/net/hosts.sh" --name "$prefix" "$@"; }
if [ "$(id -u)" != 0 ] || ! unshare --net --mount true 2>/dev/null; then
    expect "without root or network namespaces: the refusal" 3 hosts run true
    skip "no hosts can be emulated here: all but the refusal"
    finish
fi
trap 'hosts down >/dev/null; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 3
program=("$build/allreduce_bench" --sizes "16MiB,4MiB" --seconds 0)
policy fp8.ini fp8_e4m3

# job NAME [VARIABLE=VALUE...]: the program over the hosts, its report in NAME.json
job() {
    env LD_PRELOAD="$preload" COMPSHIM_REPORT="$scratch/$1.json" "${@:2}" \
        "$top/tests/net/hosts.sh" --name "$prefix" run --seconds "$LIMIT" "${program[@]}"
}
# Whether the time foretold is within 25 %; prints both.
is_foretold() {
    "$build/compshim" explain --report observed.json --policy fp8.ini "$@" --json | python3 -c '
import json, sys
kinds = [kind for kind in json.load(sys.stdin)["kinds"] if kind["answer"]["compressed"]]
foretold = sum(kind["seconds_after"] for kind in kinds)
before = sum(kind["seconds_before"] for kind in kinds)
real = sum(row["seconds"] for row in json.load(open("real.json"))["rows"])
print(f"natively {before:.3f} s, foretold {foretold:.3f} s, real {real:.3f} s")
sys.exit(abs(foretold / real - 1) > 0.25)'
}

expect "two hosts at 200 Mbit/s" 0 hosts up --hosts 2 --rate 200mbit
foretold() {
    job observed COMPSHIM=observe && job real COMPSHIM_POLICY=fp8.ini && is_foretold && is_foretold --link 200Mbit
}
check "the time is foretold within 25 %, from the observed run's measurements and from the link's rate" \
    once_in_ten foretold
echo "note: $(is_foretold)"
echo "note: $(is_foretold --link 200Mbit)"
check "nothing is left" hosts down
finish
