/*
 * The four schemes keep the levels of conformity they are for, and no more: each passes the tests of
 * its own level and of those below, and fails those of the level above (NuPS, Table 1), so the tests can
 * tell them apart. Beside that: what reuse prepares arrives in time, and nothing is lost when
 * a pull fails.
 *
 * The seeds are fixed. The tests of a level reject a scheme that keeps it for one seed in 2,000 (each of
 * five p-values is below ALPHA for one in 10,000); what is expected to fail has to do so with p below
 * 10^-9.
 */
#include "draw_world.h"

#include "support/alloc.h"
#include "support/statistics.h"

/* ---- Samplers --------------------------------------------------------------------------------- */

/* Weights 1, 2, 3 .. 20 by class, and the probabilities of the classes. */
static struct target target;
static double probabilities[N_CLASSES];

static int prepare(void **state)
{
    (void)state;
    static double weights[N_KEYS];
    double sum = 0;
    for (size_t i = 0; i < N_KEYS; i++)
        sum += weights[i] = 1 + (double)(i % N_CLASSES);
    for (size_t i = 0; i < N_KEYS; i++)
        probabilities[i % N_CLASSES] += weights[i] / sum;
    struct tern_target description = {.struct_size = sizeof description,
                                      .kind = TERN_TARGET_WEIGHTS,
                                      .end = N_KEYS,
                                      .weights = weights};
    ok(target_init(&target, &description, "words", N_KEYS - 1));
    return 0;
}

static int end(void **state)
{
    (void)state;
    target_fini(&target);
    return 0;
}

static struct sampler *sampler_of(enum tern_conformity conformity, uint64_t seed,
                                  uint32_t pool_keys, uint32_t pool_uses)
{
    struct sampler_options options = {.target = &target,
                                      .conformity = conformity,
                                      .stream = hash_u64(seed),
                                      .pool_keys = pool_keys,
                                      .pool_uses = pool_uses};
    struct sampler *sampler = sampler_new(&options);
    assert_non_null(sampler);
    return sampler;
}

static const enum tern_conformity levels[] = {TERN_CONFORM, TERN_BOUNDED, TERN_LONG_TERM,
                                              TERN_NON_CONFORM};
static const char *const level_names[] = {"CONFORM", "BOUNDED", "LONG_TERM", "NON_CONFORM"};

/* Prepares a sample of n and takes it in parts. */
static void draw_in_parts(struct sampler *sampler, struct sample *sample, struct world *world,
                          uint64_t *keys, size_t n, size_t part)
{
    struct surroundings now = around(world);
    ok(sample_begin(sample, sampler, n, &now));
    for (size_t done = 0; done < n; done += part) {
        size_t n_now = n - done < part ? n - done : part;
        ok(sample_take(sample, keys + done, n_now, &now));
        for (size_t i = 0; i < n_now; i++)
            world->counts[keys[done + i] % N_CLASSES]++;
        world->n_handed_out += n_now;
    }
    assert_int_equal(sample->n_left, 0);
    sample_finish(sample, world->clock);
}

/* ---- The levels ------------------------------------------------------------------------------- */

enum { N_WORKERS = 2, HANDLE = 10, PART = 5 };

/* What several workers drew, in samples of HANDLE that were pulled in parts: the classes of the keys. */
struct record {
    uint8_t *classes[N_WORKERS];
    size_t n;
    double uses;  /* U */
    size_t bound; /* U * G */
};

static struct record record_of(enum tern_conformity conformity, uint32_t pool_keys,
                               uint32_t pool_uses, size_t n, uint64_t seed,
                               bool (*is_here)(struct world *world, uint64_t key))
{
    struct record record = {.n = n, .uses = pool_uses, .bound = (size_t)pool_keys * pool_uses};
    for (uint64_t w = 0; w < N_WORKERS; w++) {
        struct sampler *sampler = sampler_of(conformity, seed + w, pool_keys, pool_uses);
        struct world *world = world_new(is_here);
        struct sample sample = {0};
        record.classes[w] = array_of(n, 1);
        for (size_t done = 0; done < n; done += HANDLE) {
            uint64_t keys[HANDLE];
            draw_in_parts(sampler, &sample, world, keys, HANDLE, PART);
            for (size_t i = 0; i < HANDLE; i++)
                record.classes[w][done + i] = (uint8_t)(keys[i] % N_CLASSES);
        }
        free(sample.keys);
        sampler_free(sampler);
        free(world);
    }
    return record;
}

