/* bench_nd_nets - see bench_nd_nets.h. */
#include "bench_nd_nets.h"

#include <stdarg.h>
#include <stdio.h>

struct tern_symbol *net_apply(const struct nd *nd, const char *op, const char *name,
                              struct tern_symbol **inputs, size_t n, const char *attributes, ...)
{
    char text[256];
    struct tern_symbol *out = NULL;
    va_list list;
    va_start(list, attributes);
    vsnprintf(text, sizeof text, attributes, list);
    va_end(list);
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        ok = ok && inputs[i];
    if (ok && nd->tern_symbol_apply(op, text, name, inputs, n, &out))
        out = NULL;
    for (size_t i = 0; i < n; i++)
        if (inputs[i])
            nd->tern_symbol_close(inputs[i]);
    return out;
}

/* A network while it is made: the symbol so far. */
struct maker {
    const struct nd *nd;
    struct tern_symbol *x;
};

static void begin(struct maker *m, const struct nd *nd)
{
    *m = (struct maker){.nd = nd};
    if (nd->tern_symbol_variable("data", &m->x))
        m->x = NULL;
}

/* Another handle of the symbol so far. */
static struct tern_symbol *same(const struct maker *m)
{
    struct tern_symbol *out = NULL;
    if (!m->x || m->nd->tern_symbol_apply("copy", NULL, NULL, &m->x, 1, &out))
        return NULL;
    return out;
}

#define STEP(m, op, ...) ((m)->x = net_apply((m)->nd, op, NULL, &(m)->x, 1, __VA_ARGS__))

static void convolve(struct maker *m, int filters, int kernel, int stride, int pad)
{
    STEP(m, "convolution", "kernel=%d stride=%d pad=%d filters=%d", kernel, stride, pad, filters);
}

static void convolve_relu(struct maker *m, int filters, int kernel, int stride, int pad)
{
    convolve(m, filters, kernel, stride, pad);
    STEP(m, "relu", "%s", "");
}

static void pool(struct maker *m, int kernel, int stride, int pad)
{
    STEP(m, "pool", "kernel=%d stride=%d pad=%d", kernel, stride, pad);
}

static void dense(struct maker *m, int hidden)
{
    STEP(m, "fully_connected", "hidden=%d", hidden);
}

static void dense_relu_dropout(struct maker *m, int hidden)
{
    dense(m, hidden);
    STEP(m, "relu", "%s", "");
    STEP(m, "dropout", "rate=0.5");
}

static struct tern_symbol *classify(struct maker *m)
{
    dense(m, 1000);
    return STEP(m, "softmax_output", "%s", "");
}

static struct tern_symbol *alexnet(const struct nd *nd)
{
    struct maker m;
    begin(&m, nd);
    convolve_relu(&m, 96, 11, 4, 0);
    pool(&m, 3, 2, 0);
    convolve_relu(&m, 256, 5, 1, 2);
    pool(&m, 3, 2, 0);
    convolve_relu(&m, 384, 3, 1, 1);
    convolve_relu(&m, 384, 3, 1, 1);
    convolve_relu(&m, 256, 3, 1, 1);
    pool(&m, 3, 2, 0);
    dense_relu_dropout(&m, 4096);
    dense_relu_dropout(&m, 4096);
    return classify(&m);
}

/* Four branches: 1x1; 1x1 and 3x3; 1x1 and 5x5; a pool and 1x1. */
static void inception(struct maker *m, const int *filters)
{
    struct maker branch[4];
    for (int i = 0; i < 4; i++)
        branch[i] = (struct maker){.nd = m->nd, .x = i < 3 ? same(m) : m->x};
    convolve_relu(&branch[0], filters[0], 1, 1, 0);
    convolve_relu(&branch[1], filters[1], 1, 1, 0);
    convolve_relu(&branch[1], filters[2], 3, 1, 1);
    convolve_relu(&branch[2], filters[3], 1, 1, 0);
    convolve_relu(&branch[2], filters[4], 5, 1, 2);
    pool(&branch[3], 3, 1, 1);
    convolve_relu(&branch[3], filters[5], 1, 1, 0);
    struct tern_symbol *all[] = {branch[0].x, branch[1].x, branch[2].x, branch[3].x};
    m->x = net_apply(m->nd, "concat", NULL, all, 4, "axis=1");
}

