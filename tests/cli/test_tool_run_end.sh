#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks compshim run as the parent of a command: its message at the end, the signals that it forwards, and its exit
# status.
# Starts itself again if signals are ignored, as under nohup, because the commands would ignore them, too.
[ -z "$(trap -p)" ] || exec env --default-signal bash "$0"
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
programs=$top/tests/programs
cd "$scratch" || exit 1
export ASAN_OPTIONS=detect_leaks=0
unset "${!SLURM@}" "${!PBS@}"
line="compshim: nothing was caught: no process of this job on this host came to MPI, NCCL or gloo"

says() { # NAME COMMAND...: checks for the message and status 0
    expect "$1" 0 limited "${@:2}"
    check "is told of" test "$(grep -c "^$line" <<<"$output")" = 1
}
advice() { # TEXT: checks the advice in the message
    contains "with what to do" "$1"
}
silent() { # NAME STATUS COMMAND...: checks for no message
    expect "$1" "$2" limited "${@:3}"
    check "is not told of" test "${output%"$line"*}" = "$output"
}

# Programs that call MPI, NCCL or gloo, and programs that do not.
says "a program without MPI" "$tool" run -- true
contains "names the check" "see 'compshim check true'"
contains "and the hook" "run --dlsym reaches"
says "a program behind launchers" "$tool" run -- mpirun --oversubscribe -n 2 env A=1 true
contains "is named" "'compshim check true'"
gcc -o static "$programs/caller.c" -static -DANSWER=0 2>/dev/null # its warning about dlopen is expected
says "a static program" "$tool" run -- ./static
# Scripts that remove LD_PRELOAD: the message names the script, in case the program that it starts calls such a library.
lost="starts calls them, LD_PRELOAD was lost on the way (unset, env -i, sudo, a container): put compshim run there"
# shellcheck disable=SC2016
for body in 'unset LD_PRELOAD; "$@"' 'env -i PATH="$PATH" HOME="$HOME" "$@"' 'LD_PRELOAD= "$@"'; do
    printf '#!/bin/sh\n%s\n' "$body" >wrapper && chmod +x wrapper
    says "a wrapper with $body" "$tool" run -- mpirun --oversubscribe -n 2 ./wrapper true
    advice "if what ./wrapper $lost"
done
says "a shell" "$tool" run -- sh -c true
advice "if what sh $lost"
bench=("$build/allreduce_bench" --sizes 64KiB --seconds 0.01)
if only_open_mpi "what is caught by compshim run"; then
    silent "an MPI program" 0 "$tool" run -- "${bench[@]}"
    silent "its ranks" 0 "$tool" run -- "${launch[@]}" -n 2 "${bench[@]}"
    silent "its ranks, with a variable to forward" 0 "$tool" run -- "${launch[@]}" -x HOME -n 2 "${bench[@]}"
    silent "a rank among others" 0 "$tool" run -- sh -c 'true; "$@" >/dev/null; true' sh "${bench[@]}"
    silent "a run inside a run" 0 "$tool" run -- "$tool" run -- "${bench[@]}"
    silent "a program whose run is over" 0 env COMPSHIM_RUN=,compshim-nobody,x LD_PRELOAD="$preload" \
        "${launch[@]}" -n 2 "${bench[@]}"
    contains "and that is served" "compshim 0"
    gcc -O1 -D_GNU_SOURCE -o fetch "$programs/fetch.c"
    says "functions fetched with dlsym" "$tool" run -- "${launch[@]}" -n 2 ./fetch libmpi.so.40 handle
    silent "with the hook" 0 "$tool" run --dlsym -- "${launch[@]}" -n 2 ./fetch libmpi.so.40 handle
fi
says "a program without MPI, with the hook" "$tool" run --dlsym -- true
check "is not advised to use it" test "${output%run --dlsym*}" = "$output"
mkdir front && cp "$tool" "$build/libcompshim.so" front/
gcc -shared -fPIC -o libnccl.so.2 -Wl,-soname,libnccl.so.2 "$programs/library.c" -DFUNCTION=ncclGetUniqueId -DANSWER=0
gcc -Wl,-rpath,"$scratch" -o id "$programs/caller.c" -DFUNCTION=ncclGetUniqueId libnccl.so.2
silent "a program that makes an id of NCCL" 0 front/compshim run -- ./id
check "by the library" test "${output##*$'\n'}" = library
gloo=_ZN4gloo9allreduceERKNS_16AllreduceOptionsE
gcc -shared -fPIC -o libgloo.so.0 -Wl,-soname,libgloo.so.0 "$programs/library.c" -DFUNCTION=$gloo -DANSWER=0
gcc -Wl,-rpath,"$scratch" -o sums "$programs/caller.c" -DFUNCTION=$gloo libgloo.so.0
silent "a program that calls gloo" 0 front/compshim run -- ./sums
check "by its library" test "${output##*$'\n'}" = library

