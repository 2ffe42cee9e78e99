/* Replays the corpus of the fuzz target of views. */
#include "fuzz/replay.h"

/* The target has libFuzzer's name; here it stands under its own. */
int fuzz_view(const uint8_t *data, size_t size);

#define LLVMFuzzerTestOneInput fuzz_view
#include "fuzz/fuzz_view.c"
#undef LLVMFuzzerTestOneInput

static void corpus_of_view_holds(void **state)
{
    (void)state;
    replay(fuzz_view, "view");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_of_view_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
