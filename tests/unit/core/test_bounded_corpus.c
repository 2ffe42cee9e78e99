/* Replays the corpus of the fuzz target of tables with bounded reads. */
#include "fuzz/replay.h"

/* The target has libFuzzer's name; here it stands under its own. */
int fuzz_bounded(const uint8_t *data, size_t size);

#define LLVMFuzzerTestOneInput fuzz_bounded
#include "fuzz/fuzz_bounded.c"
#undef LLVMFuzzerTestOneInput

static void corpus_of_bounded_holds(void **state)
{
    (void)state;
    replay(fuzz_bounded, "bounded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_of_bounded_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
