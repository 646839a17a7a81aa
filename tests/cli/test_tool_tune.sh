#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks compshim tune: a policy from given measurements, a real measurement, wrong use, and interruption.
. "$(dirname "$0")/../lib.sh"
tool=$build/compshim
golden=$top/tests/cli/golden
cd "$scratch" || exit 1
cat >measured.json <<'JSON'
{"ranks": 4, "nodes": 4,
 "ways": [{"codec": "raw", "algorithm": "two_shot"}, {"codec": "fp16", "algorithm": "allgather"},
          {"codec": "fp16", "algorithm": "two_shot"}, {"codec": "int8", "algorithm": "two_shot"},
          {"codec": "fp8_e4m3", "algorithm": "two_shot"}],
 "sizes": [{"bytes": 65536, "native": 0.0011, "seconds": [0.0020, 0.0015, 0.0016, 0.0014, null]},
           {"bytes": 1048576, "native": 0.020, "seconds": [0.021, 0.016, 0.0120, 0.0060, 0.0059]},
           {"bytes": 16777216, "native": 0.350, "seconds": [0.205, 0.180, 0.1050, 0.0540, 0.0300]}]}
JSON
left_over() { find . -name '.compshim-tune*' -o -name '*.new'; }

expect "a policy from measurements" 0 "$tool" tune --from measured.json
golden "its text" "$golden/tune.txt"
check "it is in policy.ini, too" test "$output" = "$(cat policy.ini)"
expect "one is there already" 1 "$tool" tune --from measured.json
contains "says what to do" "policy.ini exists already: use --force, or another --output"
expect "again, over it" 0 "$tool" tune --from measured.json --force
golden "comes to the same" "$golden/tune.txt"
expect "with a larger error" 0 "$tool" tune --from measured.json -o loose.ini --max-rel-error 0.05
contains "takes fp8 where that is faster" "codec     = fp8_e4m3"
expect "with no error" 0 "$tool" tune --from measured.json -o exact.ini --max-rel-error 0
contains "takes raw where that is faster" "codec     = raw"
expect "what it wrote can be explained" 0 "$tool" explain --policy policy.ini --sizes 64KiB,1MiB,16MiB
contains "and decides" "int8"
sed 's/"native": [0-9.]*/"native": 0.001/' measured.json >slow.json
expect "where nothing pays" 0 "$tool" tune --from slow.json -o none.ini
contains "says so" "Nothing was faster than the library itself."

# Links and a pipe where the policy is to be written, and another file beside it.
echo mine >policy.ini.new
ln -s target.ini link.ini
echo '[rule a]' >target.ini
mkfifo pipe.ini
expect "a link" 0 "$tool" tune --from measured.json -f -o link.ini
check "stays, and what it leads to is written" grep -q "^codec" target.ini
check "it stays a link" test -L link.ini
ln -s later.ini ahead.ini
expect "a link that leads to nothing yet" 0 "$tool" tune --from measured.json -o ahead.ini
check "makes what it leads to" cmp -s later.ini target.ini
check "and stays" test -L ahead.ini
limited cat pipe.ini >piped.ini &
expect "a pipe" 0 limited "$tool" tune --from measured.json -f -o pipe.ini
wait $!
check "is written to" cmp -s piped.ini target.ini
check "and stays a pipe" test -p pipe.ini
expect "another file beside it" 0 "$tool" tune --from measured.json -f -o policy.ini
check "is left alone" grep -qx mine policy.ini.new
rm policy.ini.new later.ini ahead.ini link.ini target.ini pipe.ini piped.ini

expect "no launcher" 2 "$tool" tune
contains "says what one is" "no command that starts ranks, such as 'mpirun -n 4'"
for option in --sizes=1MiB --machine=facts --time=5; do
    expect "measurements and $option" 2 "$tool" tune --from measured.json $option
    contains "is refused" "--from takes what was measured: leave out "
done
expect "measurements and a launcher" 2 "$tool" tune --from measured.json -- mpirun
expect "an error that is none" 2 "$tool" tune --max-rel-error 2 -- true
contains "is quoted" "--max-rel-error: '2' is not a number from 0 to 1"
expect "sizes too near" 2 "$tool" tune --sizes 64KiB,65540 -- true
contains "are refused" "65536 and 65540 bytes are less than 1KiB apart"
expect "a size too small" 2 "$tool" tune --sizes 16 -- true
expect "a folder of --save that is not there" 3 "$tool" tune -o x.ini --save nowhere/saved.json -- true
contains "is named" "nowhere/saved.json: No such file"
expect "a launcher that fails, with files to save to" 1 "$tool" tune -o x.ini --save s.json --machine m -- false
check "leaves none of them" test ! -e x.ini -a ! -e s.json -a ! -e m
expect "a folder that is not there" 3 "$tool" tune -o nowhere/policy.ini -- true
contains "is named" "cannot make a folder nowhere/.compshim-tune-"
expect "measurements that are not there" 3 "$tool" tune --from nothing.json -o x.ini
expect "measurements that are no JSON" 1 "$tool" tune --from policy.ini -o x.ini
contains "are named" "policy.ini:1: not JSON"
sed 's/0.0060/-1/' measured.json >damaged.json
expect "a time below 0" 1 "$tool" tune --from damaged.json -o x.ini
contains "is refused" "a time that is not above 0"
sed 's/"fp8_e4m3"/"fp9"/' measured.json >damaged.json
expect "an unknown codec" 1 "$tool" tune --from damaged.json -o x.ini
python3 - $(codecs) >many.json <<'PY'
import json, sys
ways = [{"codec": codec, "algorithm": algorithm} for codec in sys.argv[1:]
        for algorithm in ("one_shot", "two_shot", "hierarchical")]
