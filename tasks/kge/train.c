/*
 * train - trains a model of a knowledge graph. See kge.h.
 *
 * Every node reads all facts and learns from its part. Each of its threads is a worker with a stream of
 * batches (batch.h), prepared ahead (loader.h), whose rows it reads, turns into differences (step.h)
 * and adds.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/loader.h"
#include "common/rng.h"
#include "kge/evaluate.h"
#include "kge/files.h"
#include "kge/kge.h"
#include "kge/negatives.h"

enum { RESCAL_MAX_DIM = 1024 };

struct model;

/* One thread's part in the training. */
struct trainee {
    struct model *model;
    struct tern_worker *worker; /* NULL with --plain */
    struct source source;
    struct batch *ring;
    size_t n_ring;
    struct loader loader;
    struct step_space space;
    float *entity_space, *relation_space; /* where rows are pulled to */
    float *entity_differences, *relation_differences;
    const float **entity_rows, **relation_rows;
    uint64_t *negatives; /* keys */
};

struct model {
    const struct kge_options *options;
    struct train *train;
    struct graph graph;
    struct known known;
    struct step_settings settings;
    struct params *entities, *relations;
    struct negatives negatives;
    struct trainee *trainees; /* one per thread */
};

/* ---- Preparing ------------------------------------------------------------------------------- */

/* The first value of a row: normal numbers, and sums of zero. */
struct first_value {
    uint64_t seed;
    float spread;
};

static void first_value(void *context, uint64_t key, void *value, size_t length)
{
    const struct first_value *first = context;
    struct rng rng = rng_seed(first->seed, key);
    float *row = value;
    size_t n = length / 2;
    memset(row, 0, length * sizeof *row);
    for (size_t i = 0; i < n; i++) {
        /* The sum of four uniform numbers is close enough to a normal one; its variance is 1/3. */
        float sum = rng_unit_float(&rng) + rng_unit_float(&rng) + rng_unit_float(&rng) +
                    rng_unit_float(&rng) - 2;
        row[i] = sum * 1.7320508f * first->spread;
    }
}

static bool open_params(struct model *model)
{
    static struct first_value entities, relations; /* as long as the tables */
    const struct train_options *common = model->train->options;
    size_t n = model->settings.n, n_relation = model_relation_length(model->settings.model, n);
    float spread = (float)model->options->spread;
    entities = (struct first_value){2 * (uint64_t)common->seed, spread};
    relations = (struct first_value){2 * (uint64_t)common->seed + 1, spread};
    model->entities = train_params(model->train, "entities", model->graph.entities.n, 2 * n,
                                   first_value, &entities);
    if (model->entities == NULL)
        return false;
    model->relations = train_params(model->train, "relations", model->graph.relations.n,
                                    2 * n_relation, first_value, &relations);
    return model->relations != NULL &&
           negatives_open(&model->negatives, model->entities, model->options->sampling,
                          (uint64_t)common->seed);
}

/* The facts come in an order that has nothing to do with the file's, the same at all nodes, so that
 * every worker's part is a fair sample. */
static void shuffle(struct facts *facts, uint64_t seed)
{
    struct rng rng = rng_seed(seed, UINT64_MAX);
    for (size_t i = facts->n; i > 1; i--) {
        size_t j = rng_below(&rng, i);
        struct fact other = facts->at[j];
        facts->at[j] = facts->at[i - 1];
        facts->at[i - 1] = other;
    }
}

static bool load(struct model *model)
{
    const struct train_options *common = model->train->options;
    if (!graph_read(&model->graph, common->data, model->options->unknown) ||
        !known_init(&model->known, &model->graph))
        return false;
    shuffle(&model->graph.train, (uint64_t)common->seed);
    return true;
}

/* Of what was read: keys are numbers of names. */
static uint64_t digest(const struct model *model)
{
    const struct graph *graph = &model->graph;
    return names_digest(&graph->relations, names_digest(&graph->entities, graph->train.n));
}