static void record_free(struct record *record)
{
    for (size_t w = 0; w < N_WORKERS; w++)
        free(record->classes[w]);
}

static double lower(double a, double b)
{
    return a < b ? a : b;
}

/* The classes at positions 0, stride, 2 * stride ... follow the target. */
static double first_order_p(const uint8_t *classes, size_t n, size_t stride)
{
    uint64_t counts[N_CLASSES] = {0};
    for (size_t i = 0; i < n; i += stride)
        counts[classes[i]]++;
    return fit_p(counts, probabilities, N_CLASSES);
}

/* Those at one position and `lag` further on are independent; positions 0, stride, 2 * stride ... */
static double lag_p(const uint8_t *classes, size_t n, size_t stride, size_t lag)
{
    struct pairs pairs = pairs_new(N_CLASSES);
    for (size_t i = 0; i + lag < n; i += stride)
        pairs_add(&pairs, classes[i], classes[i + lag]);
    return pairs_p(&pairs, probabilities);
}

/* Those of two workers at the same positions are independent. */
static double workers_p(const struct record *record, size_t stride)
{
    struct pairs pairs = pairs_new(N_CLASSES);
    for (size_t i = 0; i < record->n; i += stride)
        pairs_add(&pairs, record->classes[0][i], record->classes[1][i]);
    return pairs_p(&pairs, probabilities);
}

/* L1: samples follow the target, and are independent of the one before, of the one a whole pool before,
 * and of those of other workers. */
static double conform_p(const struct record *record)
{
    double p = workers_p(record, 1);
    for (size_t w = 0; w < N_WORKERS; w++) {
        p = lower(p, first_order_p(record->classes[w], record->n, 1));
        p = lower(p, lag_p(record->classes[w], record->n, 2, 1));
    }
    return p;
}

/* L2: samples that are more than `bound` apart are independent of each other and of those of other
 * workers, and follow the target, whatever was here when they were handed out. The first of each handle
 * are looked at, for they have the best chance to depend on what is here. */
static double bounded_p(const struct record *record)
{
    size_t stride = (record->bound + HANDLE) / HANDLE * HANDLE;
    double p = workers_p(record, stride);
    for (size_t w = 0; w < N_WORKERS; w++) {
        p = lower(p, first_order_p(record->classes[w], record->n, stride));
        p = lower(p, lag_p(record->classes[w], record->n, 2 * stride, stride));
    }
    return p;
}

/* L3: the frequencies approach the target as those of draws that are used U times each; in standard
 * errors. */
static double long_term_deviation(const struct record *record)
{
    double worst = 0;
    for (size_t w = 0; w < N_WORKERS; w++) {
        uint64_t counts[N_CLASSES] = {0};
        for (size_t i = 0; i < record->n; i++)
            counts[record->classes[w][i]]++;
        double deviation = worst_deviation(counts, probabilities, N_CLASSES, record->uses);
        worst = deviation > worst ? deviation : worst;
    }
    return worst;
}

static void check_p(const char *level, enum tern_conformity scheme, double p, bool keeps)
{
    print_message("  %-11s by the scheme of %-11s p = %.3g\n", level, level_names[scheme], p);
    if (keeps ? p < ALPHA : p > 1e-9)
        fail_msg("the scheme of %s %s the level %s", level_names[scheme],
                 keeps ? "does not keep" : "seems to keep", level);
}

