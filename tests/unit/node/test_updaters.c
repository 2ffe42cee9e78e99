/*
 * What a push does to a row: addition, the updaters of Tern against one-element references written
 * from their formulas in tern.h, and updaters of the program's own.
 *
 * The references compute in double. Tolerance: 1e-5 (f32) and 1e-12 (f64) times 1 + |wanted|, for 40
 * updates of size 1 in a row.
 */
#include "support/check.h"

#include <math.h>
#include <pthread.h>

enum { N_KEYS = 20, N_ROUNDS = 40, MAX_LENGTH = 67 };

/* ---- References ------------------------------------------------------------------------------ */

/* One element with its state. */
struct element {
    double w;
    double first;  /* m, s or z */
    double second; /* v or n */
    double t;
};

typedef void reference(const double *p, struct element *e, double g);
typedef void reference_reset(const double *p, struct element *e);

static void add_reference(const double *p, struct element *e, double g)
{
    (void)p;
    e->w += g;
}

static void sgd_reference(const double *p, struct element *e, double g)
{
    e->w -= p[0] * g;
}

static void momentum_reference(const double *p, struct element *e, double g)
{
    e->first = p[1] * e->first + g;
    e->w -= p[0] * e->first;
}

static void adagrad_reference(const double *p, struct element *e, double g)
{
    e->first += g * g;
    e->w -= p[0] * g / (sqrt(e->first) + p[1]);
}

static void adam_reference(const double *p, struct element *e, double g)
{
    e->first = p[1] * e->first + (1 - p[1]) * g;
    e->second = p[2] * e->second + (1 - p[2]) * g * g;
    e->t += 1;
    double m = e->first / (1 - pow(p[1], e->t));
    double v = e->second / (1 - pow(p[2], e->t));
    e->w -= p[0] * m / (sqrt(v) + p[3]);
}

static double sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

static void ftrl_reference(const double *p, struct element *e, double g)
{
    double alpha = p[0], beta = p[1], l1 = p[2], l2 = p[3];
    double s = (sqrt(e->second + g * g) - sqrt(e->second)) / alpha;
    e->first += g - s * e->w;
    e->second += g * g;
    double z = e->first;
    e->w = fabs(z) <= l1 ? 0 : -(z - sign(z) * l1) / ((beta + sqrt(e->second)) / alpha + l2);
}

static void zero_reset(const double *p, struct element *e)
{
    (void)p;
    e->first = e->second = e->t = 0;
}

/* z such that the formula gives the present w. */
static void ftrl_reset(const double *p, struct element *e)
{
    e->first = -e->w * (p[1] / p[0] + p[3]) - sign(e->w) * p[2];
    e->second = 0;
}

struct subject {
    struct tern_updater updater;
    reference *apply;
    reference_reset *reset;
    double p[4]; /* as given to the function that made the updater */
};

static struct subject subjects[6];

static int make_subjects(void **state)
{
    (void)state;
    subjects[0] = (struct subject){{0}, add_reference, zero_reset, {0}};
    subjects[1] = (struct subject){tern_updater_sgd(0.3), sgd_reference, zero_reset, {0.3}};
    subjects[2] = (struct subject){
        tern_updater_momentum(0.05, 0.9), momentum_reference, zero_reset, {0.05, 0.9}};
    subjects[3] = (struct subject){
        tern_updater_adagrad(0.2, 1e-3), adagrad_reference, zero_reset, {0.2, 1e-3}};
    subjects[4] = (struct subject){tern_updater_adam(0.01, 0.9, 0.999, 1e-6),
                                   adam_reference,
                                   zero_reset,
                                   {0.01, 0.9, 0.999, 1e-6}};
    subjects[5] = (struct subject){
        tern_updater_ftrl(0.1, 1.0, 0.5, 0.01), ftrl_reference, ftrl_reset, {0.1, 1.0, 0.5, 0.01}};
    return 0;
}

/* ---- Built-in updaters ----------------------------------------------------------------------- */

static const char *name_of(const struct subject *subject)
{
    return subject->updater.name != NULL ? subject->updater.name : "addition";
}

struct trial {
    const struct subject *subject;
    struct tern_worker *worker;
    struct tern_table *table;
    enum tern_type type;
    size_t length;
    struct element *elements; /* N_KEYS * length */
};

