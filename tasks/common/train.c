/* train - opens and closes nodes and workers; collective functions. See train.h. */
#include "common/train.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/checkpoints.h"
#include "common/outputs.h"

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
    if (tern_node_open(NULL, &train->node) ||
        tern_node_self(train->node, &train->self, &train->n_nodes))
        return task_fail_tern("cannot open the node");
    train->rank = train->self;
    train->n_present = train->n_sharing = train->n_nodes;
    train->is_present = malloc(train->n_nodes * sizeof *train->is_present);
    for (uint32_t i = 0; train->is_present != NULL && i < train->n_nodes; i++)
        train->is_present[i] = true;
    return train->is_present != NULL || task_fail_memory("the nodes");
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
    if ((int64_t)train->self != train->options->slow || train->options->n_clocks == 0)
        return true;
    train->stragglers = calloc(train->n_threads, sizeof *train->stragglers);
    return train->stragglers != NULL || task_fail_memory("the stragglers");
}

/* How much the other nodes have done in this phase; at node 0. */
static double count_others(void *context)
{
    struct train *train = context;
    double sum = 0;
    for (uint64_t node = 1; node < train->n_nodes; node++) {
        double report[2] = {0};
        if (tern_pull(train->reporter, train->n_done, &node, 1, report))
            return 0;
        sum += report[0] == (double)train->progress.n_phases ? report[1] : 0;
    }
    return sum;
}

/* Several nodes tell node 0 how far they are, if it shows a bar. Their reports are rows of a table: the
 * number of the phase, and the examples done in it. */
static bool open_reporter(struct train *train, bool bar)
{
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .n_keys = train->n_nodes,
                                               .length = 2,
                                               .type = TERN_F64,
                                               .policy = "static",
                                               .backups = (uint32_t)train->options->backups,
                                               .recover = checkpoints_recover(train)};
    char is_wanted = (char)bar;
    if (train->n_nodes == 1)
        return true;
    if (tern_broadcast(train->node, 0, sizeof is_wanted, &is_wanted))
        return task_fail_tern("cannot tell the nodes of the progress bar");
    if (!is_wanted)
        return true;
    if (tern_worker_open(train->node, &train->reporter) || tern_worker_rest(train->reporter) ||
        tern_table_open(train->node, "progress", &options, &train->n_done))
        return task_fail_tern("cannot open the table of the progress bar");
    if (train->self == 0) {
        train->progress.others = count_others;
        train->progress.context = train;
    }
    return true;
}