static void introduce(const struct model *model)
{
    const struct graph *graph = &model->graph;
    const struct train *train = model->train;
    if (!train_speaks(train) || train->options->json)
        return;
    fprintf(stderr,
            "%u entities, %u relation%s, %zu facts to learn from, %zu to choose by, %zu to test\n",
            graph->entities.n, graph->relations.n, graph->relations.n == 1 ? "" : "s", graph->train.n, graph->valid.n, graph->test.n);
    if (graph->n_skipped > 0)
        fprintf(stderr, "%zu facts with unknown names were left out\n", graph->n_skipped);
    static const char *const titles[] = {"ComplEx", "DistMult", "RESCAL"};
    fprintf(stderr, "%s, %" PRId64 " numbers per vector; %u node%s with %zu thread%s%s\n",
            titles[model->options->model], model->options->dim, train->n_nodes,
            train->n_nodes == 1 ? "" : "s", train->n_threads, train->n_threads == 1 ? "" : "s",
            train->node == NULL ? ", plain arrays" : "");
}

/* ---- Trainees -------------------------------------------------------------------------------- */

static bool prepare(void *context, void *batch, uint64_t clock)
{
    struct trainee *trainee = context;
    const struct model *model = trainee->model;
    struct batch *own = batch;
    source_next(&trainee->source, (size_t)model->options->batch, own);
    return negatives_order(&model->negatives, trainee->worker, (size_t)model->options->n_negatives,
                           &own->order) &&
           params_intend(model->entities, trainee->worker, own->entities.keys, own->entities.n,
                         clock, clock + 1) &&
           params_intend(model->relations, trainee->worker, own->relations.keys, own->relations.n,
                         clock, clock + 1);
}

static bool make_rows(struct trainee *trainee, size_t n_entities, size_t n_relations)
{
    size_t length = trainee->model->entities->length;
    size_t relation_length = trainee->model->relations->length;
    trainee->entity_space = malloc(n_entities * length * sizeof(float));
    trainee->entity_differences = malloc(n_entities * length * sizeof(float));
    trainee->entity_rows = malloc(n_entities * sizeof *trainee->entity_rows);
    trainee->relation_space = malloc(n_relations * relation_length * sizeof(float));
    trainee->relation_differences = malloc(n_relations * relation_length * sizeof(float));
    trainee->relation_rows = malloc(n_relations * sizeof *trainee->relation_rows);
    trainee->negatives = malloc(n_entities * sizeof *trainee->negatives);
    return (trainee->entity_space != NULL && trainee->entity_differences != NULL &&
            trainee->entity_rows != NULL && trainee->relation_space != NULL &&
            trainee->relation_differences != NULL && trainee->relation_rows != NULL &&
            trainee->negatives != NULL) ||
           task_fail_memory("a worker");
}

static bool make_ring(struct trainee *trainee, size_t n_ring, size_t n_facts, size_t n_negatives)
{
    trainee->ring = calloc(n_ring, sizeof *trainee->ring);
    if (trainee->ring == NULL)
        return task_fail_memory("a worker");
    for (; trainee->n_ring < n_ring; trainee->n_ring++)
        if (!batch_init(&trainee->ring[trainee->n_ring], n_facts, n_negatives))
            return false;
    return true;
}

static bool trainee_init(struct trainee *trainee, struct model *model, size_t thread)
{
    const struct train *train = model->train;
    size_t n_facts = (size_t)model->options->batch;
    size_t n_negatives = (size_t)model->options->n_negatives;
    size_t ahead = (size_t)model->options->ahead, n_all = model->graph.relations.n;
    size_t n_relations = n_facts < n_all ? n_facts : n_all; /* of a batch, at most */
    trainee->model = model;
    trainee->worker = train_worker(train, thread);
    if (!source_init(&trainee->source, &model->graph.train, train->self * train->n_threads + thread,
                     train->n_nodes * train->n_threads, n_facts, n_negatives,
                     (uint64_t)train->options->seed) ||
        !make_ring(trainee, ahead + 1, n_facts, n_negatives) ||
        !step_space_init(&trainee->space, model->settings.n, n_facts, n_negatives, n_relations,
                         model->relations->length / 2) ||
        !make_rows(trainee, 2 * n_facts + n_negatives, n_relations))
        return false;
    loader_init(&trainee->loader, trainee->ring, sizeof *trainee->ring, ahead, prepare, trainee);
    return trainee->source.n == 0 || loader_fill(&trainee->loader);
}

