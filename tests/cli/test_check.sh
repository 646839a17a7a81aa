#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the verdicts of compshim check with the loader's actual binding, and its texts with golden files; also
# tries files that are no programs. The libraries are stand-ins (tests/programs), so no MPICH, MPI 5, NCCL or gloo is
# needed.
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
golden=$top/tests/cli/golden
programs=$top/tests/programs
cd "$scratch" || exit 1
unset LD_LIBRARY_PATH

# library FILE OPTION... and caller FILE OPTION...: build a stand-in library, and a program
library() {
    gcc -O1 -fPIC -shared -Wl,-soname,"${1##*/}" -Wl,-rpath,"$scratch" -o "$1" "$programs/library.c" "${@:2}"
}
caller() {
    gcc -O1 -Wl,-rpath,"$scratch" -o "$1" "$programs/caller.c" "${@:2}"
}
# normalised: masks differences between machines and builds in $output, and joins wrapped lines, because the position
# of the line breaks depends on the length of paths
normalised() {
    output=$(sed -E ':again; N; s#\n {4}([^ ])# \1#; t again; P; D' <<<"$output" | sed -E "s#$scratch/##g; s#$(realpath "$build")#BUILD#g; s#$build#BUILD#g; s#/[^ ]*/(lib[a-z]+\.so)#LIBRARIES/\1#g; s#python3[.0-9]*#python3#g")
}
verdict_is() { # NAME VERDICT REASON PROGRAM: checks what compshim check says of the program
    local status=1
    [ "$2" = caught ] && status=0
    expect "$1" $status "$tool" check "./$4"
    contains "is $2 ($3)" "./$4: $2 ($3)"
}
answer_is() { # NAME ANSWER PROGRAM: checks which function the program calls: that of the "preload" or of the "library"
    expect "$1, run with a preload" 0 env LD_PRELOAD="$scratch/preload.so:$scratch/preload_gloo.so" "./$3"
    contains "is answered by the $2" "$2"
}

# Stand-ins: the functions of the preloads return 1, those of the libraries 0.
gloo=_ZN4gloo9allreduceERKNS_16AllreduceOptionsE
library preload.so -DFUNCTION=MPI_Allreduce -DANSWER=1
library preload_gloo.so -DFUNCTION=$gloo -DANSWER=1
library libmpi.so.40 -DFUNCTION=MPI_Allreduce -DANSWER=0 -DHANDLE=ompi_mpi_comm_self
library libmpi.so.12 -DFUNCTION=MPI_Allreduce -DANSWER=0
library libmpi_abi.so.1 -DFUNCTION=MPI_Allreduce -DANSWER=0
library libnccl.so.2 -DFUNCTION=ncclAllReduce -DANSWER=0
library libgloo.so.0 -DFUNCTION=$gloo -DANSWER=0

# Programs whose calls the loader binds to a preload.
caller linked libmpi.so.40
caller no_plt -fno-plt libmpi.so.40
caller bind_now -Wl,-z,now libmpi.so.40
caller not_pie -no-pie libmpi.so.40
library libcalls.so -DCALLER=calls -DFUNCTION=MPI_Allreduce libmpi.so.40
caller via_library -DFUNCTION=calls libcalls.so
own_copy=(-DCALLER=calls -DFUNCTION=MPI_Allreduce -DANSWER=0 -DHANDLE=ompi_mpi_comm_self)
library libembeds.so "${own_copy[@]}"
caller embeds -DFUNCTION=calls libembeds.so
# gloo in a library of its own, as in Debian, and within PyTorch's library, as in PyPI's packages.
caller gloo_linked -DFUNCTION=$gloo libgloo.so.0
own_gloo=(-DCALLER=calls -DFUNCTION=$gloo -DANSWER=0)
library libgloo_embeds.so "${own_gloo[@]}"
caller gloo_embeds -DFUNCTION=calls libgloo_embeds.so
for program in linked no_plt bind_now not_pie via_library embeds gloo_linked gloo_embeds; do
    verdict_is "$program" caught interposed $program
    answer_is "$program" preload $program
