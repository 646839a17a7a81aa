#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that a user's mistakes end in a message that says what to do. Each row has the exit status, a part of the
# output, and the command. A job prints such a message once, not from each rank.
. "$(dirname "$0")/../lib.sh"
export tool=$build/compshim
cd "$scratch" || exit 1
ini() { printf '%b' "$2" >"$1.ini"; }
ini good '[rule all]\ncodec = fp16\n'
ini understood '[ Rule all ]\nCodec = FP16\nmin_size = 64K\nmax_size = 64mb\n'
ini fp8 '[rule all]\ncodec = fp8\n'
ini size '[rule all]\nmin_size = 1e6\ncodec = fp16\n'
ini three '[rule all]\ncodc = fp16\nmin_size = much\n[compshm]\nlog\n'
ini empty ''
ini lost '[compshim]\nreport = missing/b.json\n[rule all]\ncodec = fp16\n'
mkdir elsewhere
mkfifo choices
echo '{"compshim": "0.1.0", "totals": {}, "rows": []}' >run.json
echo '{"compshim": 1, "tot' >damaged.json
job() { # POLICY [VARIABLE=VALUE...]: runs a job of two ranks under POLICY.ini
    local policy=$1
    shift
    shimmed 2 COMPSHIM_POLICY="$policy.ini" "$@" "$build/tests/mpi_passed_on" 20 float world
}
unnamed() { shimmed 2 "$build/tests/mpi_passed_on" 20 float world; }
compshim() { "$tool" "$@"; }
explain() { "$tool" explain --policy "$1.ini" --size 1MiB; }
wdir() { COMPSHIM_POLICY=good.ini LD_PRELOAD=$preload limited "${launch[@]}" --wdir "$scratch/elsewhere" -n 2 "$build/tests/mpi_passed_on" 20 float world; }
# The rows have a descriptor of their own, because mpirun would read the rest of standard input.
while IFS='|' read -r -u 3 status says command; do
    # shellcheck disable=SC2086
    expect "$command" "$status" $command
    contains "says what to do" "$says"
