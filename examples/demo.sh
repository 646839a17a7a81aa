#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The all-reduce lab's tables, from real training runs: serial, then 2 and 4 ranks with the shim off,
# with fp16 and with fp8; as text, and with plots on a page. Each rank has a host of its own, emulated on
# this machine, where that is possible; else they share its memory. At most five minutes on two cores.
#   MNIST_DIR=DIR    the MNIST files; else data/mnist, ../shared/mnist, else drawn digits
#   DEMO_LINK=RATE   of the hosts' links: 1gbit, 200mbit; none: shared memory (1gbit where it is possible)
#   DEMO_IMAGES=N    training images per run (10000)
#   DEMO_REPEAT=N    runs of each kind, which take turns (3); the figures are their medians
#   DEMO_RANKS=LIST  numbers of ranks, 4 at most over links (2,4)
#   DEMO_MODES=LIST  what is compared (off,fp16,fp8_e4m3)
#   DEMO_NAME=NAME   of the files it leaves in build/ (demo)
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build} name=${DEMO_NAME:-demo} rate=${DEMO_LINK:-1gbit}
. examples/find_mnist.sh
. examples/ranks.sh

# A rank on each host says whether there can be hosts. What may be missing is the right to make them, or a tool.
# It is asked twice, with a program that takes a while: Open MPI 5's mpirun sometimes does not end, most often where
# programs end at once (https://github.com/openpmix/prrte/issues/1839).
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
    echo "demo: no hosts with links can be emulated here: make demo shows shared memory" >&2
    exit 1
else
    why=$(grep -vEm 1 'hosts are (up|removed)|^-*$' <<<"$said") || why="mpirun does not end well there"
    link="shared memory, as no hosts with links can be emulated here: $why"
    advice="Codecs gain little there. To see links, let it make network namespaces: as root (sudo make demo), in a
container with docker run --privileged."
fi
echo "The ranks are joined by $link."
[ -z "${advice-}" ] || echo "$advice"
case $link in
shared*)
    with_hosts=() launch=(mpirun -n '{ranks}')
    # Open MPI 5 tries TCP, too, and complains for each pair of ranks that the loopback interface is none to take.
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
The page with the plots: file://$(realpath "$build/$name.html")"
exit $status
