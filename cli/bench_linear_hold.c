/*
 * bench_linear_hold - the figure `stragglers` of tern bench linear: updates that come late (Figures 8.3 to 8.5 of M. Li's
 * thesis).
 *
 * One pass over the examples in batches of ten, whose gradients are kept back (--hold) by 1, 2 and 4 % of all updates in the
 * mean: uniformly, and as if half of the workers were slow. For each set of data, updater and delay the learning rate with
 * the lowest progressive log loss is taken; a row has the medians over the sets. Every run is one thread, so nothing
 * depends on how fast the machine is.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench_linear.h"
#include "bench_train.h"
#include "quantile.h"
#include "steps.h"

enum { N_UPDATERS = 3, N_RULES = 2, N_SHARES = 4, N_RATES = 7, BATCH = 10 };

static const char *const updaters[N_UPDATERS] = {"asyncadagrad", "adadelay", "adaptiverevision"};
static const char *const rules[N_RULES] = {"uniform", "half-slow"};
static const int shares[N_SHARES] = {0, 1, 2, 4}; /* percent of all updates */

/* Steps of two; AdaptiveRevision's best one lies in the middle. */
static const char *const rates[N_RATES] = {"0.0044", "0.0088", "0.0175", "0.035",
                                           "0.07",   "0.14",   "0.28"};

/* What the best rate gives on one set of data. */
struct outcome {
    double loss, rate, memory;
};

struct trial {
    const char *updater, *rule;
    int share;
    size_t n_updates;
};

static bool best_rate(struct linear_bench *bench, const struct trial *trial, struct outcome *best)
{
    static struct training training;
    char hold[48], batch[16];
    snprintf(hold, sizeof hold, "%s:%zu", trial->rule,
             (trial->n_updates * (size_t)trial->share + 50) / 100);
    snprintf(batch, sizeof batch, "%d", BATCH);
    *best = (struct outcome){.loss = (double)INFINITY};
    for (size_t i = 0; i < N_RATES; i++) {
        const struct setting setting = {hold,
                                        {"--threads", "1", "--solver", "online", "--metric",
                                         "log_loss", "--updater", trial->updater, "--batch", batch,
                                         "--rate", rates[i], trial->share > 0 ? "--hold" : NULL,
                                         hold}};
        steps_next("%s, %s, rate %s", trial->updater, trial->share > 0 ? hold : "no delay",
                   rates[i]);
        if (!bench_linear_train(bench, &setting, 1, &training))
            return false;
        const double loss = bench_linear_value(&training, 0, EPOCH_LOSS);
        if (loss < best->loss)
            *best = (struct outcome){loss, atof(rates[i]),
                                     bench_linear_value(&training, 0, EPOCH_MEMORY_BYTES)};
    }
    return true;
}

/* All delays and updaters on one set of data. Without delay the rules are the same, and so are the updaters. */
static bool run_set(struct linear_bench *bench, size_t n_rows,
                    struct outcome outcomes[N_RULES][N_UPDATERS][N_SHARES])
{
    bool ok = true;
    for (size_t u = 0; u < N_UPDATERS; u++)
        for (size_t r = 0; r < N_RULES; r++)
            for (size_t s = 0; ok && s < N_SHARES; s++) {
                const struct trial trial = {updaters[u], rules[r], shares[s], n_rows / BATCH};
                if (s == 0 && r > 0)
                    outcomes[r][u][s] = outcomes[0][u][s];
                else
                    ok = best_rate(bench, &trial, &outcomes[r][u][s]);
            }
    return ok;
}

/* Adds the row of a rule, an updater and a delay, and the point of its curve. */
static void add_row(struct linear_bench *bench, const struct outcome *outcomes[], size_t n_sets,
                    size_t r, size_t u, size_t s, struct curve *curve)
{
    double losses[LINEAR_MAX_REPEATS], ratios[LINEAR_MAX_REPEATS];
    double low = (double)INFINITY, high = 0;
    char name[48];
    const size_t at = (r * N_UPDATERS + u) * N_SHARES + s, base = r * N_UPDATERS * N_SHARES + s;
    for (size_t i = 0; i < n_sets; i++) {
        losses[i] = outcomes[i][at].loss;
        ratios[i] = 100 * (outcomes[i][at].loss / outcomes[i][base].loss - 1);
        low = fmin(low, outcomes[i][at].rate);
        high = fmax(high, outcomes[i][at].rate);
    }
    snprintf(name, sizeof name, "%s, %s %d %%", updaters[u], rules[r], shares[s]);
    struct curve *row = bench_linear_curve(bench, name);
    row->values[0] = median(losses, n_sets);
    row->values[1] = median(ratios, n_sets);
    row->values[2] = low;
    row->values[3] = high;
    row->values[4] = outcomes[0][at].memory / 1e6;
    bench_linear_point(curve, shares[s], row->values[0]);
}

bool bench_linear_stragglers(struct linear_bench *bench, const struct linear_sets *sets)
{
    const size_t n_each = (size_t)N_RULES * N_UPDATERS * N_SHARES;
    struct outcome *outcomes = calloc(sets->n * n_each, sizeof *outcomes);
    const struct outcome *of_sets[LINEAR_MAX_REPEATS];
    bool ok = outcomes != NULL;
    steps_begin(sets->n * N_UPDATERS * (N_RULES * (N_SHARES - 1) + 1) * N_RATES);
    for (size_t i = 0; ok && i < sets->n; i++) {
        of_sets[i] = outcomes + i * n_each;
        ok = sets->make(bench, i) && run_set(bench, sets->n_rows, (void *)(outcomes + i * n_each));
    }
    for (size_t r = 0; r < N_RULES; r++)
        for (size_t u = 0; ok && u < N_UPDATERS; u++) {
            char name[48];
            snprintf(name, sizeof name, "%s, %s", updaters[u], rules[r]);
            struct curve *curve = bench_linear_curve(bench, name);
            curve->has_row = false;
            for (size_t s = 0; s < N_SHARES; s++)
                add_row(bench, of_sets, sets->n, r, u, s, curve);
        }
    free(outcomes);
    return ok;
}
