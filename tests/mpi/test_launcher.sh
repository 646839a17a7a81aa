#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs mpirun itself with the preload in its environment: the ranks on other nodes must get the preload too. The
# launch agent starts each daemon without the caller's variables, as ssh does.
. "$(dirname "$0")/../lib.sh"
cat >"$scratch/agent" <<'A'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec env -i PATH=/usr/bin:/bin HOME=/tmp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    ${ASAN_OPTIONS:+ASAN_OPTIONS=$ASAN_OPTIONS} sh -c "$*"
A
chmod +x "$scratch/agent"
cat >"$scratch/show" <<'S'
#!/bin/sh
echo "preload=$LD_PRELOAD policy=$COMPSHIM_POLICY mark=$COMPSHIM_FORWARDED mine=$MINE"
S
chmod +x "$scratch/show"
# Open MPI 5's mpirun sometimes does not end after its ranks on another node have ended, even without the shim (10 of
# 33 runs on a busy machine with Debian 13's PRRTE). The test then tries again.
tries=1
[ ! -x "${MPI_HOME-}/bin/prterun" ] || tries=5
remote() { # VARIABLE=VALUE... -- MPIRUN-ARGUMENTS: runs two ranks on another node, by a mpirun with these variables
    local variables=() status=124 try
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    for ((try = 0; try < tries && status == 124; try++)); do
        LIMIT=$((LIMIT / tries)) limited env "${variables[@]}" "${launch[0]}" "${options[@]}" -n 2 "$@" 2>&1
        status=$?
    done
    return $status
}
to_hosts elsewhere:2 "$scratch/agent"
over_tcp=(--mca btl tcp,self --mca btl_tcp_if_include lo)
[ "$MPI" != mpich ] || over_tcp=() # these are options of Open MPI

if only_open_mpi "a launcher that forwards nothing"; then
    expect "without the shim nothing is forwarded" 0 remote COMPSHIM_POLICY=p -- "$scratch/show"
    contains "nothing indeed" "preload= policy= mark= mine="
fi
expect "the preload and its variables are forwarded" 0 \
    remote LD_PRELOAD="$preload" COMPSHIM_POLICY=p -- "$scratch/show"
contains "both of them" "preload=$preload policy=p mark= mine="
expect "a value with an equals sign is forwarded, too" 0 \
    remote LD_PRELOAD="$preload" COMPSHIM_POLICY=/a=1/p -- "$scratch/show"
contains "as it is" "preload=$preload policy=/a=1/p mark= mine="
if [ "$MPI" = mpich ]; then
    expect "the user's own word stands" 0 remote LD_PRELOAD="$preload" COMPSHIM_POLICY=p -- \
        -genvnone "$scratch/show"
    contains "nothing is forwarded" "preload= policy= mark= mine="
else
    expect "also beside the user's own -x" 0 \
        remote LD_PRELOAD="$preload" COMPSHIM_POLICY=p MINE=yes -- -x MINE "$scratch/show"
    contains "all three" "preload=$preload policy=p mark= mine=yes"
    expect "the user's own list stands" 0 remote LD_PRELOAD="$preload" COMPSHIM_POLICY=p MINE=yes -- \
        --mca mca_base_env_list MINE "$scratch/show"
    contains "alone" "policy= mark= mine=yes"
    mkdir -p "$scratch/home/.openmpi"
    echo "mca_base_env_list = MINE" >"$scratch/home/.openmpi/mca-params.conf"
    expect "that of a file, too" 0 remote HOME="$scratch/home" LD_PRELOAD="$preload" COMPSHIM_POLICY=p MINE=yes -- \
        "$scratch/show"
    contains "alone, too" "policy= mark= mine=yes"
    echo "-n 1 -x MINE $scratch/show" >"$scratch/app"
    expect "a program's own option is no such file" 0 remote LD_PRELOAD="$preload" COMPSHIM_POLICY=p -- "$scratch/show" --tune 5
    contains "all is forwarded" "preload=$preload policy=p mark= mine="
    expect "and what a file of programs says" 0 remote LD_PRELOAD="$preload" COMPSHIM_POLICY=p MINE=yes -- \
        --app "$scratch/app"
    if [ "$tries" = 1 ]; then # Open MPI 4 runs the programs of such a file on this host
        contains "here, where nothing needs to be forwarded" "preload=$preload policy=p mark= mine=yes"
    else
        contains "the list of that file stands" "mark= mine=yes"
    fi
fi
# mpiexec may also be another MPI's launcher, which has no -x; here it prints its arguments.
cp "$(type -P echo)" "$scratch/mpiexec"
expect "a program's -x, under a launcher that is not Open MPI's" 0 env LD_PRELOAD="$preload" "$scratch/mpiexec" program -x y
contains "is left alone" "program -x y"
check "and nothing is added" test "$(grep -c -- '-x' <<<"$output")" = 1 -a "$(grep -o -- '-x' <<<"$output" | wc -l)" = 1
cd "$build" || exit 3
relative=${preload/"$build"\//./}
expect "a relative path becomes absolute" 0 remote LD_PRELOAD="$relative" -- "$scratch/show"
contains "absolute" "preload=$preload "

policy "$scratch/policy.ini" fp16
expect "a job on such a node compresses" 0 remote LD_PRELOAD="$preload" \
    COMPSHIM_POLICY="$scratch/policy.ini" COMPSHIM_REPORT=summary -- \
    "${over_tcp[@]}" "$build/tests/mpi_one_of_each"
contains "the work is done" "work done, 0 failures"
contains "and compressed" "fp16"

# Launchers may put a prefix before each piece of output that they read, so a report has to come in one piece. The
# socket in place of standard error keeps the pieces apart.
cat >"$scratch/pieces.py" <<'P'
import os, socket, subprocess, sys

ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
environment = {**os.environ, "LD_PRELOAD": sys.argv[1], "COMPSHIM_REPORT": "summary"}
subprocess.run(sys.argv[2:], env=environment, stderr=theirs, check=True)
theirs.close()
pieces = [piece.decode() for piece in iter(lambda: ours.recv(1 << 16), b"")]
report = [piece for piece in pieces if "compshim: passed through" in piece]
assert len(report) == 1 and report[0].startswith("compshim 0") and report[0].endswith("\n"), pieces
P
check "the report is written in one piece" limited python3 "$scratch/pieces.py" "$preload" "$build/tests/mpi_passed_on" 2000 int world
finish
