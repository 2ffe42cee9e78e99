/*
 * tern bench nd - libternnd beside what it is made of: a step of training beside its products of matrices alone in
 * OpenBLAS, a*b+c beside a loop in C, and planned memory beside one piece of memory per value.
 *
 * Everything runs on one thread, and times are those of the processor, so that other programs disturb little. Figures and
 * baselines are measured in turns.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nd_library.h"
#include "bench_nd_nets.h"
#include "command.h"
#include "options.h"
#include "quantile.h"
#include "steps.h"

enum { MAX_REPEATS = 99, MAX_PRODUCTS = 16, OPERATIONS = 10000 };

static struct {
    bool json;
    int64_t n_repeats, n_elements, batch;
} args;

static const struct option options[] = {
    {"repeats", OPTION_INT, &args.n_repeats, "9", "N", "repeats, of which the median counts",
     .min = 1, .max = MAX_REPEATS},
    {"elements", OPTION_INT, &args.n_elements, "4000000", "N", "numbers in each array of a*b+c",
     .min = 1000, .max = 1e9},
    {"batch", OPTION_INT, &args.batch, "64", "N", "images in a batch of the planned networks",
     .min = 1, .max = 1024},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench nd",
    .about = "Measures steps of training, elementwise operators, the overhead of an operation and "
             "planned memory.",
    .notes = "JSON fields: bench, gemm (OpenBLAS or plain), convolution (oneDNN or plain), for mlp "
             "and cnn: step_ms, products_ms "
             "(the step's products of matrices alone, in OpenBLAS; null without it), ratio "
             "(products_ms / step_ms), arena_bytes, grown_bytes (bytes that these steps left "
             "allocated); fma_ms, loop_ms, fma_ratio (loop_ms / fma_ms), operation_ns; and "
             "networks, a list of: name, parameter_bytes, and for training and predicting: nodes, "
             "planned_bytes, separate_bytes (one piece per value), ratio (separate_bytes / "
             "planned_bytes), over_alive (planned_bytes over the most bytes needed at a time), "
             "plan_ms (shapes, gradients, fusion and plan).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- Steps of training --------------------------------------------------------------------------- */

/* A product of m x k and k x n, `count` times in a step. */
struct product {
    int count, m, n, k;
};

struct model {
    const char *name, *shown;
    struct tern_nd_shape data;
    struct tern_symbol *(*make)(const struct nd *nd);
    struct product products[MAX_PRODUCTS];
};

/* Layers in a row: an operator and its attributes each. */
static struct tern_symbol *chain(const struct nd *nd, const char *const (*layers)[2], size_t n)
{
    struct tern_symbol *x = NULL;
    if (nd->tern_symbol_variable("data", &x))
        return NULL;
    for (size_t i = 0; i < n; i++)
        x = net_apply(nd, layers[i][0], NULL, &x, 1, "%s", layers[i][1]);
    return x;
}

static struct tern_symbol *make_mlp(const struct nd *nd)
{
    static const char *const layers[][2] = {
        {"fully_connected", "hidden=512"}, {"relu", ""},
        {"fully_connected", "hidden=512"}, {"relu", ""},
        {"fully_connected", "hidden=10"},  {"softmax_output", ""}};
    return chain(nd, layers, sizeof layers / sizeof *layers);
}

static struct tern_symbol *make_cnn(const struct nd *nd)
{
    static const char *const layers[][2] = {{"convolution", "kernel=3 pad=1 filters=32"},
                                            {"batch_norm", ""},
                                            {"relu", ""},
                                            {"pool", "kernel=2 stride=2"},
                                            {"convolution", "kernel=3 pad=1 filters=64"},
                                            {"batch_norm", ""},
                                            {"relu", ""},
                                            {"pool", "kernel=2 stride=2"},
                                            {"fully_connected", "hidden=128"},
                                            {"relu", ""},
                                            {"fully_connected", "hidden=10"},
                                            {"softmax_output", ""}};
    return chain(nd, layers, sizeof layers / sizeof *layers);
}

static const struct model models[] = {
    {"mlp",
     "MLP 784-512-512-10, batch 128",
     {.n_dims = 2, .dims = {128, 784}},
     make_mlp,
     {{1, 128, 512, 784},
      {2, 128, 512, 512},
      {1, 128, 10, 512},
      {1, 512, 784, 128},
      {1, 512, 512, 128},
      {1, 10, 512, 128},
      {1, 128, 512, 10}}},
    {"cnn",
     "CNN, 32 and 64 filters, batch 128",
     {.n_dims = 4, .dims = {128, 1, 28, 28}},
     make_cnn,
     {{128, 32, 784, 9},
      {43, 64, 588, 288},
      {128, 32, 9, 784},
      {43, 64, 288, 588},
      {43, 288, 588, 64},
      {2, 128, 128, 3136},
      {1, 128, 3136, 128},
      {1, 128, 10, 128},
      {1, 10, 128, 128},
      {1, 128, 128, 10}}},
};
enum { N_MODELS = 2 };

