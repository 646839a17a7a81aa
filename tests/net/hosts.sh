#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Emulated hosts on one machine: network namespaces joined by a bridge. Every link is limited in both directions. Each
# host has its own hostname, /etc/hosts and TMPDIR. mpirun runs in the first host and starts a daemon in each other one,
# so the ranks' traffic really crosses the limited links.
#
#   hosts.sh up [--hosts N] [--rate RATE] [--paced]
#                                            creates N hosts (4) with links of RATE (1gbit; none: unlimited)
#   hosts.sh rate RATE                       changes the limit of the links
#   hosts.sh run [--hosts N] [--ranks-per-host R] [--seconds S] [MPIRUN-OPTION...] PROGRAM [ARGUMENT...]
#                                            runs R ranks (1) on each of the first N hosts (all), for at
#                                            most S seconds (600); the ranks get LD_PRELOAD and
#                                            COMPSHIM_* from the caller
#   hosts.sh exec K COMMAND [ARGUMENT...]    runs a command in host K, counted from 1
#   hosts.sh stats                           prints, by host, bytes sent and received, and packets that it dropped
#                                            instead of sending
#   hosts.sh down                            ends all processes in the hosts, and removes the hosts
#   hosts.sh with RATE COMMAND [ARGUMENT...] runs a command in namespaces of its own, with 4 hosts with
#                                            links of RATE, which end with it. Needs no root if users may
#                                            create namespaces. Works in a chroot, unlike the other
#                                            commands
#
# After a pause, a host sends up to 256 KiB at once, or what its link carries in a millisecond if that is more. On a
# paced link it sends 8 KiB at once, and then at 1.1 times the rate until it has caught up; receiving is limited as
# always. Pacing takes processor time: two cores suffice for 4 hosts of up to 2.5 Gbit/s.
#
# --name NAME before the command distinguishes several sets of hosts (default: cshim). RATE is in tc's format: 200mbit,
# 1gbit, 10gbit. Needs root (except for with), iproute2, util-linux and, for run, Open MPI.
set -u
readonly subnet=10.231.78 hosts_max=64

say() { echo "hosts.sh: $*"; }
die() {
    say "$@" >&2
    exit 3
}
usage() {
    sed -n '3,/^set -u/p' "$0" | sed '/^set -u/d; s/^# \{0,1\}//'
    exit 2
}

# This script's own commands run without the preload. The ranks get it, and `with` passes it to its command.
preload=${LD_PRELOAD-}
unset LD_PRELOAD

name=cshim
if [ "${1-}" = --name ]; then
    name=${2-}
    shift 2 || usage
    [[ $name =~ ^[a-z]{1,10}$ ]] || die "--name $name: take 1 to 10 lower-case letters"
fi
readonly name state=/run/$name-hosts bridge=${name}br

need_tools() {
    local tool
    [ "$(id -u)" = 0 ] || [ "$command" = with ] ||
        die "needs root (network namespaces and tc); run it with sudo"
    for tool in ip tc unshare awk; do
        command -v "$tool" >/dev/null || die "needs $tool: apt-get install iproute2 util-linux mawk"
    done
}
need_up() { [ -s "$state/count" ] || die "no hosts are up; start them with: hosts.sh up"; }
host_count() { cat "$state/count"; }

# bits_per_second RATE: prints it in bit/s; fails if it is not a number of kbit, mbit or gbit, or below 1 bit/s
bits_per_second() {
    awk -v rate="${1,,}" 'BEGIN {
        if (rate !~ /^[0-9]+(\.[0-9]+)?(k|m|g)bit$/) exit 1
        unit["k"] = 1e3; unit["m"] = 1e6; unit["g"] = 1e9
        bits = (rate + 0) * unit[substr(rate, length(rate) - 3, 1)]
        if (bits < 1) exit 1
        printf "%.0f\n", bits
    }'
}
check_rate() {
    [ "$1" = none ] || bits_per_second "$1" >/dev/null || die "rate '$1' not understood; use 200mbit, 1gbit or none"
}

