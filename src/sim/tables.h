/*
 * tables - the tables of a simulated cluster: two that stay at home, of which one may admit keys, lose rows or be a sketch, one with replicas everywhere, three
 * whose keys come and go, three whose reads are bounded, and one of values that are set.
 *
 * Policies that are not the same in every run follow from the seed, as does the length of the last
 * table's values.
 */
#ifndef SIM_TABLES_H
#define SIM_TABLES_H

#include "core/follower.h"
#include "tern/sim.h"

enum sim_table {
    DENSE_COUNTS,
    SPARSE_COUNTS,
    REPLICA_COUNTS,
    ADAPTIVE_COUNTS, /* dense */
    MANAGED_COUNTS,  /* sparse, of another policy in every run */
    UPDATED_COUNTS,  /* sparse, adaptive, with an updater */
    BOUNDED_COUNTS,  /* dense, bounded by clocks, otherwise in every run */
    LIMITED_COUNTS,  /* sparse, bounded by clocks or by value */
    GRAPH_COUNTS,    /* dense, bounded by updates */
    LAST_VALUES,
    N_SIM_TABLES
};

enum {
    KEYS = 61,          /* of each table */
    WINDOW = 4,         /* elements of a counting table for each worker */
    LISTED_KEYS = 5,    /* the first ones: every node has them under the policy `multi` */
    LAST_LENGTH = 2048, /* so that a request has few of them */
    LAST_SHORT = 4,     /* so that it has many, and sorts them */
};

struct tables {
    uint32_t length;       /* of the counting tables */
    uint32_t last_length;  /* of LAST_VALUES: LAST_LENGTH or LAST_SHORT */
    bool replicas_updated; /* tables under `replicate` also have an updater */
    bool are_backed;       /* all tables have backups, and their main copies stay, */
    uint32_t n_backups;    /* so many; */
    bool recovers;         /* what more deaths destroy is read from a checkpoint */
    bool have_copies;      /* of which some have replicas where they are wanted, */
    bool have_rounds;      /* or bounded reads: there are rounds */
    size_t piece_bytes;    /* of a batch; few, so that a copy takes several */
    const char *filters;   /* of the tables; NULL: none */
    const char *roundings; /* of those of tables_real, which have real numbers; NULL: they do not */
    uint32_t lists_most; /* lists of keys that a server remembers of a lane; 0: as many as it may */
    bool sets_mirrored;  /* LAST_VALUES is under `replicate` */
    size_t round_bytes;  /* of a manager's request or answer; few, so that rounds have several */
    uint32_t staleness_ms; /* of tables that are refreshed in rounds */
    uint32_t
        n_moves; /* of some keys that come and go, before the run: numbers of moves wrap around */
    struct policy policies[N_SIM_TABLES];
    struct tern_placement placements[N_SIM_TABLES]; /* of tables that have one: n_keys is not 0 */
    bool scatters[N_SIM_TABLES];                    /* dense: the homes of other keys */
    uint64_t placed_keys[N_SIM_TABLES][KEYS];
    uint32_t placed_homes[N_SIM_TABLES][KEYS];
    uint64_t listed[LISTED_KEYS], listed_sparse[LISTED_KEYS]; /* of others, and of SPARSE_COUNTS */
    /* SPARSE_COUNTS, which is another in every run: */
    bool is_sketch;          /* a sketch; its rows have one element, which all workers add to */
    uint32_t admit;          /* keys get a row after so many pushes */
    bool has_sweeps;         /* nodes remove rows now and then, */
    uint64_t evict_floor;    /* with a rule or, if 0, without */
    bool graph_updated;      /* GRAPH_COUNTS has an updater, */
    bool has_frequencies;    /* and these, */
    bool places_frequencies; /* of the keys that the placement names, as part of it: */
    bool has_rare;           /* of ADAPTIVE_COUNTS, by these: */
    uint64_t uses[KEYS];
    uint64_t frequencies[KEYS], placed_frequencies[KEYS];
    uint64_t replica_keys[KEYS * TERN_SIM_MAX_NODES]; /* of GRAPH_COUNTS */
    uint32_t replica_nodes[KEYS * TERN_SIM_MAX_NODES];
};

/* The tables of a run. They stay where they are: the placements point into them. */
void tables_choose(struct tables *tables, uint32_t n_nodes, uint32_t n_workers, bool are_backed,
                   uint64_t seed);

/* The home of a key, as a node or member sees it. */
uint32_t tables_home(const struct tables *tables, const struct core *core, enum sim_table table,
                     uint32_t index);

struct tern_table_options tables_options(const struct tables *tables, enum sim_table table);

