#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that programs without MPI have the same output and exit status with the preload. How much later they start is
# reported only.
. "$(dirname "$0")/lib.sh"
missing= same_programs=
git init -q repository && printf 'int main(void) { return 3; }\n' >main.c && cp main.c repository/
printf 'all:\n\t@echo made $(MAKELEVEL)\n' >Makefile
printf 'b\na\n' >lines && printf 'int main() { return 0; }\n' >main.cpp

# alike PROGRAM COMMAND: runs it once without and once with the preload
alike() {
    local want want_status got got_status
    command -v "$1" >/dev/null || {
        missing="$missing $1"
        return
    }
    want=$(bash -c "$2" 2>&1 </dev/null)
    want_status=$?
    got=$(LD_PRELOAD=$preload bash -c "$2" 2>&1 </dev/null)
    got_status=$?
    if [ "$want" = "$got" ] && [ $want_status = $got_status ]; then
        pass "$1"
        same_programs="$same_programs $1"
    else
        fail "$1: $2" "$want ($want_status), then $got ($got_status)"
    fi
}
while IFS='|' read -r program command; do
    alike "$program" "$command"
done <<'PROGRAMS'
sh|sh -c 'echo $0 $#; (exit 4) & wait $!; exit $?'
bash|bash -c 'x=$(echo in | cat); echo $x; nothing_like_this; exit 5'
git|cd repository && git add . && git status --short && git diff --cached; git log
gcc|gcc -c main.c -o main.o && nm main.o && gcc -fsyntax-only lines
g++|g++ -c main.cpp -o cxx.o && nm cxx.o
gfortran|gfortran -v
ld|ld --version; ld missing.o
make|make -s; make nothing
cmake|cmake --version; cmake missing_folder
python3|python3 -c 'import json, subprocess, sys; print(json.dumps(subprocess.run(["false"]).returncode)); sys.exit(6)'
ssh|ssh -V; ssh -G localhost | sort; ssh -o BatchMode=yes -p 1 127.0.0.1 true
perl|perl -e 'print `echo $0`; fork // die; wait; exit 7'
node|node -e 'console.log(1 / 3); require("child_process").execFileSync("true"); process.exit(8)'
java|java -XX:TieredStopAtLevel=1 --version
gdb|gdb --batch -ex 'print 6 * 7'
awk|awk 'BEGIN { print 1 / 3; exit 9 }'
sed|sed -n '1!G;h;$p' lines; sed nonsense lines
sort|sort lines; sort missing
tar|tar -cf - --mtime=@0 --owner=0 --group=0 lines | sha256sum; tar -tf missing
gzip|gzip -nc lines | gzip -dc; gzip -t lines
find|find repository -maxdepth 1 -name '*.c'; find missing
curl|curl --version; curl -s file://$PWD/lines; curl -s http://127.0.0.1:1/
openssl|openssl dgst -sha256 lines; openssl nonsense
sqlite3|sqlite3 :memory: 'select 1 / 3.0; select nonsense'
tclsh|echo 'puts [expr {6 * 7}]; exit 10' >script.tcl; tclsh script.tcl
vim|vim -es -u NONE -c 'normal dd' -c 'write! edited' -c 'qa!' lines; cat edited
strace|strace -V
ldd|ldd /bin/true | sed 's/ (0x.*//' | grep -v compshim
xargs|printf '1 2 3' | xargs -n 1 -P 1 echo
timeout|timeout 0.1 sleep 5
mpirun|mpirun --version; mpirun --no-such-option
PROGRAMS
echo "not installed:${missing:- none}"
number_holds "twenty programs are the same" "$passed >= 20"

# starts N COMMAND...: prints the median time of N starts without and with the preload, in milliseconds
starts() {
    local count=$1
    shift
    for ((i = 0; i < count; i++)); do
        for library in "" "$preload"; do
            began=$EPOCHREALTIME
            LD_PRELOAD=$library "$@" >/dev/null 2>&1 </dev/null
            echo "${library:-none} $((${EPOCHREALTIME/./} - ${began/./}))"
        done
    done | sort -k1,1 -k2,2n | awk -v count="$count" '
        { time[$1 == "none", ++seen[$1]] = $2 }
        END { middle = int((count + 1) / 2)
              printf "%.2f ms, %.2f ms\n", time[1, middle] / 1000, time[0, middle] / 1000 }'
}
for program in /bin/true "python3 -c pass" "perl -e 1" "git --version"; do
    # shellcheck disable=SC2086
    echo "$program: $(starts 21 $program)"
done >starts
sed 's/^/start of /' starts
[ -z "${CLIENT_ROWS-}" ] || {
    echo "${same_programs# }." | sed 's/ /, /g' | fmt -w 115
    printf '\nMedian times of 21 starts, without and with the library preloaded:\n\n'
    sed 's/^/* /' starts
} >"$CLIENT_ROWS.unrelated"
finish
