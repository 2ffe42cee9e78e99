/*
 * bench_nd_nets - the networks that `tern bench nd` plans, as symbols: AlexNet, GoogLeNet, VGG-16 and ResNet-152, as
 * published, without local response normalisation, auxiliary classifiers and groups.
 */
#ifndef CLI_BENCH_ND_NETS_H
#define CLI_BENCH_ND_NETS_H

#include "nd_library.h"

struct network {
    const char *name;
    int64_t side; /* of its square images of 3 channels */
    /* The symbol of the variable "data" up to softmax_output; NULL after a failure. */
    struct tern_symbol *(*make)(const struct nd *nd);
};

extern const struct network networks[];
extern const size_t n_networks;

/* Applies an operator to symbols and closes them; NULL if one of them is NULL or it fails. */
struct tern_symbol *net_apply(const struct nd *nd, const char *op, const char *name,
                              struct tern_symbol **inputs, size_t n, const char *attributes, ...)
    __attribute__((format(printf, 6, 7)));

#endif