static void compare(const struct trial *trial)
{
    uint64_t keys[N_KEYS];
    double values[N_KEYS * MAX_LENGTH];
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = i;
    ok(tern_pull(trial->worker, trial->table, keys, N_KEYS, values));
    for (size_t i = 0; i < N_KEYS * trial->length; i++) {
        double got = element_get(trial->type, values, i);
        double wanted = trial->elements[i].w;
        double tolerance = (trial->type == TERN_F32 ? 1e-5 : 1e-12) * (1 + fabs(wanted));
        if (!(fabs(got - wanted) <= tolerance))
            fail_msg("%s, %s, length %zu, element %zu: %.12g, not %.12g", name_of(trial->subject),
                     type_name(trial->type), trial->length, i, got, wanted);
    }
}

/* Pushes one update to each key of [first, first + n), and to the reference what really was sent. */
static void push_some(const struct trial *trial, struct dice *dice, uint64_t first, size_t n)
{
    uint64_t keys[N_KEYS];
    double updates[N_KEYS * MAX_LENGTH];
    for (size_t i = 0; i < n; i++)
        keys[i] = first + i;
    for (size_t i = 0; i < n * trial->length; i++) {
        element_put(trial->type, updates, i, 2 * dice_unit(dice) - 1);
        trial->subject->apply(trial->subject->p, &trial->elements[first * trial->length + i],
                              element_get(trial->type, updates, i));
    }
    ok(tern_push(trial->worker, trial->table, keys, n, updates));
}

static void set_one(const struct trial *trial, uint64_t key, double x)
{
    double values[MAX_LENGTH];
    for (size_t j = 0; j < trial->length; j++) {
        element_put(trial->type, values, j, x);
        struct element *e = &trial->elements[key * trial->length + j];
        e->w = element_get(trial->type, values, j);
        trial->subject->reset(trial->subject->p, e);
    }
    ok(tern_set(trial->worker, trial->table, &key, 1, values));
}

static void follow_the_reference(struct place *place, const struct subject *subject,
                                 enum tern_index index, enum tern_type type, uint32_t length)
{
    struct tern_table_options options = shape(index, type, N_KEYS, length);
    options.updater = subject->updater;
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = -0.75};
    struct trial trial = {.subject = subject,
                          .worker = place->worker,
                          .table = table_of(place->node, "trained", options),
                          .type = type,
                          .length = length,
                          .elements = array_of((size_t)N_KEYS * length, sizeof(struct element))};
    for (size_t i = 0; i < (size_t)N_KEYS * length; i++) {
        trial.elements[i].w = -0.75;
        subject->reset(subject->p, &trial.elements[i]);
    }
    struct dice dice = {length};
    for (int round = 0; round < N_ROUNDS; round++) {
        uint64_t first = dice_below(&dice, N_KEYS);
        push_some(&trial, &dice, first, 1 + dice_below(&dice, N_KEYS - first));
        if (round % 10 == 5)
            set_one(&trial, dice_below(&dice, N_KEYS), (double)round / 8);
        if (round % 8 == 7)
            compare(&trial);
    }
    free(trial.elements);
    ok(tern_table_close(trial.table));
}

static void every_updater_follows_its_formula(void **state)
{
    static const uint32_t lengths[] = {1, 5, 16, MAX_LENGTH};
    for (size_t s = 0; s < COUNT(subjects); s++)
        for (int index = TERN_DENSE; index <= TERN_SPARSE; index++)
            for (int type = TERN_F32; type <= TERN_F64; type++)
                for (size_t l = 0; l < COUNT(lengths); l++)
                    follow_the_reference(*state, &subjects[s], (enum tern_index)index,
                                         (enum tern_type)type, lengths[l]);
}

static void duplicates_in_a_push_are_applied_one_after_the_other(void **state)
{
    struct place *place = *state;
    for (size_t s = 0; s < COUNT(subjects); s++) {
        struct tern_table_options options = shape(TERN_SPARSE, TERN_F64, 0, 1);
        options.updater = subjects[s].updater;
        struct tern_table *table = table_of(place->node, "thrice", options);
        uint64_t keys[] = {8, 8, 9, 8};
        double updates[] = {1.5, 1.5, 1.5, 1.5};
        ok(tern_push(place->worker, table, keys, 4, updates));
        double values[4];
        ok(tern_pull(place->worker, table, keys, 4, values));
        struct element once = {0}, thrice = {0};
        subjects[s].apply(subjects[s].p, &once, 1.5);
        for (int i = 0; i < 3; i++)
            subjects[s].apply(subjects[s].p, &thrice, 1.5);
        assert_true(fabs(values[2] - once.w) <= 1e-12);
        for (size_t i = 0; i < 4; i += i == 1 ? 2 : 1)
            assert_true(fabs(values[i] - thrice.w) <= 1e-12);
        ok(tern_table_close(table));
    }
}