# Cases without a message: the run is off, or compshim run cannot know whether a call was caught.
silent "a run that is off" 0 "$tool" run --off -- true
silent "a run that the environment switches off" 0 env COMPSHIM=off "$tool" run -- true
mkdir launchers
printf 'localhost\ntwo\n' >here_and_there
for name in srun sbatch mpirun horovodrun torchrun accelerate deepspeed docker; do
    printf '#!/bin/sh\nexit 0\n' >"launchers/$name"
done
chmod +x launchers/*
with() { PATH=$scratch/launchers:$PATH "$tool" run -- "$@"; }
export -f with && export tool scratch
elsewhere() { silent "$*" 0 bash -c 'with "$@"' bash "$@"; }
elsewhere srun -n 2 true
elsewhere sbatch job.sh
elsewhere mpirun --host one,two -n 2 true
elsewhere mpirun -np 2 --hostfile=hosts true
elsewhere mpirun -machinefile hosts true
elsewhere mpirun --host localhost,two true
elsewhere mpirun --hostfile here_and_there true
elsewhere mpirun --host
elsewhere mpirun --app localhost
elsewhere accelerate launch --mpirun_hostfile hosts train.py
elsewhere deepspeed --hostfile hosts train.py
elsewhere docker run image ./train
elsewhere mpirun -n 1 true : -n 1 -H two true
elsewhere horovodrun -np 2 -H one:1,two:1 python3 train.py
SLURM_JOB_ID=1 silent "a job of Slurm" 0 "$tool" run -- true
PBS_NODEFILE=nodes silent "a job of PBS" 0 "$tool" run -- true
SLURM_JOB_ID=1 SLURM_JOB_NODELIST=one,two silent "a job of Slurm on other hosts" 0 "$tool" run -- true
PBS_NODEFILE=here_and_there silent "a job of PBS on several hosts" 0 "$tool" run -- true
LSB_JOBID=1 silent "a job of LSF" 0 "$tool" run -- true
says "options of the program" bash -c 'with "$@"' bash mpirun -n 2 true --host one -f file
# Names of this host in options, files and variables.
printf 'localhost slots=2\n# two\n\n%s:2\n' "$(uname -n)" >here
for options in "--host localhost:2" "--host=$(uname -n),localhost" "-H $(uname -n).some.where" "--hostfile here" \
    "-machinefile=here"; do
    says "ranks on this host by $options" bash -c 'with "$@"' bash mpirun $options true
done
SLURM_JOB_ID=1 SLURM_JOB_NODELIST=$(uname -n) says "a job of Slurm on this host" "$tool" run -- true
PBS_JOBID=1 PBS_NODEFILE=here says "a job of PBS on this host" "$tool" run -- true
says "workers of this host among others" bash -c 'with "$@"' bash torchrun --nnodes 2 --rdzv_endpoint one:1 train.py
says "DeepSpeed's workers of this host" bash -c 'with "$@"' bash deepspeed train.py
says "Accelerate's workers of this host" bash -c 'with "$@"' bash accelerate launch train.py
says "workers of this host" bash -c 'with "$@"' bash torchrun --nproc_per_node 2 train.py

# Exit statuses and signals.
silent "a command that fails, in which nothing was caught," 7 "$tool" run -- sh -c 'exit 7'
silent "a command that a signal ends" 143 "$tool" run -- sh -c 'kill -TERM $$'
check "ends the run by the same" python3 -c 'import subprocess, sys
assert subprocess.run(sys.argv[1:]).returncode == -9' "$tool" run -- sh -c 'kill -KILL $$'
silent "a command that is not there" 3 "$tool" run -- ./missing
contains "is named" "cannot run './missing': No such file or directory"
expect "a folder" 3 "$tool" run -- ./launchers
contains "is no command" "cannot run './launchers': Permission denied"
expect "standard error that nobody reads" 0 bash -c '"$0" run -- true 2>&1 >/dev/null | true; exit ${PIPESTATUS[0]}' "$tool"
# Inherited state: open files, blocked and ignored signals.
# shellcheck disable=SC2016
inherits='ls -l /proc/self/fd | grep -c -- "->"; grep -E "^Sig(Blk|Ign)" /proc/self/status'
for ignored in "" "CHLD USR1"; do
    # shellcheck disable=SC2086
    (
        [ -z "$ignored" ] || trap '' $ignored
        sh -c "$inherits" >native
        "$tool" run -- sh -c "$inherits" >inherited 2>told
    )
    check "the command inherits what it would without the run${ignored:+, ignoring $ignored}" diff native inherited
    check "which is seen" grep -q SigIgn inherited
done

# The command gets each signal once, whether it is sent to the run alone or to the whole process group.
cat >wait_for_end <<'P'
#!/bin/bash
for name in INT TERM HUP QUIT USR1 USR2 TTOU; do
    trap "echo $name >>got" $name
done
echo $$ >started
while [ -e . ]; do
    [ -s end ] && exit "$(<end)"
    sleep 0.05
done
P
chmod +x wait_for_end
begin() {
    rm -f got end started
    set -m # gives the run a process group of its own
    "$tool" run -- ./wait_for_end 2>told &
    run=$!
    set +m
    check "the command starts" eventually test -s started
    command=$(cat started)
}
end() { # STATUS
    echo "$1" >end
    wait $run
    check "the command ends by itself" test $? = "$1"
}
# The run handles pending signals in increasing order of their numbers. Once it has forwarded a signal with a high
# number, it has handled all lower ones, and the command has received them.
no_more() { # NAME...: checks that the command got these signals and no others
    local marks
    marks=$(grep -c TTOU got)
    kill -s TTOU $run
    eventually eval "[ \$(grep -c TTOU got) -gt $marks ]" &&
        diff <(printf '%s\n' "$@") <(grep -v TTOU got)
}
names=(USR1 USR2 HUP TERM QUIT INT)
for target in "" -; do
    meant="the ${target:+group of the }run"
    begin
    for ((i = 0; i < ${#names[@]}; i++)); do
        kill -s "${names[i]}" -- $target$run
        check "${names[i]} for $meant arrives" eventually grep -q "${names[i]}" got
        check "and no second one" no_more "${names[@]:0:i + 1}"
    done
    end 5
    check "an interrupted run says nothing" test "$(grep -c "^$line" told)" = 0
done
begin
kill -s STOP "$(children_of $run | grep -vx "$command")"
kill -s USR1 -- -$run
check "a signal for the group arrives where the witness is held up" eventually grep -q USR1 got
check "once" no_more USR1
end 5
stopped() { [ "$(state_of "$1")" = T ]; }
goes_on() { ! stopped "$1"; }
for target in "" -; do
    begin
    kill -s TSTP -- $target$run
    check "TSTP stops the command" eventually stopped "$command"
    check "and the run" eventually stopped $run
    kill -s CONT -- $target$run
    check "CONT continues the command" eventually goes_on "$command"
    check "and the run" eventually goes_on $run
    end 0
    check "which speaks at the end" grep -q "^$line" told
done
begin
kill -s STOP "$command"
check "STOP for the command alone stops it" eventually stopped "$command"
kill -s CONT "$command"
end 0
check "compshim run ends after its command" grep -q "^$line" told
rm -f got end started
check "on a terminal" limited python3 - "$tool" <<'PY'
import os, pty, signal, sys, time
process, terminal = pty.fork()
if process == 0:
    os.execv(sys.argv[1], [sys.argv[1], "run", "--", "./wait_for_end"])
def arrives(*names):
    while not (os.path.exists("started") and (not names or os.path.exists("got") and open("got").read().split() == [*names])):
        time.sleep(0.05)
def once(*names): # and the run has not forwarded any of them twice
    arrives(*names)
    os.kill(process, signal.SIGTTOU)
    arrives(*names, "TTOU")
arrives()
os.write(terminal, b"\x03")
once("INT")
os.write(terminal, b"\x1c")
once("INT", "TTOU", "QUIT")
os.close(terminal)
once("INT", "TTOU", "QUIT", "TTOU", "HUP")
open("end", "w").write("5")
_, status = os.waitpid(process, 0)
assert os.waitstatus_to_exitcode(status) == 5, status
PY
begin
disown $run # so that bash does not report its end
kill -s KILL $run
check "a run that is killed leaves no command behind" eventually has_ended "$command"
finish
