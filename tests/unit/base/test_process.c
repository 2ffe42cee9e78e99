/* Whether another process is gone is known, and nobody else is taken for it (base/process.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#undef fail

#include "base/process.h"

/* A child that says its name and waits to be killed. */
static pid_t begin(struct process_name *name)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct process_name own;
        const bool told =
            process_self(&own) && write(ends[1], &own, sizeof own) == (ssize_t)sizeof own;
        while (told)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ends[0], name, sizeof *name), sizeof *name);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void a_process_is_found_until_it_is_gone(void **state)
{
    (void)state;
    struct process_name name;
    int fd, none;
    const pid_t child = begin(&name);
    assert_int_equal(name.pid, child);
    assert_int_equal(process_find(&name, &fd), PROCESS_LIVES);
    assert_false(process_is_gone(fd));

    kill(child, SIGSTOP);
    assert_false(process_is_gone(fd));
    assert_true(process_kill(fd));
    struct pollfd poll_for = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&poll_for, 1, -1), 1);
    assert_true(process_is_gone(fd));

    /* It is gone though nobody has asked for its status yet; and afterwards. */
    assert_int_equal(process_find(&name, &none), PROCESS_GONE);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(process_find(&name, &none), PROCESS_GONE);
    assert_int_equal(none, -1);
    assert_true(process_kill(fd));
    close(fd);
}

static void another_process_is_not_taken_for_it(void **state)
{
    (void)state;
    struct process_name name, other;
    int fd;
    const pid_t child = begin(&name);
    other = name;
    other.began++;
    assert_int_equal(process_find(&other, &fd), PROCESS_GONE);
    assert_int_equal(fd, -1);
    other = name;
    other.space++;
    assert_int_equal(process_find(&other, &fd), PROCESS_UNKNOWN);
    assert_true(process_self(&other));
    assert_int_equal(process_find(&other, &fd), PROCESS_UNKNOWN);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_found_until_it_is_gone),
        cmocka_unit_test(another_process_is_not_taken_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
