/*
 * bench_linear_base - liblinear and scikit-learn, beside which tern bench linear measures. See bench_linear.h.
 *
 * Neither is needed to build Tern: liblinear's library is loaded when it is there, and scikit-learn runs in a Python of
 * its own. Both get the examples in memory before the clock starts.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_linear.h"
#include "common/examples.h"
#include "common/loss.h"
#include "common/progress.h"

/* As linear.h of liblinear 2 has them. Later versions have more parameters behind these, which are 0. */
struct feature_node {
    int index;
    double value;
};

struct problem {
    int l, n;
    double *y;
    struct feature_node **x;
    double bias;
};

struct parameter {
    int solver_type;
    double eps, C;
    int nr_weight;
    int *weight_label;
    double *weight;
    double p;
    double further[8];
};

enum { L1R_LR = 6 };

struct liblinear {
    void *library;
    void *(*train)(const struct problem *problem, const struct parameter *parameter);
    void (*get_labels)(const void *model, int *labels);
    double (*weight)(const void *model, int feature, int label);
    void (*destroy)(void **model);
    void (*set_print)(void (*print)(const char *text));
};

static bool find(const struct liblinear *liblinear, const char *name, void *function)
{
    void *found = dlsym(liblinear->library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool open_library(struct liblinear *liblinear)
{
    static const char *const names[] = {"liblinear.so.4", "liblinear.so.5", "liblinear.so.3"};
    for (size_t i = 0; liblinear->library == NULL && i < sizeof names / sizeof *names; i++)
        liblinear->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return liblinear->library != NULL && find(liblinear, "train", &liblinear->train) &&
           find(liblinear, "get_labels", &liblinear->get_labels) &&
           find(liblinear, "get_decfun_coef", &liblinear->weight) &&
           find(liblinear, "free_and_destroy_model", &liblinear->destroy) &&
           find(liblinear, "set_print_string_function", &liblinear->set_print);
}

static void say_nothing(const char *text)
{
    (void)text;
}

/* ---- Examples --------------------------------------------------------------------------------- */

static bool read_examples(const char *data, struct examples *list)
{
    struct examples_source source;
    if (!examples_open(&source, data, &(struct examples_options){.is_binary = true}))
        return false;
    bool ok = examples_read_all(&source, 1, list);
    examples_close(&source);
    return ok;
}

/* Rows end with the index -1. */
static bool make_problem(const struct examples *list, struct problem *problem,
                         struct feature_node **nodes)
{
    *nodes = malloc((list->n_features + list->n + 1) * sizeof **nodes);
    *problem = (struct problem){.l = (int)list->n,
                                .y = malloc((list->n + 1) * sizeof *problem->y),
                                .x = malloc((list->n + 1) * sizeof *problem->x),
                                .bias = -1};
    if (*nodes == NULL || problem->y == NULL || problem->x == NULL)
        return false;
    struct feature_node *next = *nodes;
    for (size_t row = 0; row < list->n; row++) {
        problem->x[row] = next;
        problem->y[row] = (double)list->labels[row];
        for (size_t i = list->start[row]; i < list->start[row + 1]; i++) {
            if (list->keys[i] == 0 || list->keys[i] > 1000000000)
                return false;
            *next++ = (struct feature_node){(int)list->keys[i], (double)list->values[i]};
            if (problem->n < (int)list->keys[i])
                problem->n = (int)list->keys[i];
        }
        *next++ = (struct feature_node){-1, 0};
    }
    return true;
}

static double objective_of(const struct examples *list, const double *weights, int n_weights)
{
    double sum = 0;
    for (int j = 0; j <= n_weights; j++)
        sum += fabs(weights[j]);
    for (size_t row = 0; row < list->n; row++) {
        double margin = 0;
        for (size_t i = list->start[row]; i < list->start[row + 1]; i++)
            margin += weights[list->keys[i]] * (double)list->values[i];
        sum += loss_value(LOSS_LOGISTIC, margin, (double)list->labels[row]);
    }
    return sum;
}

/* ---- Runs ------------------------------------------------------------------------------------- */

static void run_liblinear(const struct liblinear *liblinear, const struct examples *list,
                          const struct problem *problem, double tolerance, struct curve *curve)
{
    const struct parameter parameter = {.solver_type = L1R_LR, .eps = tolerance, .C = 1, .p = 0.1};
    double *weights = calloc((size_t)problem->n + 1, sizeof *weights);
    const double started_s = seconds_now();
    void *model = liblinear->train(problem, &parameter);
    const double seconds = seconds_now() - started_s;
    int labels[2] = {1, -1};
    liblinear->get_labels(model, labels);
    for (int j = 1; weights != NULL && j <= problem->n; j++)
        weights[j] = labels[0] * liblinear->weight(model, j, 0);
    if (weights != NULL) {
        curve->x[curve->n] = seconds;
        curve->y[curve->n++] = objective_of(list, weights, problem->n);
    }
    liblinear->destroy(&model);
    free(weights);
}

bool baseline_liblinear(const char *data, double enough, struct curve *curve)
{
    static const double tolerances[] = {0.3,   0.2,  0.14,  0.1,   0.07,  0.05, 0.04, 0.03,   0.02,
                                        0.014, 0.01, 0.007, 0.005, 0.004, 3e-3, 2e-3, 1.4e-3, 1e-3};
    struct liblinear liblinear = {0};
    struct examples list = {0};
    struct problem problem = {0};
    struct feature_node *nodes = NULL;
    bool ok = open_library(&liblinear) && read_examples(data, &list) &&
              make_problem(&list, &problem, &nodes);
    for (size_t i = 0; ok && i < sizeof tolerances / sizeof *tolerances &&
                       (i == 0 || curve->y[curve->n - 1] > enough);
         i++) {
        liblinear.set_print(say_nothing);
        run_liblinear(&liblinear, &list, &problem, tolerances[i], curve);
    }
    free(problem.x);
    free(problem.y);
    free(nodes);
    examples_fini(&list);
    if (liblinear.library != NULL)
        dlclose(liblinear.library);
    return ok;
}

/* Prints seconds and objective for 1, 2, 5 ... passes of saga, until the objective is low enough. */
static const char SCRIPT[] =
    "import os, time, warnings, numpy as np\n"
    "from sklearn.datasets import load_svmlight_file\n"
    "from sklearn.linear_model import LogisticRegression\n"
    "warnings.simplefilter('ignore')\n"
    "X, y = load_svmlight_file(os.environ['TERN_BENCH_DATA'])\n"
    "y = np.where(y > 0, 1.0, -1.0)\n"
    "for n in (1, 2, 5, 10):\n"
    "    model = LogisticRegression(penalty='l1', solver='saga', fit_intercept=False, tol=0, "
    "max_iter=n)\n"
    "    start = time.monotonic(); model.fit(X, y); end = time.monotonic()\n"
    "    w = model.coef_[0]\n"
    "    value = np.logaddexp(0, -y * (X @ w)).sum() + abs(w).sum()\n"
    "    print(end - start, value, flush=True)\n"
    "    if value <= float(os.environ['TERN_BENCH_ENOUGH']): break\n";

bool baseline_sklearn(const char *data, double enough, struct curve *curve)
{
    char command[sizeof SCRIPT + 64], line[128], text[32];
    snprintf(text, sizeof text, "%.17g", enough);
    (void)setenv("TERN_BENCH_DATA", data, 1);
    (void)setenv("TERN_BENCH_ENOUGH", text, 1);
    for (int i = 0; i < 2 && curve->n == 0; i++) {
        snprintf(command, sizeof command, "%s -c \"%s\" 2>/dev/null",
                 i == 0 ? "python3" : "/usr/bin/python3", SCRIPT);
        FILE *output = popen(command, "r");
        while (output != NULL && fgets(line, sizeof line, output) != NULL &&
               curve->n < CURVE_MAX_POINTS)
            if (sscanf(line, "%lf %lf", &curve->x[curve->n], &curve->y[curve->n]) == 2)
                curve->n++;
        if (output != NULL)
            (void)pclose(output);
    }
    return curve->n > 0;
}
