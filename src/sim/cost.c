/* cost - see cost.h. */
#include "sim/cost.h"

#include <math.h>
#include <stdlib.h>

enum { N = TERN_SIM_COSTS, FITS = 3 };

/* A sample that took longer than so many times what is expected, and so much more, was interrupted. */
static const double most_times = 3, most_more_ns = 2000;

/* Errors count relative to what is expected, which is taken to be this much at least. */
static const double least_ns = 300;

bool cost_samples_add(struct cost_samples *samples, const struct cost_sample *sample)
{
    if (samples->n == samples->max) {
        const size_t max = samples->max ? 2 * samples->max : 1024;
        struct cost_sample *grown = realloc(samples->at, max * sizeof *grown);
        if (!grown)
            return false;
        samples->at = grown;
        samples->max = max;
    }
    samples->at[samples->n++] = *sample;
    return true;
}

void cost_samples_free(struct cost_samples *samples)
{
    free(samples->at);
    *samples = (struct cost_samples){0};
}

double cost_of(const struct tern_sim_costs *costs, const double amounts[N])
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += costs->ns[i] * amounts[i];
    return sum;
}

static double expected_ns(const struct tern_sim_costs *costs, const struct cost_sample *sample)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += costs->ns[i] * (double)sample->amounts[i];
    return sum;
}

/* The normal equations of the samples that count. */
struct equations {
    double left[N][N], right[N];
};

static void sum_up(const struct cost_samples *samples, const struct tern_sim_costs *costs,
                   struct equations *equations)
{
    *equations = (struct equations){0};
    for (size_t s = 0; s < samples->n; s++) {
        const struct cost_sample *sample = &samples->at[s];
        if (costs && (double)sample->ns > most_times * expected_ns(costs, sample) + most_more_ns)
            continue;
        const double weight = costs ? 1 / (expected_ns(costs, sample) + least_ns) : 1;
        for (int i = 0; i < N; i++) {
            const double amount = weight * weight * (double)sample->amounts[i];
            equations->right[i] += amount * (double)sample->ns;
            for (int j = 0; j < N; j++)
                equations->left[i][j] += amount * (double)sample->amounts[j];
        }
    }
}

static void swap_rows(struct equations *equations, int a, int b)
{
    for (int j = 0; j < N; j++) {
        const double left = equations->left[a][j];
        equations->left[a][j] = equations->left[b][j];
        equations->left[b][j] = left;
    }
    const double right = equations->right[a];
    equations->right[a] = equations->right[b];
    equations->right[b] = right;
}

/* Solves those of the equations whose unknown is used, by elimination; what cannot be told apart is 0. */
static void solve(struct equations equations, const bool used[N], double found[N])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            if (!used[i] || !used[j])
                equations.left[i][j] = i == j;
    for (int i = 0; i < N; i++)
        equations.right[i] = used[i] ? equations.right[i] : 0;
    for (int i = 0; i < N; i++) {
        int best = i;
        for (int k = i + 1; k < N; k++)
            if (fabs(equations.left[k][i]) > fabs(equations.left[best][i]))
                best = k;
        swap_rows(&equations, i, best);
        const double pivot = equations.left[i][i];
        for (int k = 0; k < N; k++) {
            if (k == i || fabs(pivot) < 1e-12)
                continue;
            const double times = equations.left[k][i] / pivot;
            for (int j = i; j < N; j++)
                equations.left[k][j] -= times * equations.left[i][j];
            equations.right[k] -= times * equations.right[i];
        }
    }
    for (int i = 0; i < N; i++) {
        const double pivot = equations.left[i][i];
        found[i] = fabs(pivot) < 1e-12 ? 0 : equations.right[i] / pivot;
    }
}

void cost_fit(const struct cost_samples *samples, struct tern_sim_costs *costs)
{
    struct equations equations;
    struct tern_sim_costs fitted = {{0}};
    bool occurs[N];
    for (int fit = 0; fit < FITS; fit++) {
        bool used[N], has_negative = true;
        sum_up(samples, fit ? &fitted : NULL, &equations);
        for (int i = 0; i < N; i++)
            used[i] = occurs[i] = equations.left[i][i] > 0;
        while (has_negative) {
            has_negative = false;
            solve(equations, used, fitted.ns);
            for (int i = 0; i < N; i++) {
                has_negative |= used[i] && fitted.ns[i] < 0;
                used[i] &= fitted.ns[i] >= 0;
            }
        }
    }
    for (int i = 0; i < N; i++)
        if (occurs[i])
            costs->ns[i] = fitted.ns[i];
}