/* Table 1, with the two kinds of reuse apart. */
static void check_levels(uint32_t pool_keys, uint32_t pool_uses, size_t n)
{
    for (size_t s = 0; s < COUNT(levels); s++) {
        enum tern_conformity scheme = levels[s];
        struct record record =
            record_of(scheme, pool_keys, pool_uses, n, 100 + s * N_WORKERS, not_six_classes);
        check_p("CONFORM", scheme, conform_p(&record), scheme == TERN_CONFORM);
        check_p("BOUNDED", scheme, bounded_p(&record), scheme <= TERN_BOUNDED);
        double deviation = long_term_deviation(&record);
        print_message("  %-11s by the scheme of %-11s %.1f standard errors\n", "LONG_TERM",
                      level_names[scheme], deviation);
        assert_true(scheme <= TERN_LONG_TERM ? deviation < 5 : deviation > 50);
        record_free(&record);
    }
}

static void each_scheme_keeps_its_level_and_not_the_one_above(void **state)
{
    (void)state;
    check_levels(25, 16, 2000000);
}

static void the_levels_hold_with_the_usual_pools(void **state)
{
    (void)state;
#ifdef UNDER_TSAN
    skip(); /* nothing here has threads, and it would take minutes */
#endif
    check_levels(DRAW_POOL_KEYS, DRAW_POOL_USES, 16000000);
}

static void independent_samples_are_independent_at_any_distance(void **state)
{
    (void)state;
    struct record record = record_of(TERN_CONFORM, 25, 16, 400000, 7, fickle);
    static const size_t lags[] = {1, 2, 5, 10, 25, 400};
    for (size_t i = 0; i < COUNT(lags); i++)
        for (size_t w = 0; w < N_WORKERS; w++)
            assert_true(lag_p(record.classes[w], record.n, 1, lags[i]) >= ALPHA);
    record_free(&record);
}

/* Within a pool, samples do depend on each other, or the bound would be no bound of this scheme. */
static void reused_samples_depend_on_each_other_up_to_the_bound(void **state)
{
    (void)state;
    enum { G = 25, U = 16, N = 2000000 };
    struct sampler *sampler = sampler_of(TERN_BOUNDED, 3, G, U);
    struct world *world = world_new(fickle);
    struct sample sample = {0};
    uint64_t *keys = array_of(N, sizeof *keys);
    draw_in_parts(sampler, &sample, world, keys, N, N);
    uint64_t n_same = 0, n_far = 0, n_pairs = 0;
    for (size_t i = 0; i + 2 * G * U < N; i += G * U) {
        for (size_t j = 1; j < G * U; j++)
            n_same += keys[i] == keys[i + j];
        for (size_t j = G * U; j < 2 * G * U; j++)
            n_far += keys[i] == keys[i + j];
        n_pairs++;
    }
    /* A key comes U - 1 times more in its own pool, and by chance about once in 4000 samples. */
    assert_true(n_same >= n_pairs * (U - 1));
    assert_true(n_far < n_pairs);
    free(keys);
    free(sample.keys);
    sampler_free(sampler);
    free(world);
}

static void long_term_frequencies_withstand_any_allocation(void **state)
{
    (void)state;
    static bool (*const allocations[])(struct world *, uint64_t) = {everything, nothing, fickle,
                                                                    not_six_classes, resentful};
    for (size_t a = 0; a < COUNT(allocations); a++) {
        struct record record = record_of(TERN_LONG_TERM, 25, 16, 1000000, 50 + a, allocations[a]);
        assert_true(long_term_deviation(&record) < 5);
        record_free(&record);
    }
}

/* ---- Reuse ------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void each_pool_is_used_up_evenly_in_fresh_orders(void **state)
{
    (void)state;
    enum { G = 7, U = 5, N_POOLS = 2000, N = G * U * N_POOLS };
    struct sampler *sampler = sampler_of(TERN_BOUNDED, 1, G, U);
    struct world *world = world_new(everything);
    struct sample sample = {0};
    uint64_t *keys = array_of(N, sizeof *keys), n_in_place = 0;
    for (size_t done = 0, n; done < N; done += n) {
        n = 1 + done % 13;
        n = n < N - done ? n : N - done;
        draw_in_parts(sampler, &sample, world, keys + done, n, n);
    }
    for (size_t i = G; i < N; i++)
        n_in_place += i / G % U != 0 && keys[i] == keys[i - G];
    for (size_t i = 0; i < N; i += G)
        qsort(keys + i, G, sizeof *keys, by_size);
    for (size_t i = 0; i < N; i += G)
        assert_memory_equal(keys + i, keys + i / (G * U) * (G * U), G * sizeof *keys);
    /* One in G comes to the place it had before: 8000 here, 83 the standard error. */
    assert_true(n_in_place > 7500 && n_in_place < 8500);
    free(keys);
    free(sample.keys);
    sampler_free(sampler);
    free(world);
}