struct step_result {
    double step_ms, products_ms;
    uint64_t arena_bytes;
    int64_t grown_bytes;
};

static bool run_step(const struct nd *nd, struct tern_module *module, struct tern_array *const *in)
{
    return !nd->tern_module_forward(module, true, in, 2) && !nd->tern_module_backward(module) &&
           !nd->tern_module_update(module) && !nd->tern_array_wait_all();
}

static double products_ms(const struct nd *nd, const struct model *model, const float *a,
                          const float *b, float *c)
{
    const double begin = now_ms();
    for (const struct product *p = model->products; p->count; p++)
        for (int i = 0; i < p->count; i++)
            nd->sgemm(101, 111, 111, p->m, p->n, p->k, 1, a, p->k, b, p->n, 0, c, p->n);
    return now_ms() - begin;
}

static bool measure_steps(const struct nd *nd, const struct model *model,
                          struct tern_module *module, struct tern_array *const *in,
                          struct step_result *result)
{
    double steps[MAX_REPEATS], products[MAX_REPEATS];
    const size_t most = (size_t)1 << 22;
    float *numbers = calloc(3 * most, sizeof *numbers);
    bool ok = numbers && run_step(nd, module, in) && run_step(nd, module, in);
    const struct mallinfo2 before = mallinfo2();
    for (int64_t i = 0; ok && i < args.n_repeats; i++) {
        const double begin = now_ms();
        ok = run_step(nd, module, in);
        steps[i] = now_ms() - begin;
        products[i] =
            nd->sgemm ? products_ms(nd, model, numbers, numbers + most, numbers + 2 * most) : 0;
    }
    const struct mallinfo2 after = mallinfo2();
    result->grown_bytes =
        (int64_t)(after.uordblks + after.hblkhd) - (int64_t)(before.uordblks + before.hblkhd);
    free(numbers);
    if (!ok)
        return false;
    result->step_ms = median(steps, (size_t)args.n_repeats);
    result->products_ms = median(products, (size_t)args.n_repeats);
    return true;
}

static bool measure_model(const struct nd *nd, const struct model *model,
                          struct step_result *result)
{
    struct tern_symbol *symbol = model->make(nd);
    struct tern_module *module = NULL;
    struct tern_array *in[2] = {NULL, NULL};
    const struct tern_nd_shape labels = {
        .type = TERN_ND_I64, .n_dims = 1, .dims = {model->data.dims[0]}};
    const char *name = "data";
    bool ok = symbol && !nd->tern_module_bind(symbol, 1, &name, &model->data, NULL, &module) &&
              !nd->tern_module_init(module, "xavier", 0, 0, 1) &&
              !nd->tern_module_optimizer(module, "momentum", "rate=0.01", 0.01) &&
              !nd->tern_module_memory(module, &result->arena_bytes, NULL) &&
              !nd->tern_array_new(&model->data, NULL, &in[0]) &&
              !nd->tern_array_new(&labels, NULL, &in[1]) &&
              measure_steps(nd, model, module, in, result);
    for (int i = 0; i < 2; i++)
        if (in[i])
            nd->tern_array_close(in[i]);
    if (module)
        nd->tern_module_close(module);
    if (symbol)
        nd->tern_symbol_close(symbol);
    return ok;
}

/* ---- Arrays -------------------------------------------------------------------------------------- */

/* c = a * b + c */
static bool fma_arrays(const struct nd *nd, struct tern_array *const *abc)
{
    struct tern_array *product = NULL, *sum = NULL;
    bool ok = !nd->tern_array_apply("multiply", NULL, abc, 2, &product) &&
              !nd->tern_array_apply("add", NULL, (struct tern_array *[]){product, abc[2]}, 2, &sum);
    if (product)
        nd->tern_array_close(product);
    ok = ok && !nd->tern_array_assign(abc[2], sum);
    if (sum)
        nd->tern_array_close(sum);
    return ok && !nd->tern_array_wait_all();
}

static void fma_loop(const float *a, const float *b, float *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = a[i] * b[i] + c[i];
    __asm__ volatile("" : : "r"(c) : "memory");
}

