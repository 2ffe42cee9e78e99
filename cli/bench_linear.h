/*
 * bench_linear - what the figures of tern bench linear are made of, for those who measure and the one who draws.
 */
#ifndef CLI_BENCH_LINEAR_H
#define CLI_BENCH_LINEAR_H

#include <stdbool.h>
#include <stddef.h>

enum { CURVE_MAX_POINTS = 200, CURVE_MAX_VALUES = 4, BENCH_MAX_CURVES = 24 };

/* One setting: a curve of the picture, a row of the table, or both. */
struct curve {
    char name[48];
    bool has_row;
    size_t n; /* 0: there is nothing to draw */
    double x[CURVE_MAX_POINTS], y[CURVE_MAX_POINTS];
    double values[CURVE_MAX_VALUES]; /* of the figure's columns; NAN: there is none */
};

struct linear_bench;

struct linear_figure {
    const char *name, *title, *x_title, *y_title;
    bool log_x, log_y;
    const char *columns[CURVE_MAX_VALUES]; /* their names, also in JSON; NULL past the last */
    bool (*run)(struct linear_bench *bench);
};

/* Draws the curves; false after a message. */
bool bench_linear_draw(const char *path, const struct linear_figure *figure,
                       const struct curve *curves, size_t n);

/* Adds points of seconds and objective, one for each tolerance from loose to strict, of liblinear (by its library, one
 * thread) and of scikit-learn (its saga) on L1 logistic regression without an intercept, lambda 1. False, without a
 * message, if they are not installed. */
bool baseline_liblinear(const char *data, struct curve *curve);
bool baseline_sklearn(const char *data, struct curve *curve);

#endif
