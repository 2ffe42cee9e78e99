/*
 * cost_node - one node of a predicted cluster: its table, manager, rounds, lanes and its worker, on virtual time. What they do
 * is done by the code of real nodes; what it takes is counted in units of enum tern_sim_cost, and time passes by that.
 *
 * The worker does what a thread of node/ does: between its steps, and while it waits, it serves other nodes and
 * drives rounds. Nodes know each other from the start: there is no joining, no opening and no fault.
 */
#ifndef SIM_COST_NODE_H
#define SIM_COST_NODE_H

#include "core/lanes.h"
#include "core/rounds.h"
#include "core/technique.h"
#include "sim/cost.h"
#include "sim/timeline.h"
#include "wire/cutter.h"

/* What all nodes of a run share. */
struct cost_run {
    const struct tern_sim_workload *workload;
    struct timeline timeline;
    struct cost_node *nodes;
    struct view *view;
    struct peers peers;
    struct policy policy;
    const struct technique *inner; /* the table's technique, and one that counts what it does */
    struct technique counted;
    float *updates;               /* of a batch */
    struct cost_samples *samples; /* NULL: nothing is measured */
    uint32_t n_begun, n_measured; /* nodes that have begun their measured steps, and ended them */
    uint64_t n_done;              /* steps of all */
    enum tern_status status;      /* the first failure */
};

enum { BY_ROUNDS, BY_WORKER, N_CALLERS };

/* One of the two that ask other nodes, over lanes of its own. */
struct cost_caller {
    struct cost_node *node;
    uint32_t id;
    struct client client;
    struct lanes lanes;
    bool was_answered;  /* since it was looked at last */
    uint32_t n_awaited; /* letters that were sent and not answered */
};

/* A lane of another node, as it is served here. */
struct served_lane {
    struct server_lane lane;
    struct buffer held; /* requests that wait for the end of a round */
};

enum cost_state { TO_START, TO_BEGIN, TO_PUSH, PULLING, PUSHING };

/* What is noted when the measured steps begin and end. */
struct cost_marks {
    uint64_t at_ns, bytes, remote, accesses, letters, rounds, link_busy_ns[2];
    double staleness_ns, n_staleness;
    double amounts[TERN_SIM_COSTS];
};

struct cost_node {
    struct cost_run *run;
    struct core core;
    struct core_table table;
    bool has_store;
    struct server server;
    struct served_lane **served[N_CALLERS]; /* by node; NULL: it has not called */
    struct cost_caller callers[N_CALLERS];
    struct rounds rounds;
    struct intents *intents;
    struct cutter cutter;
    struct buffer out;
    struct letter *inbox, **inbox_end;
    bool is_helped; /* its threads will look for what has come */
    bool retries;   /* requests that are held are to be tried again */
    size_t n_held;
    /* The worker. */
    enum cost_state state;
    uint64_t step, drive_ns, free_ns; /* it is busy until then */
    uint32_t generation;
    uint64_t *batches; /* of the steps from `step` to the one that intent was signalled for */
    float *values;
    uint32_t *away;
    struct op op;
    /* The present event: what it has taken so far. */
    double spent_ns;
    double amounts[TERN_SIM_COSTS]; /* of all events */
    double sampled[TERN_SIM_COSTS]; /* of the present measurement */
    uint64_t n_remote, n_letters;
    struct cost_marks begun, ended;
};

/* Makes and ends node number `node`, whose place is in run->nodes. */
enum tern_status cost_node_init(struct cost_run *run, uint32_t node);
void cost_node_fini(struct cost_node *node);

/* The node's worker begins. */
void cost_node_begin(struct cost_node *node);

/* Handles an event of this node. */
void cost_node_event(struct cost_node *node, const struct timeline_event *event);

/* The technique that counts what another one does. */
struct technique cost_technique(const struct technique *inner);

#endif
