# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Part of the benchmarks on networks: shm-RANKS, or RATE-HOSTSxRANKS (ranks per host; needs root).

# usage: prints the comment at the top of the script
usage() {
    sed -n '3,/^set -eu/p' "$0" | sed '/^set -eu/d; s/^# \{0,1\}//'
    exit 2
}

# begin COMMAND...: makes the folder $scratch, and removes it at the end; COMMAND is hosts.sh with its name. Hosts that
# the script has started (are_up) end with it
begin() {
    scratch=$(mktemp -d)
    hosts=("$@") are_up=
    trap clean_up EXIT
    trap 'exit 130' INT TERM
}
clean_up() {
    rm -rf "$scratch"
    [ -z "$are_up" ] || "${hosts[@]}" down >/dev/null
}

# up NETWORK [OPTION...]: starts the hosts of a network that has some
up() {
    local count=${1#*-}
    [[ $1 = shm-* ]] || { "${hosts[@]}" up --hosts "${count%x*}" --rate "${1%%-*}" "${@:2}" >&2 && are_up=yes; }
}
down() { # NETWORK: ends its hosts
    [[ $1 = shm-* ]] || "${hosts[@]}" down >&2
    are_up=
}

# run_job NETWORK [MPIRUN-OPTION...]: runs the ranks of ${job[@]} with the variables ${variables[@]}
run_job() {
    local root=()
    [ "$(id -u)" != 0 ] || root=(--allow-run-as-root)
    case $1 in
    shm-*)
        mpirun "${root[@]}" -n "${1#shm-}" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "${@:2}" \
            env "${variables[@]}" "${job[@]}"
        ;;
    *) env "${variables[@]}" "${hosts[@]}" run --ranks-per-host "${1##*x}" "${@:2}" "${job[@]}" ;;
    esac
}
