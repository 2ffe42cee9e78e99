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

#ifdef __cplusplus
}
#endif

#endif