static bool measure_fma(const struct nd *nd, double *ms, double *loop_ms)
{
    const struct tern_nd_shape shape = {.n_dims = 1, .dims = {args.n_elements}};
    const size_t n = (size_t)args.n_elements;
    double times[MAX_REPEATS], loop_times[MAX_REPEATS];
    struct tern_array *abc[3] = {NULL, NULL, NULL};
    float *plain = malloc(3 * n * sizeof *plain);
    bool ok = plain != NULL;
    for (size_t i = 0; ok && i < 3 * n; i++)
        plain[i] = (float)(i % 7);
    for (size_t i = 0; ok && i < 3; i++)
        ok = !nd->tern_array_new(&shape, plain + i * n, &abc[i]);
    for (int64_t i = -1; ok && i < args.n_repeats; i++) { /* the first is not counted */
        const double begin = now_ms();
        ok = fma_arrays(nd, abc);
        const double middle = now_ms();
        fma_loop(plain, plain + n, plain + 2 * n, n);
        if (i >= 0) {
            times[i] = middle - begin;
            loop_times[i] = now_ms() - middle;
        }
    }
    for (int i = 0; i < 3; i++)
        if (abc[i])
            nd->tern_array_close(abc[i]);
    free(plain);
    *ms = ok ? median(times, (size_t)args.n_repeats) : 0;
    *loop_ms = ok ? median(loop_times, (size_t)args.n_repeats) : 0;
    return ok;
}

/* x = x + y of one element, OPERATIONS times; the first time is not counted. */
static bool measure_operation(const struct nd *nd, double *ns)
{
    const struct tern_nd_shape shape = {.n_dims = 1, .dims = {1}};
    double times[MAX_REPEATS];
    struct tern_array *xy[2] = {NULL, NULL};
    bool ok =
        !nd->tern_array_new(&shape, NULL, &xy[0]) && !nd->tern_array_new(&shape, NULL, &xy[1]);
    for (int64_t i = -1; ok && i < args.n_repeats; i++) {
        const double begin = now_ms();
        for (int k = 0; ok && k < OPERATIONS; k++) {
            struct tern_array *next = NULL;
            ok = !nd->tern_array_apply("add", NULL, xy, 2, &next);
            nd->tern_array_close(xy[0]);
            xy[0] = next;
        }
        ok = ok && !nd->tern_array_wait_all();
        if (i >= 0)
            times[i] = (now_ms() - begin) * 1e6 / OPERATIONS;
    }
    for (int i = 0; i < 2; i++)
        if (xy[i])
            nd->tern_array_close(xy[i]);
    *ns = ok ? median(times, (size_t)args.n_repeats) : 0;
    return ok;
}

/* ---- Plans --------------------------------------------------------------------------------------- */

struct plans {
    struct tern_nd_plan training, predicting;
};

static bool measure_plans(const struct nd *nd, const struct network *network, struct plans *plans)
{
    const struct tern_nd_shape data = {.n_dims = 4,
                                       .dims = {args.batch, 3, network->side, network->side}};
    const char *name = "data";
    struct tern_symbol *symbol = network->make(nd);
    plans->training.struct_size = plans->predicting.struct_size = sizeof plans->training;
    bool ok = symbol && !nd->tern_symbol_plan(symbol, 1, &name, &data, false, &plans->training) &&
              !nd->tern_symbol_plan(symbol, 1, &name, &data, true, &plans->predicting);
    if (symbol)
        nd->tern_symbol_close(symbol);
    return ok;
}

static double ratio(const struct tern_nd_plan *plan)
{
    return (double)plan->separate_bytes / (double)plan->planned_bytes;
}

/* ---- Output -------------------------------------------------------------------------------------- */

struct results {
    const char *gemm, *convolution;
    bool has_blas;
    struct step_result steps[N_MODELS];
    double fma_ms, loop_ms, operation_ns;
    struct plans *plans;
};

static void print_plan_json(const char *name, const struct tern_nd_plan *plan)
{
    printf(",\"%s\":{\"nodes\":%u,\"planned_bytes\":%llu,\"separate_bytes\":%llu,\"ratio\":%.3f,"
           "\"over_alive\":%.3f,\"plan_ms\":%.3f}",
           name, plan->n_nodes, (unsigned long long)plan->planned_bytes,
           (unsigned long long)plan->separate_bytes, ratio(plan),
           (double)plan->planned_bytes / (double)plan->alive_bytes, plan->seconds * 1e3);
}

