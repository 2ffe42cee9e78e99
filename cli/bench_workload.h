/*
 * bench_workload - one workload of workers that signal intent, pull, compute and push, on a cluster or in one
 * process.
 *
 * A step takes a batch of keys from a stream that is drawn beforehand. Intent for a batch is signalled some
 * steps before its use, as a data loader would. An access is one key pulled or pushed.
 */
#ifndef CLI_BENCH_WORKLOAD_H
#define CLI_BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench_cluster.h"

enum { WORKLOAD_MAX_WORKERS = 64 }; /* of all nodes */

enum workload_keys {
    WORKLOAD_ZIPF,    /* exponent 1 */
    WORKLOAD_UNIFORM, /* all alike */
    WORKLOAD_LOCAL,   /* 90 % from a tenth of the keys that is the worker's own */
    WORKLOAD_RANKED,  /* exponent 1.1, in the order of frequency */
    WORKLOAD_ZIPF_11, /* exponent 1.1, as of `tern bench local` */
};

struct workload {
    size_t n_nodes, n_threads; /* threads of each node, one worker each */
    size_t n_hosts; /* of the nodes; those of a host share memory. 0: see may_share and link */
    const char
        *policy; /* NULL: one process outside of any cluster, with n_nodes * n_threads threads */
    uint32_t staleness_ms;         /* of the cluster's table; 0: the default */
    bool may_share;                /* nodes of one host may share memory */
    const struct link_speed *link; /* makes each node a host; NULL: Unix sockets */
    bool scatter; /* the homes of keys are dealt out one by one (tern_table_options) */
    enum workload_keys keys;
    uint64_t n_keys, ahead;  /* steps between intent and use; 0: no intent */
    uint64_t localize_ahead; /* steps between tern_localize_start and use */
    double
        hot_factor;  /* of policy `multi`, which gets the frequencies of the keys; 0: the default */
    uint32_t length; /* floats of a value */
    size_t batch;
    /* A gradient step: a dot product and an axpy with each value, after tern_localize_start. Without it a step adds up
     * the values it has pulled, computes for compute_us, and pushes whole numbers. Then the sum of all values in
     * the end is known, and is checked. */
    bool gradient;
    double compute_us;
    double warm_up_s, seconds;
};

/* Of all nodes in the measured time. */
struct workload_figures {
    double steps_s, steps, accesses, remote, bytes;
    double rounds_s;          /* of a node that exchanges rows with others, on average */
    double staleness_ms_mean; /* the mean of these nodes */
    double staleness_ms_p99;  /* the largest of the nodes */
    double cpu_s;             /* CPU time that the nodes took */
    double relay_cores;       /* CPU time of the relay of the links, per second */
    double sent;              /* bytes that left on links */
    double busiest; /* what the node sent that sent most, as a multiple of the mean; 0: no links */
    double n_checked; /* values whose sum was compared with what was pushed */
};

/* Runs it once; false after a complaint, also when the sums differ. */
bool workload_run(const struct workload *workload, struct workload_figures *figures);

#endif
