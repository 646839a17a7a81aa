#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the environment that compshim run gives to its program.
. "$(dirname "$0")/../lib.sh"
unset COMPSHIM_MACHINE # compshim run would pass it on, and checks below expect the test's own variables only
tool=$build/compshim
library=$(realpath "$build/libcompshim.so")
cd "$scratch" || exit 1
printf '[rule all]\ncodec = fp16\n' >job.ini
# shellcheck disable=SC2016 # the program's shell expands them
show='echo "$LD_PRELOAD|${COMPSHIM-unset}|${COMPSHIM_POLICY-unset}"'

# Needed only if the tool is built with the address sanitizer.
export ASAN_OPTIONS=detect_leaks=0

is() { # NAME WANTED: compares the output, except the line "nothing was caught" (see test_tool_run_end.sh)
    output=$(grep -v '^compshim: nothing was caught: ' <<<"$output")
    if [ "$output" = "$2" ]; then pass "$1"; else fail "$1" "$output"; fi
}
expect "a plain run" 0 "$tool" run -- sh -c "$show"
is "preloads the library" "$library|unset|unset"
expect "a run with a policy" 0 "$tool" run --policy job.ini sh -c "$show"
is "sets its absolute name" "$library|unset|$(realpath job.ini)"
expect "a run that is off" 0 "$tool" run --off -- sh -c "$show"
is "preloads and switches off" "$library|off|unset"
ln -s "$library" other.so
expect "an older preload" 0 env "LD_PRELOAD=$scratch/other.so" "$tool" run -- sh -c "$show"
is "stays behind" "$library:$scratch/other.so|unset|unset"
expect "a shim that is there already" 0 env "LD_PRELOAD=$library" "$tool" run -- sh -c "$show"
is "is not named twice" "$library|unset|unset"
expect "a run with a built-in policy" 0 "$tool" run -v --policy @exact sh -c "$show"
contains "names it to the ranks" "COMPSHIM_POLICY=@exact"
expect "a run that tells" 0 "$tool" run -v --policy job.ini -- true
contains "the preload" "LD_PRELOAD=$library"
contains "the policy" "COMPSHIM_POLICY=$(realpath job.ini)"
expect "the program's status" 7 "$tool" run -- sh -c 'exit 7'
expect "options of the program" 0 "$tool" run echo --off -v
is "are left to it" "--off -v"

mkdir elsewhere
expect "a policy of the environment" 0 env COMPSHIM_POLICY=job.ini "$tool" run -- sh -c "cd elsewhere && $show"
is "reaches a program that has changed its folder" "$library|unset|$(realpath job.ini)"
# A relative name of the shim itself is replaced; names of other libraries stay.
cp "$library" libcompshim.so
expect "a relative preload of the shim" 0 env LD_PRELOAD=./libcompshim.so "$tool" run -- sh -c "cd elsewhere && sh -c '$show'"
is "does not get lost with the folder" "$library|unset|unset"
rm libcompshim.so

expect "no command" 2 "$tool" run
printf '#!/no/such/thing\n' >orphan && printf '#!/bin/sh\r\n' >carriage && printf '#!./orphan\n' >chain
cp "$(type -P true)" other_loader && sed -i 's#/lib64/ld-linux-x86-64.so.2#/lib/ld-musl-x86_64.so.1\x00\x00\x00#' other_loader
chmod +x orphan carriage chain
for job in "" SLURM_JOB_ID=1; do # without a job, compshim run is the command's parent; in this one, it calls exec
    cannot() { # NAME PROGRAM TEXT: checks that the program is not started, with TEXT as the reason
        # shellcheck disable=SC2086
        expect "$1${job:+, in a job}" 3 env $job "$tool" run -- "$2"
        contains "is named" "cannot run $3"
    }
    cannot "a program that is not there" ./missing "'./missing': No such file or directory"
    cannot "a script without its interpreter" ./orphan "./orphan: its interpreter '/no/such/thing' is no program"
    cannot "a script of such a script" ./chain "./orphan: its interpreter '/no/such/thing' is no program"
    cannot "a script with the line ends of DOS" ./carriage "./carriage: its first line ends with a carriage return"
    if [ "$(uname -m)" = x86_64 ] && [ ! -e /lib/ld-musl-x86_64.so.1 ]; then
        cannot "a program without its loader" ./other_loader "'./other_loader': its loader /lib/ld-musl-x86_64.so.1 does not exist"
    fi
