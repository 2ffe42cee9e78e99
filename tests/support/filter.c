/*
 * filter - lets a person run some tests of a unit-test program: TEST_CASE='*torn*' build/tests/store/test_store runs those
 * whose names match. cmocka knows the filter but reads no variable.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

static void __attribute__((constructor)) choose(void)
{
    cmocka_set_test_filter(getenv("TEST_CASE"));
}
