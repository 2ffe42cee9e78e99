/*
 * bench_stale - the figures of tern bench stale, for its picture.
 */
#ifndef CLI_BENCH_STALE_H
#define CLI_BENCH_STALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STALE_STEPS = 32, STALE_MAX_RUNS = 64, STALE_MAX_WORKERS = 32 };

/* One run of the loop under one policy. */
struct stale_run {
    char policy[16];                  /* "ssp" or "essp" */
    int64_t bound;                    /* in clocks */
    double shares[STALE_STEPS];       /* of keys read, by how many clocks they were behind */
    double mean;                      /* clock differential: -1 is the best there is */
    double waited[STALE_MAX_WORKERS]; /* share of its time that a worker waited */
    double seconds, first_loss, last_loss;
    double compute_s, communicate_s; /* of a worker, on average of all but the slow node's */
    double bytes;                    /* that all nodes sent */
};

/* Draws a panel for each bound, with the distribution under each policy, and one with the times of all runs; false
 * after a complaint. */
bool stale_draw(const char *path, const struct stale_run *runs, size_t n);

#endif
