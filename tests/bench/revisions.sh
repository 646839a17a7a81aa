#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the speed of this tree with an older revision: the codecs on one core, and all-reduces with the library of
# each, by this tree's benchmark program. The two alternate, and take turns in coming first.
#
#   revisions.sh [--networks LIST] [--modes LIST] [--sizes LIST] [--repeats N] [--gloo PYTHON] REVISION
#
# Networks are those of bench.sh (those other than shm-RANKS need root). Modes are `default` (each revision's built-in
# policy) and codecs. PYTHON, with PyTorch, makes the calls by gloo instead of MPI. Each line has medians in
# milliseconds (GB/s for a codec), then median and quartiles of the ratio new / old within each pair.
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/lib.sh
new=$(realpath "${BUILD:-build}")
networks=1gbit-4x1,shm-2 modes=raw,fp16,fp8_e4m3,int8 sizes=64KiB,1MiB,16MiB repeats=9 revision= gloo=
while [ $# -gt 0 ]; do
    case $1 in
    --networks) networks=${2-} ;;
    --modes) modes=${2-} ;;
    --sizes) sizes=${2-} ;;
    --repeats) repeats=${2-} ;;
    --gloo) gloo=${2-} ;;
    -*) revision= && break ;;
    *)
        revision=$1
        shift
        continue
        ;;
    esac
    shift 2
done
if [ -z "$revision" ]; then
    usage
fi
begin tests/net/hosts.sh --name cshimrev
git clone --quiet --shared . "$scratch/tree"
git -C "$scratch/tree" checkout --quiet "$revision"
make --silent -C "$scratch/tree" >"$scratch/make" 2>&1 || (tail "$scratch/make" && exit 1)
old=$scratch/tree/build

# launch BUILD NETWORK MODE: prints the lines of allreduce_bench. With COMPSHIM_MACHINE=off, revisions that predict
# times do not measure the machine at the start.
launch() {
    local build=$1 network=$2 policy=$1/../policy/default.ini master=cshimrev1
    local job=("$new/allreduce_bench" --sizes "$sizes" --seconds 0.3)
    local variables=("LD_PRELOAD=$build/libcompshim.so" COMPSHIM_REPORT=off COMPSHIM_MACHINE=off)
    if [ "$3" != default ]; then
        policy=$scratch/$3.ini
        printf '[rule all]\ncodec = %s\n' "$3" >"$policy"
    fi
    variables+=("COMPSHIM_POLICY=$policy")
    [[ $network != shm-* ]] || master=127.0.0.1
    [ -z "$gloo" ] || job=(env MASTER_ADDR="$master" "$gloo" tests/bench/choices_gloo.py "${job[@]:1}" --settle 10
        --beside 0)
    run_job "$network"
}

codecs() { # BUILD: prints codec, operation and GB/s
    "$1/codec_bench" --size 1 --repeats 101 --json "$scratch/codecs.json" >/dev/null
    python3 -c 'import json, sys
for codec, works in json.load(open(sys.argv[1])).items():
    if isinstance(works, dict):
        for work, speed in works.items(): print(codec, work, speed)' "$scratch/codecs.json"
}

# sample NAME COMMAND [ARGUMENT...]: appends the lines of `COMMAND BUILD ARGUMENT...` to the samples
sample() {
    local name=$1 command=$2 repeat which
    shift 2
    for repeat in $(seq "$repeats"); do
        for which in $([ $((repeat % 2)) = 0 ] && echo old new || echo new old); do
            "$command" "${!which}" "$@" | sed "s/^/$name $repeat $which /" >>"$scratch/samples"
        done
    done
}

sample codecs codecs
for network in ${networks//,/ }; do
    up "$network"
    for mode in ${modes//,/ }; do
        sample "$network:$mode" launch "$network" "$mode"
    done
    down "$network"
done
python3 - "$scratch/samples" <<'END'
import collections, statistics, sys
rows = collections.defaultdict(dict)
for line in open(sys.argv[1]):
    name, repeat, which, *fields = line.split()
    if name == "codecs":
        key, value = f"{fields[0]} {fields[1]} GB/s", float(fields[2])
    else:
        key, value = f"{name} {int(fields[0]) // 1024} KiB ms", 1000 * float(fields[2])
    rows[key].setdefault(repeat, {})[which] = value
for key, repeats in rows.items():
    pairs = [pair for pair in repeats.values() if len(pair) == 2 and pair["old"]]
    if pairs:
        low, middle, high = statistics.quantiles((p["new"] / p["old"] for p in pairs), n=4)
        old, new = (statistics.median(p[which] for p in pairs) for which in ("old", "new"))
        print(f"{key:44} {old:10.3f} {new:10.3f}   {middle:.3f} ({low:.3f} to {high:.3f})")
END
