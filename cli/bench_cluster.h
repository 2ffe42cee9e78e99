/*
 * bench_cluster - node processes on this host, for benches between nodes.
 *
 * A cluster is a place to meet (a port or a folder with sockets, and certificates for TLS) and the
 * processes forked from this one, which end with it. The process itself may be a node of the cluster,
 * too. Processes are forked before a node is opened here, so that there is only one thread then.
 */
#ifndef CLI_BENCH_CLUSTER_H
#define CLI_BENCH_CLUSTER_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "link.h"
#include "run_guard.h"

enum transport { TRANSPORT_TCP, TRANSPORT_UNIX, TRANSPORT_TLS };

/* In the order of enum transport, then NULL. */
extern const char *const transport_names[];

enum { CLUSTER_MAX_PROCESSES = 65 };

struct cluster {
    enum transport transport;
    size_t n_nodes;
    char folder[96]; /* of sockets and certificates; "" when there is none */
    char coordinator[128];
    int port_holder; /* keeps the coordinator's port; or -1 */
    struct links links;
    struct guard guard;
    pid_t processes[CLUSTER_MAX_PROCESSES];
    size_t n_processes;
    cpu_set_t cores; /* that may be used */
};

/* Prepares a meeting place; false after a complaint, and then there is nothing to close. */
bool cluster_open(struct cluster *cluster, enum transport transport, size_t n_nodes);

/* The same with a host of its own for each node (link.h), which then talk by TCP. */
bool cluster_open_linked(struct cluster *cluster, size_t n_nodes, const struct link_speed *speed);

/* Starts a process that calls run(context) and exits with what it returns; false after a complaint. */
bool cluster_fork(struct cluster *cluster, int (*run)(void *context), void *context);

/* Makes this process node `node`, once it opens one. */
void cluster_enter(const struct cluster *cluster, size_t node);

/* Lets this process and the others run on one core alone, or again on all that this one may use. */
void cluster_share_core(const struct cluster *cluster, bool one);

/* The path of one of its files: "node.crt", "node.key" and "ca.crt" of a TLS cluster. */
void cluster_path(const struct cluster *cluster, const char *name, char path[128]);

/* Waits for the processes, or, when something failed, kills them; removes the files. False when one of
 * them failed. */
bool cluster_close(struct cluster *cluster, bool well);

#endif
