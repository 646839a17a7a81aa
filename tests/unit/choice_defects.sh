#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mutation test of tests/unit/test_choice.c and test_draw.c: puts one defect at a time into a copy of
# shim/core/choice.c or shim/gloo/draw.c, or of a test's simulated engine, and checks that the test fails.
#   [BUILD=DIR] tests/unit/choice_defects.sh
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/defects.sh"

# defect NAME FILE SED: applies SED to a copy of FILE: choice.c, draw.c, or the test, whose simulated engine then is
# wrong. Passes if the test then fails.
tests=test_choice.c
defect() {
    rm -rf "$scratch/tests/unit"
    mkdir -p "$scratch/shim/core" "$scratch/shim/gloo" "$scratch/tests/unit"
    cp "$top"/shim/core/choice.[ch] "$scratch/shim/core"
    cp "$top"/shim/gloo/draw.[ch] "$scratch/shim/gloo"
    cp "$top"/tests/unit/{"$tests",unit.c,unit.h} "$scratch/tests/unit"
    sed -i -E "$3" "$scratch/$2"
    if cmp -s "$top/$2" "$scratch/$2" ||
        ! output=$(cd "$scratch" && gcc -std=c11 -D_GNU_SOURCE -O1 -I. -I"$top" -o test tests/unit/*.c shim/*/*.c -lcmocka -lm 2>&1); then
        fail "$1" "cannot be put into $2: ${output-}"
    else
        must_fail "$1" 60
    fi
}
choice=shim/core/choice.c
test=tests/unit/test_choice.c
defect "each rank decides by its own durations" $test 's/memcpy\(job->ranks\[rank\]\.seconds.*/(void)longest;/'
defect "the least duration instead of the largest" $test 's/longest\[i\] = 0/longest[i] = INFINITY/; s/fmaxf\(longest/fminf(longest/'
defect "ranks do not meet before a sampled call" $test 's/is_met \? 0 : //'
defect "one rank alone decides" $test 's/^( *)(cshim_choice_decide\(&job->ranks\[rank\]\);)/\1if (rank == 0) \2/'
defect "a decision before all durations are in" $choice 's/^( *)start_period\(choice, rows \* LAST_ROW \* left\);/\1start_period(choice, 1);/'
defect "a trial counted twice" $choice 's/^( *)choice->samples\+\+;/\1choice->sampled[++choice->samples] = candidate, choice->seconds[choice->samples++] = 0;/'
defect "the mean of the samples instead of their median" $choice 's/^( *)return sorted\[\(count - 1\) \/ 2\];/\1float sum = 0; for (unsigned i = 0; i < count; i++) sum += sorted[i]; return sum \/ (float)count;/'
defect "compressing need not gain" $choice 's/choice->weights\[i\] = .*/choice->weights[i] = 1, (void)weights;/'
defect "what is clearly out is tried on" $choice 's/CLEARLY_OUT \* choice->learned\[best\]\.seconds/INFINITY/'
defect "a changed network is not noticed" $choice 's/now > CHANGED \* .*;/false;/'
defect "a faster network is not noticed" $choice 's/CHANGED \* now < .*;/false;/'
defect "the next best is never tried again" $choice 's/is_due = .*/is_due = false;/'
defect "the next best is not tried again when the best has become slower" $choice 's/is_suspect && /false \&\& /'
defect "every doubt starts the learning" $choice 's/ && choice->periods >= choice->quiet_periods//'
defect "unknown durations count as none" $choice 's/ \|\| !isfinite\(choice->seconds\[i\]\)//'
defect "short rows of native calls only" $choice 's/NATIVE_ROW_MAX 16u/NATIVE_ROW_MAX 2u/'
defect "a longer row of native calls does not replace shorter ones" $choice 's/choice->figures.samples\[CSHIM_CANDIDATE_NATIVE\] = 0;/;/'
defect "native calls of short rows count like those of long ones" $choice 's/row > 0 && row < .*\)/false)/'
defect "rows of native calls at any price" $choice 's/NATIVE_TRIALS_COST 0.006/NATIVE_TRIALS_COST 1.0/'
defect "a rank decides in the arithmetic that its program has set" $choice 's/const cshim_arithmetic programs = .*/(void)cshim_arithmetic_begin;/; s/cshim_arithmetic_end\(&programs\);/(void)cshim_arithmetic_end;/'
defect "calls that vary widely are not sampled longer" $choice 's/unsteady = is_unsteady.*;/unsteady = false;/'
defect "calls on an idle link decide" $choice 's/is_unsteady\(choice\) \? 0 : .*\]/0]/'
defect "the first call takes the native candidate" $choice 's/\(choice->prior \+ i\) % choice->candidates/i/'

tests=test_draw.c
draw=shim/gloo/draw.c
test=tests/unit/test_draw.c
defect "a stage in force at once" $draw 's/stage\.from = highest \+ CSHIM_DRAW_AHEAD \+ 1/stage.from = number + 1/'
defect "rank 0 looks at its own numbers only" $draw 's/timings\[rank\]\.highest > highest \? timings\[rank\]\.highest/timings[0].highest > highest ? timings[0].highest/'
defect "no call waits for a decision" $draw 's/return draw->deciding == 0 .*/(void)draw; (void)number; return true;/'
defect "calls wait for nothing but further ones" $draw 's/draw->deciding--;/;/'
defect "a rank draws by its own dice" $draw 's/number \* CSHIM_GOLDEN/(number + draws++) * CSHIM_GOLDEN/; s/^static unsigned draw_from/static uint64_t draws;\n&/'
defect "one rank takes no stage" $test 's/cshim_draw_take\(&job->draw\[rank\], &common->stage\);/if (rank != 1) &/'
defect "a sample of one rank is enough" $draw 's/seconds_of\(&timings\[rank\]/seconds_of(\&timings[2]/'
defect "a settled class never tries" $draw 's/stage\.tries = .*/stage.tries = 0;/; s/SETTLED_SAMPLES 2u/SETTLED_SAMPLES 400u/'
defect "native calls are never tried again" $draw 's/NATIVE_TRIAL\) == 0/NATIVE_TRIAL) > NATIVE_TRIAL/'
defect "decisions before there are samples" $draw 's/ \|\| \(draw->stages > 1 && !is_ready\(choice\)\)//; s/< choice->rounds\)/< 0)/'
finish
