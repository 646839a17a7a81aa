#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks make demo: it runs over emulated links, or, if none can be made, over shared memory, and says why. If DEMO_LINK
# asks for links that cannot be made, it fails.
. "$(dirname "$0")/../lib.sh"
python3 "$top/tests/docs/few_digits.py" "$scratch/digits"
mkdir "$scratch/build" "$scratch/refusing"
ln -s "$build"/{compshim,mnist_train} "$build"/libcompshim*.so "$scratch/build"
unset "${!DEMO_@}" # the caller may have chosen a shorter demo
page=$scratch/build/demo.html
demo() { # VARIABLE=VALUE...: runs a short demo with these variables
    limited env BUILD="$scratch/build" MNIST_DIR="$scratch/digits" DEMO_REPEAT=1 DEMO_RANKS=2 DEMO_MODES=off,fp8_e4m3 \
        "$@" "$top/examples/demo.sh"
}
says() { python3 "$top/tests/cli/page.py" --text "$page" | grep -q "$1"; }

printf '#!/bin/sh\necho "unshare: not today" >&2\nexit 1\n' >"$scratch/refusing/unshare"
chmod +x "$scratch/refusing/unshare"
expect "where no namespaces can be made" 0 demo PATH="$scratch/refusing:$PATH"
contains "the ranks share memory, and it says why" \
    "The ranks are joined by shared memory, because hosts with links cannot be emulated here: unshare: not today"
contains "and what to do" "as root (sudo make demo)"
contains "it is as short as over links" "one epoch of 10000 images"
check "on the page too" says "shared memory, because hosts with links cannot be emulated here: unshare: not today"
output=$(sed -n '/^MNIST, convolutional/{n;p}' <<<"$output")
contains "the headline comes first" " times as fast as without compshim: fp8_e4m3 (8 bit) on 2 ranks, accuracy "
expect "links that are asked for" 1 demo PATH="$scratch/refusing:$PATH" DEMO_LINK=200mbit
contains "are not left out in silence" "cannot emulate hosts with links here"

if "$top/tests/net/hosts.sh" with 1gbit true >/dev/null 2>&1; then
    expect "where they can" 0 demo DEMO_LINK=200mbit DEMO_NAME=linked
    page=$scratch/build/linked.html
    check "the ranks have links" says "links of 200 Mbit/s between hosts emulated on this machine"
    printf '#!/bin/sh\ncase "$*" in *" sleep 1") exit 1 ;; esac\nexec %s "$@"\n' "$(command -v mpirun)" >"$scratch/refusing/mpirun"
    chmod +x "$scratch/refusing/mpirun"
    rm "$scratch/refusing/unshare"
    expect "where nothing runs on them" 0 demo PATH="$scratch/refusing:$PATH"
    contains "says so" "hosts with links cannot be emulated here: mpirun does not end well there"
else
    skip "hosts with links cannot be emulated here: all but the refusals"
fi
finish