/* How keys fared that take their time to come and leave when they are no longer wanted. */
struct journey {
    double late;      /* the share of keys that were not here when they were pulled, once warm */
    double ahead;     /* the samples that were prepared ahead, at most */
    uint64_t longest; /* for how many clocks more a key was wanted in the end, at most */
};

/* Pulls samples of 20, each `steps_ahead` steps after it was prepared. When no sample is open then, the
 * program pauses once, for long. */
static struct journey travel(enum tern_conformity conformity, uint64_t travel_ns, uint64_t step_ns,
                             size_t steps_ahead)
{
    enum { N = 20, N_STEPS = 40000, MOST_AHEAD = 50 };
    struct sampler *sampler = sampler_of(conformity, travel_ns, 250, 16);
    struct world *world = world_new(arrived);
    struct sample samples[MOST_AHEAD] = {{0}};
    struct journey journey = {0};
    uint64_t keys[N], n_late = 0, n_pulled = 0;
    world->travel_ns = travel_ns;
    for (size_t step = 0; step < N_STEPS; step++) {
        struct surroundings now = around(world);
        bool warm = step > N_STEPS / 4 && step < 3 * N_STEPS / 4;
        ok(sample_begin(&samples[step % (steps_ahead + 1)], sampler, N, &now));
        if (step >= steps_ahead) {
            struct sample *sample = &samples[(step - steps_ahead) % (steps_ahead + 1)];
            ok(sample_take(sample, keys, N, &now));
            sample_finish(sample, world->clock);
            for (size_t i = 0; warm && i < N; i++, n_pulled++)
                n_late += !arrived(world, keys[i]);
        }
        if (warm)
            journey.ahead = fmax(journey.ahead, (double)sampler_ahead(sampler));
        bool pauses = !steps_ahead && step == 3 * N_STEPS / 4;
        world->now_ns += pauses ? UINT64_C(10000000000) : step_ns;
        world->clock += pauses ? 1000000 : 1;
    }
    journey.late = (double)n_late / (double)n_pulled;
    for (size_t i = 0; i < N_KEYS; i++)
        if (world->until[i] > world->clock && world->until[i] - world->clock > journey.longest)
            journey.longest = world->until[i] - world->clock;
    for (size_t i = 0; i < MOST_AHEAD; i++)
        free(samples[i].keys);
    sampler_free(sampler);
    free(world);
    return journey;
}

/* From journeys that take a step to such that take as long as seven pools last. Nothing is prepared
 * beyond what the journey calls for: twice its length, measured to within a step. A pool lasts 200
 * steps, and no key is wanted for longer than twice the time until its pool is used up. */
static void pools_arrive_before_they_are_used(void **state)
{
    (void)state;
    static const uint64_t travels_ns[] = {1000, 100000, 1000000, 5000000, 30000000};
    static const uint64_t step_ns = 20000;
    for (size_t i = 0; i < COUNT(travels_ns); i++) {
        double needed = 2 * ((double)travels_ns[i] / (double)step_ns + 2) * 20;
        struct journey journey = travel(TERN_BOUNDED, travels_ns[i], step_ns, 0);
        print_message("  %5.2f ms: %.4f %% late, %.0f samples ahead, wanted for %llu clocks more\n",
                      (double)travels_ns[i] / 1e6, 100 * journey.late, journey.ahead,
                      (unsigned long long)journey.longest);
        assert_true(journey.late < 0.002);
        assert_true(journey.ahead <= (needed > 250 ? 1.2 * needed : 250));
        assert_true((double)journey.longest <= 2 * (2 * 200 + needed / 20));
    }
}

