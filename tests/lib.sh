# shellcheck shell=bash
# What the shell tests share: source it, call check and expect, end with finish.
#
#   check NAME CMD...          passes if CMD exits 0; its output is shown if not
#   expect NAME STATUS CMD...  passes if CMD exits with STATUS; leaves its output in $output
#   contains NAME TEXT         passes if $output contains TEXT
#   golden NAME FILE           passes if $output equals FILE (UPDATE=1 rewrites the file)
#   finish                     prints the counts; exits 1 if anything failed
#   codecs                     prints the names of all codecs but fp32, which is raw for float32
#
#   mpi, shimmed, policy       see below
#   to_hosts HOSTS AGENT       see below
#   only_open_mpi WHAT         whether the MPI is Open MPI; says that WHAT is not tried if not
#   carries_on PROGRAM         whether nonblocking calls are compressed with the program's MPI
#   told_by_mpich              whether $output has MPICH's words for a mismatch instead of the shim's
#
# $top is the project's root, $build the build folder, $scratch a folder of the test's own, $launch the
# command that starts ranks. MPI=mpich: the programs in $build are MPICH's or a relative's (make
# test-mpich), or those of another MPI whose launcher is Hydra. MPI_HOME: not Debian's, but the MPI in
# this folder runs them (make test-mpis).
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD:-$top/build}
case $build in /*) ;; *) build=$top/$build ;; esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OPENBLAS_NUM_THREADS=1
export PRTE_MCA_hwloc_default_binding_policy=none
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
unset LD_PRELOAD "${!COMPSHIM@}"
passed=0 failed=0 output=

pass() {
    passed=$((passed + 1))
    echo "ok - $1"
}
fail() {
    failed=$((failed + 1))
    echo "not ok - $1"
    [ -z "${2-}" ] || printf '%s\n' "$2" | sed 's/^/    /'
}
codecs() { sed -nE 's/^(RAW|UPPER|FLOAT|INTEGER) *\([0-9]+, *[A-Z0-9_]+, *(\w+).*/\2/p' "$top/codecs/formats.def" | grep -vx fp32; }

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
finish() {
    echo "$(basename "$0"): $passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
    exit
}

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
    timeout --kill-after=5 "${LIMIT:-120}" "${launch[@]}" -n "$ranks" env "$@"
}
shimmed() {
    local ranks=$1
    shift
    mpi "$ranks" LD_PRELOAD="$preload" "$@"
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
        echo "note: with $MPI $1 is not tried"
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

# policy FILE CODEC [ALGORITHM] [DTYPE]: a policy that compresses every sum
policy() {
    printf '[compshim]\nreport = off\n[rule all]\nop = sum\ndtype = %s\ncodec = %s\nalgorithm = %s\n' \
        "${4:-float32}" "$2" "${3:-auto}" >"$1"
}
