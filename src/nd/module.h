/* module - a bound symbol, for the other files of nd/. */
#ifndef ND_MODULE_H
#define ND_MODULE_H

#include "base/handle.h"
#include "nd/run.h"
#include "nd/symbol.h"

/* A variable of the symbol with its memory. */
struct module_value {
    const char *name; /* belongs to the node */
    struct spec spec;
    struct storage *storage, *gradient; /* the second of parameters only, unless predicting */
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

struct tern_module {
    struct handle handle;
    struct node *node; /* keeps the names */
    struct tern_module_options options;
    struct run *training, *predicting; /* the second is made when it is first needed */
    uint32_t n_forward;                /* nodes of `training` that compute the output */
    struct module_value *inputs, *parameters;
    uint32_t n_inputs, n_parameters;
    struct module_copy *copies;
    struct module_update *updates; /* NULL: there is no optimizer */
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

/* Drops the optimizer; waits for its operations. */
void module_drop_updates(struct tern_module *module);

#endif
