/*
 * tern/sim.h - runs a simulated cluster: N nodes in one thread, on virtual time, over a network that
 * delays, breaks and is cut as a seed says. Unstable: may change with every version.
 *
 * The nodes run the code that real nodes run. Workers pull, push, set and draw samples at random; what
 * they see, what they are told and what is stored in the end is checked against what they did. The same seed
 * and options give the same run, event by event, with every compiler.
 */
#ifndef TERN_SIM_H
#define TERN_SIM_H

#include "tern/tern.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tern_sim_fault {
    TERN_SIM_DELAY,     /* a link is slow for a while */
    TERN_SIM_BREAK,     /* a connection is lost, and what was under way with it */
    TERN_SIM_PAUSE,     /* a node does nothing for a while */
    TERN_SIM_PARTITION, /* some nodes do not hear others for a while */
    TERN_SIM_STALE,     /* a process of an earlier epoch still writes */
    TERN_SIM_RESTART,   /* a node begins anew as another process: in one seed of four */
    TERN_SIM_OUTAGE, /* two nodes do not hear each other for longer than the deadline: likewise */
    /* In clusters whose tables have backups, which one seed of four has; nothing may fail at the others: */
    TERN_SIM_CRASH, /* a process ends for good */
    TERN_SIM_FREEZE, /* a process stands still for longer than the deadline, is given up, and goes on */
    TERN_SIM_LEAVE, /* a node leaves before the others, which go on: in a third of these seeds */
    TERN_SIM_FAULTS,
};

#define TERN_SIM_ALL ((1u << TERN_SIM_FAULTS) - 1)
#define TERN_SIM_MAX_NODES 64
#define TERN_SIM_MAX_SHARDS 4

struct tern_sim_options {
    size_t struct_size; /* sizeof(struct tern_sim_options) */
    uint32_t n_nodes;   /* 2 .. TERN_SIM_MAX_NODES */
    uint32_t n_steps;   /* operations of each worker; two workers at each node */
    uint32_t faults;    /* a bit for each enum tern_sim_fault */
    uint64_t seed;      /* the first */
    uint64_t n_seeds;   /* one run for each of the seeds from there on */
    uint32_t n_shards;  /* of each node: up to TERN_SIM_MAX_SHARDS; 0: 1 to 3, as the seed says */
    uint32_t per_host;  /* nodes of each host, which share memory; 0: 1, 2 or 3, as the seed says */
    void (*progress)(void *context, uint64_t n_done); /* called after each seed; or NULL */
    void *context;                                    /* for `progress` */
};

struct tern_sim_result {
    size_t struct_size;    /* sizeof(struct tern_sim_result); the others are outputs */
    uint64_t n_seeds;      /* that were run: up to the first violation */
    uint64_t n_events;     /* pieces of bytes, timers and so on that came to a node */
    uint64_t virtual_ns;   /* time that passed in the simulated clusters */
    uint64_t n_operations; /* that ended, calls to the coordinator among them */
    uint64_t n_failed;     /* of these: with a sentence, because of a restart or an outage */
    uint64_t n_moves;      /* main copies of keys that came to another node */
    uint64_t n_replicas;   /* replicas that were made of keys that come and go */
    uint64_t n_redirected; /* requests that met a node which did not have the key */
    uint64_t n_intended;   /* keys whose intent was signalled early, when its start was reached */
    uint64_t n_late;       /* of these: the key was not there then, because rounds were held up */
    uint64_t n_sampled;    /* keys of samples that were handed out */
    uint64_t n_brought;   /* of these: they were elsewhere when they were drawn, and here by then */
    uint64_t n_postponed; /* keys that were put off to the end of their sample */
    uint64_t n_checks;    /* comparisons of what is with what must be */
    uint64_t n_violations;           /* of the last seed; 0: all is well */
    uint64_t trace;                  /* a hash of all that happened */
    uint64_t fired[TERN_SIM_FAULTS]; /* how often each fault had an effect */
    char violation[256];             /* the first one, as a sentence */
};

/* Runs seeds until one has a violation, which is no failure of the call. */
TERN_API enum tern_status tern_sim_run(const struct tern_sim_options *options,
                                       struct tern_sim_result *result);

/* ---- Predictions ------------------------------------------------------------------------------- */