done
printf '[rule all]\ncodec = fp17\n' >bad.ini
expect "a bad policy" 1 "$tool" run --policy bad.ini -- echo started
contains "names file and line" "bad.ini:2:"
check "nothing is started" test "${output%started*}" = "$output"
mkdir alone && cp "$tool" alone/
expect "a tool without its library" 3 alone/compshim run -- true
contains "says where it looked" "no libcompshim.so in $(realpath alone)"
mkdir -p prefix/bin prefix/lib && cp "$tool" prefix/bin/ && cp "$library" prefix/lib/
expect "an installed tool" 0 prefix/bin/compshim run -- sh -c "$show"
is "finds the library of its prefix" "$(realpath prefix/lib/libcompshim.so)|unset|unset"
mkdir "a b" && cp "$tool" "$library" "a b/"
expect "a path that LD_PRELOAD cannot hold" 3 "a b/compshim" run -- true
contains "is refused" "a space or a colon"

# Launchers: stand-ins that print their arguments. Real ones are tested by make test-slurm (srun) and make
# test-clients (torchrun, horovodrun).
mkdir launchers
for name in srun sbatch mpiexec.hydra horovodrun torchrun accelerate deepspeed ray sudo docker; do
    # shellcheck disable=SC2016
    printf '#!/bin/sh\necho "$*|${SRUN_EXPORT_ENV-${SLURM_EXPORT_ENV-unset}}"\n' >"launchers/$name"
