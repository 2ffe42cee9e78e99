/*
 * tern train net - trains a dense network with libternnd: layers, convolutions, ResNet-20, or a graph from a file.
 *
 * With several nodes each takes its part of the rows and of each batch. A store sums the gradients, and every node makes the
 * same step with the sum, so that all have the same parameters. Node 0 tests, prints and writes.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "bench_nd_nets.h"
#include "command.h"
#include "net_data.h"
#include "train.h"

static struct {
    const char *net, *labels, *test, *test_labels, *optimizer;
    struct int_list hidden, channels;
    int64_t batch, crop;
    double rate, dropout;
    bool flip;
} args;

static const char *const optimizers[] = {"sgd", "momentum", "adam", NULL};

static const struct option options[] = {
    {"data", OPTION_STRING, &train_args.data, .takes = "LIST",
     .help =
         "training data: a folder with the files of MNIST or CIFAR-10, or files: IDX, .npy, .csv "
         "or .bin (CIFAR-10), also .gz",
     .group = "Data"},
    {"labels", OPTION_STRING, &args.labels, .takes = "LIST",
     .help = "their labels, whole numbers from 0 on; CIFAR-10 has them with the images"},
    {"test", OPTION_STRING, &args.test, .takes = "LIST",
     .help = "test data; with a folder as --data, the test files in it unless given"},
    {"test-labels", OPTION_STRING, &args.test_labels, .takes = "LIST", .help = "their labels"},
    {"net", OPTION_STRING, &args.net, "mlp", "NAME",
     "mlp, cnn, resnet20, or a file of JSON with a symbol of \"data\"", .group = "Model"},
    {"hidden", OPTION_INTS, &args.hidden, "0", "LIST",
     "outputs of hidden layers; 0: 512,512 for mlp, 128 for cnn", .min = 0, .max = 65536},
    {"channels", OPTION_INTS, &args.channels, "32,64", "LIST",
     "filters of the convolutions of cnn, each with batch normalisation and a pool of 2 x 2",
     .min = 1, .max = 4096},
    {"dropout", OPTION_DOUBLE, &args.dropout, "0.2", "X", "share that dropout zeros; 0: none",
     .min = 0, .max = 0.95},
    {"epochs", OPTION_INT, &train_args.n_epochs, "10", "N", "epochs of training", .min = 0,
     .max = 1e9, .group = "Training"},
    {"batch", OPTION_INT, &args.batch, "128", "N", "rows of a batch, of all nodes together",
     .min = 1, .max = 1 << 20},
    {"optimizer", OPTION_STRING, &args.optimizer, "momentum", "NAME", "sgd, momentum or adam",
     .choices = optimizers},
    {"rate", OPTION_DOUBLE, &args.rate, "0", "X",
     "rate of the first epoch, which falls as a cosine; 0: 0.05, with adam 0.001", .min = 0,
     .max = 1e3, .aliases = "lr,learning-rate"},
    {"flip", OPTION_FLAG, &args.flip, .help = "mirror half of the images"},
    {"crop", OPTION_INT, &args.crop, "0", "N", "move each image by up to N pixels", .min = 0,
     .max = 64},
};

/* Those of the general options that have a meaning here. */
static struct option common[7];

static struct option_set option_set = {
    .program = "tern train net",
    .about = "Trains a dense network to classify images or rows of numbers, with libternnd.",
    .notes =
        "With --out the folder gets net.json, the graph, and net.safetensors, its parameters,\n"
        "which Python's tern.nd and C load. JSON fields per epoch: epoch, accuracy and loss (mean\n"
        "cross entropy) of the test data, null without any, and seconds.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = common,
};

static void choose_common(void)
{
    static const char *const names[] = {"nodes", "threads", "link",     "seed",
                                        "json",  "out",     "overwrite"};
    option_set.n_common = 0;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (size_t i = 0; i < TRAIN_N_GENERAL; i++)
            if (strcmp(train_general[i].name, names[k]) == 0)
                common[option_set.n_common++] = train_general[i];
    train_args.slow = -1;
}

static struct nd nd;

/* ---- Networks ------------------------------------------------------------------------------------ */

static struct tern_symbol *step(struct tern_symbol *x, const char *op, const char *attributes)
{
    return net_apply(&nd, op, NULL, &x, 1, "%s", attributes);
}

static struct tern_symbol *dense(struct tern_symbol *x, int64_t n)
{
    return net_apply(&nd, "fully_connected", NULL, &x, 1, "hidden=%lld", (long long)n);
}

static struct tern_symbol *hidden_layers(struct tern_symbol *x, const int64_t *usual,
                                         size_t n_usual)
{
    const bool given = args.hidden.at[0] > 0;
    for (size_t i = 0; i < (given ? args.hidden.n : n_usual); i++) {
        x = step(dense(x, given ? args.hidden.at[i] : usual[i]), "relu", "");
        if (args.dropout > 0)
            x = net_apply(&nd, "dropout", NULL, &x, 1, "rate=%.9g seed=%zu", args.dropout, i + 1);
    }
    return x;
}