done

# Programs whose calls no preload can catch.
library libsymbolic.so "${own_copy[@]}" -Wl,-Bsymbolic
library libsymbolic_functions.so "${own_copy[@]}" -Wl,-Bsymbolic-functions
library libhidden.so "${own_copy[@]}" -DHIDDEN
library libgloo_symbolic.so "${own_gloo[@]}" -Wl,-Bsymbolic
library libgloo_hidden.so "${own_gloo[@]}" -DHIDDEN # as in Horovod's library
for shape in symbolic symbolic_functions hidden gloo_symbolic gloo_hidden; do
    caller $shape -DFUNCTION=calls lib$shape.so
done
caller in_program -DANSWER=0
caller exported -DFUNCTION=MPI_Allreduce -DANSWER=0 -rdynamic
for program in symbolic symbolic_functions hidden gloo_symbolic gloo_hidden in_program exported; do
    verdict_is "$program" "not caught" embedded $program
    answer_is "$program" library $program
done
gcc -o static "$programs/caller.c" -static -DANSWER=0 2>/dev/null # its warning about dlopen is expected
gcc -o static_pie "$programs/caller.c" -static-pie -DANSWER=0 2>/dev/null
for program in static static_pie; do
    verdict_is "$program" "not caught" static $program
    answer_is "$program" library $program
done

# Libraries with a copy of gloo or NCCL without symbol names: a text that only gloo or NCCL contains reveals the copy.
echo 'const char *calls(void) { return "external/gloo/gloo/transport/tcp/pair.cc"; }' >gloo_text.c
echo 'const char *calls(void) { return "NCCL_NET_SHARED_BUFFERS"; }' >nccl_text.c
for name in gloo nccl; do
    gcc -shared -fPIC -s -o lib${name}_text.so ${name}_text.c
    verdict_is "a stripped library with a copy of $name" "not caught" embedded lib${name}_text.so
    contains "says what it has" "has its own copy, without names, for it has the text"
    contains "advises nothing that does not help" "no preload reaches it, unless you build lib${name}_text.so"
    gcc -shared -fPIC -o lib${name}_named.so ${name}_text.c
    verdict_is "a library with the text and all names" "not caught" no_call lib${name}_named.so
done

# Nothing to catch: a program that is linked to MPI and has an unused reference to MPI_Allreduce.
echo 'int main(void) { return 0; }' >idle.c
gcc -o idle idle.c -Wl,-u,MPI_Allreduce -Wl,--no-as-needed libmpi.so.40
verdict_is "a program that does not call" "not caught" no_call idle

# Adds DF_SYMBOLIC (2) to DF_BIND_NOW (8) in the library's DT_FLAGS: the loader then binds the library's calls to the
# library's own functions. Some linkers leave this to the loader.
library libflagged.so "${own_copy[@]}" -Wl,-z,now
python3 - libflagged.so <<'PY'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
at = data.index(struct.pack("<QQ", 30, 8))
data[at + 8] = 10
open(sys.argv[1], "wb").write(data)
PY
caller flagged -DFUNCTION=calls libflagged.so
verdict_is "DF_SYMBOLIC" "not caught" embedded flagged
answer_is "DF_SYMBOLIC" library flagged

