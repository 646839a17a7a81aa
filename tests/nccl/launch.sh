#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts N processes of a program on this machine, as the ranks of one job, without MPI.
#   tests/nccl/launch.sh N PROGRAM...
# Sets RANK, WORLD_SIZE and ID_FILE for each of them, and NCCL_HOSTID to "node" and its entry of NODES ("0,0,1,1"), if
# it has one. When a rank fails, ends the others and exits with its status.
set -u
ranks=$1
shift
folder=$(mktemp -d)
IFS=, read -ra nodes <<<"${NODES:-}"
processes=()
trap 'kill "${processes[@]}" 2>/dev/null; rm -rf "$folder"' EXIT
for ((rank = 0; rank < ranks; rank++)); do
    host=${nodes[rank]-}
    RANK=$rank WORLD_SIZE=$ranks ID_FILE=$folder/id ${host:+env NCCL_HOSTID="node$host"} "$@" &
    processes+=($!)
done
status=0
for ((left = ranks; left > 0; left--)); do
    wait -n || status=$?
    [ "$status" = 0 ] || break
done
# `wait -n` may miss one of two processes that end at once; waiting for each process id finds its status.
if [ "$status" = 127 ]; then
    status=0
    for process in "${processes[@]}"; do wait "$process" || status=$?; done
fi
exit $status