static struct tern_symbol *convolve(struct tern_symbol *x, int64_t filters, int kernel, int stride)
{
    x = net_apply(&nd, "convolution", NULL, &x, 1, "kernel=%d stride=%d pad=%d filters=%lld",
                  kernel, stride, kernel / 2, (long long)filters);
    return step(x, "batch_norm", "");
}

/* ResNet-20 of He et al., with projections where the shape changes. */
static struct tern_symbol *resnet20(struct tern_symbol *x)
{
    x = step(convolve(x, 16, 3, 1), "relu", "");
    for (int stage = 0; stage < 3; stage++)
        for (int block = 0; block < 3; block++) {
            const int filters = 16 << stage, stride = stage > 0 && block == 0 ? 2 : 1;
            struct tern_symbol *outer = NULL;
            if (!x || nd.tern_symbol_apply("copy", NULL, NULL, &x, 1, &outer))
                outer = NULL;
            struct tern_symbol *inner = step(convolve(x, filters, 3, stride), "relu", "");
            inner = convolve(inner, filters, 3, 1);
            outer = stride > 1 ? convolve(outer, filters, 1, stride) : outer;
            x = net_apply(&nd, "add", NULL, (struct tern_symbol *[]){inner, outer}, 2, "%s", "");
            x = step(x, "relu", "");
        }
    return step(x, "mean", "axis=2,3");
}

/* A symbol from a file of JSON. */
static struct tern_symbol *read_symbol(const char *path)
{
    enum { MOST = 1 << 26 };
    struct tern_symbol *symbol = NULL;
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(MOST) : NULL;
    const size_t n = text ? fread(text, 1, MOST, file) : 0;
    if (!file)
        complain("--net is mlp, cnn, resnet20 or a file, not '%s': %s", path, strerror(errno));
    else if (!text || nd.tern_symbol_load(text, n, &symbol))
        complain("%s: %s", path, text ? nd.tern_error() : strerror(ENOMEM));
    free(text);
    if (file)
        fclose(file);
    return symbol;
}

static struct tern_symbol *make_net(const struct tern_nd_shape *data, int64_t n_classes)
{
    static const int64_t wide[] = {512, 512}, narrow[] = {128};
    const bool is_mlp = strcmp(args.net, "mlp") == 0, is_cnn = strcmp(args.net, "cnn") == 0;
    if (!is_mlp && !is_cnn && strcmp(args.net, "resnet20") != 0)
        return read_symbol(args.net);
    if (!is_mlp && data->n_dims != 4) {
        complain("--net %s is for images, and the data has rows of numbers", args.net);
        return NULL;
    }
    struct tern_symbol *x = NULL;
    if (nd.tern_symbol_variable("data", &x))
        x = NULL;
    if (is_mlp)
        x = hidden_layers(x, wide, 2);
    for (size_t i = 0; is_cnn && i < args.channels.n; i++)
        x = step(step(convolve(x, args.channels.at[i], 3, 1), "relu", ""), "pool",
                 "kernel=2 stride=2");
    x = is_mlp ? x : is_cnn ? hidden_layers(x, narrow, 1) : resnet20(x);
    x = step(dense(x, n_classes), "softmax_output", "");
    if (!x)
        complain("%s", nd.tern_error());
    return x;
}

/* ---- Training ------------------------------------------------------------------------------------ */

struct trainer {
    struct tern_node *node;
    struct tern_store *store; /* NULL: one node */
    uint32_t self, n_nodes;
    struct net_set train, test;
    struct tern_symbol *symbol;
    struct tern_module *module;
    struct tern_iterator *rows, *test_rows;
    int64_t batch;   /* of this node */
    int64_t n_steps; /* of an epoch, the same at all nodes */
    size_t n_gradients;
    struct tern_array **gradients;
};

/* What a node gets is the sum of what all pushed. */
static enum tern_status replace(void *context, const char *key, struct tern_array *sum,
                                struct tern_array *value)
{
    (void)context;
    (void)key;
    return nd.tern_array_assign(value, sum);
}

static bool open_store(struct trainer *t)
{
    struct tern_store_options store = {.struct_size = sizeof store, .node = t->node};
    return t->n_nodes == 1 || (nd.tern_store_open(&store, &t->store) == TERN_OK &&
                               nd.tern_store_set_function(t->store, replace, NULL) == TERN_OK);
}