# Libraries opened at run time: the flags of dlopen decide.
caller fetched -DOPENED='"libmpi.so.40"' -DFLAGS=0
caller opened -DOPENED='"libcalls.so"' -DFLAGS=0 -DFUNCTION=calls
caller deep -DOPENED='"libcalls.so"' -DFLAGS=RTLD_DEEPBIND -DFUNCTION=calls
verdict_is "a function fetched with dlsym" maybe opened fetched
answer_is "a function fetched with dlsym" library fetched
answer_is "a library that calls" preload opened
answer_is "a library opened with RTLD_DEEPBIND" library deep
verdict_is "the library by itself" caught interposed libcalls.so
gcc -O1 -fPIC -shared -Wl,-soname,libstubs.so -Wl,-rpath,"$scratch" -o libstubs.so "$programs/stubs.c" -Wl,--disable-new-dtags
caller stubs -DFUNCTION=calls libstubs.so
verdict_is "stubs that fetch the functions, as in JAX's plugin" maybe opened stubs
answer_is "stubs that fetch the functions" library stubs
gcc -O1 -fPIC -shared -D_nccl_tramp_table=_accl_tramp_table -o libstubs.so "$programs/stubs.c"
verdict_is "another library's stubs" "not caught" embedded stubs
gcc -O1 -fPIC -shared -D_nccl_tramp_table=_libnccl_so_2_tramp_table -o libstubs.so "$programs/stubs.c"
verdict_is "stubs named by the library's file" maybe opened stubs

# Which library a program uses, and whether its engine is installed.
caller mpich_stub libmpi.so.12
caller abi_stub libmpi_abi.so.1
caller nccl_stub -DFUNCTION=ncclAllReduce libnccl.so.2
mkdir alone && cp "$tool" "$build/libcompshim.so" alone/
expect "MPICH without the engine" 1 alone/compshim check ./mpich_stub
contains "misses the engine" "not caught (no_engine)"
output=$(sed "s#$scratch/alone#BUILD#" <<<"$output")
normalised
golden "its text" "$golden/check_mpich_stub.txt"
mpich_status=1 # exit status for a program for MPICH; depends on what is installed
if [ -e "$build/libcompshim-mpich.so" ]; then
    mpich_status=0
    verdict_is "MPICH" caught interposed mpich_stub
fi
verdict_is "the standard ABI" caught interposed abi_stub
normalised
golden "its text" "$golden/check_abi_stub.txt"
expect "the standard ABI without the engine" 1 alone/compshim check ./abi_stub
contains "misses the engine" "put libcompshim-abi.so of the same build beside"
expect "NCCL without the engine" 1 alone/compshim check ./nccl_stub
contains "misses the engine" "not caught (no_engine)"
expect "gloo without the engine" 1 alone/compshim check ./gloo_linked
contains "misses the engine" "put libcompshim-gloo.so of the same build beside"
expect "Open MPI without the engine" 1 alone/compshim check ./linked
contains "misses the engine" "no_engine"
for function in MPI_Reduce MPI_Reduce_scatter MPI_Reduce_scatter_block MPI_Iallreduce MPI_Allreduce_init \
    MPIX_Allreduce_init PMPI_Reduce MPI_Allreduce_c PMPI_Reduce_scatter_c; do
    library libfamily.so -DCALLER=calls -DFUNCTION=$function -Wl,--no-as-needed libmpi.so.40
    verdict_is "a library that calls $function" caught interposed libfamily.so
    contains "and no other" "libfamily.so calls $function of Open MPI"
done
library libfamily.so -DCALLER=calls -DFUNCTION=mpi_reduce_scatter_block_ -Wl,--no-as-needed libmpi.so.40
verdict_is "Fortran's name of one of them" maybe missing libfamily.so
contains "is known" "needs calls PMPI_Reduce_scatter_block"
library libfamily.so -DCALLER=calls -DFUNCTION=ncclReduceScatter -Wl,--no-as-needed libnccl.so.2
expect "NCCL's reduce-scatter" 1 alone/compshim check ./libfamily.so
contains "is known" "calls ncclReduceScatter of NCCL"
for function in MPI_Ireduce MPI_Scan MPI_Start ncclReduce _ZN4gloo9broadcastERNS_16BroadcastOptionsE; do
    library libfamily.so -DCALLER=calls -DFUNCTION=$function -Wl,--no-as-needed libmpi.so.40
    verdict_is "a library that calls $function" "not caught" no_call libfamily.so
