/* Replays the corpus of the fuzz target of the all-reduce. */
#include "fuzz/replay.h"

/* The target has libFuzzer's name; here it stands under its own. */
int fuzz_doubling(const uint8_t *data, size_t size);

#define LLVMFuzzerTestOneInput fuzz_doubling
#include "fuzz/fuzz_doubling.c"
#undef LLVMFuzzerTestOneInput

static void corpus_of_doubling_holds(void **state)
{
    (void)state;
    replay(fuzz_doubling, "doubling");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_of_doubling_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
