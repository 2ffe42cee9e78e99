/* The engine keeps the order that variables demand, with any number of threads, and hands failures on. */
#include "support/check.h"
#undef fail

#include "base/status.h"
#include "nd/engine.h"

enum { N_VARIABLES = 12, N_OPERATIONS = 4000 };

struct job {
    struct operation operation;
    struct link links[4];
    uint64_t *values[4];
    uint64_t number;
    atomic_uint *left;
    enum tern_status status;
};

/* Writes a hash of what it reads into the last variable. */
static enum tern_status mix(void *context)
{
    struct job *job = context;
    const uint32_t last = job->operation.n_links - 1;
    uint64_t sum = job->number;
    for (uint32_t i = 0; i < last; i++)
        sum = scattered(sum ^ *job->values[i]);
    *job->values[last] = scattered(sum + *job->values[last]);
    return TERN_OK;
}

static enum tern_status break_it(void *context)
{
    (void)context;
    return fail(TERN_RANGE, "it broke");
}

static void ended(void *context)
{
    atomic_fetch_sub(((struct job *)context)->left, 1);
}

static void submit(struct job *job, enum tern_status (*run)(void *context))
{
    job->operation.run = run;
    job->operation.ended = ended;
    job->operation.context = job;
    job->operation.name = "job";
    job->operation.links = job->links;
    atomic_fetch_add(job->left, 1);
    nd_engine_submit(&job->operation);
}

/* Random operations on random variables, each reading up to 3 and writing one; the result of doing them in order. */
static void check_order(unsigned n_threads)
{
    ok(nd_engine_set_threads(n_threads));
    struct dice dice = {n_threads};
    static struct variable variables[N_VARIABLES];
    static uint64_t values[N_VARIABLES], expected[N_VARIABLES];
    static atomic_uint left;
    memset(values, 0, sizeof values);
    memset(expected, 0, sizeof expected);
    struct job *jobs = array_of(N_OPERATIONS, sizeof *jobs);
    for (size_t i = 0; i < N_OPERATIONS; i++) {
        struct job *job = &jobs[i];
        job->left = &left;
        job->number = i;
        unsigned used = 0;
        const size_t n = 1 + dice_below(&dice, 4);
        uint64_t sum = i;
        for (size_t k = 0; k < n; k++) {
            size_t v;
            do
                v = dice_below(&dice, N_VARIABLES);
            while (used & 1u << v);
            used |= 1u << v;
            job->links[k] =
                (struct link){.variable = &variables[v], .writes = k + 1 == n, .keeps = true};
            job->values[k] = &values[v];
            if (k + 1 < n)
                sum = scattered(sum ^ expected[v]);
            else
                expected[v] = scattered(sum + expected[v]);
        }
        job->operation.n_links = (uint32_t)n;
    }
    for (size_t i = 0; i < N_OPERATIONS; i++)
        submit(&jobs[i], mix);
    for (size_t v = 0; v < N_VARIABLES; v++)
        ok(nd_engine_wait_idle(&variables[v]));
    nd_engine_wait_for(&left);
    assert_memory_equal(values, expected, sizeof values);
    free(jobs);
}

static void test_order(void **state)
{
    (void)state;
    check_order(1);
    check_order(2);
    check_order(4);
}

/* b depends on a, which fails; c does not. An overwriting operation heals a. */
static void test_failure(void **state)
{
    (void)state;
    static struct variable a, b, c;
    static uint64_t values[3];
    static atomic_uint left;
    struct job broken = {
        .left = &left, .links = {{.variable = &a, .writes = true}}, .operation.n_links = 1};
    struct job after = {.left = &left,
                        .links = {{.variable = &a}, {.variable = &b, .writes = true}},
                        .values = {&values[0], &values[1]},
                        .operation.n_links = 2};
    struct job apart = {.left = &left,
                        .links = {{.variable = &c, .writes = true}},
                        .values = {&values[2]},
                        .operation.n_links = 1};
    struct job again = {.left = &left,
                        .links = {{.variable = &a, .writes = true}},
                        .values = {&values[0]},
                        .operation.n_links = 1};
    submit(&broken, break_it);
    submit(&after, mix);
    submit(&apart, mix);
    refused(nd_engine_wait(&b), TERN_RANGE, "job: it broke");
    refused(nd_engine_wait(&a), TERN_RANGE, "job: it broke");
    ok(nd_engine_wait(&c));
    assert_int_equal(values[1], 0);
    submit(&again, mix);
    ok(nd_engine_wait(&a));
    refused(nd_engine_wait(&b), TERN_RANGE, "job: it broke");
    nd_engine_wait_for(&left);
    nd_engine_forget(&b);
}

enum { N_PARTS = 40, N_DIVIDED = 300 };

struct divided {
    struct operation operation;
    struct link links[1];
    struct variable variable;
    atomic_uint times[N_PARTS], *left;
};

static void count_part(void *context, unsigned i)
{
    atomic_fetch_add(&((struct divided *)context)->times[i], 1);
}

static enum tern_status divide(void *context)
{
    nd_engine_parts(N_PARTS, count_part, context);
    return TERN_OK;
}

static void divided_ended(void *context)
{
    atomic_fetch_sub(((struct divided *)context)->left, 1);
}

/* Operations that divide their work run each part once, with any number of threads, and communicating ones too. */
static void test_parts(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 4; threads++) {
        ok(nd_engine_set_threads(threads));
        assert_int_equal(nd_engine_split(100, 101), 1);
        assert_int_equal(nd_engine_split(1000, 1), threads);
        static atomic_uint left;
        struct divided *all = array_of(N_DIVIDED, sizeof *all);
        atomic_store(&left, N_DIVIDED);
        for (size_t i = 0; i < N_DIVIDED; i++) {
            all[i].left = &left;
            all[i].links[0] = (struct link){.variable = &all[i].variable, .writes = true};
            all[i].operation = (struct operation){.run = divide,
                                                  .ended = divided_ended,
                                                  .context = &all[i],
                                                  .name = "divided",
                                                  .communicates = i % 3 == 0,
                                                  .links = all[i].links,
                                                  .n_links = 1};
            nd_engine_submit(&all[i].operation);
        }
        nd_engine_wait_for(&left);
        for (size_t i = 0; i < N_DIVIDED; i++)
            for (unsigned k = 0; k < N_PARTS; k++)
                assert_int_equal(atomic_load(&all[i].times[k]), 1);
        free(all);
    }
}

static void test_threads_are_checked(void **state)
{
    (void)state;
    refused(nd_engine_set_threads(0), TERN_INVALID, "1 to 256");
    refused(nd_engine_set_threads(257), TERN_INVALID, "257");
    ok(nd_engine_set_threads(3));
    assert_int_equal(nd_engine_threads(), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_threads_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