done
mkdir older && cp "$tool" "$build/libcompshim-ompi.so" older/
library older/libcompshim.so -DFUNCTION=MPI_Allreduce
library libnewer.so -DCALLER=calls -DFUNCTION=MPI_Reduce_c -Wl,--no-as-needed libmpi.so.40
expect "a function that the library beside the tool does not wrap" 1 older/compshim check ./libnewer.so
contains "is not caught" "not caught (not_wrapped)"
expect "gloo, which that library does not wrap either" 1 older/compshim check ./gloo_linked
contains "is not caught" "gloo_linked calls gloo::allreduce, which this libcompshim.so does not wrap"
library libfortran.so -DCALLER=calls -DFUNCTION=mpi_allreduce_
verdict_is "Fortran of no library" maybe missing libfortran.so
library libfortran.so -DCALLER=calls -DFUNCTION=mpi_allreduce_ -Wl,--no-as-needed libmpi.so.40
verdict_is "Fortran without its layer" maybe missing libfortran.so
library libmpi_mpifh.so.40 -DCALLER=mpi_allreduce_ -DFUNCTION=PMPI_Allreduce \
    -Wl,--no-as-needed libmpi.so.40
library libfortran.so -DCALLER=calls -DFUNCTION=mpi_allreduce_ libmpi_mpifh.so.40
verdict_is "Fortran" caught interposed libfortran.so

# Files with parts removed.
objcopy --strip-all linked stripped
verdict_is "a stripped program" caught interposed stripped
# Clears the ELF header's fields for the section headers: offset, number and string index.
cp linked sectionless
for place in 40:8 60:4; do
    dd if=/dev/zero of=sectionless bs=1 seek="${place%:*}" count="${place#*:}" conv=notrunc status=none
done
verdict_is "a program without section headers" caught interposed sectionless
answer_is "a program without section headers" preload sectionless

# Properties of a program that rule out a preload.
cp linked other_loader && sed -i 's#/lib64/ld-linux-x86-64.so.2#/lib/ld-musl-x86_64.so.1\x00\x00\x00#' other_loader
cp linked other_machine && printf '\267' | dd of=other_machine bs=1 seek=18 conv=notrunc status=none
cp linked other_class && printf '\1' | dd of=other_class bs=1 seek=4 conv=notrunc status=none
if [ "$(uname -m)" = x86_64 ]; then
    verdict_is "a program for musl" "not caught" c_library other_loader
    verdict_is "a program for AArch64" "not caught" machine other_machine
    contains "is told so" "AArch64"
    verdict_is "a program of 32 bits" "not caught" machine other_class
fi

# Search order of the loader.
mkdir -p rpath runpath library_path
cp libmpi.so.12 rpath/libmpi.so.40
cp libmpi.so.40 runpath/ && cp libmpi.so.40 library_path/
gcc -o searched "$programs/caller.c" libmpi.so.40 -Wl,-rpath,'$ORIGIN/rpath' -Wl,--disable-new-dtags
found() { # NAME FOLDER [VARIABLE=VALUE [STATUS]]: checks that the loader and the tool find libmpi.so.40 in FOLDER
    expect "$1" "${4:-0}" env "${3:-A=B}" "$tool" check --json ./searched
    check "is found in $2" python3 -c 'import json, os, sys
path = json.loads(sys.argv[1])["libraries"]["mpi"]["path"]
assert os.path.realpath(path) == os.path.realpath(sys.argv[2]), path
' "$output" "$2/libmpi.so.40"
    check "as the loader does" test "$2/libmpi.so.40" -ef \
        "$(env "${3:-A=B}" LD_TRACE_LOADED_OBJECTS=1 ./searched | sed -n 's/.*libmpi.so.40 => \([^ ]*\) .*/\1/p')"
}
found "DT_RPATH" rpath LD_LIBRARY_PATH="$scratch/library_path" $mpich_status
gcc -o searched "$programs/caller.c" libmpi.so.40 -Wl,-rpath,'${ORIGIN}/runpath' -Wl,--enable-new-dtags
found "DT_RUNPATH" runpath
found "LD_LIBRARY_PATH" library_path LD_LIBRARY_PATH="/nowhere:$scratch/library_path"
library libmiddle.so -DCALLER=calls -DFUNCTION=MPI_Allreduce libmpi.so.40 # it has a DT_RUNPATH
gcc -o searched "$programs/caller.c" -DFUNCTION=calls libmiddle.so libmpi.so.40 \
    -Wl,-rpath,'$ORIGIN/rpath:$ORIGIN' -Wl,--disable-new-dtags
