/* train - what training any model has in common. See train.h. */
#include "common/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/outputs.h"
#include "common/team.h"

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Compares what must be alike at this node with that of node 0, line by line. */
static bool compare_alike(uint32_t self, const char *own, const char *first)
{
    size_t at = 0;
    while (own[at] != '\0' && own[at] == first[at])
        at++;
    if (own[at] == first[at])
        return true;
    while (at > 0 && own[at - 1] != '\n')
        at--;
    own += at;
    first += at;
    return task_fail("node %u %.*s, but node 0 %.*s: %s", self, (int)strcspn(own, "\n"), own,
                     (int)strcspn(first, "\n"), first,
                     strncmp(own, "has --threads ", strlen("has --threads ")) == 0
                         ? "the default is the cores of the host, so give --threads"
                         : "give all nodes the same options");
}

/* Nodes that were started with different options would wait for what the others never do, or learn something
 * else. */
static bool check_alike(struct train *train)
{
    char first[TRAIN_ALIKE_BYTES] = "";
    if (train->n_nodes == 1)
        return true;
    snprintf(first, sizeof first, "%s", train->options->alike);
    if (tern_broadcast(train->node, 0, sizeof first, first))
        return task_fail_tern("cannot compare the options of the nodes");
    return train_agree(train, compare_alike(train->self, train->options->alike, first));
}

/* A launcher decides how many nodes there are, and --nodes may only say the same. */
static bool check_number(struct train *train)
{
    int64_t wanted = train->options->n_nodes;
    bool ok = wanted <= 1 || wanted == train->n_nodes ||
              task_fail("--nodes %" PRId64 " was given to a process that a launcher has started as "
                        "one of %u: let the launcher start %" PRId64 ", or leave --nodes out",
                        wanted, train->n_nodes, wanted);
    return train_agree(train, ok);
}

static bool open_node(struct train *train)
{
    return (!tern_node_open(NULL, &train->node) &&
            !tern_node_self(train->node, &train->self, &train->n_nodes)) ||
           task_fail_tern("cannot open the node");
}

static bool open_workers(struct train *train)
{
    train->workers = calloc(train->n_threads, sizeof *train->workers);
    train->waited_s = calloc(train->n_threads, sizeof *train->waited_s);
    if (train->workers == NULL || train->waited_s == NULL)
        return task_fail_memory("the workers");
    for (size_t i = 0; i < train->n_threads; i++)
        if (tern_worker_open(train->node, &train->workers[i]))
            return task_fail_tern("cannot open a worker");
    return true;
}

bool train_open(struct train *train, const struct train_options *options)
{
    *train = (struct train){.options = options,
                            .n_nodes = 1,
                            .n_threads = (size_t)options->n_threads,
                            .started_s = seconds_now()};
    bool ok = options->plain || (open_node(train) && check_number(train) && check_alike(train) &&
                                 open_workers(train));
    bool bar = train_speaks(train) && !options->json && isatty(STDERR_FILENO);
    ok = ok && progress_init(&train->progress, train->n_threads, bar);
    return ok || train_close(train, false);
}

/* Says what went wrong while the other nodes wait for this one to close: a launcher that sees the first
 * of them exit may end this one at once. */
static void speak_up(struct train *train)
{
    progress_erase(&train->progress);
    if (train->n_nodes > 1 && task_error()[0] != '\0')
        fprintf(stderr, "tern: %s\n", task_error());
    if (train->n_nodes > 1)
        task_fail("%s", "");
}

bool train_close(struct train *train, bool ok)
{
    if (!ok)
        speak_up(train);
    for (size_t i = 0; train->workers != NULL && i < train->n_threads; i++)
        if (train->workers[i] != NULL)
            (void)tern_worker_close(train->workers[i]);
    free(train->workers);
    free(train->waited_s);
    /* Tables end with their node, when the other nodes need them no more. */
    bool closed = train->node == NULL || !tern_node_close(train->node);
    for (size_t i = 0; i < train->n_params; i++)
        if (train->params[i].values != NULL)
            params_close(&train->params[i]);
    progress_fini(&train->progress);
    return ok && (closed || task_fail_tern("cannot close the node"));
}

struct params *train_params(struct train *train, const char *name, uint64_t n_keys, size_t length,
                            tern_init_function *init, void *context)
{
    struct params *params = &train->params[train->n_params];
    if (!params_open(params, train->node, train->options->policy, name, n_keys, length, init,
                     context))
        return NULL;
    train->n_params++;
    return params;
}

void train_watch(struct train *train, struct tern_table *table)
{
    train->params[train->n_params++] = (struct params){.table = table};
}

/* ---- All nodes at once ----------------------------------------------------------------------- */

bool train_sum(struct train *train, size_t n, double *values)
{
    return train->n_nodes == 1 || !tern_all_reduce(train->node, TERN_F64, n, values) ||
           task_fail_tern("cannot add up over the nodes");
}