/* One more than the largest label. */
static bool count_classes(const struct trainer *t, int64_t *n)
{
    struct tern_array *largest = NULL, *labels = t->train.labels;
    const bool ok = nd.tern_array_apply("max", NULL, &labels, 1, &largest) == TERN_OK &&
                    nd.tern_array_read(largest, n, sizeof *n) == TERN_OK;
    if (largest)
        nd.tern_array_close(largest);
    *n += 1;
    return ok;
}

static bool list_gradients(struct trainer *t)
{
    const char *name = NULL;
    while (nd.tern_module_name(t->module, t->n_gradients, &name) == TERN_OK && name) {
        struct tern_array **more =
            realloc(t->gradients, (t->n_gradients + 1) * sizeof(struct tern_array *));
        if (!more)
            return false;
        t->gradients = more;
        if (nd.tern_module_gradient(t->module, name, &more[t->n_gradients]))
            return false;
        t->n_gradients++;
    }
    return true;
}

static bool open_iterators(struct trainer *t)
{
    struct tern_iterator_options rows = {.struct_size = sizeof rows,
                                         .batch = (uint32_t)t->batch,
                                         .part = t->self,
                                         .n_parts = t->n_nodes,
                                         .seed = (uint64_t)train_args.seed + 1,
                                         .drop_last = t->n_nodes > 1,
                                         .flips = args.flip,
                                         .crops = (uint32_t)args.crop};
    struct tern_iterator_options test = {.struct_size = sizeof test, .batch = (uint32_t)t->batch};
    return nd.tern_iterator_open(t->train.data, t->train.labels, &rows, &t->rows) == TERN_OK &&
           (!t->test.data ||
            nd.tern_iterator_open(t->test.data, t->test.labels, &test, &t->test_rows) == TERN_OK);
}

static bool open_module(struct trainer *t)
{
    struct tern_nd_shape shape = t->train.shape;
    int64_t n_classes;
    shape.dims[0] = t->batch;
    if (!count_classes(t, &n_classes)) {
        complain("%s", nd.tern_error());
        return false;
    }
    t->symbol = make_net(&shape, n_classes);
    if (!t->symbol)
        return false;
    if (nd.tern_module_bind(t->symbol, 1, (const char *const[]){"data"}, &shape, NULL,
                            &t->module) ||
        nd.tern_module_init(t->module, "xavier", 0, 0, (uint64_t)train_args.seed) ||
        !list_gradients(t) || !open_iterators(t)) {
        complain("%s", nd.tern_error());
        return false;
    }
    return true;
}

/* The sum over the nodes takes the place of each gradient. The last layers' are there first, the first layers' are needed
 * first. */
static bool exchange(const struct trainer *t)
{
    char key[32];
    bool ok = true;
    for (size_t i = t->n_gradients; t->store && i-- > 0 && ok;) {
        snprintf(key, sizeof key, "%zu", i);
        ok = nd.tern_store_push(t->store, key, t->gradients[i]) == TERN_OK;
    }
    for (size_t i = 0; t->store && i < t->n_gradients && ok; i++) {
        snprintf(key, sizeof key, "%zu", i);
        ok = nd.tern_store_pull(t->store, key, t->gradients[i]) == TERN_OK;
    }
    return ok;
}

