/* Memory that processes share: got by its descriptor, zeroed, gone with the last that has it, and checked. */
#include "support/check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>

#undef fail /* cmocka's; status.h has another */
#include "base/segment.h"

enum { BYTES = 5 << 20 };

static void one_memory_for_all(void **state)
{
    (void)state;
    struct segment *ours, *again;
    ok(segment_new(BYTES, 7, &ours));
    assert_int_equal(segment_maker(ours->number), 7);
    char *bytes = ours->memory;
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(bytes[i], 0);
    ok(segment_map(segment_descriptor(ours->number), BYTES, ours->number, &again));
    assert_ptr_not_equal(ours->memory, again->memory);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct segment *theirs;
        if (segment_map(segment_descriptor(ours->number), BYTES, ours->number, &theirs))
            _exit(1);
        ((char *)theirs->memory)[0] = 1;
        ((char *)theirs->memory)[BYTES - 1] = 2;
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    bytes = again->memory;
    assert_int_equal(bytes[0], 1);
    assert_int_equal(bytes[BYTES - 1], 2);
    const uint64_t number = ours->number;
    segment_close(ours);
    assert_int_equal(bytes[0], 1);
    assert_int_equal(segment_descriptor(number), -1);
    segment_close(again);
    segment_close(NULL);
}

/* What the system has of named shared memory. */
static int n_named(void)
{
    struct shm_info info;
    return shmctl(0, SHM_INFO, (struct shmid_ds *)&info) < 0 ? 0 : info.used_ids;
}

/* A process that is killed right after it has made a segment leaves nothing behind: there is no name to remove. */
static void nothing_is_left_behind(void **state)
{
    (void)state;
    const int before = n_named();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct segment *segment;
        if (segment_new(BYTES, 0, &segment) || n_named() != before)
            _exit(1);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static int memory_of(size_t bytes, int seals)
{
    int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void what_comes_is_checked(void **state)
{
    (void)state;
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct segment *segment;
    refused(segment_map(memory_of(BYTES, F_SEAL_SHRINK), BYTES, 1, &segment), TERN_NO_MEMORY,
            "is none");
    refused(segment_map(open("/dev/zero", O_RDWR), BYTES, 1, &segment), TERN_NO_MEMORY, "is none");
    refused(segment_map(-1, BYTES, 1, &segment), TERN_NO_MEMORY, "is none");
    refused(segment_map(memory_of(2 * BYTES, sealed), BYTES, 1, &segment), TERN_NO_MEMORY,
            "less memory");
    int fd = memory_of(BYTES, sealed);
    if (!fchown(fd, 12345, (gid_t)-1)) /* only root can */
        refused(segment_map(fd, BYTES, 1, &segment), TERN_NO_MEMORY, "another user", "12345");
    else
        close(fd);
    ok(segment_map(memory_of(BYTES, sealed), BYTES, 1, &segment));
    segment_close(segment);
    refused(segment_new(SIZE_MAX, 0, &segment), TERN_NO_MEMORY, "share");
    refused(segment_new((size_t)1 << 62, 0, &segment), TERN_NO_MEMORY, "share");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_memory_for_all),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(what_comes_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