bool train_agree(struct train *train, bool ok)
{
    if (train->n_nodes == 1)
        return ok;
    int32_t *failed = calloc(train->n_nodes, sizeof *failed);
    if (failed == NULL)
        return task_fail_memory("the nodes");
    failed[train->self] = !ok;
    bool heard = !tern_all_reduce(train->node, TERN_I32, train->n_nodes, failed);
    uint32_t first = 0;
    while (heard && first < train->n_nodes && !failed[first])
        first++;
    free(failed);
    if (!heard)
        return ok ? task_fail_tern("cannot hear the other nodes") : false;
    if (first == train->n_nodes)
        return true;
    return first == train->self ? false : task_fail("%s", "");
}

bool train_agree_on(struct train *train, bool ok, uint64_t digest)
{
    uint64_t first = digest;
    if (!train_agree(train, ok))
        return false;
    if (train->n_nodes > 1 && tern_broadcast(train->node, 0, sizeof first, &first))
        return task_fail_tern("cannot compare the data of the nodes");
    return train_agree(train, first == digest ||
                                  task_fail("node %u has read other data than node 0: give all "
                                            "nodes the same files",
                                            train->self));
}

/* Waits until replicas agree, so that all nodes measure and save the same model, and until the rows of
 * the first batches have come. */
static bool come_to_rest(struct train *train)
{
    return train->node == NULL || !tern_quiesce(train->node) ||
           task_fail_tern("cannot wait for the other nodes");
}

bool train_share_saved(struct train *train, bool ok, size_t bytes, void *facts)
{
    if (!train_agree(train, ok))
        return false;
    if (train->n_nodes > 1 && tern_broadcast(train->node, 0, bytes, facts))
        return task_fail_tern("cannot tell the nodes of the saved model");
    return come_to_rest(train);
}

/* ---- One epoch ------------------------------------------------------------------------------- */

struct epoch {
    struct train *train;
    const struct train_task *task;
    void *model;
    int64_t number; /* from 1 */
};

static bool out_of_time(const struct train *train)
{
    double limit_s = train->options->time_limit_s;
    return limit_s > 0 && seconds_now() - train->started_s >= limit_s;
}

static void advance_to(struct tern_worker *worker, uint64_t clock)
{
    uint64_t now = 0;
    (void)tern_worker_clock(worker, &now);
    for (; now < clock; now++)
        (void)tern_worker_advance(worker, NULL);
}

void train_keep_clock(struct train *train, size_t thread)
{
    const uint64_t n_clocks = (uint64_t)train->options->n_clocks;
    const uint64_t share = train->progress.n_total / train->n_threads;
    uint64_t n_done =
        atomic_load_explicit(&train->progress.slots[thread].n_examples, memory_order_relaxed);
    uint64_t n_passed = share > 0 ? n_done * n_clocks / share : 0;
    /* The last one is over with the epoch: threads have about as many examples, not exactly. */
    if (n_passed > n_clocks - 1)
        n_passed = n_clocks - 1;
    advance_to(train->workers[thread], train->epoch_clock + n_passed);
}

static bool work(void *context, size_t thread)
{
    struct epoch *epoch = context;
    struct train *train = epoch->train;
    bool ok = epoch->task->epoch(epoch->model, train, thread, epoch->number);
    if (train->workers == NULL)
        return ok;
    const int64_t n_clocks = train->options->n_clocks;
    if (n_clocks > 0)
        advance_to(train->workers[thread], train->epoch_clock + (uint64_t)n_clocks);
    /* Others may have more batches; under bounded policies they would wait for this one's clock. */
    if (n_clocks == 0 || !ok)
        (void)tern_worker_rest(train->workers[thread]);
    return ok;
}

static void tick(void *context, bool failed)
{
    struct train *train = ((struct epoch *)context)->train;
    if (failed || out_of_time(train))
        atomic_store_explicit(&train->stopping, true, memory_order_relaxed);
    progress_draw(&train->progress);
}

static bool run_epoch(struct epoch *epoch)
{
    struct train *train = epoch->train;
    char title[64];
    snprintf(title, sizeof title, "epoch %" PRId64 " of %" PRId64, epoch->number,
             train->options->n_epochs);
    progress_begin(&train->progress, title, epoch->task->unit,
                   epoch->task->n_examples(epoch->model));
    bool ok = team_run(train->n_threads, work, tick, epoch);
    train->epoch_clock += (uint64_t)train->options->n_clocks;
    /* An epoch may be over before the first tick. */
    if (out_of_time(train))
        atomic_store_explicit(&train->stopping, true, memory_order_relaxed);
    progress_erase(&train->progress);
    return train_agree(train, ok);
}

