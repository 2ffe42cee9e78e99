/* Replays the corpus of the fuzz target of backups. */
#include "fuzz/replay.h"

/* The target has libFuzzer's name; here it stands under its own. */
int fuzz_backup(const uint8_t *data, size_t size);

#define LLVMFuzzerTestOneInput fuzz_backup
#include "fuzz/fuzz_backup.c"
#undef LLVMFuzzerTestOneInput

static void corpus_of_backup_holds(void **state)
{
    (void)state;
    replay(fuzz_backup, "backup");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_of_backup_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