static bool fit(struct trainer *t)
{
    struct tern_array *in[2];
    uint32_t n = 0;
    for (int64_t i = 0;; i++) {
        if (nd.tern_iterator_next(t->rows, &in[0], &in[1], &n))
            return false;
        if (n == 0)
            break;
        if (t->n_nodes > 1 && i >= t->n_steps)
            continue; /* others have a batch less */
        if (nd.tern_module_forward(t->module, true, in, 2) || nd.tern_module_backward(t->module) ||
            !exchange(t) || nd.tern_module_update(t->module))
            return false;
    }
    return nd.tern_array_wait_all() == TERN_OK && (!t->store || !nd.tern_store_wait(t->store));
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void print_epoch(const struct trainer *t, int64_t epoch, double accuracy, double loss,
                        double spent)
{
    const long long at = (long long)epoch;
    if (train_args.json && t->test.data)
        printf("{\"epoch\":%lld,\"accuracy\":%.6g,\"loss\":%.6g,\"seconds\":%.3f}\n", at, accuracy,
               loss, spent);
    else if (train_args.json)
        printf("{\"epoch\":%lld,\"accuracy\":null,\"loss\":null,\"seconds\":%.3f}\n", at, spent);
    else if (t->test.data)
        printf("epoch %lld: accuracy %.4f, cross entropy %.4f, %.1f s\n", at, accuracy, loss,
               spent);
    else
        printf("epoch %lld: %.1f s\n", at, spent);
    fflush(stdout);
}

static bool train(struct trainer *t)
{
    const double usual = strcmp(args.optimizer, "adam") == 0 ? 0.001 : 0.05,
                 first = args.rate > 0 ? args.rate : usual;
    for (int64_t epoch = 1; epoch <= train_args.n_epochs; epoch++) {
        char how[64];
        double accuracy = 0, loss = 0;
        const double part = (double)(epoch - 1) / (double)train_args.n_epochs, begin = seconds();
        snprintf(how, sizeof how, "rate=%.12g", first * (1 + cos(3.14159265358979 * part)) / 2);
        if (nd.tern_module_optimizer(t->module, args.optimizer, how,
                                     1 / (double)(t->batch * t->n_nodes)) ||
            !fit(t))
            return false;
        const double spent = seconds() - begin;
        if (t->self > 0)
            continue;
        if (t->test.data && nd.tern_module_score(t->module, t->test_rows, &accuracy, &loss))
            return false;
        print_epoch(t, epoch, accuracy, loss, spent);
    }
    return true;
}

/* ---- The model that is kept ---------------------------------------------------------------------- */

static bool may_write(void)
{
    char path[4096];
    struct stat status;
    if (!train_args.out)
        return true;
    snprintf(path, sizeof path, "%s/net.json", train_args.out);
    if (!train_args.overwrite && stat(path, &status) == 0)
        complain("%s has a model already; --overwrite replaces it", train_args.out);
    else if (mkdir(train_args.out, 0777) != 0 && errno != EEXIST)
        complain("%s: %s", train_args.out, strerror(errno));
    else
        return true;
    return false;
}

static bool write_model(const struct trainer *t)
{
    char path[4096], *text = NULL;
    if (!train_args.out || t->self > 0)
        return true;
    snprintf(path, sizeof path, "%s/net.safetensors", train_args.out);
    if (nd.tern_module_save(t->module, path) || nd.tern_symbol_save(t->symbol, &text)) {
        complain("%s", nd.tern_error());
        return false;
    }
    snprintf(path, sizeof path, "%s/net.json", train_args.out);
    FILE *file = fopen(path, "w");
    bool ok = file && fputs(text, file) >= 0;
    ok = file && fclose(file) == 0 && ok;
    if (!ok)
        complain("%s: %s", path, strerror(errno));
    free(text);
    return ok;
}

/* ---- The whole ----------------------------------------------------------------------------------- */

static bool read_sets(struct trainer *t)
{
    struct stat status;
    const bool is_folder = stat(train_args.data, &status) == 0 && S_ISDIR(status.st_mode);
    const char *test = args.test ? args.test : is_folder ? train_args.data : NULL;
    if (!net_read(&nd, false, train_args.data, args.labels, &t->train) ||
        (test && !net_read(&nd, true, test, args.test_labels, &t->test)))
        return false;
    t->batch = args.batch / t->n_nodes;
    const int64_t rows = t->train.shape.dims[0];
    if (t->batch < 1 || rows / t->n_nodes < t->batch) {
        complain("batches of %lld rows do not fit %u nodes and %lld rows", (long long)args.batch,
                 t->n_nodes, (long long)rows);
        return false;
    }
    t->n_steps = rows / t->n_nodes / t->batch;
    return true;
}

static void close_all(struct trainer *t)
{
    for (size_t i = 0; i < t->n_gradients; i++)
        nd.tern_array_close(t->gradients[i]);
    free(t->gradients);
    if (t->rows)
        nd.tern_iterator_close(t->rows);
    if (t->test_rows)
        nd.tern_iterator_close(t->test_rows);
    if (t->module)
        nd.tern_module_close(t->module);
    if (t->symbol)
        nd.tern_symbol_close(t->symbol);
    net_release(&nd, &t->train);
    net_release(&nd, &t->test);
}

static bool run(void)
{
    struct trainer t = {0};
    if (nd.tern_nd_set_threads((uint32_t)train_args.n_threads) ||
        nd.tern_node_open(NULL, &t.node) || nd.tern_node_self(t.node, &t.self, &t.n_nodes)) {
        complain("%s", nd.tern_error());
        return false;
    }
    bool ok = read_sets(&t) && open_module(&t) && (t.self > 0 || may_write());
    if (ok && !(ok = open_store(&t) && train(&t)))
        complain("%s", nd.tern_error());
    ok = ok && write_model(&t);
    /* Closing waits for the other nodes; where one has failed, they are told by the end of its process. */
    if (ok && t.store && nd.tern_store_close(t.store))
        complain("%s", nd.tern_error());
    close_all(&t);
    if (ok && nd.tern_node_close(t.node)) {
        complain("%s", nd.tern_error());
        return false;
    }
    return ok;
}

int train_net_command(int argc, char **argv)
{
    int status;
    choose_common();
    if (!train_begin(&option_set, argc, argv, &status))
        return status;
    if (train_args.data == NULL) {
        complain("which data? --data FOLDER or FILES; see 'tern train net --help'");
        return EXIT_USAGE;
    }
    return nd_load(&nd) && run() ? EXIT_OK : EXIT_FAILED;
}
