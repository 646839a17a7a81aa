#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks PMPI tools (tests/mpi/tools): linked to the program, preloaded before or after the shim, or within the program
# itself. Those that count calls, follow requests or send messages of their own must see what they see without the shim,
# and as many calls must be compressed as without them. One further tool calls past the shim, one changes calls.
. "$(dirname "$0")/../lib.sh"
if [ "${SANITIZE:-0}" = 1 ]; then
    skip "the runtimes of the sanitizers would be in the tools, too"
    finish
fi
mpicc=${MPI_HOME:+$MPI_HOME/bin/mpicc}
mpicc=${mpicc:-mpicc.$MPI}
[ ! -e "$build/libcompshim-abi.so" ] || [ ! -e "${MPI_HOME-}/bin/mpicc_abi" ] || mpicc=$MPI_HOME/bin/mpicc_abi
command -v "$mpicc" >/dev/null || {
    skip "this MPI comes without a compiler wrapper"
    finish
}
tools=$top/tests/mpi/tools ranks=3
cd "$scratch" || exit 3
compile() { "$mpicc" -O2 -fPIC -o "$@" 2>&1 | grep -v "Wno-"; [ "${PIPESTATUS[0]}" = 0 ]; }

# write_wrappers: writes count.S, a wrapper for each function of the MPI library that has a PMPI name, except MPI_T_* and
# the functions that count.c wraps
write_wrappers() {
    local library
    library=$(ldd program | sed -n 's/^[^=]*libmpi[^=]* => \([^ ]*\) .*/\1/p' | head -n 1)
    nm -D --defined-only "$library" | awk -v machine="$(uname -m)" '
        $2 ~ /^[TWi]$/ && $3 ~ /^P?MPIX?_[A-Z][a-z]/ { defined[$3] = 1 }
        END {
            print ".hidden tool_calls, tool_names\n.globl tool_calls, tool_names"
            for (name in defined) {
                if (!("P" name in defined) || name ~ /^MPI_(Allreduce|Iallreduce|Finalize)$/)
                    continue
                print ".text\n.balign 16\n.globl " name "\n.type " name ", %function\n" name ":"
                counter = "tool_calls+" 8 * count
                if (machine == "x86_64")
                    print "incq " counter "(%rip)\njmp P" name "@PLT"
                else
                    print "adrp x16, " counter "\nadd x16, x16, :lo12:" counter \
                        "\nldr x17, [x16]\nadd x17, x17, #1\nstr x17, [x16]\nb P" name
                print ".size " name ", .-" name "\n.section .rodata\nname" count++ ": .asciz \"" name "\""
            }
            print ".bss\n.balign 8\ntool_calls: .zero " 8 * count
            print ".section .data.rel.ro, \"aw\"\n.balign 8\ntool_names:"
            for (i = 0; i < count; i++)
                print ".quad name" i
            print ".quad 0\n.section .note.GNU-stack, \"\", %progbits"
        }' >count.S
}

check "compile the program" compile program "$tools/program.c" -lm
write_wrappers
for tool in count requests messages; do
    sources=("$tools/$tool.c")
    [ $tool != count ] || sources+=(count.S)
    check "compile the tool that does $tool" compile lib$tool.so -shared "${sources[@]}"
    check "link it to the program" compile linked_$tool "$tools/program.c" -L. -l$tool -Wl,-rpath,"$scratch" -lm
    check "put it into the program" compile static_$tool "$tools/program.c" "${sources[@]}" -lm
done

cat >lossy.ini <<'P'
[rule sums]
codec = fp8_e4m3
worth = always
[rule moves]
collective = broadcast, allgather, alltoall
codec = fp8_e4m3
worth = always
P
sed 's/fp8_e4m3/raw/' lossy.ini >raw.ini

# summary [N]: prints the numbers of compressed calls by collective, less N all-reduces, and the calls that were not
# compressed
summary() {
    python3 - "${1-0}" <<'P'
import json, sys
r = json.load(open("report.json"))
calls = {"allreduce": -int(sys.argv[1])}
for row in r["rows"]:
    calls[row["collective"]] = calls.get(row["collective"], 0) + row["calls"]
print(calls, r["passed_through"], r["not_compressed"])
P
}
# run_program NAME POLICY PRELOADED PROGRAM: runs the program under the shim and checks its results
run_program() {
    rm -f report.json counts.*
    expect "$1" 0 mpi $ranks TOOL_COUNTS=counts COMPSHIM_POLICY="$scratch/$2.ini" \
        COMPSHIM_REPORT="$scratch/report.json" LD_PRELOAD="$3" "$4"
    contains "$1: the results are right" "program: 0 wrong"
}
# tool_lines: prints the tool's lines, and the counts of all ranks
tool_lines() { grep "^tool" <<<"$output"; tail -n +1 counts.* 2>/dev/null | sort; }

