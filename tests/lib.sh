# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Shared by the shell tests: source it, call check and expect, end with finish.
#
#   check NAME CMD...          passes if CMD exits with 0; else prints its output
#   expect NAME STATUS CMD...  passes if CMD exits with STATUS; saves its output in $output
#   contains NAME TEXT         passes if $output contains TEXT
#   golden NAME FILE           passes if $output equals FILE (UPDATE=1 rewrites the file)
#   skip REASON                counts a part of the test that cannot run here
#   finish                     prints the counts and exits, with 1 if a check failed, or if none passed or was skipped
#   codecs                     prints the codecs that need no other key in a rule (bounded and topk do), without
#                              fp32, which is raw for float32
#
#   limited CMD...             runs CMD; ends it after $LIMIT seconds, with status 124 (137 if SIGTERM does not end it)
#   eventually CMD...          repeats CMD until it succeeds, for up to $LIMIT seconds
#   once_in_ten CMD...         repeats CMD until it succeeds, at most ten times: for measurements, which
#                              other load on the machine may disturb
#   state_of PID               prints a process's state, such as R, S or Z; nothing if it does not exist
#   has_ended PID              succeeds if the process does not exist, or is a zombie
#   children_of PID            prints the process ids of its children
#
#   mpi, shimmed, shimmed_on, job, differing, policy, json, reports, to_hosts: see below
#   only_open_mpi WHAT         succeeds if the MPI is Open MPI; otherwise skips WHAT
#   compresses_nonblocking PROGRAM  succeeds if nonblocking calls are compressed with the program's MPI
#   mpich_reports_mismatch     see below
#
# $top is the project's root, $build the build folder, $scratch a folder that is removed at the end, $launch the command
# that starts ranks. MPI=mpich: the programs in $build are for MPICH, or another MPI whose launcher is Hydra. MPI_HOME:
# the MPI in this folder runs them, not Debian's (make test-mpis).
#
# LIMIT is the time after which a command counts as hanging. It measures nothing, and is far above what any command of
# `make test` needs on a slow, busy machine.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD:-$top/build}
case $build in /*) ;; *) build=$top/$build ;; esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=examples/ranks.sh
. "$top/examples/ranks.sh"
export OPENBLAS_NUM_THREADS=1 LIMIT=${LIMIT:-600}
# By default, ranks of MPICH and Intel MPI never yield the processor while they wait, and Intel MPI looks for a network.
export MPIR_CVAR_CH4_PROGRESS_THROTTLE=1 I_MPI_THREAD_YIELD=3 I_MPI_FABRICS=shm
case ${MPI:=openmpi} in
openmpi) launch=(mpirun --oversubscribe) ;;
mpich) launch=(mpirun.mpich) ;;
*) echo "tests/lib.sh: MPI=$MPI: openmpi or mpich" >&2 && exit 2 ;;
esac
if [ -n "${MPI_HOME-}" ]; then
    launch[0]=$MPI_HOME/bin/mpiexec
    export LD_LIBRARY_PATH=$MPI_HOME/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
# A make that a test runs gets no flags or command-line variables of the make that runs the tests.
unset LD_PRELOAD "${!COMPSHIM@}" MAKEFLAGS MFLAGS MAKELEVEL
# Unless a test unsets this, jobs try no candidates, because measured times depend on other load on the machine.
export COMPSHIM_MACHINE=off
passed=0 failed=0 skipped=0 output=

pass() {
    passed=$((passed + 1))
    echo "ok - $1"
}
fail() {
    failed=$((failed + 1))
    echo "not ok - $1"
    [ -z "${2-}" ] || printf '%s\n' "$2" | sed 's/^/    /'
}
skip() {
    skipped=$((skipped + 1))
    echo "skipped - $1"
}
# codecs [gpu]: prints the codecs except fp32, bounded and topk; with an argument also without lossless, which GPUs lack
codecs() { sed -nE 's/^(RAW|UPPER|FLOAT|INTEGER|PACKED) *\([0-9]+, *[A-Z0-9_]+, *(\w+).*/\2/p' "$top/codecs/formats.def" | grep -vxE "bounded|fp32${1+|lossless}"; }

check() {
    local name=$1 text
    shift
    if text=$("$@" 2>&1); then pass "$name"; else fail "$name" "$text"; fi
}
expect() {
    local name=$1 want=$2 status
    shift 2
    output=$("$@" 2>&1)
    status=$?
    if [ "$status" = "$want" ]; then pass "$name"; else fail "$name" "status $status, not $want: $output"; fi
}
contains() {
    case $output in *"$2"*) pass "$1" ;; *) fail "$1" "'$2' is not in: $output" ;; esac
}
golden() {
    [ "${UPDATE:-0}" = 1 ] && printf '%s\n' "$output" >"$2"
    if text=$(diff -u "$2" <(printf '%s\n' "$output")); then pass "$1"; else fail "$1" "$text"; fi
}
# limit_of N: prints the number of instructions that a test allows: N with gcc 12, a quarter more with other compilers
limit_of() { case $(${CC:-gcc} -dumpversion) in 12 | 12.*) echo "$1" ;; *) echo $(($1 * 5 / 4)) ;; esac; }
# A command that this shell does not find fails the test in finish, even if a check ignores its status.
command_not_found_handle() {
    echo "$1: command not found" | tee -a "$scratch/not_found" >&2
    return 127
}
finish() {
    [ ! -e "$scratch/not_found" ] || fail "every command of this test is installed" "$(sort -u "$scratch/not_found")"
    echo "$(basename "$0"): $passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] && [ $((passed + skipped)) -gt 0 ]
    exit
}