/* ---- Figures --------------------------------------------------------------------------------- */

/* Sums over all nodes, so all members are double. */
struct sums {
    double n_examples, loss, stopping;
    double accesses, remote, bytes;
    double refreshes, staleness_ms; /* of replicas since the start: their number, and the sum */
};

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* What this node's tables have counted so far. */
static void count_accesses(const struct train *train, struct sums *sums)
{
    for (size_t i = 0; i < train->n_params; i++) {
        struct tern_table_stats stats = {.struct_size = sizeof stats};
        if (train->params[i].table == NULL || tern_table_get_stats(train->params[i].table, &stats))
            continue;
        sums->accesses += (double)(stats.pulled_keys + stats.pushed_keys);
        sums->remote += (double)stats.remote_keys;
        sums->bytes += (double)(stats.remote_bytes + stats.sent_bytes);
        sums->refreshes += (double)stats.values_received;
        sums->staleness_ms += stats.staleness_ms_mean * (double)stats.values_received;
    }
}

/* What all nodes have done in an epoch; `before` is count_accesses() at its start. */
static bool add_up(struct train *train, const struct sums *before, struct sums *sums)
{
    uint64_t n_examples;
    *sums = (struct sums){.stopping = atomic_load(&train->stopping) || out_of_time(train)};
    progress_sum(&train->progress, &n_examples, &sums->loss);
    sums->n_examples = (double)n_examples;
    count_accesses(train, sums);
    sums->accesses -= before->accesses;
    sums->remote -= before->remote;
    sums->bytes -= before->bytes;
    if (!train_sum(train, sizeof *sums / sizeof(double), (double *)sums))
        return false;
    sums->loss = ratio(sums->loss, sums->n_examples);
    return true;
}

/* The share of an epoch that each worker of each node has waited for others, as policies with bounds make it
 * do; NULL after task_fail(). The caller frees it. */
static double *share_waits(struct train *train, double seconds)
{
    const size_t n = train->n_nodes * train->n_threads;
    double *shares = calloc(n + 1, sizeof *shares);
    if (shares == NULL) {
        task_fail("no memory for the figures of an epoch");
        return NULL;
    }
    for (size_t i = 0; train->workers != NULL && i < train->n_threads; i++) {
        struct tern_worker_stats stats = {.struct_size = sizeof stats};
        if (tern_worker_get_stats(train->workers[i], &stats) == TERN_OK)
            shares[train->self * train->n_threads + i] =
                ratio(stats.waited_s - train->waited_s[i], seconds);
        train->waited_s[i] = stats.waited_s;
    }
    if (train_sum(train, n, shares))
        return shares;
    free(shares);
    return NULL;
}

static void print_json(const struct train *train, int64_t epoch, double seconds,
                       const struct sums *sums, const double *waits,
                       const struct train_quality *quality)
{
    printf("{\"epoch\":%" PRId64 ",\"seconds\":%.6f,\"examples\":%.0f,\"loss\":%.6g,\"quality\":",
           epoch, seconds, sums->n_examples, sums->loss);
    if (quality->text[0] != '\0')
        printf("%.6f", quality->value);
    else
        printf("null");
    printf(",\"accesses\":%.0f,\"remote_share\":%.6f,\"bytes\":%.0f,\"staleness_ms_mean\":%.3f",
           sums->accesses, ratio(sums->remote, sums->accesses), sums->bytes,
           ratio(sums->staleness_ms, sums->refreshes));
    for (size_t i = 0; i < train->n_nodes * train->n_threads; i++)
        printf("%s%.3f", i == 0 ? ",\"waited\":[" : ",", waits[i]);
    printf("]}\n");
    fflush(stdout);
}

