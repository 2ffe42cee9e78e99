/*
 * bench_cluster - node processes on this host, for benchmarks between nodes.
 *
 * A cluster has a rendezvous (a port or a folder with sockets, and certificates for TLS) and processes that
 * are forked from this one and end with it. This process may also be a node of the cluster. It must fork
 * before it opens a node, while it has only one thread.
 */
#ifndef CLI_BENCH_CLUSTER_H
#define CLI_BENCH_CLUSTER_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "link.h"
#include "run_guard.h"
#include "token.h"

enum transport { TRANSPORT_TCP, TRANSPORT_UNIX, TRANSPORT_TLS };

/* In the order of enum transport, then NULL. */
extern const char *const transport_names[];

enum { CLUSTER_MAX_PROCESSES = 65 };

struct cluster {
    enum transport transport;
    size_t n_nodes, n_hosts; /* n_hosts 0: all are on this host */
    char folder[96];         /* of sockets and certificates; "" when there is none */
    char coordinator[128];
    char token[TOKEN_BYTES];
    int port_holder; /* keeps the coordinator's port; or -1 */
    struct links links;
    struct guard guard;
    pid_t processes[CLUSTER_MAX_PROCESSES];
    size_t n_processes;
    cpu_set_t cores; /* that this process may use */
};

/* --slow of benchmarks with bounded tables, and whether there is such a node; false after an error message. */
#define BENCH_SLOW_OPTION(slow)                                            \
    {                                                                      \
        "slow", OPTION_INT, &(slow), "-1", "NODE",                         \
            "a node that takes three times as long for a clock; -1: none", \
            .min = -1, .max = CLUSTER_MAX_PROCESSES                        \
    }
bool bench_has_slow(int64_t slow, int64_t n_nodes);

/* Prepares the rendezvous; false after an error message, and then there is nothing to close. */
bool cluster_open(struct cluster *cluster, enum transport transport, size_t n_nodes);

/* The same, with a separate host for each node (link.h) and TCP between them. */
bool cluster_open_linked(struct cluster *cluster, size_t n_nodes, const struct link_speed *speed);

/* The same, with as many nodes on each of n_hosts hosts, which share memory; speed NULL: Unix sockets, and TERN_HOST tells
 * hosts apart. */
bool cluster_open_hosts(struct cluster *cluster, size_t n_nodes, size_t n_hosts,
                        const struct link_speed *speed);

/* Forks a process that exits with the result of run(context); false after an error message. */
bool cluster_fork(struct cluster *cluster, int (*run)(void *context), void *context);

/* Sets the environment so that this process opens node `node`. */
void cluster_enter(const struct cluster *cluster, size_t node);

/* Sets the environment so that nodes opened here share no memory with other processes of the host, and returns
 * the policy for their tables. */
const char *cluster_share_nothing(const char *policy);

/* Pins this process and the others to one core, or allows all of its cores again. */
void cluster_share_core(const struct cluster *cluster, bool one);

/* The path of one of its files: "node.crt", "node.key" and "ca.crt" of a TLS cluster. */
void cluster_path(const struct cluster *cluster, const char *name, char path[128]);

/* Waits for the processes, or kills them unless `well`; removes the files. False if a process failed. */
bool cluster_close(struct cluster *cluster, bool well);

#endif