done
chmod +x launchers/*
ln -s mpiexec.hydra launchers/mpirun
with() { PATH=$scratch/launchers:$PATH "$tool" run "$@" 2>/dev/null; }
tells() { PATH=$scratch/launchers:$PATH "$tool" run "$@" 2>&1; }
exported() { # NAME WANTED ARGUMENT...: checks srun's arguments and SLURM_EXPORT_ENV, "ARGUMENTS|SLURM_EXPORT_ENV"
    local name=$1 want=$2
    shift 2
    expect "$name" 0 with "$@"
    is "$name: what srun gets" "$want"
}
exported "srun" "-n 2 true|unset" srun -n 2 true
exported "srun that exports all" "--export=ALL,A=1 true|unset" srun --export=ALL,A=1 true
exported "srun that exports a list" "--export=PATH,LD_PRELOAD true|unset" srun --export=PATH true
exported "srun that exports a list in a word of its own" "--export PATH,LD_PRELOAD true|unset" \
    srun --export PATH true
exported "srun that exports nothing" "--export=COMPSHIM,LD_PRELOAD true|unset" --off srun --export=NONE true
exported "srun with the library named already" "--export=LD_PRELOAD true|unset" srun --export=LD_PRELOAD true
exported "options of the program" "true --export=NONE|unset" srun true --export=NONE
SLURM_EXPORT_ENV=NONE exported "srun in a job without export" "true|COMPSHIM_POLICY,LD_PRELOAD" \
    --policy job.ini srun true
SRUN_EXPORT_ENV=NONE SLURM_EXPORT_ENV=ALL exported "srun by its own variable" "true|LD_PRELOAD" srun true
exported "an argument that is a program's name" "-p test --export=LD_PRELOAD true|unset" srun -p test --export=NONE true
exported "an option without an argument" "-H true --export=NONE|unset" srun -H true --export=NONE
SLURM_EXPORT_ENV=ALL exported "srun in a job with export" "true|ALL" srun true
expect "a list that was added to" 0 tells srun --export=PATH true
contains "is reported" "compshim: srun: --export is changed to PATH,LD_PRELOAD, so that the library reaches the tasks"
expect "a batch job without export" 0 tells sbatch --export=NONE job.sh
contains "is warned of" "sbatch: --export keeps LD_PRELOAD from the script"
expect "a batch job that exports INSTALL only" 0 tells sbatch --export=INSTALL job.sh
contains "is warned of, too" "sbatch: --export keeps LD_PRELOAD from the script"
SBATCH_EXPORT=NONE expect "a batch job without export, by the variable" 0 tells sbatch job.sh
contains "the variable is named" "sbatch: SBATCH_EXPORT keeps LD_PRELOAD from the script"
expect "Hydra without environment" 0 tells mpirun -genvnone -n 2 true
contains "is warned of too" "mpirun: -genvnone keeps LD_PRELOAD from the ranks"
expect "Horovod over gloo" 0 tells horovodrun --gloo -np 2 python3 train.py
contains "as well" "Horovod has a gloo of its own, which it hides: its all-reduces are not caught"
expect "sudo" 0 tells sudo true
contains "is warned of" "sudo: it keeps LD_PRELOAD from the program; put compshim run after its options"
expect "a container" 0 tells docker run image ./train
contains "is warned of" "docker: a container has an environment and files of its own: start the program inside it by compshim run"
# To pass variables to DeepSpeed's other hosts, compshim run prints a command line that adds them to a file.
HOME=$scratch/elsewhere && export HOME
echo one slots=1 >hosts
expect "DeepSpeed on several hosts" 0 tells --policy job.ini deepspeed --hostfile hosts train.py
contains "is reported" "deepspeed: it does not pass LD_PRELOAD and COMPSHIM_* to other hosts; add them to its file: "
check "nothing is written" test ! -e elsewhere/.deepspeed_env
bash -c "$(sed -n 's/.*its file: //p' <<<"$output")"
check "the line writes the file" diff <(sort elsewhere/.deepspeed_env) - <<L
COMPSHIM_POLICY=$(realpath job.ini)
LD_PRELOAD=$library
L
expect "DeepSpeed with such a file" 0 tells deepspeed --hostfile=hosts train.py
check "is not reported" test "${output#*deepspeed: }" = "$output"
DS_ENV_FILE=$scratch/named expect "DeepSpeed with a file that does not exist yet" 0 tells deepspeed --hostfile=hosts train.py
contains "names that file" ">>$scratch/named"
expect "DeepSpeed on this host" 0 env HOME=/nowhere PATH="$scratch/launchers:$PATH" "$tool" run -- deepspeed train.py
check "is not reported" test "${output#*deepspeed: }" = "$output"
expect "a job of Ray" 0 tells --off ray job submit -- python3 train.py
contains "is reported" "ray: a job has the environment of ray start on its node: submit it with --runtime-env-json '"
check "with the JSON" python3 -c 'import json, sys
assert json.loads(sys.argv[1]) == {"env_vars": {"LD_PRELOAD": sys.argv[2], "COMPSHIM": "off"}}' \
    "$(sed -n "s/.*json '\(.*\)'/\1/p" <<<"$output")" "$library"
export COMPSHIM_TRACE="it's \"x\".json"
expect "a job of Ray and a name with quotes" 0 tells --off ray job submit -- python3 train.py
check "they are quoted" python3 -c 'import json, os, shlex, sys
assert json.loads(shlex.split(sys.argv[1])[0])["env_vars"]["COMPSHIM_TRACE"] == os.environ["COMPSHIM_TRACE"]' \
    "$(sed -n 's/.*runtime-env-json //p' <<<"$output")"
unset COMPSHIM_TRACE
expect "the start of Ray" 0 tells ray start --head
check "is not reported" test "${output#*ray: }" = "$output"
for options in -i - "-u LD_PRELOAD" -uLD_PRELOAD "--unset=LD_PRELOAD A=1" "--ignore-environment A=1"; do
    # shellcheck disable=SC2086
    expect "env $options" 0 tells env $options true
    contains "is warned of" "env: it keeps LD_PRELOAD from the program; put compshim run after env's options"
done
for words in "env A=1 true -i" "env -u A mpirun -x LD_PRELOAD true" "env -i LD_PRELOAD=x true"; do
    # shellcheck disable=SC2086
    expect "$words" 0 tells $words
    check "keeps it from no program" test "${output#*env: it keeps}" = "$output"
done
expect "an option behind the launcher" 0 tells mpirun --policy=job.ini -n 2 true --off
contains "is reported" "compshim: --policy=job.ini is passed to mpirun: put options of compshim run before the command"
check "not so the program's own" test "$(grep -c ' is passed to mpirun' <<<"$output")" = 1
for line in "srun true:srun: LD_PRELOAD and COMPSHIM_* are passed to all tasks" "mpirun true:mpirun: Hydra passes" \
    "horovodrun true:horovodrun: it passes its environment to all ranks" \
    "torchrun train.py:torchrun: the workers of this node inherit the environment" \
    "accelerate launch:accelerate: the workers of this node inherit the environment" \
    "deepspeed train.py:deepspeed: the workers of this host inherit the environment" \
    "ray start:ray: the workers of ray start on this node inherit the environment" "sbatch job.sh:are passed to the script"; do
    # shellcheck disable=SC2086
    expect "-v with ${line%%:*}" 0 tells -v ${line%%:*}
    contains "says how the library reaches the ranks" "${line#*:}"
done
expect "-v with Open MPI" 0 "$tool" run -v -- mpirun --oversubscribe -n 1 "$build/allreduce_bench" --sizes 64KiB --seconds 0.01
contains "says how the library reaches the nodes" "the library has Open MPI forward LD_PRELOAD"
contains "and that the program is caught" "allreduce_bench: caught: "
finish
