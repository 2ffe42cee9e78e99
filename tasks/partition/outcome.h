/*
 * outcome - what a partition is worth: the homes of keys, replicas, and what would be sent.
 *
 * With N(U_i) the keys that the rows of part i use, and V_i those at home there (9.2 of Li's thesis):
 *
 *   remote pairs     keys that a part uses and that are at home elsewhere, summed over parts
 *   remote accesses  the share of entries whose key is at home elsewhere, and without replica, at the row's part
 *   M_max            the largest |N(U_i)|
 *   T_i              |N(U_i)| - |V_i| + sum over j != i of |V_i and N(U_j)|: the traffic of part i; T_max and T_sum
 */
#ifndef TASKS_PARTITION_OUTCOME_H
#define TASKS_PARTITION_OUTCOME_H

#include "partition/job.h"

struct outcome {
    uint64_t n_rows, n_keys, n_entries;
    uint64_t *keys; /* ascending */
    uint16_t *homes;
    uint64_t *uses; /* entries that have the key */
    uint64_t *sets; /* of each key: the parts that use it */
    size_t n_words;
    uint64_t n_replicas; /* of all parts, in their order: */
    uint64_t *replica_keys;
    uint16_t *replica_parts;
    uint64_t n_pairs, max_keys, max_traffic, sum_traffic;
    double remote, remote_with_replicas;             /* shares of entries */
    double row_balance, entry_balance, home_balance; /* the largest part over the mean */
    uint64_t largest_row, largest_entries;           /* the row with the most entries */
};

/* Chooses homes and replicas, and measures. Every row has its part; called at node 0 alone. */
bool outcome_find(struct outcome *outcome, const struct job *job);
void outcome_fini(struct outcome *outcome);

#endif
