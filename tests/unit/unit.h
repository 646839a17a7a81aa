/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the unit tests: cmocka with the headers that it needs, and the macro that defines a
 * test. */
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

/* Defines a test: TEST(test) { ... }. The program's main (unit.c) runs it. Further arguments are
 * fields of struct CMUnitTest, as in TEST(test, .setup_func = set_up). The body gets its set-up's
 * data in `state`. */
#define TEST(test, ...)                                                                            \
    static void test(void **state);                                                                \
    __attribute__((constructor)) static void add_##test(void)                                      \
    {                                                                                              \
        unit_add((struct CMUnitTest){.name = #test, .test_func = test, __VA_ARGS__});              \
    }                                                                                              \
    static void test(__attribute__((unused)) void **state)

/* Registers a test. Called before main. */
void unit_add(struct CMUnitTest test);

#endif