static void independent_keys_arrive_when_prepared_ahead(void **state)
{
    (void)state;
    /* A journey of 4 steps and a bit. */
    assert_true(travel(TERN_CONFORM, 90000, 20000, 2).late > 0.9);
    static const size_t ahead[] = {5, 40};
    for (size_t i = 0; i < COUNT(ahead); i++) {
        struct journey journey = travel(TERN_CONFORM, 90000, 20000, ahead[i]);
        assert_true(journey.late == 0);
        assert_true(journey.longest <= 2 * ahead[i]);
    }
}

/* How a program uses samples: it fills a queue of `n_ahead` at once, then takes one and prepares another
 * every `clocks` clocks; after a while it ends all that are left, and begins anew. */
struct rhythm {
    size_t n_ahead, clocks;
};

/* The number of keys that were not here although their sample had been prepared a clock before or
 * earlier. Keys arrive at once, and go when nobody wants them any more. */
static uint64_t missed_in_rhythm(enum tern_conformity conformity, struct rhythm rhythm)
{
    enum { N = 20, N_FILLINGS = 3, N_STEPS = 300, MOST_AHEAD = 100 };
    struct sampler *sampler = sampler_of(conformity, 5, 0, 0);
    struct world *world = world_new(arrived);
    struct sample samples[MOST_AHEAD] = {{0}};
    uint64_t keys[N], n_missed = 0;
    world->travel_ns = 1;
    for (size_t i = 0; i < N_FILLINGS * N_STEPS; i++) {
        size_t step = i % N_STEPS;
        struct surroundings now = around(world);
        for (size_t k = 0; step == 0 && k < rhythm.n_ahead; k++)
            ok(sample_begin(&samples[k], sampler, N, &now));
        world->now_ns += 10;
        now = around(world);
        struct sample *sample = &samples[step % rhythm.n_ahead];
        ok(sample_take(sample, keys, N, &now));
        for (size_t k = 0; k < N; k++)
            n_missed += !arrived(world, keys[k]);
        sample_finish(sample, world->clock);
        ok(sample_begin(sample, sampler, N, &now));
        for (size_t k = 0; step + 1 == N_STEPS && k < rhythm.n_ahead; k++)
            sample_finish(&samples[k], world->clock);
        world->clock += rhythm.clocks;
    }
    for (size_t i = 0; i < MOST_AHEAD; i++)
        free(samples[i].keys);
    sampler_free(sampler);
    free(world);
    return n_missed;
}

/* From the first sample on, when nothing is known yet of how long samples are open, and whenever a queue
 * is filled anew. */
static void keys_stay_until_they_are_used(void **state)
{
    (void)state;
    static const struct rhythm rhythms[] = {{1, 1}, {8, 1}, {50, 1}, {100, 1}, {8, 10}, {100, 0}};
    for (size_t i = 0; i < COUNT(rhythms); i++)
        for (size_t c = 0; c < 2; c++)
            assert_int_equal(missed_in_rhythm(levels[c], rhythms[i]), 0);
}

/* One sample that is pulled in small parts for longer than anybody would expect. */
static void keys_of_a_long_sample_stay(void **state)
{
    (void)state;
    enum { N = 2000 };
    for (size_t c = 0; c < 2; c++) {
        struct sampler *sampler = sampler_of(levels[c], 6, 0, 0);
        struct world *world = world_new(arrived);
        struct sample sample = {0};
        world->travel_ns = 1;
        struct surroundings now = around(world);
        ok(sample_begin(&sample, sampler, N, &now));
        for (size_t i = 0; i < N; i++) {
            uint64_t key;
            world->now_ns += 10;
            world->clock++;
            now = around(world);
            ok(sample_take(&sample, &key, 1, &now));
            assert_true(arrived(world, key));
        }
        free(sample.keys);
        sampler_free(sampler);
        free(world);
    }
}

