/*
 * partition - divides a data set and the parameters it uses into parts, such that parts share few parameters.
 *
 * The data are a bipartite graph: rows (examples, users, vertices) and the keys they use. Every row goes to one part;
 * then every key gets a home, the part where its main copy is best kept. Chapter 9 of Li's thesis (Parsa) and section
 * 5.2 of HET-GMP describe the methods. All nodes call this with the same options, and read the same file.
 */
#ifndef TASKS_PARTITION_PARTITION_H
#define TASKS_PARTITION_PARTITION_H

#include "common/train.h"
#include "partition/parsa.h"
#include "partition/read.h"

enum partition_method {
    METHOD_AUTO,   /* Parsa, then passes that move single rows (refine.h) */
    METHOD_PARSA,  /* assign.h */
    METHOD_HYBRID, /* hybrid.h */
    METHOD_RANDOM,
    METHOD_METIS, /* metis.h */
};

enum partition_homes {
    HOMES_USED,     /* where most rows use the key */
    HOMES_BALANCED, /* where the communication of the busiest part stays lowest: Algorithm 11 */
};

/* Defaults of the options below. */
enum { PARTITION_INITIAL = 8, PARTITION_MEMORY_MIB = 256 };

struct partition_options {
    int64_t n_parts;
    enum partition_method method;
    enum partition_homes homes;
    enum balance balance;
    enum read_format format;
    bool both_ways;   /* edges go both ways: the graph is undirected */
    int64_t n_blocks; /* that the rows are worked on in; 0: chosen by the size of the data */
    int64_t
        n_initial; /* blocks that are partitioned first, only to begin with good neighbour sets */
    int64_t
        delay; /* blocks that a worker goes on while what it has pushed is under way; -1: any number */
    int64_t n_passes; /* of moving rows, or rounds of `hybrid`; -1: chosen */
    double replicas;  /* the share of keys of which each part gets a replica */
    bool by_volume;   /* METIS minimises the volume of communication instead of the edge cut */
    /* Unequal links, for `hybrid`: "2x4", parts on 2 hosts with 4 each; or a file with a matrix of costs, a line for each part.
     * NULL: all are alike. */
    const char *hosts, *links;
    bool split;         /* the rows also go to a file for each part */
    int64_t memory_mib; /* of entries that are kept in memory; others go to a temporary file */
};

/* What came of it; outcome.h explains the measures. At node 0 alone. */
struct partition_report {
    uint32_t n_parts, n_nodes;
    uint64_t n_rows, n_keys, n_entries;
    uint64_t n_pairs, n_replicas, max_keys, max_traffic, sum_traffic;
    double remote, remote_with_replicas;
    double row_balance, entry_balance, home_balance;
    uint64_t largest_row, largest_entries; /* the row with the most entries */
    uint64_t n_passes, n_moved;
    double remote_once; /* share of remote accesses where a part accesses its rows and keys once */
    double read_s, assign_s,
        cpu_s; /* seconds to read, to partition; processor time of the latter, of node 0 */
    double peak_mib;
};

/* train_options->data is the file, train_options->out the folder for the result (or NULL), train_options->resume that of an earlier one whose
 * neighbour sets are gone on with. */
bool partition_run(const struct train_options *train_options,
                   const struct partition_options *options, struct partition_report *report);

#endif