static void ftrl_keeps_the_value_a_row_already_has(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F64, 0, 4);
    options.updater = tern_updater_ftrl(0.1, 1, 0.5, 0.01);
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 0.25};
    struct tern_table *table = table_of(place->node, "kept", options);
    uint64_t keys[] = {1, 2};
    double nothing[8] = {0};
    double values[8] = {0.7, -0.7, 0.001, 0};
    ok(tern_set(place->worker, table, keys, 1, values));
    ok(tern_push(place->worker, table, keys, 2, nothing));
    ok(tern_pull(place->worker, table, keys, 2, values));
    const double wanted[8] = {0.7, -0.7, 0.001, 0, 0.25, 0.25, 0.25, 0.25};
    for (size_t i = 0; i < 8; i++)
        assert_true(fabs(values[i] - wanted[i]) <= 1e-12);
    ok(tern_table_close(table));
}

static void parameters_out_of_their_sense_are_refused(void **state)
{
    struct place *place = *state;
    const struct {
        struct tern_updater updater;
        const char *name, *parameter;
    } bad[] = {
        {tern_updater_sgd(0), "sgd", "rate"},
        {tern_updater_sgd(-0.1), "sgd", "rate"},
        {tern_updater_sgd((double)NAN), "sgd", "rate"},
        {tern_updater_sgd((double)INFINITY), "sgd", "rate"},
        {tern_updater_momentum(0, 0.9), "momentum", "rate"},
        {tern_updater_momentum(0.1, -0.9), "momentum", "decay"},
        {tern_updater_momentum(0.1, (double)NAN), "momentum", "decay"},
        {tern_updater_adagrad(0, 1e-6), "adagrad", "rate"},
        {tern_updater_adagrad(0.1, -1e-6), "adagrad", "epsilon"},
        {tern_updater_adagrad(0.1, (double)INFINITY), "adagrad", "epsilon"},
        {tern_updater_adam(0, 0.9, 0.999, 1e-8), "adam", "rate"},
        {tern_updater_adam(0.1, -0.9, 0.999, 1e-8), "adam", "beta1"},
        {tern_updater_adam(0.1, 0.9, (double)NAN, 1e-8), "adam", "beta2"},
        {tern_updater_adam(0.1, 0.9, 0.999, -1), "adam", "epsilon"},
        {tern_updater_ftrl(0, 1, 0.1, 0.1), "ftrl", "alpha"},
        {tern_updater_ftrl(-1, 1, 0.1, 0.1), "ftrl", "alpha"},
        {tern_updater_ftrl(0.1, (double)NAN, 0.1, 0.1), "ftrl", "beta"},
        {tern_updater_ftrl(0.1, 1, -0.1, 0.1), "ftrl", "l1"},
        {tern_updater_ftrl(0.1, 1, 0.1, -(double)INFINITY), "ftrl", "l2"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct tern_table_options options = shape(TERN_DENSE, TERN_F32, 4, 2);
        options.updater = bad[i].updater;
        struct tern_table *table = NULL;
        refused(tern_table_open(place->node, "bad", &options, &table), TERN_INVALID, bad[i].name,
                bad[i].parameter);
        assert_null(table);
    }
}

static void integer_tables_have_no_floating_updaters(void **state)
{
    struct place *place = *state;
    for (size_t s = 1; s < COUNT(subjects); s++) {
        for (int type = TERN_I32; type <= TERN_I64; type++) {
            struct tern_table_options options = shape(TERN_DENSE, (enum tern_type)type, 4, 2);
            options.updater = subjects[s].updater;
            struct tern_table *table = NULL;
            refused(tern_table_open(place->node, "whole", &options, &table), TERN_INVALID,
                    subjects[s].updater.name);
            assert_null(table);
        }
    }
}

/* ---- The program's own ----------------------------------------------------------------------- */

enum { PER_ELEMENT = 2, PER_ROW = 3, OWN_LENGTH = 5 };

static size_t last_of_state(size_t length)
{
    return length * PER_ELEMENT + PER_ROW - 1;
}

/* value = sum of updates + 100 * number of updates, kept in the state; the sum starts as the value
 * the row got by initialisation or set, the number as 1. */
static void own_apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                      void *value, void *state, const void *update)
{
    int *n_calls = updater->context;
    ++*n_calls;
    holds(updater->parameters[4] == 2.5 && length == OWN_LENGTH);
    holds((uintptr_t)value % element_size(type) == 0 && (uintptr_t)state % element_size(type) == 0);
    double number = element_get(type, state, last_of_state(length)) + 1;
    element_put(type, state, last_of_state(length), number);
    for (size_t j = 0; j < length; j++) {
        double sum = element_get(type, state, PER_ELEMENT * j) + element_get(type, update, j);
        element_put(type, state, PER_ELEMENT * j, sum);
        element_put(type, state, PER_ELEMENT * j + 1, -1);
        element_put(type, value, j, sum + 100 * number);
    }
}