/* Postponing hands out what reuse without it would, each key put off at most once. */
static void postponing_changes_the_order_alone(void **state)
{
    (void)state;
    enum { N = 1000 };
    static bool (*const allocations[])(struct world *, uint64_t) = {everything, nothing, fickle,
                                                                    not_six_classes};
    for (size_t a = 0; a < COUNT(allocations); a++) {
        struct sampler *plain = sampler_of(TERN_BOUNDED, a, 250, 16);
        struct sampler *postponing = sampler_of(TERN_LONG_TERM, a, 250, 16);
        struct world *world = world_new(everything), *other = world_new(allocations[a]);
        struct sample sample = {0}, other_sample = {0};
        uint64_t keys[N], other_keys[N];
        for (int handle = 0; handle < 50; handle++) {
            draw_in_parts(plain, &sample, world, keys, N, 7);
            struct surroundings now = around(other);
            ok(sample_begin(&other_sample, postponing, N, &now));
            other->n_asked = other->n_wanted = 0;
            for (size_t done = 0; done < N; done += 20)
                ok(sample_take(&other_sample, other_keys + done, 20, &now));
            assert_int_equal(other->n_asked, N);
            assert_true(other->n_wanted <= N);
            sample_finish(&other_sample, 0);
            if (allocations[a] == everything || allocations[a] == nothing)
                assert_memory_equal(keys, other_keys, sizeof keys);
            qsort(keys, N, sizeof *keys, by_size);
            qsort(other_keys, N, sizeof *other_keys, by_size);
            assert_memory_equal(keys, other_keys, sizeof keys);
        }
        free(sample.keys);
        free(other_sample.keys);
        sampler_free(plain);
        sampler_free(postponing);
        free(world);
        free(other);
    }
}

/* A sample that is pulled in parts has all its keys here that are here, before it has any other. */
static void postponed_keys_come_last(void **state)
{
    (void)state;
    struct sampler *sampler = sampler_of(TERN_LONG_TERM, 9, 250, 16);
    struct world *world = world_new(not_six_classes);
    struct sample sample = {0};
    uint64_t keys[500];
    draw_in_parts(sampler, &sample, world, keys, COUNT(keys), 10);
    size_t n_here = 0;
    while (n_here < COUNT(keys) && not_six_classes(world, keys[n_here]))
        n_here++;
    assert_true(n_here > 400 && n_here < 500); /* 450 expected */
    for (size_t i = n_here; i < COUNT(keys); i++)
        assert_false(not_six_classes(world, keys[i]));
    free(sample.keys);
    sampler_free(sampler);
    free(world);
}

/* ---- All schemes ------------------------------------------------------------------------------ */

/* Whether two samplers, given these streams, choose the same keys. The worlds of the two differ in where
 * keys are and how time goes by, or are the same. */
static bool choose_the_same(enum tern_conformity level, uint64_t seed, uint64_t other_seed,
                            bool same_world)
{
    enum { N = 20000 };
    struct sampler *first = sampler_of(level, seed, 0, 0);
    struct sampler *second = sampler_of(level, other_seed, 0, 0);
    struct world *world = world_new(fickle),
                 *other = world_new(same_world ? fickle : not_six_classes);
    struct sample sample = {0}, other_sample = {0};
    size_t n_same = 0;
    for (size_t done = 0; done < N; done += 50) {
        uint64_t keys[50], others[50];
        world->now_ns += 10000;
        other->now_ns += same_world ? 10000 : scattered(done) % 1000000;
        other->clock += !same_world;
        draw_in_parts(first, &sample, world, keys, 50, 9);
        draw_in_parts(second, &other_sample, other, others, 50, same_world ? 9 : 50);
        for (size_t i = 0; i < 50; i++)
            n_same += keys[i] == others[i];
    }
    free(sample.keys);
    free(other_sample.keys);
    sampler_free(first);
    sampler_free(second);
    free(world);
    free(other);
    assert_true(n_same == N || n_same < N / 100 || level == TERN_LONG_TERM);
    return n_same == N;
}

static void what_is_chosen_depends_on_the_stream_and_on_what_is_here(void **state)
{
    (void)state;
    for (size_t l = 0; l < COUNT(levels); l++) {
        assert_true(choose_the_same(levels[l], 1, 1, true));
        assert_false(choose_the_same(levels[l], 1, 2, true));
        assert_int_equal(choose_the_same(levels[l], 1, 1, false), levels[l] <= TERN_BOUNDED);
    }
}

