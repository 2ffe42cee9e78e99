/*
 * optimizer - how a module's parameters learn: one operation of the engine per parameter, which reads the gradient and
 * writes the parameter. So the update of one layer runs while the gradients of others are still computed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nd/module.h"

/* ---- One step ------------------------------------------------------------------------------------ */

#define STEP(T, SQRT)                                                                   \
    {                                                                                   \
        T *w = update->value->storage->data, *m = update->state, *v = m ? m + n : NULL; \
        const T *g = update->value->gradient->data;                                     \
        const T scale = (T)o->scale, rate = (T)o->rate, decay = (T)o->decay;            \
        const T beta1 = (T)o->beta1, beta2 = (T)o->beta2, epsilon = (T)o->epsilon;      \
        const T first = (T)(1 - pow(o->beta1, t)), second = (T)(1 - pow(o->beta2, t));  \
        switch (o->kind) {                                                              \
        case OPTIMIZER_SGD:                                                             \
            for (size_t i = 0; i < n; i++)                                              \
                w[i] -= rate * (scale * g[i]);                                          \
            break;                                                                      \
        case OPTIMIZER_MOMENTUM:                                                        \
            for (size_t i = 0; i < n; i++) {                                            \
                m[i] = decay * m[i] + scale * g[i];                                     \
                w[i] -= rate * m[i];                                                    \
            }                                                                           \
            break;                                                                      \
        case OPTIMIZER_ADAM:                                                            \
            for (size_t i = 0; i < n; i++) {                                            \
                const T x = scale * g[i];                                               \
                m[i] = beta1 * m[i] + (1 - beta1) * x;                                  \
                v[i] = beta2 * v[i] + (1 - beta2) * x * x;                              \
                w[i] -= rate * (m[i] / first) / (SQRT(v[i] / second) + epsilon);        \
            }                                                                           \
            break;                                                                      \
        case OPTIMIZER_NONE:                                                            \
            break;                                                                      \
        }                                                                               \
    }

static enum tern_status update_run(void *context)
{
    const struct module_update *update = context;
    const struct optimizer *o = &update->optimizer;
    const size_t n = spec_count(&update->value->spec);
    const double t = (double)update->n_updates;
    if (update->value->spec.type == TERN_ND_F32)
        STEP(float, sqrtf)
    else
        STEP(double, sqrt)
    return TERN_OK;
}

static void update_ended(void *context)
{
    atomic_fetch_sub(&((struct module_update *)context)->left, 1);
}

/* ---- Choosing one -------------------------------------------------------------------------------- */

/* Reads "rate=0.1 decay=0.9". */
static enum tern_status read_parameters(const char *text, struct optimizer *o)
{
    const struct {
        const char *name;
        double *value;
    } known[] = {{"rate", &o->rate},
                 {"decay", &o->decay},
                 {"beta1", &o->beta1},
                 {"beta2", &o->beta2},
                 {"epsilon", &o->epsilon}};
    while (text && *(text += strspn(text, " "))) {
        const size_t n = strcspn(text, "= ");
        bool found = false;
        char *end = NULL;
        for (size_t i = 0; i < sizeof known / sizeof known[0] && text[n] == '='; i++) {
            if (strlen(known[i].name) == n && !strncmp(known[i].name, text, n)) {
                *known[i].value = strtod(text + n + 1, &end);
                found = end != text + n + 1 && (!*end || *end == ' ') &&
                        isfinite(*known[i].value) && *known[i].value >= 0;
            }
        }
        if (!found)
            return fail(TERN_INVALID, "'%.60s' is no parameter of an optimizer, such as rate=0.1",
                        text);
        text = end;
    }
    if (o->beta1 >= 1 || o->beta2 >= 1)
        return fail(TERN_INVALID, "beta1 and beta2 must be below 1");
    return TERN_OK;
}

void module_drop_updates(struct tern_module *module)
{
    for (uint32_t i = 0; module->updates && i < module->n_learned; i++) {
        nd_engine_wait_for(&module->updates[i].left);
        free(module->updates[i].state);
    }
    free(module->updates);
    module->updates = NULL;
}

static enum tern_status make_updates(struct tern_module *module, const struct optimizer *optimizer)
{
    const size_t per_element = optimizer->kind == OPTIMIZER_SGD    ? 0
                               : optimizer->kind == OPTIMIZER_ADAM ? 2
                                                                   : 1;
    module_drop_updates(module);
    module->updates = calloc(module->n_learned + (size_t)1, sizeof *module->updates);
    if (!module->updates)
        return fail(TERN_NO_MEMORY, "there is no memory for an optimizer");
    for (uint32_t i = 0; i < module->n_learned; i++) {
        struct module_update *update = &module->updates[i];
        const struct module_value *value = &module->parameters[i];
        update->value = value;
        update->optimizer = *optimizer;
        update->links[0] = (struct link){.variable = &value->gradient->variable};
        update->links[1] =
            (struct link){.variable = &value->storage->variable, .writes = true, .keeps = true};
        update->operation = (struct operation){.run = update_run,
                                               .ended = update_ended,
                                               .context = update,
                                               .name = value->name,
                                               .links = update->links,
                                               .n_links = 2};
        if (per_element && !(update->state = calloc(per_element, spec_bytes(&value->spec)))) {
            module_drop_updates(module);
            return fail(TERN_NO_MEMORY, "there is no memory for the state of an optimizer");
        }
    }
    return TERN_OK;
}

enum tern_status tern_module_optimizer(struct tern_module *module, const char *kind,
                                       const char *parameters, double scale)
{
    MODULE_CHECK(module);
    struct optimizer optimizer = {
        .scale = scale, .rate = 0.01, .decay = 0.9, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
    static const struct {
        const char *name;
        enum optimizer_kind kind;
    } kinds[] = {
        {"sgd", OPTIMIZER_SGD}, {"momentum", OPTIMIZER_MOMENTUM}, {"adam", OPTIMIZER_ADAM}};
    for (size_t i = 0; kind && i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kind, kinds[i].name))
            optimizer.kind = kinds[i].kind;
    if (!optimizer.kind || !isfinite(scale))
        return fail(TERN_INVALID, "'%.40s' is no optimizer: sgd, momentum or adam",
                    kind ? kind : "(NULL)");
    if (module->options.predicting)
        return fail(TERN_INVALID, "the module was bound for predicting and has no gradients");
    enum tern_status status = read_parameters(parameters, &optimizer);
    module->scale = scale;
    return status ? status : make_updates(module, &optimizer);
}

enum tern_status tern_module_update(struct tern_module *module)
{
    MODULE_CHECK(module);
    if (!module->updates || !module->has_backward)
        return fail(TERN_INVALID, module->updates ? "update needs a backward before it"
                                                  : "the module has no optimizer");
    module->has_backward = false;
    for (uint32_t i = 0; i < module->n_learned; i++) {
        struct module_update *update = &module->updates[i];
        nd_engine_wait_for(&update->left);
        update->n_updates++;
        atomic_store(&update->left, 1);
        nd_engine_submit(&update->operation);
    }
    for (uint32_t i = 0; i < module->n_lookups; i++)
        lookup_push(&module->lookups[i].lookup, module->scale);
    return TERN_OK;
}
