/* SPDX-License-Identifier: Apache-2.0 */
/* What the unit tests share: cmocka with the headers that it needs, and the definition of a test.
 */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* TEST(test) { ... } defines a test, which the program's main (unit.c) runs. Further arguments are
 * fields of struct CMUnitTest, as in TEST(test, .setup_func = set_up). The body finds as `state`
 * what its set-up left. */
#define TEST(test, ...)                                                                            \
    static void test(void **state);                                                                \
    __attribute__((constructor)) static void add_##test(void)                                      \
    {                                                                                              \
        unit_add((struct CMUnitTest){.name = #test, .test_func = test, __VA_ARGS__});              \
    }                                                                                              \
    static void test(__attribute__((unused)) void **state)

/* Before main: a test that is to be run. */
void unit_add(struct CMUnitTest test);

#endif
