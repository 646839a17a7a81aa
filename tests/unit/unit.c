/* SPDX-License-Identifier: Apache-2.0 */
/* The main function of every unit test. */
#include "tests/unit/unit.h"

enum { TESTS_MAX = 64 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t count;

void unit_add(struct CMUnitTest test)
{
    if (count == TESTS_MAX)
        abort();
    tests[count++] = test;
}

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL); /* skips unused entries */
}
