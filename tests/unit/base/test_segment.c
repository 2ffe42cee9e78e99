/* Memory that processes have in common: found by its name, zeroed, gone with the last who has it. */
#include "support/check.h"

#include <signal.h>
#include <sys/wait.h>

#undef fail /* cmocka's; status.h has another */
#include "base/segment.h"

enum { BYTES = 5 << 20 };

static void one_memory_for_all(void **state)
{
    (void)state;
    char *ours, *again;
    uint64_t name;
    ok(segment_new(BYTES, (void **)&ours, &name));
    assert_int_not_equal(name, 0);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(ours[i], 0);
    ok(segment_attach(name, BYTES, (void **)&again));
    assert_ptr_not_equal(ours, again);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *theirs;
        segment_free(ours);
        segment_free(again);
        if (segment_attach(name, BYTES, (void **)&theirs))
            _exit(1);
        theirs[0] = 1;
        theirs[BYTES - 1] = 2;
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(again[0], 1);
    assert_int_equal(again[BYTES - 1], 2);
    segment_free(ours);
    assert_int_equal(again[0], 1);
    segment_free(again);
    void *gone;
    refused(segment_attach(name, BYTES, &gone), TERN_NO_MEMORY, "nodes of this host");
}

static void names_of_others_are_refused(void **state)
{
    (void)state;
    void *memory, *other;
    uint64_t name;
    ok(segment_new(BYTES, &memory, &name));
    refused(segment_attach(name ^ UINT64_C(1) << 40, BYTES, &other), TERN_NO_MEMORY, "share");
    refused(segment_attach(name, BYTES + 4096, &other), TERN_NO_MEMORY, "less memory");
    refused(segment_attach(UINT64_MAX, BYTES, &other), TERN_NO_MEMORY, "share");
    segment_free(memory);
    refused(segment_new(SIZE_MAX, &memory, &name), TERN_NO_MEMORY, "share");
    refused(segment_new((size_t)1 << 62, &memory, &name), TERN_NO_MEMORY, "share");
    segment_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_memory_for_all),
        cmocka_unit_test(names_of_others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
