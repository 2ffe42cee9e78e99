/* test_lock - builds that check invariants end a process that takes locks against their ranks, and no other one. */
#include "support/check.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/latch.h"
#include "base/lock.h"

static struct lock node, shards[2];
static struct latch free_slots;

static void init(void)
{
    lock_init(&node, RANK_NODE, 0);
    lock_init(&shards[0], RANK_SHARD, 0);
    lock_init(&shards[1], RANK_SHARD, 1);
}

/* The order of the list, several locks of a rank by their numbers, released in any order. */
static void in_order(void)
{
    lock_take(&node);
    lock_take(&shards[0]);
    lock_take(&shards[1]);
    assert_true(latch_take(&free_slots, RANK_SLOTS, NULL));
    lock_release(&node);
    latch_release(&free_slots, RANK_SLOTS);
    lock_release(&shards[0]);
    lock_release(&shards[1]);
}

static void against_rank(void)
{
    lock_take(&shards[0]);
    lock_take(&node);
}

static void against_number(void)
{
    lock_take(&shards[1]);
    lock_take(&shards[0]);
}

static void under_a_latch(void)
{
    latch_take(&free_slots, RANK_SLOTS, NULL);
    lock_take(&node);
}

/* A try-lock cannot deadlock; but a lock that was taken so counts. */
static void by_trying(void)
{
    lock_take(&shards[1]);
    assert_true(lock_try(&shards[0]));
    lock_release(&shards[0]);
    lock_release(&shards[1]);
}

static void behind_a_try(void)
{
    assert_true(lock_try(&shards[0]));
    lock_take(&node);
}

/* A thread has the lock again when its wait is over, and only then. */
static void by_waiting(void)
{
    pthread_cond_t never;
    condition_init(&never);
    lock_take(&shards[0]);
    assert_false(lock_wait_until(&shards[0], &never, clock_now_ns() + 1));
    lock_take(&shards[1]);
    lock_release(&shards[1]);
    lock_release(&shards[0]);
    in_order();
}

static void after_a_wait(void)
{
    pthread_cond_t never;
    condition_init(&never);
    lock_take(&shards[0]);
    lock_wait_until(&shards[0], &never, clock_now_ns() + 1);
    lock_take(&node);
}

/* The signal that ends a process which calls the function; 0: it ends by itself. */
static int signal_of(void (*takes)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        close(STDERR_FILENO); /* the sentence is meant for people */
        signal(SIGABRT, SIG_DFL);
        init();
        takes();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void locks_in_order_are_allowed(void **state)
{
    (void)state;
    assert_int_equal(signal_of(in_order), 0);
    assert_int_equal(signal_of(by_trying), 0);
    assert_int_equal(signal_of(by_waiting), 0);
}

static void locks_out_of_order_end_the_process(void **state)
{
    (void)state;
#ifdef TERN_INVARIANTS
    assert_int_equal(signal_of(against_rank), SIGABRT);
    assert_int_equal(signal_of(against_number), SIGABRT);
    assert_int_equal(signal_of(under_a_latch), SIGABRT);
    assert_int_equal(signal_of(behind_a_try), SIGABRT);
    assert_int_equal(signal_of(after_a_wait), SIGABRT);
#else
    (void)against_rank, (void)against_number, (void)under_a_latch, (void)behind_a_try;
    (void)after_a_wait;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_in_order_are_allowed),
        cmocka_unit_test(locks_out_of_order_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
