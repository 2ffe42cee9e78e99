/* mlp - trains a multilayer perceptron with libternnd: mlp [FOLDER [EPOCHS]], where FOLDER has the four files of MNIST or
 * Fashion-MNIST. Without a FOLDER it makes up data: which of ten random prototypes has lost 7 of 10 pixels. */
#include <stdio.h>
#include <stdlib.h>

#include <tern/nd.h>

static void try(enum tern_status status)
{
    if (status) {
        fprintf(stderr, "mlp: %s\n", tern_error());
        exit(1);
    }
}

static struct tern_array *op(const char *name, const char *how, struct tern_array *a,
                             struct tern_array *b)
{
    struct tern_array *out, *inputs[] = {a, b};
    try(tern_array_apply(name, how, inputs, a ? b ? 2 : 1 : 0, &out));
    return out;
}

static struct tern_array *load(const char *folder, const char *set, const char *what)
{
    char path[4096];
    struct tern_array *array;
    snprintf(path, sizeof path, "%s/%s-%s-ubyte.gz", folder, set, what);
    try(tern_array_load(path, "idx", &array));
    return array;
}

/* An iterator over images, scaled to 0 .. 1, and labels. */
static struct tern_iterator *read_set(const char *folder, const char *set, int seed)
{
    struct tern_iterator_options options = {
        .struct_size = sizeof options, .batch = 100, .seed = (uint64_t)seed};
    struct tern_iterator *iterator;
    struct tern_array *images, *labels;
    if (folder) {
        images = op("cast", "type=f32", load(folder, set, "images-idx3"), NULL);
        images = op("divide", NULL, images, op("constant", "value=255", NULL, NULL));
        labels = load(folder, set, "labels-idx1");
    } else {
        labels = op("random_uniform",
                    seed ? "shape=5000 high=10 seed=1" : "shape=1000 high=10 seed=2", NULL, NULL);
        labels = op("cast", "type=i64", labels, NULL);
        images = op("random_uniform", "shape=10,28,28 seed=3", NULL, NULL);
        images = op("take", NULL, images, labels);
        images = op("dropout", "rate=0.7", images, NULL);
    }
    try(tern_iterator_open(images, labels, &options, &iterator));
    return iterator;
}

int main(int argc, char **argv)
{
    struct tern_iterator *train = read_set(argc > 1 ? argv[1] : NULL, "train", 7);
    struct tern_iterator *test = read_set(argc > 1 ? argv[1] : NULL, "t10k", 0);
    struct tern_nd_shape shape = {.type = TERN_ND_F32, .n_dims = 3, .dims = {100, 28, 28}};
    struct tern_symbol *net;
    struct tern_module *module;
    try(tern_symbol_variable("data", &net));
    try(tern_symbol_apply("fully_connected", "hidden=128", "fc1", &net, 1, &net));
    try(tern_symbol_apply("relu", NULL, "relu1", &net, 1, &net));
    try(tern_symbol_apply("fully_connected", "hidden=10", "fc2", &net, 1, &net));
    try(tern_symbol_apply("softmax_output", NULL, "softmax", &net, 1, &net));
    try(tern_module_bind(net, 1, (const char *[]){"data"}, &shape, NULL, &module));
    try(tern_module_init(module, "xavier", 0, 0, 1));
    try(tern_module_optimizer(module, "momentum", "rate=0.05 decay=0.9", 0.01));
    for (int epoch = 1; epoch <= (argc > 2 ? atoi(argv[2]) : 3); epoch++) {
        double accuracy, loss;
        try(tern_module_fit(module, train));
        try(tern_module_score(module, test, &accuracy, &loss));
        printf("epoch %d: accuracy %.4f, cross entropy %.4f\n", epoch, accuracy, loss);
    }
    return tern_module_close(module) || tern_iterator_close(train) || tern_iterator_close(test);
}