static void own_reset(const struct tern_updater *updater, enum tern_type type, size_t length,
                      const void *value, void *state)
{
    holds(updater->parameters[4] == 2.5 && length == OWN_LENGTH);
    for (size_t j = 0; j < length; j++)
        element_put(type, state, PER_ELEMENT * j, element_get(type, value, j));
    element_put(type, state, last_of_state(length), 1);
}

static void push_all_equal(struct place *place, struct tern_table *table, enum tern_type type,
                           uint64_t key, double x)
{
    double update[OWN_LENGTH];
    element_fill(type, update, OWN_LENGTH, x);
    ok(tern_push(place->worker, table, &key, 1, update));
}

static void assert_all_equal(struct place *place, struct tern_table *table, enum tern_type type,
                             uint64_t key, double x)
{
    double value[OWN_LENGTH];
    ok(tern_pull(place->worker, table, &key, 1, value));
    for (size_t j = 0; j < OWN_LENGTH; j++)
        assert_true(element_get(type, value, j) == x);
}

static void check_own_updater(struct place *place, enum tern_index index, enum tern_type type,
                              bool with_reset)
{
    int n_calls = 0;
    char name[] = "own";
    struct tern_table_options options = shape(index, type, 10, OWN_LENGTH);
    options.updater = (struct tern_updater){.name = name,
                                            .state_per_element = PER_ELEMENT,
                                            .state_per_row = PER_ROW,
                                            .apply = own_apply,
                                            .reset = with_reset ? own_reset : NULL,
                                            .parameters = {[4] = 2.5},
                                            .context = &n_calls};
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 7};
    struct tern_table *table = table_of(place->node, "own", options);
    memset(name, 'x', sizeof name - 1);

    double start = with_reset ? 7 : 0; /* of the sum kept in the state */
    double number = with_reset ? 1 : 0;
    push_all_equal(place, table, type, 3, 2);
    push_all_equal(place, table, type, 3, 3);
    push_all_equal(place, table, type, 4, 1);
    assert_all_equal(place, table, type, 3, start + 5 + 100 * (number + 2));
    assert_all_equal(place, table, type, 4, start + 1 + 100 * (number + 1));
    assert_all_equal(place, table, type, 5, 7);
    assert_int_equal(n_calls, 3);

    double value[OWN_LENGTH];
    element_fill(type, value, OWN_LENGTH, 50);
    uint64_t key = 3;
    ok(tern_set(place->worker, table, &key, 1, value));
    assert_all_equal(place, table, type, 3, 50);
    push_all_equal(place, table, type, 3, 2);
    start = with_reset ? 50 : 0;
    assert_all_equal(place, table, type, 3, start + 2 + 100 * (number + 1));
    assert_int_equal(n_calls, 4); /* set did not go through it */
    all_held();
    ok(tern_table_close(table));
}

static void an_updater_of_the_program_has_its_state_and_reset(void **state)
{
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++)
        for (int type = TERN_F32; type <= TERN_I64; type++)
            for (int with_reset = 0; with_reset <= 1; with_reset++)
                check_own_updater(*state, (enum tern_index)index, (enum tern_type)type, with_reset);
}