# limit RATE DEVICE [TC-OPTION...]: sets the rate at which the device sends. The bucket covers late timers: it is a
# millisecond of the rate, but at least 256 KiB, so that it holds several of the packets of up to 64 KiB that TCP passes
# to the device in one piece.
limit() {
    local rate=$1 device=$2 bits burst
    shift 2
    tc "$@" qdisc del dev "$device" root 2>/dev/null
    [ "$rate" != none ] || return 0
    bits=$(bits_per_second "$rate")
    burst=$((bits / 8000 < 262144 ? 262144 : bits / 8000))
    tc "$@" qdisc add dev "$device" root tbf rate "$rate" burst $burst latency 50ms
}

# pace RATE HOST: sets the rate at which a host sends. TCP passes pieces of 8 KiB to the device, so that at most
# one of them exceeds 1.1 times the rate.
pace() {
    local bits
    bits=$(bits_per_second "$1")
    ip -n "$name$2" link set eth0 gso_max_size 8192 &&
        tc -n "$name$2" qdisc replace dev eth0 root tbf rate "$1" burst 262144 latency 50ms \
            peakrate $((bits * 11 / 10))bit mtu 9000
}

set_rate() {
    local rate=$1 host
    for host in $(seq "$(host_count)"); do
        limit "$rate" "${name}v$host" || die "cannot limit what host $host receives"
        if [ -e "$state/paced" ] && [ "$rate" != none ]; then
            pace "$rate" "$host"
        else
            { [ ! -e "$state/paced" ] || ip -n "$name$host" link set eth0 gso_max_size 65536; } &&
                limit "$rate" eth0 -n "$name$host"
        fi || die "cannot limit what host $host sends"
    done
    echo "$rate" >"$state/rate"
}

refuse_device() {
    ! ip link show "$1" >/dev/null 2>&1 || die "a device $1 exists already, made by others"
}

# make_host NUMBER: creates a host. Records its namespace first, so that down finds it after a failure, too.
make_host() {
    local host=$1 namespace=$name$1 device=${name}v$1
    refuse_device "$device"
    [ ! -e "/run/netns/$namespace" ] || die "a namespace $namespace exists already, made by others"
    echo "$namespace" >>"$state/namespaces" &&
        ip netns add "$namespace" &&
        ip link add "$device" type veth peer name eth0 netns "$namespace" &&
        ip link set "$device" master "$bridge" up &&
        ip -n "$namespace" address add "$subnet.$host/24" dev eth0 &&
        ip -n "$namespace" link set lo up &&
        ip -n "$namespace" link set eth0 up &&
        mkdir -p "$state/tmp/$host"
}

# write_names COUNT: writes the hosts' /etc/hosts; sets $mounted to the file or folder that a host mounts, and $onto to
# the mount point. A minimal system has no /etc/hosts to mount a file on. There a host mounts a copy of /etc, without
# files that the user may not read.
write_names() {
    local host names
    mounted=$state/etc-hosts onto=/etc/hosts names=$state/etc-hosts
    if [ ! -e "$onto" ]; then
        mounted=$state/etc onto=/etc names=$state/etc/hosts
        mkdir "$mounted"
        cp -a /etc/. "$mounted" 2>/dev/null
    fi
    echo "127.0.0.1 localhost" >"$names"
    for host in $(seq "$1"); do echo "$subnet.$host $name$host"; done >>"$names"
}

