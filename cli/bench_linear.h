/*
 * bench_linear - what the figures of tern bench linear are made of, for the files that measure and the one that draws.
 */
#ifndef CLI_BENCH_LINEAR_H
#define CLI_BENCH_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench_train.h"

enum {
    CURVE_MAX_POINTS = 200,
    CURVE_MAX_VALUES = 5,
    BENCH_MAX_CURVES = 32,
    LINEAR_MAX_REPEATS = 25
};

/* One setting: a curve of the picture, a row of the table, or both. */
struct curve {
    char name[48];
    bool has_row;
    size_t n; /* 0: there is nothing to draw */
    double x[CURVE_MAX_POINTS], y[CURVE_MAX_POINTS];
    double values[CURVE_MAX_VALUES]; /* of the figure's columns; NAN: there is none */
};

struct linear_figure;

struct linear_bench {
    const struct linear_figure *figure;
    char folder[480]; /* for files */
    char data[512];
    struct curve *curves;
    size_t n;
    double best; /* the objective at the optimum, as far as it is known */
};

struct linear_figure {
    const char *name, *title, *x_title, *y_title;
    bool log_x, log_y;
    const char *columns[CURVE_MAX_VALUES]; /* their names, also in JSON; NULL past the last */
    bool (*run)(struct linear_bench *bench);
};

/* A way to train: words of `tern train linear`, up to a NULL. */
struct setting {
    const char *name;
    const char *words[16];
};

/* Trains on the benchmark's data. */
bool bench_linear_train(const struct linear_bench *bench, const struct setting *setting,
                        int64_t n_epochs, struct training *training);

/* A figure of an epoch, from 0; 0 if it was not measured. */
double bench_linear_value(const struct training *training, size_t epoch, enum epoch_figure figure);

/* A new curve without points. */
struct curve *bench_linear_curve(struct linear_bench *bench, const char *name);
void bench_linear_point(struct curve *curve, double x, double y);

/* Several sets of data, one after the other in the same file. */
struct linear_sets {
    size_t n, n_rows;
    bool (*make)(struct linear_bench *bench, size_t number); /* from 0 */
};

/* Measures the figure `stragglers`. */
bool bench_linear_stragglers(struct linear_bench *bench, const struct linear_sets *sets);

/* Draws the curves; false after a message. */
bool bench_linear_draw(const char *path, const struct linear_figure *figure,
                       const struct curve *curves, size_t n);

/* Adds points of seconds and objective, one for each tolerance from loose to strict, until the objective is at most `enough`:
 * of liblinear (by its library, one thread) and of scikit-learn (its saga) on L1 logistic regression without an intercept,
 * lambda 1. False, without a message, if they are not installed. */
typedef bool baseline(const char *data, double enough, struct curve *curve);
baseline baseline_liblinear, baseline_sklearn;

#endif
