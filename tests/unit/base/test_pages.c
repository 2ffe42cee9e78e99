/* The memory that a process may use: limits of control groups of both versions, at any level; and what a mapping takes. */
#include "support/check.h"

#include <limits.h>
#include <sys/stat.h>

#undef fail /* cmocka's; status.h has another */
#include "base/pages.h"

static char root[] = "/tmp/tern-pages-XXXXXX";

static const char *at(const char *path)
{
    static char name[2][PATH_MAX];
    static int turn;
    turn ^= 1;
    snprintf(name[turn], sizeof name[turn], "%s/%s", root, path);
    return name[turn];
}

static void put(const char *path, const char *text)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", at(path));
    for (char *slash = folder + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(folder, 0700);
        *slash = '/';
    }
    FILE *file = fopen(at(path), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static uint64_t limit(void)
{
    return pages_group_limit(at("self"), at("fs"));
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(root));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void version_1_is_seen(void **state)
{
    (void)state;
    put("self", "12:cpu,cpuacct:/job\n7:hugetlb,memory:/job/step\n1:name=systemd:/other\n");
    assert_int_equal(limit(), UINT64_MAX);
    put("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("fs/memory/job/step/memory.limit_in_bytes", "3000000\n");
    assert_int_equal(limit(), 3000000);
    put("fs/memory/job/memory.limit_in_bytes", "2000000\n"); /* a group above is tighter */
    assert_int_equal(limit(), 2000000);
    put("fs/memory/other/memory.limit_in_bytes", "1000\n"); /* another's */
    assert_int_equal(limit(), 2000000);
    /* In a container the path is one of the host's, and only the root can be seen. */
    put("self", "7:memory:/docker/0123\n");
    put("fs/memory/memory.limit_in_bytes", "5000000\n");
    assert_int_equal(limit(), 5000000);
}

static void version_2_is_seen(void **state)
{
    (void)state;
    put("self", "0::/job/step\n");
    put("fs/memory.max", "max\n");
    put("fs/job/memory.max", "7000000\n");
    put("fs/job/step/memory.max", "max\n");
    assert_int_equal(limit(), 7000000);
    put("fs/job/step/memory.max", "6000000\n");
    assert_int_equal(limit(), 6000000);
    assert_int_equal(pages_group_limit(at("nothing"), at("fs")), UINT64_MAX);
}

static void the_machine_has_memory(void **state)
{
    (void)state;
    assert_true(pages_machine_bytes() > 1 << 20);
}

/* The pages of this process that are in memory. */
static size_t resident_pages(void)
{
    unsigned long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
    fclose(file);
    return resident;
}

static void a_growing_one_takes_what_is_used(void **state)
{
    (void)state;
    enum { BYTES = 64 << 20, N = 16 };
    char *all[N];
    const size_t before = resident_pages();
    for (int i = 0; i < N; i++) {
        all[i] = pages_new_growing(BYTES);
        assert_non_null(all[i]);
        assert_int_equal(all[i][0], 0);
        all[i][0] = 1;
    }
    assert_true(resident_pages() < before + HUGE_PAGE_BYTES / 4096); /* not one of them is huge */
    for (int i = 0; i < N; i++) {
        all[i][BYTES - 1] = 1;
        pages_free(all[i], BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1_is_seen),
        cmocka_unit_test(version_2_is_seen),
        cmocka_unit_test(the_machine_has_memory),
        cmocka_unit_test(a_growing_one_takes_what_is_used),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
