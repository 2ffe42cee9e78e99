/*
 * report - what training prints: rows under a heading for people, lines of JSON for programs.
 *
 * Rows go to standard error and fit into 80 columns. Measures that do not fit are printed at the end of
 * training, a line each. JSON goes to standard output: a first line about the job, then one per epoch.
 * Only node 0 prints.
 */
#ifndef TASKS_REPORT_H
#define TASKS_REPORT_H

#include "common/train.h"

/* Sums over all nodes, so all members are double. */
struct report_sums {
    double n_examples, loss, stopping;
    double accesses, remote;
    double requests, replies, rounds; /* bytes sent */
    double memory;                    /* of the tables at node 0, in bytes */
    double cpu_s;                     /* CPU time of the nodes */
    double refreshes, staleness_ms;   /* of replicas since the start: their number, and the sum */
};

struct report_epoch {
    int64_t number;
    double seconds;
    struct report_sums sums;
    const double *waits; /* by worker: the share of the epoch that it waited for others */
    struct train_quality quality;
};

/* part / whole, or 0. */
double report_ratio(double part, double whole);

/* All bytes that nodes have sent each other about parameters. */
static inline double report_bytes(const struct report_sums *sums)
{
    return sums->requests + sums->replies + sums->rounds;
}

/* Before the first epoch: the heading of the rows, or the first line of JSON. */
void report_begin(const struct train *train, const struct train_task *task);

void report_epoch(const struct train *train, const struct train_task *task,
                  const struct report_epoch *epoch);

/* "MRR 0.2179, Hits@1 0.1335": as many measures as fit. */
void report_measures(const struct train_task *task, const struct train_quality *quality, char *text,
                     size_t size);

/* The measures as members of a JSON object: "mrr":0.217900,"hits_1":0.133500. A measure that was not made
 * is null. */
void report_json_measures(const struct train_task *task, const struct train_quality *quality);

/* After the last epoch: which one was the best, if it is not the last, and the measures that have no
 * column. */
void report_best(const struct train *train, const struct train_task *task, int64_t epoch,
                 const struct train_quality *best);

#endif