const char *table_name(enum sim_table table);
uint64_t table_key(enum sim_table table, uint32_t index);

static inline uint32_t tables_length(const struct tables *tables, enum sim_table table)
{
    return table == LAST_VALUES                          ? tables->last_length
           : table == SPARSE_COUNTS && tables->is_sketch ? 1
                                                         : tables->length;
}

/* Pushes to a key of the table that were dropped, because it had been counted too few times: at most so many. */
static inline uint32_t tables_dropped(const struct tables *tables, enum sim_table table)
{
    return table == SPARSE_COUNTS ? tables->admit : 0;
}

/* Whether a worker need not find all that it has added to a key. */
static inline bool tables_forgets(const struct tables *tables, enum sim_table table)
{
    return table == SPARSE_COUNTS && (tables->is_sketch || tables->admit || tables->has_sweeps);
}

/* Whether the table has an updater, which is to do what was done to a replica at the main copy. */
static inline bool tables_updated(const struct tables *tables, enum sim_table table)
{
    return table == UPDATED_COUNTS || (table == GRAPH_COUNTS && tables->graph_updated) ||
           ((table == REPLICA_COUNTS || (table == LAST_VALUES && tables->sets_mirrored)) &&
            tables->replicas_updated);
}

/* Whether the table has real numbers, and filters that round them. */
static inline bool tables_real(const struct tables *tables, enum sim_table table)
{
    return tables->roundings && (table == ADAPTIVE_COUNTS || table == MANAGED_COUNTS ||
                                 (table == REPLICA_COUNTS && !tables->replicas_updated));
}

/* What is added to an element of such a table for one addition: beside the larger ones, small ones are rounded. */
static inline double tables_weight(uint32_t element)
{
    return element % 2 == 0 ? 1 : element % 4 == 1 ? 1 << 8 : 1 << 16;
}

/* How the keys of the table are managed in a cluster. */
static inline const struct technique *tables_technique(const struct tables *tables,
                                                       enum sim_table table)
{
    return technique_find(&tables->policies[table], false);
}

/* Whether keys of the table come and go. */
static inline bool tables_managed(const struct tables *tables, enum sim_table table)
{
    return tables_technique(tables, table)->rows == ROWS_MOVE;
}

/* Whether the main copy of the key, which is at home, was moved n_moves times before the run began, so long ago that
 * nobody else has heard of it. */
static inline bool tables_travelled(const struct tables *tables, enum sim_table table,
                                    uint32_t index)
{
    return tables_managed(tables, table) && tables->n_moves && index % 2 &&
           !(table == SPARSE_COUNTS && (tables->admit || tables->has_sweeps));
}

/* Whether the nodes of a host have the table in one memory. */
static inline bool tables_shared(const struct tables *tables, enum sim_table table)
{
    return follower_is_for(&tables->policies[table]) &&
           !(table == SPARSE_COUNTS && (tables->is_sketch || tables->admit ||
                                        (tables->has_sweeps && tables_managed(tables, table))));
}

/* Whether reads of the table are bounded. */
static inline bool tables_bounded(const struct tables *tables, enum sim_table table)
{
    return tables_technique(tables, table)->admit;
}

/* Whether its rows count their updates. */
static inline bool tables_counted(const struct tables *tables, enum sim_table table)
{
    return tables_technique(tables, table)->counting;
}

/* Whether every node has rows of its own for the keys it uses. */
static inline bool tables_tracked(const struct tables *tables, enum sim_table table)
{
    return tables_technique(tables, table)->rows == ROWS_EVERYWHERE;
}

/* Whether the table acts on intent. */
static inline bool tables_intended(const struct tables *tables, enum sim_table table)
{
    const struct technique *technique = tables_technique(tables, table);
    return technique->intent && technique->intent(&tables->policies[table], BY_INTENT);
}

/* Whether a key of the table that is intended, perhaps by several nodes, is at all of them. */
static inline bool tables_copied(const struct tables *tables, enum sim_table table)
{
    return tables->policies[table].replica == REPLICA_ON_INTENT;
}

/* Whether nodes keep replicas of the table's keys for good. */
static inline bool tables_kept(const struct tables *tables, enum sim_table table)
{
    return tables_technique(tables, table) == technique_everywhere();
}

/* Whether every node is to have the key for good. */
static inline bool tables_listed(const struct tables *tables, enum sim_table table, uint32_t index)
{
    if (tables->policies[table].replica == REPLICA_OF_LISTED)
        return index < LISTED_KEYS;
    return tables_kept(tables, table) && table == REPLICA_COUNTS;
}

#endif
