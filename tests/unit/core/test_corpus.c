/* Replays the corpus of the fuzz target of managed tables. */
#include "fuzz/replay.h"

/* The target has libFuzzer's name; here it stands under its own. */
int fuzz_manager(const uint8_t *data, size_t size);

#define LLVMFuzzerTestOneInput fuzz_manager
#include "fuzz/fuzz_manager.c"
#undef LLVMFuzzerTestOneInput

static void corpus_of_manager_holds(void **state)
{
    (void)state;
    replay(fuzz_manager, "manager");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_of_manager_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
