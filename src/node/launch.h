/*
 * launch - what a process learns from its launcher: its number, the number of nodes, the coordinator, secrets, deadlines.
 *
 * In this order: TERN_NODE, TERN_NODES and TERN_COORDINATOR (as `tern run` and people set them);
 * torchrun's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; Open MPI's OMPI_COMM_WORLD_RANK and _SIZE;
 * Slurm's SLURM_PROCID, SLURM_NTASKS and SLURM_JOB_NODELIST. Without them the process is a
 * single node and opens no socket.
 */
#ifndef NODE_LAUNCH_H
#define NODE_LAUNCH_H

#include "base/status.h"

struct launch {
    uint32_t node;
    uint32_t n_nodes;       /* 1: a single node */
    char coordinator[256];  /* where node 0 listens; empty on a single node */
    char listen[256];       /* where this node listens; port 0 lets the system choose */
    char token[65];         /* the job's name and secret: nodes without it are refused */
    char certificate[1024]; /* PEM files; empty: no TLS */
    char key[1024];
    char authority[1024];
    bool insecure;
    bool shares;       /* memory with the other processes of its host */
    char host[64];     /* what tells hosts apart that are on one machine; empty: nothing does */
    uint32_t n_shards; /* that each node has, if this is node 0 */
    uint64_t deadline_ns;
    uint64_t join_deadline_ns; /* for all nodes to be there; not shorter than the other */
};

/* Reads the environment. An incomplete setting (a rank without a size, a rank beyond it, a bad number or
 * address) fails with a sentence that names the variable. */
enum tern_status launch_find(struct launch *launch);

/* The same for a node among others of its process (tern_node_options). */
enum tern_status launch_in_group(const char *group, uint32_t node, uint32_t n_nodes,
                                 struct launch *launch);

#endif
