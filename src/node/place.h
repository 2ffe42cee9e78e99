/*
 * place - how a process learns its place in a cluster from what its launcher set.
 *
 * In this order: TERN_NODE, TERN_NODES and TERN_COORDINATOR (as `tern run` and people set them);
 * torchrun's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; Open MPI's OMPI_COMM_WORLD_RANK and _SIZE;
 * Slurm's SLURM_PROCID, SLURM_NTASKS and SLURM_JOB_NODELIST. With none of them the process is a node
 * alone and opens no socket.
 */
#ifndef NODE_PLACE_H
#define NODE_PLACE_H

#include "base/status.h"

struct place {
    uint32_t node;
    uint32_t n_nodes;       /* 1: alone */
    char coordinator[256];  /* where node 0 listens; empty when alone */
    char listen[256];       /* where this node listens; port 0 lets the system choose */
    char token[65];         /* names the job: nodes of another one are refused */
    char certificate[1024]; /* PEM files; empty: no TLS */
    char key[1024];
    char authority[1024];
    bool insecure;
    uint32_t n_shards; /* that each node has, if this is node 0 */
    uint64_t deadline_ns;
};

/* Reads the environment. Half a place (a rank without a size, a rank beyond it, a bad number or
 * address) fails with a sentence that names the variable. */
enum tern_status place_find(struct place *place);

/* The place of a node among others of its process (tern_node_options). */
enum tern_status place_in_group(const char *group, uint32_t node, uint32_t n_nodes,
                                struct place *place);

#endif