# write_scripts: writes two scripts into the state folder: enter starts a command in a host; agent does so for Open MPI
write_scripts() {
    cat >"$state/enter" <<SCRIPT
#!/bin/sh
# enter HOST COMMAND...: runs it in the host's namespace, as if on another machine
host=\$1
shift
export TMPDIR=$state/tmp/\${host#$name}
exec ip netns exec "\$host" unshare --uts --mount sh -c \\
    'hostname "\$0" && mount --bind $mounted $onto && exec "\$@"' "\$host" "\$@"
SCRIPT
    cat >"$state/agent" <<SCRIPT
#!/bin/sh
# agent [OPTION...] HOST COMMAND...: called by mpirun instead of ssh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
grep -qx "\$host" $state/namespaces || { echo "hosts.sh: \$host is none of the hosts" >&2; exit 1; }
exec $state/enter "\$host" sh -c "\$*"
SCRIPT
    chmod +x "$state/enter" "$state/agent"
}

undo() {
    trap - EXIT INT TERM
    remove
    die "could not make the hosts; what was made is removed"
}

up() {
    local count=4 rate=1gbit paced=false host
    while [ $# -gt 0 ]; do
        case $1 in
        --hosts) count=${2-} ;;
        --rate) rate=${2-} ;;
        --paced)
            paced=true
            shift
            continue
            ;;
        *) usage ;;
        esac
        shift 2 || usage
    done
    if ! [[ $count =~ ^[1-9][0-9]?$ ]] || [ "$count" -gt $hosts_max ]; then
        die "--hosts takes 1 to $hosts_max"
    fi
    check_rate "$rate"
    unshare --mount true || die "no namespaces can be made here; in a chroot use: hosts.sh with"
    mkdir "$state" 2>/dev/null || die "hosts are up already; remove them with: hosts.sh down"
    trap undo EXIT INT TERM
    refuse_device "$bridge"
    echo "$bridge" >"$state/bridge"
    ip link add "$bridge" type bridge && ip link set "$bridge" up || exit
    for host in $(seq "$count"); do
        make_host "$host" || exit
    done
    write_names "$count" && write_scripts || exit
    echo "$count" >"$state/count"
    ! $paced || touch "$state/paced"
    set_rate "$rate"
    trap - EXIT INT TERM
    say "$count hosts are up, links of $rate"
}