static void trainee_fini(struct trainee *trainee)
{
    for (size_t i = 0; i < trainee->n_ring; i++)
        batch_fini(&trainee->ring[i]);
    free(trainee->ring);
    source_fini(&trainee->source);
    step_space_fini(&trainee->space);
    free(trainee->entity_space);
    free(trainee->entity_differences);
    free(trainee->entity_rows);
    free(trainee->relation_space);
    free(trainee->relation_differences);
    free(trainee->relation_rows);
    free(trainee->negatives);
}

static bool make_trainees(struct model *model)
{
    model->trainees = calloc(model->train->n_threads, sizeof *model->trainees);
    if (model->trainees == NULL)
        return task_fail_memory("the workers");
    for (size_t i = 0; i < model->train->n_threads; i++)
        if (!trainee_init(&model->trainees[i], model, i))
            return false;
    return true;
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Completes the batch with its negatives. */
static bool add_negatives(struct trainee *trainee, struct batch *batch)
{
    const struct model *model = trainee->model;
    size_t n = (size_t)model->options->n_negatives;
    if (!negatives_receive(&model->negatives, trainee->worker, batch->order, &trainee->source.rng,
                           n, trainee->negatives))
        return false;
    source_add_negatives(&trainee->source, trainee->negatives, n, batch);
    /* Keys that just happen to be here are asked to stay until the step is done. */
    const uint64_t clock = trainee->loader.n_taken - 1;
    return model->options->sampling != TERN_NON_CONFORM ||
           params_intend(model->entities, trainee->worker, trainee->negatives, n, clock, clock + 1);
}

static bool learn(struct trainee *trainee, struct batch *batch, double *loss)
{
    const struct model *model = trainee->model;
    struct tern_worker *worker = trainee->worker;
    const struct key_list *entities = &batch->entities, *relations = &batch->relations;
    if (!add_negatives(trainee, batch) ||
        !params_read(model->entities, worker, entities->keys, entities->n, trainee->entity_space,
                     trainee->entity_rows) ||
        !params_read(model->relations, worker, relations->keys, relations->n,
                     trainee->relation_space, trainee->relation_rows))
        return false;
    *loss = kge_step(&model->settings, batch, trainee->entity_rows, trainee->relation_rows,
                     &trainee->space, trainee->entity_differences, trainee->relation_differences);
    return params_add(model->entities, worker, entities->keys, entities->n,
                      trainee->entity_differences) &&
           params_add(model->relations, worker, relations->keys, relations->n,
                      trainee->relation_differences);
}

static bool epoch(void *context, struct train *train, size_t thread, int64_t number)
{
    struct model *model = context;
    struct trainee *trainee = &model->trainees[thread];
    size_t n_facts = (size_t)model->options->batch;
    (void)number;
    for (size_t done = 0; done < trainee->source.n; done += n_facts) {
        double loss = 0;
        struct batch *batch = loader_next(&trainee->loader);
        if (batch == NULL || !learn(trainee, batch, &loss))
            return false;
        if (!train_done(train, thread, batch->n_facts, loss))
            break;
    }
    return true;
}

static uint64_t n_examples(void *context)
{
    struct model *model = context;
    uint64_t n = 0;
    for (size_t i = 0; i < model->train->n_threads; i++)
        n += model->trainees[i].source.n;
    return n;
}

static bool rank(struct model *model, const struct facts *facts, struct train_quality *quality)
{
    struct ranking ranking;
    if (!evaluate(model->train, model->settings.model, model->settings.n, model->entities,
                  model->relations, facts, &model->known, &ranking))
        return false;
    quality->value = ranking.mrr;
    snprintf(quality->text, sizeof quality->text,
             "MRR %.4f, Hits@1 %.4f, Hits@3 %.4f, Hits@10 %.4f", ranking.mrr, ranking.hits_1,
             ranking.hits_3, ranking.hits_10);
    return true;
}

static bool evaluate_valid(void *context, struct train *train, struct train_quality *quality)
{
    struct model *model = context;
    (void)train;
    return rank(model, &model->graph.valid, quality);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void parts_of(const struct model *model, struct model_part parts[2])
{
    parts[0] = (struct model_part){"entities", &model->graph.entities, model->entities};
    parts[1] = (struct model_part){"relations", &model->graph.relations, model->relations};
}

static bool save(void *context, struct train *train)
{
    struct model *model = context;
    struct model_part parts[2];
    parts_of(model, parts);
    const struct model_facts facts = {model->settings.model, model->settings.n,
                                      (uint64_t)train->n_epochs_done, model->graph.entities.n,
                                      model->graph.relations.n};
    return files_write(train->options->out, &facts, model->options->formats, parts,
                       train_worker(train, 0));
}

/* Sets the rows for all nodes. */
static bool read_model(const struct model *model, const char *folder, struct model_facts *facts)
{
    struct model_part parts[2];
    struct tern_worker *worker = train_worker(model->train, 0);
    parts_of(model, parts);
    if (!files_read_facts(folder, facts))
        return false;
    if (facts->model != model->settings.model || facts->dim != model->settings.n)
        return task_fail("the model in %s is %s with --dim %" PRIu64, folder,
                         model_names[facts->model], facts->dim);
    return files_read_part(folder, &parts[0], worker) && files_read_part(folder, &parts[1], worker);
}

static bool resume(struct model *model, const char *folder)
{
    struct train *train = model->train;
    struct model_facts facts = {0};
    if (folder == NULL)
        return true;
    bool ok = train->self != 0 || read_model(model, folder, &facts);
    if (!train_share_saved(train, ok, sizeof facts.n_epochs, &facts.n_epochs))
        return false;
    train->n_epochs_done = (int64_t)facts.n_epochs;
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static struct step_settings settings_of(const struct kge_options *options, uint64_t n_entities)
{
    return (struct step_settings){
        .model = options->model,
        .loss = options->loss,
        .n = (size_t)options->dim,
        .rate = (float)options->rate,
        .penalty_power = (int)options->penalty_power,
        .entity_penalty = (float)options->entity_penalty,
        .relation_penalty = (float)options->relation_penalty,
        .negative_weight = (float)n_entities / (float)options->n_negatives,
    };
}

/* The model that was written is the best by the valid facts, not the last; it is the one to test.
 * What another run has written there is not. */
static bool test(struct model *model)
{
    struct train_quality quality;
    struct train *train = model->train;
    if (model->graph.test.n == 0)
        return true;
    if (train->has_saved && !resume(model, train->options->out))
        return false;
    if (!train_agree(train, rank(model, &model->graph.test, &quality)))
        return false;
    if (train_speaks(train) && train->options->json)
        printf("{\"test_quality\":%.6f}\n", quality.value);
    else if (train_speaks(train))
        printf("test: %s\n", quality.text);
    return true;
}

static bool run(struct model *model)
{
    struct train *train = model->train;
    struct train_task task = {.unit = "facts",
                              .epoch = epoch,
                              .n_examples = n_examples,
                              .evaluate = model->graph.valid.n > 0 ? evaluate_valid : NULL,
                              .save = save};
    model->settings = settings_of(model->options, model->graph.entities.n);
    introduce(model);
    return train_agree(train, open_params(model) && make_trainees(model)) &&
           resume(model, train->options->resume) && train_loop(train, &task, model) && test(model);
}

bool kge_train(const struct train_options *common, const struct kge_options *options)
{
    struct train train;
    struct model model = {.options = options, .train = &train};
    if (options->model == KGE_COMPLEX && options->dim % 2 != 0)
        return task_fail("--dim must be even for complex, whose numbers have two parts");
    if (options->model == KGE_RESCAL && options->dim > RESCAL_MAX_DIM)
        return task_fail("--dim can be %d at most for rescal, whose relations are matrices",
                         RESCAL_MAX_DIM);
    if (!train_open(&train, common))
        return false;
    bool ok = load(&model);
    ok = train_agree_on(&train, ok, digest(&model)) && run(&model);
    for (size_t i = 0; model.trainees != NULL && i < train.n_threads; i++)
        trainee_fini(&model.trainees[i]);
    free(model.trainees);
    ok = train_close(&train, ok);
    known_fini(&model.known);
    graph_fini(&model.graph);
    return ok;
}