run_program "without a tool" lossy "$preload" ./program
without=$(summary)
compresses_nonblocking ./program || skip "the shim cannot progress nonblocking calls with this MPI"
compressed=$(json 'sum(x["calls"] for x in r["rows"] if x["collective"] == "allreduce")')
check "calls are compressed" grep -q "'allreduce': .*'reduce_scatter': 2" <<<"$without"
run_program "without a tool, raw" raw "$preload" ./program
check "as many" test "$(summary)" = "$without"

for tool in count requests messages; do
    rm -f counts.*
    expect "$tool, natively" 0 mpi $ranks TOOL_COUNTS=counts LD_PRELOAD=./lib$tool.so ./program
    contains "$tool, natively: the results are right" "program: 0 wrong"
    natively=$(tool_lines)
    for where in behind linked before static; do
        policy=lossy program=./program preloaded=$preload beside=0
        case $where in
        behind) preloaded=$preload:./lib$tool.so ;;
        before) preloaded=./lib$tool.so:$preload ;;
        *) program=./${where}_$tool ;;
        esac
        # The tool `messages` makes an all-reduce of its own in each MPI_Allreduce of floats. If the tool lies before
        # the shim, the shim compresses this all-reduce like the program's: two in each of two rounds. raw keeps the
        # sums exact.
        [ $tool != messages ] || case $where in before | static) policy=raw beside=4 ;; esac
        run_program "$tool, $where" $policy "$preloaded" $program
        check "$tool, $where: it sees what it sees natively" diff <(echo "$natively") <(tool_lines)
        check "$tool, $where: as many calls are compressed" test "$(summary $beside)" = "$without"
    done
done

for tool in past change; do
    check "compile the tool $tool" compile lib$tool.so -shared "$tools/$tool.c" -ldl
done

# Two tools: the first before the shim, the second after it, which does not see the PMPI_ calls of the first.
rm -f counts.*
expect "two tools, natively" 0 mpi $ranks TOOL_COUNTS=counts LD_PRELOAD=./libmessages.so:./libcount.so ./program
natively=$(tool_lines)
run_program "two tools" raw "./libmessages.so:$preload:./libcount.so" ./program
check "two tools: both see what they see natively" diff <(echo "$natively") <(tool_lines)

# Tools that only one rank has. As many calls are compressed as without, but none if the tool, after the shim, calls
# past it.
run_on_rank_0() { # PRELOADED: runs the program; rank 0 preloads PRELOADED, the others only the shim
    rm -f report.json counts.*
    differing 1 COMPSHIM_POLICY="$scratch/lossy.ini" COMPSHIM_REPORT="$scratch/report.json" LD_PRELOAD="$1" ./program : \
        2 COMPSHIM_POLICY="$scratch/lossy.ini" LD_PRELOAD="$preload" ./program
}
expect "a tool on one rank" 0 run_on_rank_0 "$preload:./libcount.so"
contains "a tool on one rank: the results are right" "program: 0 wrong"
check "a tool on one rank: as many calls are compressed" test "$(summary)" = "$without"
expect "a tool on one rank that calls past the shim" 0 run_on_rank_0 "$preload:./libpast.so"
contains "nobody waits for it" "program: 0 wrong"
contains "it sees all calls" "tool: 7 calls"
contains "and the job says so" "libpast.so, which lies between the program and the MPI library, calls that library past compshim"
check "nothing is compressed" test ! -e report.json
expect "that tool before the shim" 0 run_on_rank_0 "./libpast.so:$preload"
contains "sees all calls, too" "tool: 7 calls"
check "and as many are compressed" test "$(summary)" = "$without"

run_program "a tool that changes calls" lossy "$preload:./libchange.so" ./program
reports "one buffer replaced on one rank is the same call" "sum(x['calls'] for x in rows if x['collective'] == 'allreduce') == $compressed"
reports "halves of a call are exact" "not any(x['collective'] == 'reduce' for x in rows) and passed['tool'] == 2"
finish