limited() { timeout --kill-after=10 "$LIMIT" "$@"; }
eventually() {
    local end=$((SECONDS + LIMIT))
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.05
    done
}
once_in_ten() {
    local try
    for try in {1..10}; do
        echo "try $try:"
        "$@" && return
    done
    return 1
}
state_of() { sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null; }
# An orphan that process 1 does not reap stays a zombie: it has ended, too.
has_ended() { case $(state_of "$1") in '' | [XZ]) ;; *) return 1 ;; esac }
children_of() { grep -lsx "PPid:[[:space:]]*$1" /proc/[0-9]*/status | cut -d / -f 3; }

# The preload. The address sanitizer's runtime has to come first.
preload=$build/libcompshim.so
if [ "${SANITIZE:-0}" = 1 ]; then
    preload=$(gcc -print-file-name=libasan.so):$preload
    export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 UBSAN_OPTIONS=print_stacktrace=1
fi

# mpi N [VARIABLE=VALUE...] PROGRAM... : runs N ranks without the shim; shimmed N ...: with it
mpi() {
    local ranks=$1
    shift
    limited "${launch[@]}" -n "$ranks" env "$@"
}
shimmed() {
    local ranks=$1
    shift
    mpi "$ranks" LD_PRELOAD="$preload" "$@"
}
# shimmed_on NODES [VARIABLE=VALUE...] PROGRAM... : runs ranks with the shim on made-up nodes (tests/standin/nodes.c).
# NODES lists each rank's node: with 0,0,1 two ranks are on node 0, and one is on node 1
shimmed_on() {
    local others=${1//[^,]/}
    mpi $((${#others} + 1)) STANDIN_NODES="$1" LD_PRELOAD="$build/tests/standin_nodes.so:$preload" "${@:2}"
}

# job N [VARIABLE=VALUE...] PROGRAM... : runs N processes with their ranks in the environment, without MPI
job() {
    local ranks=$1
    shift
    limited bash "$top/tests/nccl/launch.sh" "$ranks" env "$@"
}

# differing N CMD... : N CMD... runs one job whose ranks have different commands (VARIABLE=VALUE... first). Debian
# 13's mpirun crashes when it starts several programs. There, all ranks start one script, which chooses the command by
# rank.
differing() {
    local command=() options=() ranks=0 choice word
    choice=$(mktemp "$scratch/choice.XXXXXX")
    echo 'rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK}' >"$choice"
    for word in "$@" :; do
        if [ "$word" != : ]; then
            command+=("$word")
            continue
        fi
        ranks=$((ranks + command[0]))
        options+=(${options[0]+:} -n "${command[0]}" env "${command[@]:1}")
        command=("${command[@]:1}")
        echo "[ \$rank -ge $ranks ] || exec env ${command[*]@Q}" >>"$choice"
        command=()
    done
    if starts_several_programs; then
        limited "${launch[@]}" "${options[@]}"
    else
        limited "${launch[@]}" -n "$ranks" bash "$choice"
    fi
}
starts_several_programs() {
    local known=$scratch/starts_several_programs
    if [ ! -e "$known" ]; then
        limited "${launch[@]}" -n 1 true : -n 1 true >/dev/null 2>&1
        echo $? >"$known"
    fi
    [ "$(cat "$known")" = 0 ]
}

# to_hosts HOSTS AGENT: sets $options to the launcher's options that start a daemon on each of HOSTS by AGENT
to_hosts() {
    if [ "$MPI" = mpich ]; then
        options=(-hosts "$1" -launcher ssh -launcher-exec "$2")
    elif [ -x "${MPI_HOME-}/bin/prterun" ]; then # Open MPI 5
        options=(--host "$1" --prtemca plm_ssh_agent "$2")
    else
        options=(--host "$1" --mca plm rsh --mca plm_rsh_agent "$2")
    fi
}

only_open_mpi() {
    [ "$MPI" = openmpi ] || {
        skip "with $MPI: $1"
        return 1
    }
}

# compresses_nonblocking PROGRAM: succeeds if the program's MPI is Open MPI, or has MPIX_Async_start, by which the shim
# progresses nonblocking calls in newer versions of MPICH.
compresses_nonblocking() {
    [ "$MPI" = openmpi ] && return
    local library
    library=$(ldd "$1" | sed -n 's/^[^=]*libmpi[^=]* => \([^ ]*\) .*/\1/p' | head -n 1)
    nm -D "$library" | grep -q ' MPIX_Async_start$'
}

# mpich_reports_mismatch: succeeds if $output shows that MPICH, not the shim, has noticed a message longer than its
# buffer. MPICH aborts the job then, whatever the error handler, or drops the message's header ("there: no message").
mpich_reports_mismatch() {
    [[ $MPI = mpich && ($output = *internal_Wait* || $output = *"there: no"*) ]]
}

# reports NAME PYTHON: passes if the expression is true. `report` is $scratch/report.json, `rows` and `passed` are its
# rows and its passed_through.
reports() {
    check "$1" python3 - "$scratch/report.json" "$2" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
rows, passed = report["rows"], report["passed_through"]
if not eval(sys.argv[2]):
    sys.exit(f"not so: {sys.argv[2]}\n{json.dumps(report, indent=1)}")
P
}

# json PYTHON: prints the value of an expression on `r`, the report in $scratch/report.json
json() { python3 -c "import json; r = json.load(open('$scratch/report.json')); print($1)"; }

# policy FILE CODEC [ALGORITHM] [DTYPE]: writes a policy that has one rule, for sums of DTYPE (float32), and switches
# the report off
policy() {
    printf '[compshim]\nreport = off\n[rule all]\nop = sum\ndtype = %s\ncodec = %s\nalgorithm = %s\n' \
        "${4:-float32}" "$2" "${3:-auto}" >"$1"
}
