/*
 * bench_converge - the figures of tern bench converge, for its picture.
 */
#ifndef CLI_BENCH_CONVERGE_H
#define CLI_BENCH_CONVERGE_H

#include <stdint.h>

#include "bench_train.h"

enum { CONVERGE_MAX_RUNS = 64 };

/* One training under one policy. */
struct converge_run {
    const char *policy; /* "ssp" or "essp" */
    int64_t bound;      /* in clocks */
    struct training training;
};

/* The seconds of training until the end of an epoch, counted from 0. */
double converge_seconds(const struct converge_run *run, size_t epoch);

/* Draws the objective of all runs over clocks and over seconds; false after a complaint. */
bool converge_draw(const char *path, const struct converge_run *runs, size_t n, int64_t n_clocks);

#endif