found "a library's DT_RUNPATH before the program's DT_RPATH" .
check "every library is found where the loader finds it" python3 - "$tool" "$build/mnist_train" <<'PY'
import json, os, re, subprocess, sys
tool, program = sys.argv[1:]
listed = subprocess.run([program], env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"},
                        capture_output=True, text=True).stdout
loader = {name: os.path.realpath(path) for name, path in re.findall(r"(\S+) => (/\S+)", listed)}
answer = json.loads(subprocess.run([tool, "check", "--json", program], capture_output=True).stdout)
checked = {entry["name"]: os.path.realpath(entry["path"]) for entry in answer["objects"][1:]
           if "/" not in entry["name"] and not entry["name"].startswith("ld-linux")}
assert len(loader) > 3 and checked == loader, (checked, loader)
PY
library libmpi.so.20 -DFUNCTION=MPI_Allreduce -DANSWER=0
caller lacking libmpi.so.20 && rm libmpi.so.20
verdict_is "a program whose MPI is not on this machine" caught interposed lacking
contains "says what is missing" "libmpi.so.20, needed by ./lacking: not found"

# Golden texts.
printf '#!/usr/bin/env -S A=1 ./linked --fast\n' >script && chmod +x script
head -c 3000 linked >truncated
library libtwo.so -DCALLER=calls -DFUNCTION=MPI_Allreduce -Wl,--no-as-needed libmpi.so.40 libgloo_hidden.so
caller two -DFUNCTION=calls libtwo.so
for program in static_pie truncated script fetched stubs symbolic gloo_embeds gloo_hidden two; do
    output=$("$tool" check "./$program" 2>&1)
    normalised
    golden "$program's text" "$golden/check_$program.txt"
done
output=$("$tool" check /bin/true)
golden "true's text" "$golden/check_true.txt"
output=$("$tool" check "$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')" | sed '1s#.*/##')
normalised
golden "python3's text" "$golden/check_python3.txt"
output=$("$tool" check "$build/mnist_train")
normalised
[ "${SANITIZE:-0}" = 1 ] && output=$(grep -v '^  built with the address sanitizer' <<<"$output")
golden "mnist_train's text" "$golden/check_mnist_train.txt"
if [ "$(id -u)" = 0 ]; then
    cp /bin/true setuid && chown nobody setuid && chmod 4755 setuid
    output=$("$tool" check ./setuid)
    golden "a setuid program's text" "$golden/check_setuid.txt"
    chown root setuid && chmod 4755 setuid
    verdict_is "a program set-user-ID to its user" "not caught" no_call setuid
    cp /bin/true capable && chmod 755 .
    if setcap cap_net_raw+ep capable 2>/dev/null; then
        verdict_is "capabilities, for root" "not caught" no_call capable
        expect "capabilities, for others" 1 setpriv --reuid nobody --clear-groups \
            alone/compshim check ./capable
        contains "keep the preload out" "capable has file capabilities, and the loader ignores"
    fi