done 3<<'ROWS'
0|codec                    fp16|explain understood
1|fp8.ini:2: unknown codec 'fp8' (did you mean 'fp8_e4m3'?)|explain fp8
1|size.ini:2: malformed size '1e6' (write bytes, or B, KB, KiB|explain size
1|three.ini:2: unknown key 'codc' (did you mean 'codec'?)|explain three
1|three.ini:3: malformed size 'much'|explain three
1|three.ini:4: unknown section 'compshm' (did you mean 'compshim'?)|explain three
1|three.ini:5: neither '[section]' nor 'key = value'|explain three
0|empty.ini: it has no rules: everything is passed through|explain empty
1|missing.ini: cannot open the policy that the command line names|explain missing
0|nothing was compressed: the policy has no rules|job empty
1|COMPSHIM_REPORT=sumary is not known: take summary, off or a file|job good COMPSHIM_REPORT=sumary
1|COMPSHIM=offf is not known: take on, off or observe|job good COMPSHIM=offf
0|COMPSHIM_POLCY is not known (did you mean COMPSHIM_POLICY?)|job good COMPSHIM_POLCY=x
0|COMPSHIM_CODEC is not known (known: COMPSHIM, COMPSHIM_LIVE, |job good COMPSHIM_CODEC=fp8
1|COMPSHIM_REPORT=a{x}.json may hold {rank} and {jobid} only in braces|job good COMPSHIM_REPORT=a{x}.json
1|COMPSHIM_REPORT=a{rank.json may hold|job good COMPSHIM_REPORT=a{rank.json
1|COMPSHIM_TRACE=a{job}.json may hold|job good COMPSHIM_TRACE=a{job}.json
0|passed through|job good COMPSHIM_REPORT=yes
0|cannot write the report missing/a.json: No such file or directory: name another|job good COMPSHIM_REPORT=missing/a.json
0|cannot write the trace missing/t.json: No such file or directory: name another by COMPSHIM_TRACE|job good COMPSHIM_TRACE=missing/t.json
0|cannot write the report elsewhere/: Is a directory: name another by COMPSHIM_REPORT|job good COMPSHIM_REPORT=elsewhere/
0|passed through|job good COMPSHIM_TRACE=no
1|the report would take the place of good.ini, which is no report: name another file by COMPSHIM_REPORT|job good COMPSHIM_REPORT=good.ini
1|the trace would take the place of good.ini, which is no trace: name another file by COMPSHIM_TRACE|job good COMPSHIM_TRACE=good.ini
1|the report and the trace are both to be written to ./both.json|job good COMPSHIM_REPORT=./both.json COMPSHIM_TRACE=./both.json
1|the report and the trace are both to be written to elsewhere/../both.json|job good COMPSHIM_REPORT=both.json COMPSHIM_TRACE=elsewhere/../both.json
0|passed through|job good COMPSHIM_REPORT=/dev/null COMPSHIM_TRACE=/dev/null
1|choices: a pipe, which cannot be read again: have COMPSHIM_MACHINE name a file|job good COMPSHIM_MACHINE=choices
0|COMPSHIM_LOG=verbose is not known: error, warn, info or debug; COMPSHIM_LIVE=of is not known: take on or off|job good COMPSHIM_LOG=verbose COMPSHIM_LIVE=of
0|nothing was compressed; COMPSHIM_POLICY=FILE takes another policy|unnamed
1|damaged.json:1: not JSON: |compshim report damaged.json
1|; COMPSHIM_REPORT=FILE writes a report|compshim report damaged.json
0|cannot write the report missing/b.json: No such file or directory: name another by COMPSHIM_REPORT; COMPSHIM_POLCY is not known|job lost COMPSHIM_POLCY=x
2|--html page.html names the page: name reports, too|compshim report --html page.html
2|--html and --json are the same file, ./a: name another|compshim compare --modes off --html a --json ./a true
2|--markdown and --json are the same file, run.json: name another|compshim compare --modes off --markdown ./run.json --json run.json true
2|--output and --save are the same file, t: name another|compshim tune -o t --save t true
2|--output and --from are the same file, run.json: name another|compshim tune -f -o ./run.json --from run.json
2|unknown command '--verison' (did you mean '--version'?)|compshim --verison
2|'run.json' is a report: 'compshim report' shows reports side by side|compshim compare run.json damaged.json
2|'64KX' is not a size|compshim explain --size 64KX
ROWS
check "COMPSHIM_REPORT=yes makes no file" test ! -e yes
check "COMPSHIM_TRACE=no makes no file" test ! -e no
job good COMPSHIM_POLCY=x COMPSHIM_LOG=verbose >once.txt 2>&1
check "warnings come once, not from each rank" test "$(grep -c 'COMPSHIM_POLCY is not known' once.txt),$(grep -c COMPSHIM_LOG once.txt)" = 1,1
expect "a relative COMPSHIM_POLICY under --wdir" 0 wdir
contains "is taken from where mpirun was started" "$scratch/good.ini"
expect "report --html FILE" 0 compshim report --html page.html run.json
check "writes the page there" grep -q '<html' page.html
output=$("$tool" report --html run.json)
contains "the older form still prints the page" "<html"
check "and leaves the report alone" grep -q '"rows"' run.json
expect "a page in the place of a page" 0 compshim report --html page.html run.json
printf '# mine\n' >mine.md
printf '<!DOCTYPE html>\n<html>mine' >mine.html
for words in "report --html mine.html run.json" "compare --modes off --html mine.html true" \
    "compare --modes off --markdown mine.md true"; do
    # shellcheck disable=SC2086
    expect "a page and notes that are not the tool's: $words" 1 compshim $words
    contains "are not replaced" "is not replaced: it is not what --"
done
echo '{"mine": 1}' >notes.json
for words in "report --html notes.json run.json" "compare --modes off --html notes.json true" \
    "compare --modes off --markdown notes.json true" "compare --modes off --json notes.json true" \
    "tune --save notes.json true" "tune --machine notes.json true"; do
    # shellcheck disable=SC2086
    expect "what is not the tool's: $words" 1 compshim $words
    contains "is not replaced" "notes.json is not replaced: it is not what --"
done
check "and is as it was" test "$(cat notes.json)" = '{"mine": 1}'
# Reports, comparisons and measurements are JSON of different types.
"$tool" compare --modes off --json comparison.json true >/dev/null 2>&1
cp "$top/tests/cli/golden/report_off.json" report.json
cat >measured.json <<'JSON'
{
 "ranks": 2147483647,
 "nodes": 2147483647,
 "ways": [{"codec": "raw", "algorithm": "two_shot"}],
 "sizes": [{"bytes": 65536, "native": 1, "seconds": [2]}]
}
JSON
for words in "compare --modes off --json report.json true" "compare --modes off --json measured.json true" \
    "tune --save report.json true" "tune --save comparison.json true"; do
    # shellcheck disable=SC2086
    expect "another kind of the tool's: $words" 1 compshim $words
    contains "is not replaced" "on is not replaced: it is not what --"
done
for kind in comparison measured; do
    expect "$kind.json as a report" 1 job good COMPSHIM_REPORT=$kind.json
    contains "is not replaced" "the report would take the place of $kind.json, which is no report"
done
expect "a report in the place of a report" 0 job good COMPSHIM_REPORT=report.json
expect "a comparison in the place of one" 0 compshim compare --modes off --json comparison.json true
cp measured.json again.json
expect "measurements in the place of some" 0 compshim tune --from measured.json --save again.json
finish