ways += [{"codec": codec, "algorithm": "cast"} for codec in ("fp16", "bf16")]
seconds = [1 if way == ways[-3] else 2 for way in ways]
print(json.dumps({"ranks": 4, "nodes": 2, "ways": ways, "sizes": [{"bytes": 1 << 20, "native": 4, "seconds": seconds}]}))
PY
expect "every codec by every algorithm of several nodes" 0 "$tool" tune --from many.json -e 1 -o many.ini
contains "takes the fastest" "1000.000 hierarchical"
for way in bounded/two_shot topk/two_shot fp32/two_shot lossless/cast none/two_shot int8/auto int8/grid int8/hierarchical; do
    sed "s/\"int8\", \"algorithm\": \"two_shot\"/\"${way%/*}\", \"algorithm\": \"${way#*/}\"/" measured.json >damaged.json
    expect "$way, which tune never measures" 1 "$tool" tune --from damaged.json -e 1 -o x.ini
    contains "is named" "damaged.json: not measurements of compshim tune: codec '${way%/*}' by algorithm '${way#*/}'"
done
expect "a launcher that fails" 1 "$tool" tune -o x.ini -- false
contains "is reported" "the benchmark failed (exit status 1)"
expect "a launcher that starts nothing" 1 "$tool" tune -o x.ini -- true
contains "is reported" "the library did not reach the benchmark's ranks"
printf '#!/bin/sh\nenv >%s/seen\n' "$PWD" >launcher && chmod +x launcher
env -u OMPI_MCA_rmaps_base_oversubscribe "$tool" tune -o x.ini -- ./launcher >/dev/null 2>&1
check "Open MPI 4 and 5 may start more ranks than there are processors" \
    test "$(grep -cxE 'OMPI_MCA_rmaps_base_oversubscribe=1|PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe' seen)" = 2
check "nothing is written in any of these cases" test ! -e x.ini -a -z "$(left_over)"

# A real measurement. Its results are arbitrary on a busy machine, but the written policy must follow from them. If
# the time was too short to measure both sizes with all candidates, the test repeats it with more time.
for seconds in 8 40 200; do
    limited "$tool" tune --force -o real.ini --time $seconds --sizes 64KiB,1MiB --save saved.json --machine choices -- \
        mpirun --oversubscribe -n 2 >measured 2>&1
    status=$?
    [ "$(grep -o '"bytes"' saved.json | wc -l)" != 2 ] || grep -q null saved.json || break
done
expect "a measurement" 0 sh -c "cat measured; exit $status"
output=$(<choices)
contains "the file for COMPSHIM_MACHINE has no choices" "no choices. Jobs with this file try nothing"
expect "the same measurements again" 0 "$tool" tune -o again.ini --from saved.json
check "come to the same policy" cmp real.ini again.ini
check "all codecs were measured, by the algorithms of two ranks" python3 - $(codecs) <<'PY'
import json, sys
saved = json.load(open("saved.json"))
ways = {(way["codec"], way["algorithm"]) for way in saved["ways"]}
codecs = sys.argv[1:]
want = {(codec, algorithm) for codec in codecs for algorithm in ("one_shot", "two_shot")}
want |= {("fp16", "cast"), ("bf16", "cast")}
assert ways == want, ways ^ want
assert [size["bytes"] for size in saved["sizes"]] == [65536, 1 << 20], saved
assert (saved["ranks"], saved["nodes"]) == (2, 1), saved
assert all(seconds > 0 for size in saved["sizes"] for seconds in size["seconds"]), saved
PY
check "nothing is left over" test -z "$(left_over)"
env --default-signal=INT "$tool" tune -o x.ini --time "$LIMIT" -- mpirun --oversubscribe -n 2 2>interrupted.txt &
tuning=$!
measures() { [ -n "$(children_of $tuning)" ]; }
check "a measurement that goes on" eventually measures
kill -INT $tuning
wait $tuning
output="status $? $(tail -n 1 interrupted.txt)"
contains "an interrupt ends it" "status 130 compshim: interrupted: nothing is written"
check "and leaves nothing" test ! -e x.ini -a -z "$(left_over)"
expect "one rank" 1 limited "$tool" tune -o x.ini --sizes 64KiB -- mpirun -n 1
contains "has nothing to tune" "one rank alone sends nothing"
finish
