#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A Slurm cluster on this machine: a munged, a slurmctld and a slurmd per node, from Debian's slurm-wlm and munge,
# with all their files in one folder. Needs root.
#
#   cluster.sh up DIR NODES    starts it; then SLURM_CONF=DIR/slurm.conf srun ...
#   cluster.sh down DIR        cancels root's jobs there and ends its daemons
#
# The nodes n1, n2, ... share this machine's address and files, but each has its own name and /dev/shm, because Open
# MPI names its shared memory by node. slurmd uses the configured number of processors.
set -u
readonly slots=4 # ranks per node

die() {
    echo "cluster.sh: $*" >&2
    exit 3
}
[ $# -ge 2 ] || { sed -n '3,/^set -u/p' "$0" | sed '/^set -u/d; s/^# \{0,1\}//' && exit 2; }
command=$1 folder=$(realpath -m "$2") nodes=${3-2}
export SLURM_CONF=$folder/slurm.conf

free_port() { # prints the first of COUNT consecutive free ports
    python3 - "$1" <<'END'
import random, socket, sys
count = int(sys.argv[1])
while True:
    first, held = random.randrange(20000, 32000), []
    try:
        for port in range(first, first + count):
            held.append(socket.socket())
            held[-1].bind(("", port))
    except OSError:
        continue
    finally:
        for one in held:
            one.close()
    print(first)
    break
END
}

configure() {
    local port host
    host=$(hostname -s)
    port=$(free_port $((nodes + 1))) || die "no free ports"
    cat >"$SLURM_CONF" <<END
ClusterName=compshim
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
TmpFS=$folder/tmp-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=pmix
ReturnToService=2
NodeName=n[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1))-$((port + nodes)) CPUs=$slots State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
    # Nothing uses cgroups here, but slurmd requires their version.
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        printf 'CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n' >"$folder/cgroup.conf"
    else
        printf 'CgroupPlugin=cgroup/v1\n' >"$folder/cgroup.conf"
    fi
}

up() {
    [ "$(id -u)" = 0 ] || die "needs root: slurmd starts the processes of other users"
    local tool i
    for tool in slurmctld slurmd munged srun unshare python3; do
        command -v "$tool" >/dev/null || die "needs $tool: apt-get install slurm-wlm munge util-linux python3"
    done
    mkdir -p "$folder/state" || die "cannot make $folder"
    configure
    dd if=/dev/urandom of="$folder/munge.key" bs=128 count=1 status=none
    chmod 400 "$folder/munge.key"
    # --force, because munged rejects root, and a folder under /tmp as not private enough.
    munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
        --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" --seed-file="$folder/munge.seed" \
        2>>"$folder/munged.log" || die "munged does not start: $(tail -n 3 "$folder/munged.log")"
    slurmctld -f "$SLURM_CONF" >>"$folder/slurmctld.log" 2>&1 ||
        die "slurmctld does not start: $(tail -n 3 "$folder/slurmctld.log")"
    for ((i = 1; i <= nodes; i++)); do
        mkdir -p "$folder/spool-n$i" "$folder/tmp-n$i"
        # shellcheck disable=SC2016 # the inner shell expands them
        unshare --mount --uts sh -c 'hostname "$2" && mount -t tmpfs tmpfs /dev/shm && exec slurmd -f "$1" -N "$2"' \
            node "$SLURM_CONF" "n$i" >>"$folder/slurmd-n$i.log" 2>&1 ||
            die "slurmd of n$i does not start: $(tail -n 3 "$folder/slurmd-n$i.log")"
    done
    for ((i = 0; i < 150; i++)); do
        [ "$(sinfo --noheader --states=idle --format=%D 2>/dev/null)" = "$nodes" ] && return
        sleep 0.2
    done
    sinfo --long >&2
    die "the nodes are not idle after 30 s; see the logs in $folder"
}

down() {
    local file pid
    [ -e "$SLURM_CONF" ] && timeout 10 scancel --user=root 2>/dev/null
    for file in "$folder"/slurmd-*.pid "$folder"/slurmctld.pid "$folder"/munged.pid; do
        [ -e "$file" ] || continue
        pid=$(cat "$file")
        kill "$pid" 2>/dev/null
        timeout 20 tail --pid="$pid" -f /dev/null || kill -9 "$pid"
    done
}

case $command in
up) up ;;
down) down ;;
*) die "unknown command '$command': up or down" ;;
esac