static void print_line(const struct epoch *epoch, double seconds, const struct sums *sums,
                       const struct train_quality *quality)
{
    fprintf(stderr, "epoch %" PRId64 " of %" PRId64 ": %.2f s, %.0f %s/s, loss %.4f%s%s\n",
            epoch->number, epoch->train->options->n_epochs, seconds,
            ratio(sums->n_examples, seconds), epoch->task->unit, sums->loss,
            quality->text[0] != '\0' ? ", " : "", quality->text);
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* What is known across epochs. */
struct course {
    double best;
    bool has_best;
    int64_t n_since_best; /* evaluations */
    bool over;
    double accesses, remote, bytes; /* of all epochs */
};

static bool check_loss(const struct epoch *epoch, const struct sums *sums)
{
    return isfinite(sums->loss) || task_fail("the loss of epoch %" PRId64
                                             " is not a finite number; a smaller --rate may help",
                                             epoch->number);
}

/* Whether the model is the best so far. */
static bool improves(struct course *course, const struct train_task *task, double quality)
{
    bool better = !course->has_best ||
                  (task->lower_is_better ? quality < course->best : quality > course->best);
    course->n_since_best = better ? 0 : course->n_since_best + 1;
    course->best = better ? quality : course->best;
    course->has_best = true;
    return better;
}

static bool save(struct epoch *epoch)
{
    struct train *train = epoch->train;
    if (train->options->out == NULL)
        return true;
    if (epoch->task->gather != NULL &&
        !train_agree(train, epoch->task->gather(epoch->model, train)))
        return false;
    train->has_saved =
        train_agree(train, train->self != 0 || epoch->task->save(epoch->model, train));
    return train->has_saved;
}

static bool judge(struct epoch *epoch, struct course *course, struct train_quality *quality)
{
    const struct train_options *options = epoch->train->options;
    bool measured = epoch->task->evaluate != NULL;
    if (measured &&
        !train_agree(epoch->train, epoch->task->evaluate(epoch->model, epoch->train, quality)))
        return false;
    bool better = !measured || improves(course, epoch->task, quality->value);
    course->over |= options->patience > 0 && course->n_since_best >= options->patience;
    return !better || (!measured && !course->over) || save(epoch);
}

static bool one_epoch(struct epoch *epoch, struct course *course)
{
    struct train *train = epoch->train;
    struct train_quality quality = {0};
    struct sums before = {0}, sums;
    count_accesses(train, &before);
    double started_s = seconds_now();
    if (!run_epoch(epoch))
        return false;
    double seconds = seconds_now() - started_s;
    /* With clocks of their own workers go on as they are, unless the model is looked at. */
    const bool rests = train->options->n_clocks == 0;
    if ((rests && !come_to_rest(train)) || !add_up(train, &before, &sums) ||
        !train_agree(train, check_loss(epoch, &sums)))
        return false;
    train->n_epochs_done = epoch->number;
    course->accesses += sums.accesses;
    course->remote += sums.remote;
    course->bytes += sums.bytes;
    course->over = sums.stopping > 0 || epoch->number >= train->options->n_epochs;
    bool due = course->over || epoch->number % train->options->eval_every == 0;
    if (due && ((!rests && !come_to_rest(train)) || !judge(epoch, course, &quality)))
        return false;
    double *waits = share_waits(train, seconds);
    if (waits != NULL && train_speaks(train) && train->options->json)
        print_json(train, epoch->number, seconds, &sums, waits, &quality);
    else if (waits != NULL && train_speaks(train))
        print_line(epoch, seconds, &sums, &quality);
    free(waits);
    return waits != NULL;
}

/* What several nodes had to say to each other. */
static void print_traffic(const struct train *train, const struct course *course)
{
    if (train_speaks(train) && !train->options->json && train->n_nodes > 1 && course->accesses > 0)
        fprintf(stderr, "%.0f accesses to parameters, %.3f%% of them local; %.0f MB sent\n",
                course->accesses, 100 * (1 - course->remote / course->accesses),
                course->bytes / 1e6);
}

/* Whether the model can be written, which is better known before it is trained. */
static bool try_out(struct train *train)
{
    const char *out = train->options->out;
    return train_agree(train, train->self != 0 || out == NULL || outputs_try(out));
}

/* A model that was resumed is the best until one is better; --out gets it, too. So does one that is not to be
 * trained at all. */
static bool judge_first(struct epoch *epoch, struct course *course)
{
    const struct train *train = epoch->train;
    struct train_quality quality = {0};
    const bool is_resumed = train->options->resume != NULL;
    if (!is_resumed && !course->over)
        return true;
    if (!judge(epoch, course, &quality))
        return false;
    if (train_speaks(train) && !train->options->json)
        fprintf(stderr, "%s after epoch %" PRId64 "%s%s\n", is_resumed ? "resumed" : "ended",
                epoch->number, quality.text[0] != '\0' ? ": " : "", quality.text);
    return true;
}

/* A model that was resumed may have seen all epochs before. */
static void say_done(const struct train *train)
{
    const struct train_options *options = train->options;
    if (options->resume != NULL && train_speaks(train) && !options->json)
        fprintf(stderr,
                "the model in %s has seen %" PRId64 " epochs already, so there are none left of "
                "--epochs %" PRId64 "; a larger number goes on with it\n",
                options->resume, train->n_epochs_done, options->n_epochs);
}

bool train_loop(struct train *train, const struct train_task *task, void *model)
{
    struct course course = {.over = train->n_epochs_done >= train->options->n_epochs};
    struct epoch before = {train, task, model, train->n_epochs_done};
    if (!try_out(train) || !come_to_rest(train) || !judge_first(&before, &course))
        return false;
    if (course.over)
        say_done(train);
    while (!course.over) {
        struct epoch epoch = {train, task, model, train->n_epochs_done + 1};
        if (!one_epoch(&epoch, &course))
            return false;
    }
    print_traffic(train, &course);
    return true;
}