/* What takes CPU time at a node; each has a cost per unit. */
enum tern_sim_cost {
    TERN_COST_STEP,     /* a step of a worker in one process, less what it computes */
    TERN_COST_ACCESS,   /* what a key that is pulled and pushed costs more in a cluster */
    TERN_COST_SIGNAL,   /* a key of an intent, when it is signalled */
    TERN_COST_INTENT,   /* a key that begins or ends to be wanted */
    TERN_COST_ROUND,    /* a round: its begin and end */
    TERN_COST_PEER,     /* another node, whenever a round looks at all of them */
    TERN_COST_CHANGE,   /* a changed row that is collected */
    TERN_COST_MESSAGE,  /* a message that is made, served or taken */
    TERN_COST_KEY,      /* a key without a value in a message, at each end */
    TERN_COST_ROW,      /* a key with a value in a message, at each end */
    TERN_COST_LOOK,     /* a look whether there are requests, or an answer on a connection */
    TERN_COST_TRANSFER, /* a message that is sent or received */
    TERN_COST_BYTE,     /* a byte of it */
    TERN_SIM_COSTS,
};

struct tern_sim_costs {
    double ns[TERN_SIM_COSTS]; /* for one unit of each */
};

#define TERN_SIM_COST_MAX_NODES 4096
#define TERN_SIM_COST_MAX_BATCH 1024

/*
 * A cluster whose nodes have one worker each. In each step the worker signals intent for a later batch of keys, pulls a
 * batch, computes, and pushes, as in `tern bench loop`. The managers, rounds and lanes of the nodes are those of real
 * nodes. Threads, sockets and the time they take are the costs.
 */
struct tern_sim_workload {
    size_t struct_size; /* sizeof(struct tern_sim_workload) */
    uint32_t n_nodes;   /* 1 .. TERN_SIM_COST_MAX_NODES */
    uint32_t
        n_cores; /* that all nodes share, node i on core i modulo n_cores; 0: each has its own */
    uint64_t slice_ns;  /* of those that share a core each runs so long, in turns */
    const char *policy; /* one whose keys stay or move, such as "adaptive" or "static" */
    bool is_sparse;     /* a sparse table: less memory with many nodes */
    uint64_t n_keys;
    uint32_t length; /* floats of a value */
    uint32_t batch;  /* keys of a step, at most TERN_SIM_COST_MAX_BATCH */
    uint64_t ahead;  /* steps between intent and use; 0: no intent */
    uint32_t staleness_ms;
    uint64_t compute_ns; /* in each step */
    double ns_per_byte;  /* of each node's link, each way; 0: no limit */
    uint64_t delay_ns;   /* from one node to another */
    uint64_t n_warm_up;  /* steps of each worker before those that are measured */
    uint64_t n_steps;    /* steps that are measured */
    struct tern_sim_costs costs;
    /* The batch of a worker's step: always the same for the same worker and step. */
    void (*draw)(void *context, uint32_t worker, uint64_t step, uint64_t *keys);
    void (*progress)(void *context, uint64_t n_done); /* steps of all workers; or NULL */
    void *context;                                    /* for both */
};

/* Of the measured steps of all nodes. */
struct tern_sim_prediction {
    size_t struct_size;  /* sizeof(struct tern_sim_prediction); the others are outputs */
    double steps_s;      /* steps of all workers per second of virtual time */
    double bytes;        /* of a step, as statistics of tables count them */
    double remote_share; /* of accesses */
    double messages;     /* of a step that were sent */
    double rounds_s;     /* of a node */
    double staleness_ms_mean;
    double step_ns;     /* of the time of a step: computing and access to rows, */
    double rounds_ns;   /* wanting keys, rounds, and the making and serving of messages, */
    double transfer_ns; /* sending and receiving, */
    double wait_ns;     /* and the rest: waits for answers, and for a core */
    double link_mean,
        link_busiest; /* share of the time that links were in use: all, and the busiest */
    double amounts[TERN_SIM_COSTS]; /* of a step */
    uint64_t n_events;
};

/* Runs the cluster on virtual time. The same workload gives the same prediction. */
TERN_API enum tern_status tern_sim_predict(const struct tern_sim_workload *workload,
                                           struct tern_sim_prediction *prediction);

/* Finds the costs on this machine, all but TERN_COST_STEP, which it leaves as it is: it runs small clusters of the workload and
 * measures how long what they do takes, and sends messages through streams as nodes have them: `is_linked`, TCP; else through
 * shared memory. */
TERN_API enum tern_status tern_sim_calibrate(const struct tern_sim_workload *workload,
                                             bool is_linked, struct tern_sim_costs *costs);

#ifdef __cplusplus
}
#endif

#endif