static void print_json(const struct results *r)
{
    printf("{\"bench\":\"nd\",\"gemm\":\"%s\",\"convolution\":\"%s\"", r->gemm, r->convolution);
    for (int i = 0; i < N_MODELS; i++) {
        const struct step_result *s = &r->steps[i];
        printf(",\"%s\":{\"step_ms\":%.3f,", models[i].name, s->step_ms);
        if (r->has_blas)
            printf("\"products_ms\":%.3f,\"ratio\":%.3f,", s->products_ms,
                   s->products_ms / s->step_ms);
        else
            printf("\"products_ms\":null,\"ratio\":null,");
        printf("\"arena_bytes\":%llu,\"grown_bytes\":%lld}", (unsigned long long)s->arena_bytes,
               (long long)s->grown_bytes);
    }
    printf(",\"fma_ms\":%.3f,\"loop_ms\":%.3f,\"fma_ratio\":%.3f,\"operation_ns\":%.1f", r->fma_ms,
           r->loop_ms, r->loop_ms / r->fma_ms, r->operation_ns);
    for (size_t i = 0; i < n_networks; i++) {
        const struct plans *p = &r->plans[i];
        printf("%s{\"name\":\"%s\",\"parameter_bytes\":%llu", i ? "," : ",\"networks\":[",
               networks[i].name, (unsigned long long)p->training.parameter_bytes);
        print_plan_json("training", &p->training);
        print_plan_json("predicting", &p->predicting);
        printf("}");
    }
    printf("]}\n");
}

static void print_plan(const char *name, const char *what, const struct tern_nd_plan *plan)
{
    printf("%-12s %-10s %7.0f %9.0f %6.2f %10.2f %8.2f\n", name, what,
           (double)plan->planned_bytes / 1e6, (double)plan->separate_bytes / 1e6, ratio(plan),
           (double)plan->planned_bytes / (double)plan->alive_bytes, plan->seconds * 1e3);
}

static const char *shown_backend(const char *name)
{
    return strcmp(name, "plain") ? name : "plain loops";
}

static void print_table(const struct results *r)
{
    printf("One thread, time of the processor. Products of matrices are by %s,\n"
           "convolutions by %s.\n\n",
           shown_backend(r->gemm), shown_backend(r->convolution));
    printf("%-34s %9s %12s %6s\n", "", "ms", "baseline ms", "ratio");
    for (int i = 0; i < N_MODELS; i++) {
        const struct step_result *s = &r->steps[i];
        printf("%-34s %9.2f", models[i].shown, s->step_ms);
        if (r->has_blas)
            printf(" %12.2f %6.2f  products alone", s->products_ms, s->products_ms / s->step_ms);
        printf("\n");
    }
    printf("a*b+c, %-27lld %9.2f %12.2f %6.2f  loop in C\n", (long long)args.n_elements, r->fma_ms,
           r->loop_ms, r->loop_ms / r->fma_ms);
    printf("\nAn operation on one number takes %.0f ns. The steps left %lld bytes allocated;\n"
           "their arenas have the planned %.1f and %.1f MB.\n\n",
           r->operation_ns, (long long)(r->steps[0].grown_bytes + r->steps[1].grown_bytes),
           (double)r->steps[0].arena_bytes / 1e6, (double)r->steps[1].arena_bytes / 1e6);
    printf("Memory in MB, batches of %lld images, without weights:\n", (long long)args.batch);
    printf("%-12s %-10s %7s %9s %6s %10s %8s\n", "", "", "planned", "separate", "ratio",
           "over alive", "plan ms");
    for (size_t i = 0; i < n_networks; i++) {
        print_plan(networks[i].name, "training", &r->plans[i].training);
        print_plan("", "predicting", &r->plans[i].predicting);
    }
}

static bool measure(const struct nd *nd, struct results *r)
{
    bool ok = !nd->tern_nd_set_threads(1);
    steps_begin(N_MODELS + 1 + n_networks);
    for (int i = 0; ok && i < N_MODELS; i++) {
        steps_next("steps of the %s", models[i].name);
        ok = measure_model(nd, &models[i], &r->steps[i]);
    }
    steps_next("elementwise operators");
    ok = ok && measure_fma(nd, &r->fma_ms, &r->loop_ms) && measure_operation(nd, &r->operation_ns);
    for (size_t i = 0; ok && i < n_networks; i++) {
        steps_next("planning %s", networks[i].name);
        ok = measure_plans(nd, &networks[i], &r->plans[i]);
    }
    steps_end();
    return ok;
}

int bench_nd_command(int argc, char **argv)
{
    int status;
    struct nd nd;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (!nd_load(&nd))
        return EXIT_FAILED;
    struct plans plans[8] = {0};
    struct results results = {.gemm = nd.tern_nd_gemm(),
                              .convolution = nd.tern_nd_convolution(),
                              .has_blas = nd.sgemm != NULL,
                              .plans = plans};
    if (!measure(&nd, &results)) {
        complain("%s", nd.tern_error());
        return EXIT_FAILED;
    }
    if (args.json)
        print_json(&results);
    else
        print_table(&results);
    return EXIT_OK;
}
