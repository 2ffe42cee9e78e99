/*
 * proximal - sparse regression by delayed block proximal gradient (M. Li, thesis, 3.2): every node computes
 * gradients on data of its own, and the nodes that have the weights take the steps, up to DELAY rounds ahead
 * of what has finished. Run it with several nodes: tern run -n 4 -- proximal [DELAY]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <tern/tern.h>

enum { FEATURES = 200, BLOCKS = 4, ROWS = 1000, ROUNDS = 160, MAX_NODES = 64 };

static struct tern_table *weights, *gradients;
static double x[ROWS][FEATURES], y[ROWS]; /* this node's data: y = x * truth + noise */
static uint64_t keys[FEATURES];
static uint32_t self, n_nodes;

static double truth(int j)
{
    return j % 10 ? 0 : j % 20 ? -1 : 2;
}

static double noise(unsigned *seed)
{
    return ((double)rand_r(seed) / RAND_MAX + (double)rand_r(seed) / RAND_MAX - 1) * sqrt(6);
}

static void make_data(unsigned seed)
{
    for (int i = 0; i < ROWS; i++) {
        y[i] = 0.1 * noise(&seed);
        for (int j = 0; j < FEATURES; j++)
            y[i] += truth(j) * (x[i][j] = noise(&seed));
    }
    for (int j = 0; j < FEATURES; j++)
        keys[j] = (uint64_t)j;
}

/* At every node: adds the gradient of a block of features, on the data here; gives the squared error. */
static enum tern_status add_gradient(void *context, struct tern_task *task)
{
    (void)context;
    double w[FEATURES], g[FEATURES] = {0}, *error = task->result;
    if (tern_pull(task->worker, weights, keys, FEATURES, w))
        return TERN_PEER;
    for (int i = 0; i < ROWS; i++) {
        double residual = -y[i];
        for (int j = 0; j < FEATURES; j++)
            residual += x[i][j] * w[j];
        *error += residual * residual;
        for (uint64_t j = task->begin; j < task->end; j++)
            g[j] += residual * x[i][j] / (ROWS * n_nodes);
    }
    task->result_bytes = sizeof *error;
    return tern_push(task->worker, gradients, keys + task->begin, task->end - task->begin,
                     g + task->begin);
}

/* Where the weights of a block are: w <- shrink(w - rate * g). The gradient that was used is taken back. */
static enum tern_status take_step(void *context, struct tern_task *task)
{
    (void)context;
    const double rate = 0.3, lambda = 0.02;
    double w[FEATURES], g[FEATURES];
    size_t n = task->end - task->begin;
    if (tern_pull(task->worker, weights, keys + task->begin, n, w) ||
        tern_pull(task->worker, gradients, keys + task->begin, n, g))
        return TERN_PEER;
    for (size_t j = 0; j < n; j++) {
        double moved = w[j] - rate * g[j];
        w[j] = copysign(fmax(fabs(moved) - rate * lambda, 0), moved) - w[j];
        g[j] = -g[j];
    }
    enum tern_status status = tern_push(task->worker, weights, keys + task->begin, n, w);
    return status ? status : tern_push(task->worker, gradients, keys + task->begin, n, g);
}

/* What node 0 does: it submits all rounds, then watches them. */
static enum tern_status schedule(struct tern_worker *worker, uint64_t delay)
{
    static double errors[ROUNDS][MAX_NODES];
    uint64_t ids[ROUNDS], step;
    enum tern_status status = tern_task_delay(worker, 2 * delay); /* a round is two tasks */
    for (uint64_t t = 0; !status && t < ROUNDS; t++) {
        uint64_t block = t % BLOCKS;
        struct tern_task_options task = {.struct_size = sizeof task,
                                         .function = "add_gradient",
                                         .begin = block * FEATURES / BLOCKS,
                                         .end = (block + 1) * FEATURES / BLOCKS,
                                         .results = errors[t],
                                         .result_bytes = sizeof errors[t][0]};
        status = tern_task_submit(worker, &task, &ids[t]);
        task.function = "take_step";
        task.table = weights; /* each node its part of the block */
        task.after = &ids[t];
        task.n_after = 1;
        task.result_bytes = 0;
        status = status ? status : tern_task_submit(worker, &task, &step);
    }
    for (uint64_t t = 0; !status && t < ROUNDS; t++) {
        double sum = 0;
        status = tern_task_wait(worker, ids[t], 0);
        for (uint32_t i = 0; i < n_nodes; i++)
            sum += errors[t][i];
        if (!status && (t % 20 == 0 || t == ROUNDS - 1))
            printf("round %3d: mean squared error %.4f\n", (int)t, sum / (ROWS * n_nodes));
    }
    return status ? status : tern_task_wait(worker, 0, 0);
}

static void show(const double *w)
{
    int n_used = 0, n_right = 0;
    for (int j = 0; j < FEATURES; j++) {
        n_used += w[j] != 0;
        n_right += w[j] != 0 && truth(j) != 0;
    }
    printf("%d of %d features are used, among them %d of the %d that count\n", n_used, FEATURES,
           n_right, FEATURES / 10);
}

int main(int argc, char **argv)
{
    struct tern_node *node;
    struct tern_worker *worker;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_F64,
                                         .n_keys = FEATURES,
                                         .length = 1,
                                         .policy = "static"};
    double w[FEATURES];

    if (tern_node_open(NULL, &node) || tern_node_self(node, &self, &n_nodes) ||
        tern_table_open(node, "weights", &options, &weights) ||
        tern_table_open(node, "gradients", &options, &gradients) ||
        tern_worker_open(node, &worker) ||
        tern_function_register(node, "add_gradient", add_gradient, NULL) ||
        tern_function_register(node, "take_step", take_step, NULL))
        goto failed;
    make_data(self + 1);
    if (tern_barrier(node))
        goto failed;
    if (self == 0) {
        if (schedule(worker, argc > 1 ? strtoull(argv[1], NULL, 10) : 2) ||
            tern_pull(worker, weights, keys, FEATURES, w))
            goto failed;
        show(w);
    }
    if (tern_worker_close(worker) ||
        tern_node_close(node)) /* the others serve until all are here */
        goto failed;
    return 0;

failed:
    fprintf(stderr, "proximal: %s\n", tern_error());
    return 1;
}
