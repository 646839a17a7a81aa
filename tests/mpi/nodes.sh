# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Simulated nodes on this machine, for tests that depend on which ranks share a node. Source it after tests/lib.sh.
# The launcher starts a daemon for each node, with its own hostname and TMPDIR, so that MPI takes the daemons' ranks
# for ranks of different nodes.
#
#   can_make_nodes                                   succeeds if this user may give a process a hostname
#   on_nodes HOSTS [VARIABLE=VALUE...] PROGRAM...    runs PROGRAM with the shim on HOSTS, in mpirun's format:
#                                                    here:2,there:3
cat >"$scratch/node" <<'A'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
mkdir -p "$NODES/$host"
# shellcheck disable=SC2016 # the inner shell expands them
exec env TMPDIR="$NODES/$host" unshare --uts sh -c 'hostname "$0"; exec sh -c "$1"' "$host" "$*"
A
chmod +x "$scratch/node"

can_make_nodes() { unshare --uts true 2>/dev/null; }

on_nodes() {
    local hosts=$1 options
    shift
    to_hosts "$hosts" "$scratch/node"
    if [ "$MPI" = mpich ]; then
        options+=(-n $(($(sed 's/[^,:]*:\([0-9]*\)/\1/g; s/,/ + /g' <<<"$hosts"))))
    else
        options+=(--mca btl tcp,vader,self --mca btl_tcp_if_include lo)
    fi
    NODES=$scratch limited "${launch[0]}" "${options[@]}" \
        env LD_PRELOAD="$preload" "$@"
}
