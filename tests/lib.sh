# shellcheck shell=bash
# What the shell tests share: source it, call check and expect, end with finish.
#
#   check NAME CMD...          passes if CMD exits 0; its output is shown if not
#   expect NAME STATUS CMD...  passes if CMD exits with STATUS; leaves its output in $output
#   contains NAME TEXT         passes if $output contains TEXT
#   golden NAME FILE           passes if $output equals FILE (UPDATE=1 rewrites the file)
#   skip REASON                counts a part of the test that cannot be tried here
#   finish                     prints the counts; exits 1 if anything failed
#   codecs                     prints the names of all codecs but fp32, which is raw for float32
#
#   limited CMD...             runs CMD; after $LIMIT seconds it is ended, with status 124
#   eventually CMD...          repeats CMD until it succeeds, for up to $LIMIT seconds
#   once_in_ten CMD...         repeats CMD until it succeeds, ten times at most: for measurements, which
#                              other work on the machine may spoil
#   state_of PID               prints a process's state: R, S, T, Z; nothing if there is no such process
#   has_ended PID              whether there is no such process, or only what its parent must collect
#   children_of PID            prints the processes whose parent it is
#
#   mpi, shimmed, job, policy, json, reports see below, as differing
#   to_hosts HOSTS AGENT       see below
#   only_open_mpi WHAT         whether the MPI is Open MPI; if not, WHAT is skipped
#   carries_on PROGRAM         whether nonblocking calls are compressed with the program's MPI
#   told_by_mpich              whether $output has MPICH's words for a mismatch instead of the shim's
#
# $top is the project's root, $build the build folder, $scratch a folder of the test's own, $launch the
# command that starts ranks. MPI=mpich: the programs in $build are MPICH's or a relative's (make
# test-mpich), or those of another MPI whose launcher is Hydra. MPI_HOME: not Debian's, but the MPI in
# this folder runs them (make test-mpis).
#
# LIMIT is the longest that a command may take before it counts as hanging. It measures nothing: it is
# far above what any command needs on a slow machine with other work.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD:-$top/build}
case $build in /*) ;; *) build=$top/$build ;; esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=examples/ranks.sh
. "$top/examples/ranks.sh"
export OPENBLAS_NUM_THREADS=1 LIMIT=${LIMIT:-600}
# MPICH and Intel MPI otherwise never yield; nor should the latter look for a network.
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
# A make that a test runs has nothing of the make that runs the tests.
unset LD_PRELOAD "${!COMPSHIM@}" MAKEFLAGS MFLAGS MAKELEVEL
# The nodes of tests are emulated: what is measured there depends on what else runs, and so would plans.
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
# codecs: all but fp32, which is raw for float32; those of the GPU only if asked for them.
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
# A command that is not installed fails the test, wherever bash meets it (tools/install-packages.sh).
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
# A process 1 that collects nothing leaves every orphan a zombie: that one has ended, too.
has_ended() { case $(state_of "$1") in '' | [XZ]) ;; *) return 1 ;; esac }
children_of() { grep -lsx "PPid:[[:space:]]*$1" /proc/[0-9]*/status | cut -d / -f 3; }

# What is preloaded: with sanitizers their runtime has to come first.
preload=$build/libcompshim.so
if [ "${SANITIZE:-0}" = 1 ]; then
    preload=$(gcc -print-file-name=libasan.so):$preload
    export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 UBSAN_OPTIONS=print_stacktrace=1
fi

# mpi N [VARIABLE=VALUE...] PROGRAM... : N ranks without the shim; shimmed N ...: with it
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

# job N [VARIABLE=VALUE...] PROGRAM... : N processes that find their ranks in the environment, without MPI
job() {
    local ranks=$1
    shift
    limited bash "$top/tests/nccl/launch.sh" "$ranks" env "$@"
}

# differing N CMD... : N CMD...    one job whose ranks run different commands (VARIABLE=VALUE... first)
# Debian 13's mpirun crashes if it is to start several programs: there one script is started, in which
# each rank chooses its command.
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

# to_hosts HOSTS AGENT: the launcher's options to start a daemon on each of HOSTS by AGENT, in $options
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

# MPICH lets the shim carry nonblocking calls on from some version on.
carries_on() {
    [ "$MPI" = openmpi ] && return
    local library
    library=$(ldd "$1" | sed -n 's/^[^=]*libmpi[^=]* => \([^ ]*\) .*/\1/p' | head -n 1)
    nm -D "$library" | grep -q ' MPIX_Async_start$'
}

# MPICH ends a job by itself where a message is longer than its place, whatever the handler, and keeps
# no beginning of it.
told_by_mpich() {
    [[ $MPI = mpich && ($output = *internal_Wait* || $output = *"there: no"*) ]]
}

# reports NAME PYTHON: passes if the expression is true of $scratch/report.json, which is `report`; `rows`
# and `passed` are parts of it
reports() {
    check "$1" python3 - "$scratch/report.json" "$2" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
rows, passed = report["rows"], report["passed_through"]
if not eval(sys.argv[2]):
    sys.exit(f"not so: {sys.argv[2]}\n{json.dumps(report, indent=1)}")
P
}

# json PYTHON: prints a value of the report in $scratch/report.json, which is `r`
json() { python3 -c "import json; r = json.load(open('$scratch/report.json')); print($1)"; }

# policy FILE CODEC [ALGORITHM] [DTYPE]: a policy that compresses every sum
policy() {
    printf '[compshim]\nreport = off\n[rule all]\nop = sum\ndtype = %s\ncodec = %s\nalgorithm = %s\n' \
        "${4:-float32}" "$2" "${3:-auto}" >"$1"
}
