/* module - a bound symbol, for the other files of nd/. */
#ifndef ND_MODULE_H
#define ND_MODULE_H

#include "base/handle.h"
#include "nd/embedding.h"
#include "nd/run.h"
#include "nd/symbol.h"

/* How a parameter is used: MODULE_ONES are learned too, and begin as ones; statistics are not learned. */
enum module_role { MODULE_LEARNED, MODULE_ONES, MODULE_STATISTICS };

/* A variable of the symbol with its memory. */
struct module_value {
    const char *name; /* belongs to the node */
    struct spec spec;
    struct storage *storage,
        *gradient; /* the second of learned parameters only, unless predicting */
    enum module_role role;
};

/* Copies an array of the program into an input. */
struct module_copy {
    struct operation operation;
    struct link links[2];
    struct program program;
    struct spec spec;
    struct operand from, to;
    struct storage *source; /* kept while it runs */
    atomic_uint left;
};

enum optimizer_kind { OPTIMIZER_NONE, OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_ADAM };

struct optimizer {
    enum optimizer_kind kind;
    double scale, rate, decay, beta1, beta2, epsilon;
};

/* Changes one parameter. */
struct module_update {
    struct operation operation;
    struct link links[2];
    const struct module_value *value;
    struct optimizer optimizer;
    void *state; /* as many numbers as the parameter has, or twice as many */
    uint64_t n_updates;
    atomic_uint left;
};

/* The value of an `embedding` node whose weights are in a table. */
struct module_lookup {
    struct module_value value; /* under the node's name */
    struct lookup lookup;
};

struct tern_module {
    struct handle handle;
    struct node *node; /* keeps the names */
    struct tern_module_options options;
    struct graph forward;                     /* of the symbol; both runs are made from it */
    struct run *training, *predicting;        /* NULL: not needed yet */
    uint32_t n_forward;                       /* nodes of `training` that are not gradients */
    struct module_value *inputs, *parameters; /* of the latter, the first n_learned are learned */
    uint32_t n_inputs, n_parameters, n_learned;
    struct module_lookup *lookups;
    uint32_t n_lookups;
    struct module_copy *copies;
    struct module_update *updates; /* NULL: there is no optimizer */
    double scale;                  /* of gradients */
    struct module_value output;
    bool has_forward, has_backward; /* since when it was bound; since the last forward */
    uint64_t step;
};

#define MODULE_CHECK(module)                                          \
    do {                                                              \
        const struct handle *given = (const struct handle *)(module); \
        if (!handle_is(given, HANDLE_MODULE))                         \
            return handle_refuse(given, HANDLE_MODULE);               \
    } while (0)

struct module_value *module_parameter(struct tern_module *module, const char *name);
struct module_value *module_input(struct tern_module *module, const char *name);
struct module_value *module_lookup(const struct tern_module *module, const char *name);

/* Makes the graph of the symbol, and names its variables, without memory for their values. module_fini undoes all of it. */
enum tern_status module_start(struct tern_module *module, const struct tern_symbol *symbol,
                              size_t n, const char *const *names,
                              const struct tern_nd_shape *shapes);
void module_fini(struct tern_module *module);

/* Adds the gradients of learned parameters, then of lookups, to the graph; of_value[i] gets the node of the i-th. */
enum tern_status module_add_gradients(struct tern_module *module, struct graph *graph,
                                      uint32_t loss, uint32_t *of_value);

/* Makes the lookups of a module whose inputs and options are there. */
enum tern_status module_make_lookups(struct tern_module *module);

/* Whether the options give a table for the variable. */
bool module_has_table(const struct tern_module *module, const char *name);

/* A value in memory of its own, with zeros. */
enum tern_status module_new_value(struct module_value *value, const char *name,
                                  const struct spec *spec);

/* roles[v] gets the role of each leaf of module->forward. */
void module_roles(const struct tern_module *module, enum module_role *roles);

/* Adds the nodes that one of the two runs computes, but gradients; *output gets that of the output. states[i], if not NULL,
 * gets the node of the next value of the i-th parameter, or GRAPH_NONE. */
enum tern_status module_graph(const struct tern_module *module, bool training, struct graph *graph,
                              uint32_t *output, uint32_t *states);

/* Drops the optimizer; waits for its operations. */
void module_drop_updates(struct tern_module *module);

#endif
