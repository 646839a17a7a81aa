#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that tests/circles.py, which make lint uses, finds circular dependencies between object files, names that two
# sources define, and includes that point from a lower module to a higher one. The test plants each.
. "$(dirname "$0")/../lib.sh"
cd "$scratch" || exit 3
mkdir -p build/obj/shim/core shim/core shim/front
circles() { python3 "$top/tests/circles.py" build/objects.txt allowed "$@"; }
# object NAME: compiles an object from standard input
object() { gcc -x c -c -o "build/obj/shim/core/$1.o" - && touch "shim/core/$1.c"; }
objects() { echo "library.so ${*/#/build/obj/shim/core/}" >build/objects.txt; }

object top <<<'int middle(void); int top(void) { return middle(); }'
object middle <<<'int bottom(void); int middle(void) { return bottom(); }'
object bottom <<<'int bottom(void) { return 0; }'
objects top.o middle.o bottom.o
: >allowed
expect "objects that depend one way" 0 circles
check "are passed over in silence" test -z "$output"

echo library.so >build/objects.txt
expect "nothing to look at" 1 circles

objects top.o middle.o bottom.o
# References to variables count, too: bottom.o uses a variable of top.o.
object top <<<'int middle(void); int depth = 1; int top(void) { return middle(); }'
object bottom <<<'extern int depth; int bottom(void) { return depth; }'
expect "objects in a circle" 1 circles
contains "are counted" "library.so: error: 3 objects in a circle"
contains "with the function that leads down" "shim/core/top.o -> shim/core/middle.o: middle"
contains "and the variable that leads up" "shim/core/bottom.o -> shim/core/top.o: depth"

printf 'shim/core/%s.o\n' top middle >allowed
expect "a circle of which one object is not allowed" 1 circles
echo 'shim/core/bottom.o # for now' >>allowed
expect "an allowed circle" 0 circles
contains "is printed all the same" "library.so: allowed: 3 objects in a circle"

object bottom <<<'int bottom(void) { return 0; }'
expect "what is allowed and is in no circle any more" 1 circles
contains "is an error" "allowed: error: shim/core/bottom.o is in no circle: take the line out"
objects top.o middle.o
echo shim/core/bottom.o >allowed
expect "unless it was not compiled" 0 circles
rm shim/core/bottom.c
expect "or does not exist" 1 circles
: >allowed

object first <<<'int cshim_same(void) { return 0; } int other(void) { return 0; }'
object second <<<'int cshim_same(void) { return 1; }'
objects first.o second.o
expect "a name that two sources define" 1 circles
contains "is an error" "error: cshim_same is defined in shim/core/first.o and in shim/core/second.o"
objects first.o middle.o

echo '#include "shim/core/plan.h"' >shim/front/front.h
echo '#include "policy/policy.h"' >shim/core/plan.h
expect "includes that point down" 0 circles shim/front/front.h shim/core/plan.h
echo ' #  include "shim/front/front.h"' >>shim/core/plan.h
expect "an include that points up" 1 circles shim/front/front.h shim/core/plan.h
contains "is an error" "shim/core/plan.h: error: includes shim/front/front.h"
echo 'shim/core/plan.h shim/front/front.h' >allowed
expect "until it is allowed" 0 circles shim/front/front.h shim/core/plan.h
echo >shim/core/plan.h
expect "what is allowed and is not there any more" 1 circles shim/core/plan.h
contains "is an error, too" "shim/core/plan.h shim/front/front.h is in no circle"
finish