/* Every other part is given back, as after a pull that failed. */
static void what_is_given_back_is_handed_out_again(void **state)
{
    (void)state;
    enum { N = 300 };
    static bool (*const allocations[])(struct world *, uint64_t) = {everything, nothing, fickle,
                                                                    not_six_classes};
    for (size_t l = 0; l < 3; l++) {
        for (size_t a = 0; a < COUNT(allocations); a++) {
            struct sampler *smooth = sampler_of(levels[l], a, 20, 4);
            struct sampler *troubled = sampler_of(levels[l], a, 20, 4);
            struct world *world = world_new(everything), *other = world_new(allocations[a]);
            struct sample sample = {0}, other_sample = {0};
            for (int handle = 0; handle < 100; handle++) {
                uint64_t keys[N], others[N];
                draw_in_parts(smooth, &sample, world, keys, N, N);
                struct surroundings now = around(other);
                ok(sample_begin(&other_sample, troubled, N, &now));
                for (size_t done = 0, n; done < N; done += n) {
                    n = 1 + (size_t)(done * 7 + (size_t)handle) % 60;
                    n = n < N - done ? n : N - done;
                    for (int trouble = 0; trouble < handle % 4; trouble++) {
                        ok(sample_take(&other_sample, others + done, n, &now));
                        sample_return(&other_sample, others + done, n);
                    }
                    assert_int_equal(other_sample.n_left, N - done);
                    ok(sample_take(&other_sample, others + done, n, &now));
                }
                sample_finish(&other_sample, 0);
                qsort(keys, N, sizeof *keys, by_size);
                qsort(others, N, sizeof *others, by_size);
                assert_memory_equal(keys, others, sizeof keys);
            }
            free(sample.keys);
            free(other_sample.keys);
            sampler_free(smooth);
            sampler_free(troubled);
            free(world);
            free(other);
        }
    }
}

static void without_memory_there_is_no_sample(void **state)
{
    (void)state;
    struct world *world = world_new(everything);
    struct surroundings now = around(world);
    for (size_t l = 0; l < COUNT(levels); l++) {
        bool reuse = levels[l] == TERN_BOUNDED || levels[l] == TERN_LONG_TERM;
        struct sampler_options options = {.target = &target, .conformity = levels[l]};
        for (uint64_t n = 1; n <= (reuse ? 2 : 1); n++) {
            alloc_fail_at(n);
            assert_null(sampler_new(&options));
            alloc_fail_at(0);
        }
        struct sampler *sampler = sampler_new(&options);
        struct sample sample = {0};
        uint64_t keys[10];
        if (levels[l] != TERN_NON_CONFORM) {
            alloc_fail_at(1);
            refused(sample_begin(&sample, sampler, 10, &now), TERN_NO_MEMORY, "memory", "10 keys");
            alloc_fail_at(0);
            refused(sample_begin(&sample, sampler, SIZE_MAX, &now), TERN_NO_MEMORY, "memory");
        }
        draw_in_parts(sampler, &sample, world, keys, 10, 10);
        free(sample.keys);
        sampler_free(sampler);
    }
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_scheme_keeps_its_level_and_not_the_one_above),
        cmocka_unit_test(the_levels_hold_with_the_usual_pools),
        cmocka_unit_test(independent_samples_are_independent_at_any_distance),
        cmocka_unit_test(reused_samples_depend_on_each_other_up_to_the_bound),
        cmocka_unit_test(long_term_frequencies_withstand_any_allocation),
        cmocka_unit_test(each_pool_is_used_up_evenly_in_fresh_orders),
        cmocka_unit_test(pools_arrive_before_they_are_used),
        cmocka_unit_test(independent_keys_arrive_when_prepared_ahead),
        cmocka_unit_test(keys_stay_until_they_are_used),
        cmocka_unit_test(keys_of_a_long_sample_stay),
        cmocka_unit_test(postponing_changes_the_order_alone),
        cmocka_unit_test(postponed_keys_come_last),
        cmocka_unit_test(what_is_chosen_depends_on_the_stream_and_on_what_is_here),
        cmocka_unit_test(what_is_given_back_is_handed_out_again),
        cmocka_unit_test(without_memory_there_is_no_sample),
    };
    return cmocka_run_group_tests(tests, prepare, end);
}