static struct tern_symbol *googlenet(const struct nd *nd)
{
    static const int modules[][6] = {{64, 96, 128, 16, 32, 32},     {128, 128, 192, 32, 96, 64},
                                     {192, 96, 208, 16, 48, 64},    {160, 112, 224, 24, 64, 64},
                                     {128, 128, 256, 24, 64, 64},   {112, 144, 288, 32, 64, 64},
                                     {256, 160, 320, 32, 128, 128}, {256, 160, 320, 32, 128, 128},
                                     {384, 192, 384, 48, 128, 128}};
    struct maker m;
    begin(&m, nd);
    convolve_relu(&m, 64, 7, 2, 3);
    pool(&m, 3, 2, 1);
    convolve_relu(&m, 64, 1, 1, 0);
    convolve_relu(&m, 192, 3, 1, 1);
    pool(&m, 3, 2, 1);
    for (int i = 0; i < 9; i++) {
        inception(&m, modules[i]);
        if (i == 1 || i == 6)
            pool(&m, 3, 2, 1);
    }
    STEP(&m, "mean", "axis=2,3");
    STEP(&m, "dropout", "rate=0.4");
    return classify(&m);
}

static struct tern_symbol *vgg(const struct nd *nd)
{
    static const int filters[] = {64, 128, 256, 512, 512}, layers[] = {2, 2, 3, 3, 3};
    struct maker m;
    begin(&m, nd);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < layers[i]; k++)
            convolve_relu(&m, filters[i], 3, 1, 1);
        pool(&m, 2, 2, 0);
    }
    dense_relu_dropout(&m, 4096);
    dense_relu_dropout(&m, 4096);
    return classify(&m);
}

static void convolve_norm(struct maker *m, int filters, int kernel, int stride, int pad)
{
    convolve(m, filters, kernel, stride, pad);
    STEP(m, "batch_norm", "%s", "");
}

/* Three convolutions beside a shortcut, which is one where the shape changes. */
static void bottleneck(struct maker *m, int filters, int stride, bool changes)
{
    struct maker shortcut = {.nd = m->nd, .x = same(m)};
    if (changes)
        convolve_norm(&shortcut, 4 * filters, 1, stride, 0);
    convolve_norm(m, filters, 1, 1, 0);
    STEP(m, "relu", "%s", "");
    convolve_norm(m, filters, 3, stride, 1);
    STEP(m, "relu", "%s", "");
    convolve_norm(m, 4 * filters, 1, 1, 0);
    struct tern_symbol *both[] = {m->x, shortcut.x};
    m->x = net_apply(m->nd, "add", NULL, both, 2, "%s", "");
    STEP(m, "relu", "%s", "");
}

static struct tern_symbol *resnet(const struct nd *nd)
{
    static const int layers[] = {3, 8, 36, 3};
    struct maker m;
    begin(&m, nd);
    convolve_norm(&m, 64, 7, 2, 3);
    STEP(&m, "relu", "%s", "");
    pool(&m, 3, 2, 1);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < layers[i]; k++)
            bottleneck(&m, 64 << i, i && !k ? 2 : 1, !k);
    STEP(&m, "mean", "axis=2,3");
    return classify(&m);
}

const struct network networks[] = {{"alexnet", 227, alexnet},
                                   {"googlenet", 224, googlenet},
                                   {"vgg-16", 224, vgg},
                                   {"resnet-152", 224, resnet}};
const size_t n_networks = sizeof networks / sizeof *networks;