fi
expect "JSON" 0 "$tool" check --json ./via_library
check "has what the text has" python3 - "$output" <<'PY'
import json, sys
answer = json.loads(sys.argv[1])
assert (answer["verdict"], answer["reason"]) == ("caught", "interposed"), answer
mpi = answer["libraries"]["mpi"]
assert mpi["implementation"] == "Open MPI" and mpi["name"] == "libmpi.so.40", mpi
assert mpi["engine"].endswith("/libcompshim-ompi.so"), mpi
for other in "nccl", "gloo":
    assert answer["libraries"][other]["reason"] == "no_call", answer
uses = {entry["name"]: entry["uses"] for entry in answer["objects"] if entry["uses"]}
assert uses == {"libcalls.so": [{"symbol": "MPI_Allreduce", "use": "calls"}],
                "libmpi.so.40": [{"symbol": "MPI_Allreduce", "use": "provides"}]}, uses
PY

expect "JSON of gloo" 0 "$tool" check --json ./gloo_linked
check "has the symbol as it is linked" python3 - "$output" <<'PY'
import json, sys
answer = json.loads(sys.argv[1])
gloo = answer["libraries"]["gloo"]
assert (gloo["implementation"], gloo["name"]) == ("gloo", "libgloo.so.0"), gloo
assert gloo["engine"].endswith("/libcompshim-gloo.so"), gloo
assert answer["objects"][0]["uses"] == [
    {"symbol": "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE", "use": "calls"}], answer
PY

# Files cut at many lengths.
size=$(stat -c %s linked)
check "each gives an answer" bash -c '
    for length in $(seq 0 97 '"$size"'); do
        head -c $length linked >cut
        "$1" check ./cut >/dev/null 2>&1
        [ $? -le 1 ] || { echo "$length bytes"; exit 1; }
    done' bash "$tool"

# Arguments that are no programs.
expect "no program" 2 "$tool" check
expect "two programs" 2 "$tool" check ./linked ./static
expect "a missing program" 3 "$tool" check ./missing
contains "is named" "./missing: no such program or file"
expect "a folder" 3 "$tool" check rpath
printf '#!./loop\n' >loop && chmod +x loop
expect "a script that is its own interpreter" 1 "$tool" check ./loop
contains "is reported" "#! leads from script to script, and Linux follows 5 of them"
printf '#!/no/such/thing\n' >orphan && chmod +x orphan
expect "a script without its interpreter" 3 "$tool" check ./orphan
contains "is told" "its interpreter '/no/such/thing' is no program"
echo text >text
verdict_is "a text" "not caught" no_program text
: >empty
verdict_is "an empty file" "not caught" no_program empty
mkfifo pipe
expect "a pipe" 3 limited "$tool" check ./pipe
contains "is refused" "./pipe: Invalid argument"

# Interpreted programs, and programs after a launcher.
echo 'import torch' >train.py
verdict_is "a script of Python without #!" maybe interprets train.py
contains "what to look at is found by" "python3 -c 'import torch; print(torch.__path__[0])'"
for words in "-n 2 ./linked" "--oversubscribe ./linked" "./linked"; do
    # shellcheck disable=SC2086
    expect "the words of a launcher: $words" 2 "$tool" check mpirun $words
    contains "are not for check" "check takes a program, without its launcher"
done

# compshim run checks the program first.
printf '[rule all]\ncodec = fp16\n' >policy.ini
run=("$tool" run --policy policy.ini)
expect "a run of a program out of reach" 0 "${run[@]}" ./static
contains "warns" "./static: its all-reduces are not caught: static is linked statically"
contains "and starts it" library
expect "a run behind launchers" 0 "${run[@]}" env -u UNSET A=1 nice -n 1 ./static
contains "warns too" "./static: its all-reduces are not caught"
expect "a run of a pipe" 3 limited "${run[@]}" ./pipe
contains "is refused" "cannot run './pipe': Permission denied"
expect "a run that is off" 0 "${run[@]}" --off ./static
check "does not warn" test "$output" = library
expect "a run of a shell" 0 "${run[@]}" sh -c 'echo fine'
check "does not warn" test "${output%all-reduces are not caught*}" = "$output"
finish
