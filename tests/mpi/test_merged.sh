#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks calls on communicators merged from a job and one that it spawns; both, one or none of them have the shim.
. "$(dirname "$0")/../lib.sh"
only_open_mpi "agreement with a spawned job" || finish
program=$build/tests/mpi_merged
printf '[rule all]\ncodec = raw\nworth = always\n' >"$scratch/policy.ini"
printf '[rule all]\ncodec = fp16\nworth = always\n' >"$scratch/other.ini"
export COMPSHIM_POLICY=$scratch/policy.ini COMPSHIM_REPORT=$scratch/report.json

# child NAME VARIABLE=VALUE...: writes a script that starts a spawned process with the variables
child() {
    local file=$scratch/$1
    shift
    printf '#!/bin/bash\nexec env %s "$@"\n' "${*@Q}" >"$file"
    chmod +x "$file"
}
child with LD_PRELOAD="$preload"
child without LD_PRELOAD=
child off LD_PRELOAD="$preload" COMPSHIM=off
child other LD_PRELOAD="$preload" COMPSHIM_POLICY="$scratch/other.ini"
child on_nodes STANDIN_NODES=0,1 LD_PRELOAD="$build/tests/standin_nodes.so:$preload"
child observing LD_PRELOAD="$preload" COMPSHIM=observe
child learned LD_PRELOAD="$preload" COMPSHIM_MACHINE=
printf '#!/bin/bash\n[ "$3" = 1 ] && export LD_PRELOAD= || export LD_PRELOAD=%q\nexec "$@"\n' \
    "$preload" >"$scratch/middle"
chmod +x "$scratch/middle"

forget() { rm -f "$scratch"/report*.json; }
# spawned NAME CALLS...: checks how many calls each spawned job has compressed since `forget`
spawned() {
    check "$1" python3 - "$scratch" "${@:2}" <<'P'
import glob, json, sys
reports = [json.load(open(name)) for name in glob.glob(sys.argv[1] + "/report.spawned*.json")]
calls = sorted(sum(row["calls"] for row in report["rows"]) for report in reports)
assert calls == [int(word) for word in sys.argv[2:]], calls
P
}

# On each merge a job makes 12 calls on communicators of both jobs, of which the 3 on the result of the split are
# passed through, and 3 calls on a communicator of one job.
for ranks in "1 1" "1 3" "2 2" "3 1"; do
    read -r spawning spawned <<<"$ranks"
    expect "$spawning ranks merge with $spawned" 0 shimmed "$spawning" "$program" "$scratch/with" 1 "$spawned"
    reports "the calls on both communicators and the duplicate are compressed" \
        'sum(r["calls"] for r in rows) == 9 + 3 * (report["ranks"] > 1) and passed["not_agreed"] == 3'
done
check "spawned jobs have reports of their own" test "$(compgen -G "$scratch/report.spawned*.json" | wc -l)" = 4
expect "the same on two nodes" 0 shimmed_on 0,1 "$program" "$scratch/on_nodes" 1 2
reports "the calls on both communicators and the duplicate are compressed" \
    'sum(r["calls"] for r in rows) == 12 and passed["not_agreed"] == 3 and report["nodes"] == 2'
if starts_several_programs; then
    expect "processes of two commands" 0 shimmed 2 "$program" "$scratch/with" 1 1+2
    reports "the same calls are compressed" 'sum(r["calls"] for r in rows) == 12 and passed["not_agreed"] == 3'
else
    skip "MPI_Comm_spawn_multiple: this mpirun crashes when it starts several programs"
fi
forget
expect "three generations" 0 shimmed 2 "$program" "$scratch/with" 2 2
reports "the first one's calls are compressed" 'sum(r["calls"] for r in rows) == 12 and passed["not_agreed"] == 3'
spawned "those of the second and third, too" 3 15
for script in without off other learned observing; do
    expect "a spawned job: $script" 0 shimmed 2 "$program" "$scratch/$script" 1 2
    case $script in
    other) contains "says why" "has another policy" ;;
    learned) contains "says why" "has another file of choices" ;;
    esac
    reports "is not compressed with" 'passed["not_agreed"] == 12 and sum(r["calls"] for r in rows) == 3'
done
forget
expect "a spawning job without the shim" 0 mpi 2 "$program" "$scratch/with" 1 2
spawned "the spawned one compresses its own calls" 3
forget
expect "a generation without the shim between two" 0 shimmed 2 "$program" "$scratch/middle" 2 2
reports "the first one compresses its own calls" 'passed["not_agreed"] == 12 and sum(r["calls"] for r in rows) == 3'
spawned "the third one, too" 3
forget
expect "a recorded job" 0 shimmed 2 COMPSHIM=observe "$program" "$scratch/with" 1 2
contains "says why it is not compressed with" "has another mode"
reports "compresses nothing, and records its own blocking call" \
    'rows == [] and passed["not_agreed"] == 12 and passed["disabled"] == 3 and [k["calls"] for k in report["observed"]["kinds"] if k["dtype"] == "float32"] == [1]'
spawned "the spawned one compresses its own calls" 3
finish
