/*
 * Local sampling (the scheme of NON_CONFORM): samples are keys that are here, found with little work, however few are here.
 */
#include "draw_world.h"

enum { N_MANY = 1000000 };

/* One key in `rarity` is here. */
static uint64_t rarity;

static bool one_in(struct world *world, uint64_t key)
{
    (void)world;
    return rarity && scattered(key) % rarity == 0;
}

static bool below_100(struct world *world, uint64_t key)
{
    (void)world;
    return key < 100;
}

struct local_run {
    uint64_t n_elsewhere, n_distinct;
    double asked_per_key;
};

/* Draws n keys of N_MANY in parts of 20. */
static struct local_run draw_locally(const struct target *many,
                                     bool (*is_here)(struct world *world, uint64_t key), size_t n,
                                     uint64_t near_begin, uint64_t near_end)
{
    struct sampler_options options = {.target = many,
                                      .conformity = TERN_NON_CONFORM,
                                      .stream = hash_u64(n),
                                      .near_begin = near_begin,
                                      .near_end = near_end};
    struct sampler *sampler = sampler_new(&options);
    struct world *world = world_new(is_here);
    struct sample sample = {0};
    struct surroundings now = around(world);
    struct local_run run = {0};
    uint8_t *seen = array_of(N_MANY, 1);
    for (size_t done = 0; done < n; done += 20) {
        uint64_t keys[20];
        ok(sample_begin(&sample, sampler, 20, &now));
        ok(sample_take(&sample, keys, 20, &now));
        sample_finish(&sample, 0);
        for (size_t i = 0; i < 20; i++) {
            assert_true(keys[i] < N_MANY);
            run.n_elsewhere += !is_here(world, keys[i]);
            run.n_distinct += !seen[keys[i]];
            seen[keys[i]] = 1;
        }
    }
    assert_null(sample.keys);
    assert_int_equal(world->n_wanted, 0);
    run.asked_per_key = (double)world->n_asked / (double)n;
    free(seen);
    sampler_free(sampler);
    free(world);
    return run;
}

static struct target many_keys(void)
{
    struct target many;
    struct tern_target description = {.struct_size = sizeof description, .end = N_MANY};
    ok(target_init(&many, &description, "words", N_MANY - 1));
    return many;
}

/* The questions local sampling asks at most: five for each key, DRAW_ASK for each pull, here of 20. */
static const double most_asked_per_key = 5 + (double)DRAW_ASK / 20;

/* From all keys to one in 10,000, and hardly any from elsewhere: only until one has been met that is
 * here. */
static void local_samples_are_here_however_few_are(void **state)
{
    (void)state;
    struct target many = many_keys();
    static const uint64_t rarities[] = {1, 2, 4, 16, 64, 1000, 10000};
    for (size_t i = 0; i < COUNT(rarities); i++) {
        rarity = rarities[i];
        struct local_run run = draw_locally(&many, one_in, 200000, 0, 0);
        print_message("  1 in %5llu: %llu from elsewhere, %llu distinct, %.2f questions per key\n",
                      (unsigned long long)rarity, (unsigned long long)run.n_elsewhere,
                      (unsigned long long)run.n_distinct, run.asked_per_key);
        assert_true(run.n_elsewhere <= (rarity <= 64 ? 0 : rarity));
        assert_true(run.asked_per_key <= most_asked_per_key);
        assert_true((double)run.n_distinct > (rarity < 100 ? 5000 : 0.5 * N_MANY / (double)rarity));
    }
    target_fini(&many);
}

/* A hundred keys at home, in a range that is known: found at once. */
static void few_keys_at_home_are_found_at_once(void **state)
{
    (void)state;
    struct target many = many_keys();
    struct local_run run = draw_locally(&many, below_100, 20000, 0, 100);
    assert_int_equal(run.n_elsewhere, 0);
    assert_int_equal(run.n_distinct, 100);
    assert_true(run.asked_per_key <= most_asked_per_key);
    target_fini(&many);
}

/* A hundred keys somewhere: found by the search, in as many steps as the target is long. */
static void few_keys_anywhere_are_found_in_time(void **state)
{
    (void)state;
    struct target many = many_keys();
    struct local_run run = draw_locally(&many, below_100, 2 * N_MANY, N_MANY / 2, N_MANY);
    assert_true(run.n_elsewhere < 20);
    assert_int_equal(run.n_distinct, 100 + run.n_elsewhere);
    target_fini(&many);
}

static void when_nothing_is_here_keys_come_from_elsewhere(void **state)
{
    (void)state;
    struct target many = many_keys();
    struct local_run run = draw_locally(&many, nothing, 20000, 0, 100);
    assert_int_equal(run.n_elsewhere, 20000);
    assert_true(run.n_distinct > 19000);
    assert_true(run.asked_per_key <= most_asked_per_key);
    target_fini(&many);
}

static void local_samples_are_keys_of_the_target(void **state)
{
    (void)state;
    double *weights = array_of(N_MANY, sizeof *weights);
    for (size_t i = 0; i < 1000; i++)
        weights[i * 999 + 1] = 1;
    struct target odd;
    struct tern_target description = {.struct_size = sizeof description,
                                      .kind = TERN_TARGET_WEIGHTS,
                                      .end = N_MANY,
                                      .weights = weights};
    ok(target_init(&odd, &description, "words", N_MANY - 1));
    struct sampler_options options = {
        .target = &odd, .conformity = TERN_NON_CONFORM, .near_end = N_MANY};
    struct sampler *sampler = sampler_new(&options);
    struct world *world = world_new(one_in);
    struct sample sample = {0};
    struct surroundings now = around(world);
    static const uint64_t rarities[] = {1, 50, 0};
    for (size_t r = 0; r < COUNT(rarities); r++) {
        rarity = rarities[r];
        for (int i = 0; i < 200; i++) {
            uint64_t keys[100];
            ok(sample_begin(&sample, sampler, COUNT(keys), &now));
            ok(sample_take(&sample, keys, COUNT(keys), &now));
            sample_finish(&sample, 0);
            for (size_t j = 0; j < COUNT(keys); j++)
                assert_true(weights[keys[j]] == 1);
        }
    }
    sampler_free(sampler);
    free(world);
    free(weights);
    target_fini(&odd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_samples_are_here_however_few_are),
        cmocka_unit_test(few_keys_at_home_are_found_at_once),
        cmocka_unit_test(few_keys_anywhere_are_found_in_time),
        cmocka_unit_test(when_nothing_is_here_keys_come_from_elsewhere),
        cmocka_unit_test(local_samples_are_keys_of_the_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