/* Whether two paths lead to the same folder. */
static bool is_same_folder(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* A model that is in `out` already is replaced only if the user says so, or goes on with it. */
static bool may_replace(const struct train *train)
{
    const struct train_options *options = train->options;
    char path[PATH_MAX];
    struct stat status;
    snprintf(path, sizeof path, "%s/model.txt", options->out);
    if (options->overwrite || train->has_saved || stat(path, &status) != 0 ||
        (options->resume != NULL && is_same_folder(options->resume, options->out)))
        return true;
    return task_fail("there is a model in %s already: go on with it (--resume %s), replace it "
                     "(--overwrite) or choose another folder",
                     options->out, options->out);
}

/* Whether the model can be written, which is better known before data are read. */
static bool check_out(struct train *train)
{
    const struct train_options *options = train->options;
    return train_agree(train, train->self != 0 || options->out == NULL ||
                                  (may_replace(train) && outputs_try(options->out)));
}

static bool read_placement(struct train *train)
{
    const char *folder = train->options->placement;
    if (folder == NULL)
        return true;
    if (train->options->plain)
        return task_fail("--placement is about nodes, and --plain has none");
    return train_agree(train, placement_read(&train->placement, folder, train->n_nodes));
}

bool train_open(struct train *train, const struct train_options *options)
{
    *train = (struct train){.options = options,
                            .n_nodes = 1,
                            .n_present = 1,
                            .n_sharing = 1,
                            .n_threads = (size_t)options->n_threads,
                            .started_s = seconds_now()};
    bool ok = options->plain || (open_node(train) && check_number(train) && check_alike(train) &&
                                 open_workers(train));
    if (ok && options->out != NULL && train->self == 0)
        outputs_recover(options->out);
    ok = ok && checkpoints_open(train) && check_out(train) && read_placement(train);
    if (ok && options->task != NULL && options->out == NULL && train_speaks(train) &&
        !options->json)
        fprintf(stderr, "there is no --out DIR: the model will not be kept\n");
    bool bar = train_speaks(train) && !options->json && isatty(STDERR_FILENO);
    ok = ok && progress_init(&train->progress, train->n_threads, bar) && open_reporter(train, bar);
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

static void close_workers(struct train *train)
{
    for (size_t i = 0; train->workers != NULL && i < train->n_threads; i++)
        if (train->workers[i] != NULL)
            (void)tern_worker_close(train->workers[i]);
    if (train->reporter != NULL)
        (void)tern_worker_close(train->reporter);
    free(train->workers);
    train->workers = NULL;
    train->reporter = NULL;
}

bool train_leave(struct train *train)
{
    if (!checkpoints_finish(train))
        return false;
    close_workers(train);
    if (tern_node_leave(train->node))
        return task_fail_tern("cannot leave the job");
    fprintf(stderr, "node %u has left the training after epoch %" PRId64 "; the others continue\n",
            train->self, train->n_epochs_done + 1);
    exit(EXIT_SUCCESS);
}

bool train_close(struct train *train, bool ok)
{
    if (!ok)
        speak_up(train);
    close_workers(train);
    free(train->waited_s);
    free(train->stragglers);
    free(train->is_present);
    checkpoints_close(train);
    /* Tables end with their node, when the other nodes need them no more. */
    bool closed = train->node == NULL || !tern_node_close(train->node);
    for (size_t i = 0; i < train->n_params; i++)
        if (train->params[i].values != NULL)
            params_close(&train->params[i]);
    progress_fini(&train->progress);
    placement_fini(&train->placement);
    return ok && (closed || task_fail_tern("cannot close the node"));
}

struct params *train_params_with(struct train *train, const struct train_keys *keys,
                                 const char *name, uint64_t n_keys, size_t length,
                                 tern_init_function *init, void *context)
{
    struct params *params = &train->params[train->n_params];
    const struct params_management management = {
        .policy = train->options->policy,
        .filters = train->options->filters,
        .backups = (uint32_t)train->options->backups,
        .recover = checkpoints_recover(train),
        .placement = keys->placement,
        .is_ranked = keys->is_ranked,
        .frequencies = keys->frequencies,
        .hot_factor = train->options->hot_factor,
        .staleness_ms = (uint32_t)train->options->staleness_ms,
        .rare_staleness_ms = train->options->staleness_ms > 0 ? 0 : keys->rare_staleness_ms,
        .rare_factor = keys->rare_factor};
    bool ok =
        params_open_managed(params, train->node, &management, name, n_keys, length, init, context);
    if (!checkpoints_restore(train, params->table, ok))
        return NULL;
    train->n_params++;
    return params;
}

struct params *train_params(struct train *train, const char *name, uint64_t n_keys, size_t length,
                            tern_init_function *init, void *context)
{
    const struct train_keys keys = {0};
    return train_params_with(train, &keys, name, n_keys, length, init, context);
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

/* What a node says of itself; one that was given up says nothing. */
enum { ABSENT, WELL, FAILED };

static void say_given_up(const struct train *train, uint32_t node)
{
    if (!train_speaks(train))
        return;
    if (train->options->json)
        printf("{\"given_up\":%u,\"nodes_left\":%u}\n", node, train->n_present);
    else
        fprintf(stderr,
                "node %u is gone; %u %s its keys, and from the next epoch on its examples\n", node,
                train->n_present, train->n_present == 1 ? "node has" : "nodes have");
}

/* Learns who is present from what all have said. */
static void note_present(struct train *train, const int32_t *said)
{
    train->n_present = train->rank = 0;
    for (uint32_t i = 0; i < train->n_nodes; i++) {
        train->n_present += said[i] != ABSENT;
        train->rank += said[i] != ABSENT && i < train->self;
    }
    for (uint32_t i = 0; i < train->n_nodes; i++) {
        if (train->is_present[i] && said[i] == ABSENT)
            say_given_up(train, i);
        train->is_present[i] = said[i] != ABSENT;
    }
}

bool train_agree(struct train *train, bool ok)
{
    if (train->n_nodes == 1)
        return ok;
    int32_t *said = calloc(train->n_nodes, sizeof *said);
    if (said == NULL)
        return task_fail_memory("the nodes");
    said[train->self] = ok ? WELL : FAILED;
    bool heard = !tern_all_reduce(train->node, TERN_I32, train->n_nodes, said);
    uint32_t first = 0;
    while (heard && first < train->n_nodes && said[first] != FAILED)
        first++;
    if (heard)
        note_present(train, said);
    free(said);
    if (!heard)
        return ok ? task_fail_tern("cannot hear the other nodes") : false;
    if (first == train->n_nodes)
        return true;
    return first == train->self ? false : task_fail("%s", "");
}

bool train_agree_on(struct train *train, bool ok, uint64_t digest)
{
    uint64_t first = digest;
    if (!train_agree(train, ok && checkpoints_check_data(train, digest)))
        return false;
    if (train->n_nodes > 1 && tern_broadcast(train->node, 0, sizeof first, &first))
        return task_fail_tern("cannot compare the data of the nodes");
    return train_agree(train, first == digest ||
                                  task_fail("node %u has read other data than node 0: give all "
                                            "nodes the same files",
                                            train->self));
}

bool train_quiesce(struct train *train)
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
    return train_quiesce(train);
}

/* ---- Threads --------------------------------------------------------------------------------- */

void train_tick(struct train *train)
{
    if (train->reporter != NULL && train->self != 0) {
        uint64_t n_done, key = train->self;
        double loss;
        progress_sum(&train->progress, &n_done, &loss);
        const double report[2] = {(double)train->progress.n_phases, (double)n_done};
        (void)tern_set(train->reporter, train->n_done, &key, 1, report);
    }
    progress_draw(&train->progress);
}

struct shown_work {
    struct train *train;
    team_function *work;
    void *context;
};

static bool do_shown_work(void *context, size_t thread)
{
    const struct shown_work *shown = context;
    return shown->work(shown->context, thread);
}

static void tick_shown_work(void *context, bool failed)
{
    (void)failed;
    train_tick(((struct shown_work *)context)->train);
}

bool train_team(struct train *train, const struct progress_phase *phase, team_function *work,
                void *context)
{
    struct shown_work shown = {train, work, context};
    progress_begin(&train->progress, phase);
    bool ok = team_run(train->n_threads, do_shown_work, tick_shown_work, &shown);
    progress_end(&train->progress);
    return ok;
}