static void state_is_memory_but_not_value(void **state)
{
    struct place *place = *state;
    int n_calls = 0;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, OWN_LENGTH);
    options.updater = (struct tern_updater){.name = "own",
                                            .state_per_element = PER_ELEMENT,
                                            .state_per_row = PER_ROW,
                                            .apply = own_apply,
                                            .parameters = {[4] = 2.5},
                                            .context = &n_calls};
    struct tern_table *table = table_of(place->node, "own", options);
    for (uint64_t key = 0; key < 100; key++)
        push_all_equal(place, table, TERN_F32, key, 1);
    struct tern_table_stats stats = stats_of(table);
    assert_int_equal(stats.value_bytes, 100 * OWN_LENGTH * sizeof(float));
    assert_true(stats.memory_bytes >=
                100 * (OWN_LENGTH * (1 + PER_ELEMENT) + PER_ROW) * sizeof(float));
    ok(tern_table_close(table));
}

static void an_updater_without_its_function_is_refused(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, 4, 2);
    options.updater = (struct tern_updater){.name = "hollow"};
    struct tern_table *table = NULL;
    refused(tern_table_open(place->node, "bad", &options, &table), TERN_INVALID, "hollow", "apply");
    assert_null(table);
}

/* ---- One call at a time per row -------------------------------------------------------------- */

#ifdef UNDER_TSAN
enum { N_PUSHES = 500 };
#else
enum { N_PUSHES = 5000 };
#endif
enum { N_THREADS = 4, N_HOT = 3 };

static atomic_int inside[N_HOT];

/* The row's first element names it; the second counts, with a plain read and write. */
static void guarded_apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                          void *value, void *state, const void *update)
{
    (void)updater;
    (void)type;
    (void)length;
    int64_t *row = value;
    int64_t *count = state;
    size_t key = (size_t)((const int64_t *)update)[0];
    holds(atomic_fetch_add(&inside[key], 1) == 0);
    row[0] = ++*count;
    row[1] = -*count;
    atomic_fetch_sub(&inside[key], 1);
}

struct pusher {
    pthread_t thread;
    struct place *place;
    struct tern_table *table;
};

static void *push_to_hot_rows(void *argument)
{
    struct pusher *pusher = argument;
    struct tern_worker *worker;
    if (!holds(tern_worker_open(pusher->place->node, &worker) == TERN_OK))
        return NULL;
    for (size_t i = 0; i < N_PUSHES; i++) {
        uint64_t key = i % N_HOT;
        int64_t value[2] = {(int64_t)key, 0};
        holds(tern_push(worker, pusher->table, &key, 1, value) == TERN_OK);
        holds(tern_pull(worker, pusher->table, &key, 1, value) == TERN_OK);
        holds(value[0] == -value[1] && value[0] > 0);
    }
    holds(tern_worker_close(worker) == TERN_OK);
    return NULL;
}

static void an_updater_runs_one_call_at_a_time_per_row(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table_options options = shape((enum tern_index)index, TERN_I64, N_HOT, 2);
        options.updater =
            (struct tern_updater){.name = "guarded", .state_per_row = 1, .apply = guarded_apply};
        struct tern_table *table = table_of(place->node, "hot", options);
        struct pusher pushers[N_THREADS];
        for (size_t i = 0; i < N_THREADS; i++) {
            pushers[i] = (struct pusher){.place = place, .table = table};
            assert_int_equal(
                pthread_create(&pushers[i].thread, NULL, push_to_hot_rows, &pushers[i]), 0);
        }
        for (size_t i = 0; i < N_THREADS; i++)
            pthread_join(pushers[i].thread, NULL);
        all_held();
        uint64_t keys[N_HOT] = {0, 1, 2};
        int64_t values[2 * N_HOT];
        ok(tern_pull(place->worker, table, keys, N_HOT, values));
        assert_int_equal(values[0] + values[2] + values[4], N_THREADS * N_PUSHES);
        ok(tern_table_close(table));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(every_updater_follows_its_formula),
        placed(duplicates_in_a_push_are_applied_one_after_the_other),
        placed(ftrl_keeps_the_value_a_row_already_has),
        placed(parameters_out_of_their_sense_are_refused),
        placed(integer_tables_have_no_floating_updaters),
        placed(an_updater_of_the_program_has_its_state_and_reset),
        placed(state_is_memory_but_not_value),
        placed(an_updater_without_its_function_is_refused),
        placed(an_updater_runs_one_call_at_a_time_per_row),
    };
    return cmocka_run_group_tests(tests, make_subjects, NULL);
}
