/*
 * net_data - images or rows and their labels from files, for `tern train net`.
 */
#ifndef CLI_NET_DATA_H
#define CLI_NET_DATA_H

#include "nd_library.h"

struct net_set {
    struct tern_array *data,
        *labels;                /* f32, as rows or as images x channels x height x width; i64 */
    struct tern_nd_shape shape; /* of the data */
};

/* Reads what --data and --labels, or --test and --test-labels, name. Complains. */
bool net_read(const struct nd *nd, bool is_test, const char *data, const char *labels,
              struct net_set *set);
void net_release(const struct nd *nd, struct net_set *set);

/* Applies an operator to arrays and closes them; NULL if one of them is NULL or it fails. */
struct tern_array *net_compute(const struct nd *nd, const char *op, const char *attributes,
                               struct tern_array **inputs, size_t n);

#endif
