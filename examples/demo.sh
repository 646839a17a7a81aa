#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trains a network serially, then on 2 and 4 ranks with the shim off, with fp16 and with fp8. Prints tables of time,
# accuracy and traffic, and writes a page with plots. Each rank has a host of its own, emulated on this machine, if
# that is possible; otherwise, if DEMO_LINK is not set, the ranks use shared memory. With the defaults it takes some
# minutes on two cores. Its variables, with their defaults in brackets:
#   MNIST_DIR=DIR    folder of the MNIST files (data/mnist or ../shared/mnist; otherwise generated digits)
#   DEMO_LINK=RATE   rate of the hosts' links: 1gbit, 200mbit; none: shared memory (1gbit if possible)
#   DEMO_IMAGES=N    training images per run (10000)
#   DEMO_REPEAT=N    runs of each mode, alternating (3); the figures are medians
#   DEMO_RANKS=LIST  numbers of ranks, at most 4 over links (2,4)
#   DEMO_MODES=LIST  modes to compare (off,fp16,fp8_e4m3)
#   DEMO_NAME=NAME   name of its files in the build folder (demo)
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build} name=${DEMO_NAME:-demo} rate=${DEMO_LINK:-1gbit}
. examples/find_mnist.sh
. examples/ranks.sh

# Tests whether hosts can be emulated, with a rank on each: permissions or a tool may be missing. Tries twice, with a
# program that runs for a second: Open MPI 5's mpirun sometimes does not end, mostly if programs end at once
# (https://github.com/openpmix/prrte/issues/1839).
hosts=(tests/net/hosts.sh --name cshimdemo)
with_hosts=("${hosts[@]}" with "$rate")
probe() { "${with_hosts[@]}" "${hosts[@]}" run --seconds 60 sleep 1 2>&1; }
if [ "$rate" = none ]; then
    link="shared memory (DEMO_LINK=none)"
elif said=$(probe) || said=$(probe); then
    rate=${rate/gbit/ Gbit\/s}
    link="links of ${rate/mbit/ Mbit\/s} between hosts emulated on this machine"
elif [ -n "${DEMO_LINK-}" ]; then
    echo "$said" >&2
    echo "demo: cannot emulate hosts with links here; unset DEMO_LINK to use shared memory" >&2
    exit 1
else
    why=$(grep -vEm 1 'hosts are (up|removed)|^-*$' <<<"$said") || why="mpirun does not end well there"
    link="shared memory, because hosts with links cannot be emulated here: $why"
    advice="Codecs gain little there. For links it needs network namespaces: run it as root (sudo make demo), a container
with docker run --privileged."
fi
echo "The ranks are joined by $link."
[ -z "${advice-}" ] || echo "$advice"
case $link in
shared*)
    with_hosts=() launch=(mpirun -n '{ranks}')
    # Open MPI 5 also tries TCP, and warns for each pair of ranks that it cannot use the loopback interface.
    export OMPI_MCA_btl=^tcp
    ;;
*) launch=("${hosts[@]}" run --hosts '{ranks}') ;;
esac

images=${DEMO_IMAGES:-10000}
trainer=("$build/mnist_train" "${data[@]}" --epochs 1 --limit "$images" --log '{log}')
status=0
rm -f "$build/$name".{json,md,html}
"${with_hosts[@]}" "$build/compshim" compare --modes "${DEMO_MODES:-off,fp16,fp8_e4m3}" --ranks "${DEMO_RANKS:-2,4}" \
    --repeat "${DEMO_REPEAT:-3}" --serial "${trainer[*]@Q}" --link "$link" \
    --json "$build/$name.json" --markdown "$build/$name.md" --html "$build/$name.html" \
    --title "${digits^}, convolutional network, one epoch of $images images" \
    -- "${launch[@]}" "${trainer[@]}" || status=$?
[ ! -s "$build/$name.html" ] || echo "
Page with plots: file://$(realpath "$build/$name.html")"
exit $status