end_processes() {
    local signal processes
    for signal in TERM KILL; do
        mapfile -t processes < <(ip netns pids "$1" 2>/dev/null)
        [ ${#processes[@]} -gt 0 ] || return 0
        kill -"$signal" "${processes[@]}" 2>/dev/null
        sleep 0.5
    done
}

# remove: ends the processes in the hosts, and removes the hosts, the bridge and the state folder, which lists them
remove() {
    local namespace
    while read -r namespace; do
        [ -e "/run/netns/$namespace" ] || continue
        end_processes "$namespace"
        # The end on the bridge goes first, because its peer may outlive the namespace for a moment.
        ip link delete "${name}v${namespace#"$name"}" 2>/dev/null
        ip netns delete "$namespace"
    done < <(cat "$state/namespaces" 2>/dev/null)
    [ ! -e "$state/bridge" ] || ip link delete "$bridge" 2>/dev/null
    rm -rf -- "$state"
}

# with RATE COMMAND...: begins the command `with`. A user who is not root becomes root in the namespace, without more
# rights outside, and Open MPI is allowed to run as this root. unshare leaves the propagation of mounts unchanged,
# because in a chroot it cannot make / private.
with() {
    local user=()
    check_rate "$1"
    if [ "$(id -u)" != 0 ]; then
        user=(--user --map-root-user)
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    LD_PRELOAD=$preload exec unshare "${user[@]}" --net --mount --propagation unchanged \
        bash "$(realpath "$0")" --name "$name" apart "$@"
}

# apart RATE COMMAND...: continues `with` in its namespaces. / has to be a mount point whose mounts are invisible
# outside. The root of a chroot is no mount point, so it is bound to a folder in /proc, which can be made private, and
# that folder becomes the root.
apart() {
    local root=/proc/fs/root
    mount --make-rprivate / 2>/dev/null || {
        mount --make-rprivate /proc && mount -t tmpfs tmpfs "${root%/*}" && mkdir "$root" && mount --rbind / "$root" &&
            mount --make-rprivate "$root" || die "no hosts can be made in this chroot: it needs /proc (mount -t proc proc /proc)"
        LD_PRELOAD=$preload exec chroot "$root" env -C "$PWD" bash "$(realpath "$0")" --name "$name" hidden "$@"
    }
    hidden "$@"
}

# hidden RATE COMMAND...: completes `with`. The state and temporary files are in a private /run.
hidden() {
    export TMPDIR=/run/tmp
    mount -t tmpfs tmpfs /run && mkdir "$TMPDIR" && ip link set lo up && (up --rate "$1") || exit
    trap down EXIT
    trap "exit 130" INT TERM
    LD_PRELOAD=$preload "${@:2}"
}

down() {
    [ -e "$state" ] || { say "no hosts are up"; return 0; }
    remove
    say "the hosts are removed"
}

# forwarded: prints -x options for LD_PRELOAD and COMPSHIM_*, if the caller has set them
forwarded() {
    local variable
    [ -z "$preload" ] || printf '%s\n' -x "LD_PRELOAD=$preload"
    for variable in "${!COMPSHIM@}"; do
        printf '%s\n' -x "$variable"
    done
}

run() {
    local count ranks=1 seconds=600 list host transports=tcp,self shared_memory=vader root=() environment
    local remote=(--mca plm rsh --mca plm_rsh_agent "$state/agent" --mca plm_rsh_no_tree_spawn 1
        --mca oob_tcp_if_include eth0 --mca btl_vader_single_copy_mechanism none
        --mca hwloc_base_binding_policy none)
    need_up
    count=$(host_count)
    while :; do
        case ${1-} in
        --hosts) count=${2-} ;;
        --ranks-per-host) ranks=${2-} ;;
        --seconds) seconds=${2-} ;;
        *) break ;;
        esac
        shift 2 || usage
    done
    [ $# -gt 0 ] || usage
    [[ $ranks =~ ^[1-9][0-9]*$ ]] || die "--ranks-per-host takes a number from 1"
    if ! [[ $count =~ ^[1-9][0-9]?$ ]] || [ "$count" -gt "$(host_count)" ]; then
        die "--hosts takes 1 to $(host_count)"
    fi
    command -v mpirun >/dev/null || die "needs mpirun: apt-get install openmpi-bin"
    if mpirun --version | grep -qF '(Open MPI) 5'; then
        remote=(--prtemca plm_ssh_agent "$state/agent" --prtemca plm_ssh_no_tree_spawn 1
            --prtemca oob_tcp_if_include eth0)
        shared_memory=sm
    fi
    [ "$ranks" = 1 ] || transports+=,$shared_memory
    [ "$(id -u)" != 0 ] || root=(--allow-run-as-root)
    list=$(for host in $(seq "$count"); do printf ',%s%s:%s' "$name" "$host" "$ranks"; done)
    mapfile -t environment < <(forwarded)
    # There may be more ranks than cores, so waiting ranks have to yield.
    exec timeout --foreground --kill-after=10 "$seconds" "$state/enter" "${name}1" mpirun "${root[@]}" \
        --host "${list#,}" -n $((ranks * count)) --map-by slot --bind-to none \
        "${remote[@]}" --mca pml ob1 --mca btl "$transports" --mca btl_tcp_if_include eth0 \
        --mca mpi_yield_when_idle 1 "${environment[@]}" "$@"
}

stats() {
    local host counters dropped
    for host in $(seq "$(host_count)"); do
        counters=$(ip netns exec "$name$host" cat /sys/class/net/eth0/statistics/{tx,rx}_bytes) ||
            die "cannot read the counters of host $host"
        dropped=$(tc -s -n "$name$host" qdisc show dev eth0 root | sed -nE 's/.*dropped ([0-9]+).*/\1/p')
        # shellcheck disable=SC2086 # two words
        printf '%s sent %s received %s dropped %s\n' "$name$host" $counters "$dropped"
    done
}

command=${1-}
[ $# -gt 0 ] && shift
case $command in up | rate | run | exec | stats | down | with | apart | hidden) need_tools ;; *) usage ;; esac
case $command in
up) up "$@" ;;
rate)
    [ $# = 1 ] || usage
    need_up
    check_rate "$1"
    set_rate "$1"
    ;;
run) run "$@" ;;
exec)
    [ $# -ge 2 ] || usage
    need_up
    grep -qx "$name$1" "$state/namespaces" || die "no host $1"
    exec "$state/enter" "$name$1" "${@:2}"
    ;;
stats)
    need_up
    stats
    ;;
down) down ;;
with | apart | hidden)
    [ $# -ge 2 ] || usage
    "$command" "$@"
    ;;
esac
