/*
 * train - trains a model of a knowledge graph. See kge.h.
 *
 * Every node reads all triples and learns from its part. Each of its threads is a worker with a stream of
 * batches (batch.h), prepared ahead (loader.h), whose rows it reads, turns into differences (step.h)
 * and adds.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/loader.h"
#include "common/negatives.h"
#include "common/report.h"
#include "common/rng.h"
#include "kge/divide.h"
#include "kge/evaluate.h"
#include "kge/files.h"
#include "kge/kge.h"

enum { RESCAL_MAX_DIM = 1024 };

struct model;

/* One thread's part in the training. */
struct trainer {
    struct model *model;
    struct tern_worker *worker; /* NULL with --plain */
    struct source source;
    struct loader loader;
    struct rng negative_rng; /* of the negatives, with --plain */
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
    struct triples
        shared; /* this node's triples, or all, of which every worker has an equal part */
    struct known known;
    struct step_settings settings;
    struct params *entities, *relations;
    struct negatives negatives;
    struct trainer *trainers; /* one per thread */
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

/* Their stream begins anew with each checkpoint. */
static bool open_negatives(struct model *model)
{
    const struct train *train = model->train;
    const struct tern_target target = {.struct_size = sizeof target,
                                       .end = model->entities->n_keys,
                                       .seed =
                                           (uint64_t)(train->options->seed + train->n_epochs_done)};
    return negatives_open(&model->negatives, model->entities, &target, model->options->sampling);
}

/* How often entities are used: with their triples, and as negatives of each batch. NULL after task_fail(). */
static uint64_t *count_uses(const struct model *model)
{
    const struct triples *triples = &model->graph.train;
    const uint32_t n = model->graph.entities.n;
    const struct kge_options *options = model->options;
    const double n_batches = (double)triples->n / (double)options->batch;
    uint64_t *uses = malloc(n * sizeof *uses);
    if (uses == NULL) {
        (void)task_fail_memory("the frequencies of entities");
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        uses[i] = (uint64_t)(n_batches * (double)options->n_negatives / n);
    for (size_t i = 0; i < triples->n; i++) {
        uses[triples->at[i].subject]++;
        uses[triples->at[i].object]++;
    }
    return uses;
}

/* With a placement, entities have their homes where it says. */
static bool open_entities(struct model *model, struct first_value *first)
{
    const struct placement *placement = &model->train->placement;
    const struct names *names = &model->graph.entities;
    const size_t length = 2 * model->settings.n;
    struct placing placing = {0};
    bool is_placed = placement->folder != NULL;
    bool ok = !is_placed || placing_init(&placing, placement, names->n, 1);
    for (uint32_t i = 0; ok && is_placed && i < names->n; i++) {
        const char *name = names_at(names, i);
        placing_add(&placing, i, placement_name_key(name, strlen(name)));
    }
    ok = ok && (!is_placed || placing_check(&placing, "entities"));
    uint64_t *uses = ok ? count_uses(model) : NULL;
    const struct train_keys keys = {.placement = is_placed ? &placing.placement : NULL,
                                    .frequencies = uses};
    model->entities = uses != NULL ? train_params_with(model->train, &keys, "entities", names->n,
                                                       length, first_value, first)
                                   : NULL;
    placing_fini(&placing);
    free(uses);
    return model->entities != NULL;
}

static bool open_params(struct model *model)
{
    static struct first_value entities, relations; /* as long as the tables */
    const struct train_options *options = model->train->options;
    size_t n = model->settings.n, n_relation = model_relation_length(model->settings.model, n);
    float spread = (float)model->options->spread;
    entities = (struct first_value){2 * (uint64_t)options->seed, spread};
    relations = (struct first_value){2 * (uint64_t)options->seed + 1, spread};
    if (!open_entities(model, &entities))
        return false;
    model->relations = train_params(model->train, "relations", model->graph.relations.n,
                                    2 * n_relation, first_value, &relations);
    return model->relations != NULL && open_negatives(model);
}

/* The triples come in an order that has nothing to do with the file's, the same at all nodes. */
static void shuffle(struct triples *triples, uint64_t seed)
{
    struct rng rng = rng_seed(seed, UINT64_MAX);
    for (size_t i = triples->n; i > 1; i--) {
        size_t j = rng_below(&rng, i);
        struct triple other = triples->at[j];
        triples->at[j] = triples->at[i - 1];
        triples->at[i - 1] = other;
    }
}

/* Brings the triples of this node to the front: a row of a placement is a line of the training file. */
static bool take_own(struct model *model)
{
    const struct placement *placement = &model->train->placement;
    struct triples *all = &model->graph.train;
    size_t n = 0;
    if (all->n != placement->n_rows)
        return task_fail("--placement %s has %" PRIu64
                         " rows, but there are %zu triples; it is the partition of other data",
                         placement->folder, placement->n_rows, all->n);
    for (size_t i = 0; i < all->n; i++)
        if (placement_row(placement, i) == model->train->self) {
            struct triple own = all->at[i];
            all->at[i] = all->at[n];
            all->at[n++] = own;
        }
    model->shared = (struct triples){.n = n, .at = all->at};
    return true;
}

static bool load(struct model *model)
{
    const struct train_options *options = model->train->options;
    if (!graph_read(&model->graph, options->data, model->options->unknown) ||
        !known_init(&model->known, &model->graph))
        return false;
    model->shared = model->graph.train;
    if (model->train->placement.folder != NULL && !take_own(model))
        return false;
    shuffle(&model->shared, (uint64_t)options->seed);
    return !model->options->divides || model->train->n_nodes == 1 ||
           model->train->placement.folder != NULL ||
           divide_triples(&model->shared, model->graph.entities.n, model->train->n_nodes);
}

/* Of what was read: keys are numbers of names. And of what a row means. */
static uint64_t digest(const struct model *model)
{
    const struct graph *graph = &model->graph;
    const uint64_t shape = rng_mix((uint64_t)model->options->dim * 8 + model->options->model) ^
                           model->train->placement.digest;
    return names_digest(&graph->relations, names_digest(&graph->entities, graph->train.n ^ shape));
}

/* What became of the names that valid and test have and train lacks. */
static void print_unknown(const struct model *model)
{
    const struct graph *graph = &model->graph;
    if (graph->n_unknown > 0 && model->options->unknown == GRAPH_SKIP)
        fprintf(stderr, "--unknown skip: left out %zu triples with names that are not in train\n",
                graph->n_unknown);
    else if (graph->n_unknown > 0)
        fprintf(stderr, "--unknown add: %u entities, %u relations (%zu triples) are not in train\n",
                graph->entities.n - graph->n_trained_entities,
                graph->relations.n - graph->n_trained_relations, graph->n_unknown);
}

static void introduce(const struct model *model)
{
    const struct graph *graph = &model->graph;
    const struct train *train = model->train;
    if (!train_speaks(train) || train->options->json)
        return;
    fprintf(stderr, "%u entities, %u relation%s\n", graph->entities.n, graph->relations.n,
            graph->relations.n == 1 ? "" : "s");
    fprintf(stderr, "triples: %zu training, %zu validation, %zu test\n", graph->train.n,
            graph->valid.n, graph->test.n);
    print_unknown(model);
    static const char *const titles[] = {"ComplEx", "DistMult", "RESCAL"};
    fprintf(stderr, "%s, dimension %" PRId64 "; %u node%s with %zu thread%s%s\n",
            titles[model->options->model], model->options->dim, train->n_nodes,
            train->n_nodes == 1 ? "" : "s", train->n_threads, train->n_threads == 1 ? "" : "s",
            train->node == NULL ? ", plain arrays" : "");
}

/* ---- Trainees -------------------------------------------------------------------------------- */

static bool prepare(void *context, void *batch, uint64_t clock)
{
    struct trainer *trainer = context;
    const struct model *model = trainer->model;
    struct batch *own = batch;
    source_next(&trainer->source, (size_t)model->options->batch, own);
    return negatives_order(&model->negatives, trainer->worker, (size_t)model->options->n_negatives,
                           &own->order) &&
           params_intend(model->entities, trainer->worker, own->entities.keys, own->entities.n,
                         clock, clock + 1) &&
           params_intend(model->relations, trainer->worker, own->relations.keys, own->relations.n,
                         clock, clock + 1);
}

static bool make_rows(struct trainer *trainer, size_t n_entities, size_t n_relations)
{
    size_t length = trainer->model->entities->length;
    size_t relation_length = trainer->model->relations->length;
    trainer->entity_space = malloc(n_entities * length * sizeof(float));
    trainer->entity_differences = malloc(n_entities * length * sizeof(float));
    trainer->entity_rows = malloc(n_entities * sizeof *trainer->entity_rows);
    trainer->relation_space = malloc(n_relations * relation_length * sizeof(float));
    trainer->relation_differences = malloc(n_relations * relation_length * sizeof(float));
    trainer->relation_rows = malloc(n_relations * sizeof *trainer->relation_rows);
    trainer->negatives = malloc(n_entities * sizeof *trainer->negatives);
    return (trainer->entity_space != NULL && trainer->entity_differences != NULL &&
            trainer->entity_rows != NULL && trainer->relation_space != NULL &&
            trainer->relation_differences != NULL && trainer->relation_rows != NULL &&
            trainer->negatives != NULL) ||
           task_fail_memory("a worker");
}

static bool init_batch(void *context, void *batch)
{
    const struct model *model = ((struct trainer *)context)->model;
    return batch_init(batch, (size_t)model->options->batch, (size_t)model->options->n_negatives);
}

static void fini_batch(void *batch)
{
    batch_fini(batch);
}

static const struct loader_batches batches = {
    .bytes = sizeof(struct batch), .init = init_batch, .fini = fini_batch, .prepare = prepare};

static bool trainer_init(struct trainer *trainer, struct model *model, size_t thread)
{
    const struct train *train = model->train;
    size_t n_triples = (size_t)model->options->batch;
    size_t n_negatives = (size_t)model->options->n_negatives;
    size_t n_all = model->graph.relations.n, worker = train->self * train->n_threads + thread;
    size_t n_relations = n_triples < n_all ? n_triples : n_all; /* of a batch, at most */
    const bool is_placed = train->placement.folder != NULL;
    trainer->model = model;
    trainer->worker = train_worker(train, thread);
    trainer->negative_rng = rng_seed((uint64_t)train->options->seed, UINT64_MAX - 1 - worker);
    if (!source_init(&trainer->source, &model->shared, is_placed ? thread : worker,
                     is_placed ? train->n_threads : train->n_nodes * train->n_threads, n_triples,
                     n_negatives, (uint64_t)train->options->seed, train->n_epochs_done) ||
        !loader_init(&trainer->loader, &batches, trainer, train_ahead_s(train)) ||
        !step_space_init(&trainer->space, model->settings.n, n_triples, n_negatives, n_relations,
                         model->relations->length / 2) ||
        !make_rows(trainer, 2 * n_triples + n_negatives, n_relations))
        return false;
    return trainer->source.n == 0 || loader_fill(&trainer->loader);
}

static void trainer_fini(struct trainer *trainer)
{
    loader_fini(&trainer->loader);
    source_fini(&trainer->source);
    step_space_fini(&trainer->space);
    free(trainer->entity_space);
    free(trainer->entity_differences);
    free(trainer->entity_rows);
    free(trainer->relation_space);
    free(trainer->relation_differences);
    free(trainer->relation_rows);
    free(trainer->negatives);
}

static bool make_trainers(struct model *model)
{
    model->trainers = calloc(model->train->n_threads, sizeof *model->trainers);
    if (model->trainers == NULL)
        return task_fail_memory("the workers");
    for (size_t i = 0; i < model->train->n_threads; i++)
        if (!trainer_init(&model->trainers[i], model, i))
            return false;
    return true;
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Completes the batch with its negatives. */
static bool add_negatives(struct trainer *trainer, struct batch *batch)
{
    const struct model *model = trainer->model;
    size_t n = (size_t)model->options->n_negatives;
    if (negatives_are_managed(&model->negatives)) {
        if (!negatives_receive(trainer->worker, batch->order, n, trainer->negatives))
            return false;
    } else {
        for (size_t i = 0; i < n; i++)
            trainer->negatives[i] = rng_below(&trainer->negative_rng, model->entities->n_keys);
    }
    source_add_negatives(&trainer->source, trainer->negatives, n, batch);
    /* Keys that just happen to be here are asked to stay until the step is done. */
    const uint64_t clock = trainer->loader.n_taken - 1;
    return model->options->sampling != TERN_NON_CONFORM ||
           params_intend(model->entities, trainer->worker, trainer->negatives, n, clock, clock + 1);
}

static bool learn(struct trainer *trainer, struct batch *batch, double *loss)
{
    const struct model *model = trainer->model;
    struct tern_worker *worker = trainer->worker;
    const struct key_list *entities = &batch->entities, *relations = &batch->relations;
    if (!add_negatives(trainer, batch) ||
        !params_read(model->entities, worker, entities->keys, entities->n, trainer->entity_space,
                     trainer->entity_rows) ||
        !params_read(model->relations, worker, relations->keys, relations->n,
                     trainer->relation_space, trainer->relation_rows))
        return false;
    *loss = kge_step(&model->settings, batch, trainer->entity_rows, trainer->relation_rows,
                     &trainer->space, trainer->entity_differences, trainer->relation_differences);
    return params_add(model->entities, worker, entities->keys, entities->n,
                      trainer->entity_differences) &&
           params_add(model->relations, worker, relations->keys, relations->n,
                      trainer->relation_differences);
}

static bool epoch(void *context, struct train *train, size_t thread, int64_t number)
{
    struct model *model = context;
    struct trainer *trainer = &model->trainers[thread];
    size_t n_triples = (size_t)model->options->batch;
    (void)number;
    for (size_t done = 0; done < trainer->source.n; done += n_triples) {
        double loss = 0;
        struct batch *batch = loader_next(&trainer->loader);
        if (batch == NULL || !learn(trainer, batch, &loss))
            return false;
        if (!train_done(train, thread, batch->n_triples, loss))
            break;
    }
    return true;
}

static bool renew(void *context, struct train *train)
{
    struct model *model = context;
    (void)train;
    return negatives_close(&model->negatives) && open_negatives(model);
}

/* The triples of a partition stay where it put them: `backups` exclude placements. */
static bool share_out(void *context, struct train *train)
{
    struct model *model = context;
    bool ok = true;
    for (size_t i = 0; ok && i < train->n_threads; i++)
        ok = source_take(&model->trainers[i].source, &model->shared,
                         train->rank * train->n_threads + i, train->n_present * train->n_threads);
    return ok;
}

static uint64_t n_examples(void *context)
{
    struct model *model = context;
    uint64_t n = 0;
    for (size_t i = 0; i < model->train->n_threads; i++)
        n += model->trainers[i].source.n;
    return n;
}

static bool rank(struct model *model, const struct triples *triples, struct train_quality *quality)
{
    struct ranking ranking;
    if (!evaluate(model->train, model->settings.model, model->settings.n, model->entities,
                  model->relations, triples, &model->known, &ranking))
        return false;
    *quality = (struct train_quality){
        true, {ranking.mrr, ranking.hits_1, ranking.hits_3, ranking.hits_10}};
    return true;
}

static bool evaluate_valid(void *context, struct train *train, struct train_quality *quality)
{
    struct model *model = context;
    (void)train;
    return rank(model, &model->graph.valid, quality);
}

static bool evaluate_test(void *context, struct train *train, struct train_quality *quality)
{
    struct model *model = context;
    (void)train;
    return rank(model, &model->graph.test, quality);
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
    const struct model_info info = {(int)model->settings.model, model->settings.n,
                                    (uint64_t)train->n_epochs_done, model->graph.entities.n,
                                    model->graph.relations.n};
    return files_write(train->options->out, &info, train->options->settings,
                       model->options->formats, parts, train_worker(train, 0));
}

/* Sets the rows for all nodes. */
static bool read_model(const struct model *model, const char *folder, struct model_info *info)
{
    struct model_part parts[2];
    struct tern_worker *worker = train_worker(model->train, 0);
    parts_of(model, parts);
    if (!files_read_info(folder, info))
        return false;
    if (info->model != (int)model->settings.model || info->dim != model->settings.n)
        return task_fail("the model in %s is %s with --dim %" PRIu64, folder,
                         model_names[info->model], info->dim);
    return files_read_part(folder, &parts[0], worker) && files_read_part(folder, &parts[1], worker);
}

static bool resume(struct model *model, const char *folder)
{
    struct train *train = model->train;
    struct model_info info = {0};
    if (folder == NULL)
        return true;
    bool ok = train->self != 0 || read_model(model, folder, &info);
    if (!train_share_saved(train, ok, sizeof info.n_epochs, &info.n_epochs))
        return false;
    train->n_epochs_done = (int64_t)info.n_epochs;
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

/* The model that was saved is the best by the validation triples, not the last; it is the one to test.
 * What another run has saved there is not. */
static bool test(struct model *model, const struct train_task *task)
{
    struct train_quality quality;
    char text[256];
    struct train *train = model->train;
    if (model->graph.test.n == 0)
        return true;
    if (train->has_saved && !resume(model, train->options->out))
        return false;
    if (!train_evaluate(train, evaluate_test, model, &quality))
        return false;
    report_measures(task, &quality, text, sizeof text);
    if (train_speaks(train) && train->options->json) {
        printf("{\"test\":{");
        report_json_measures(task, &quality);
        printf("}}\n");
    } else if (train_speaks(train))
        printf("test: %s\n", text);
    return true;
}

static bool run(struct model *model)
{
    struct train *train = model->train;
    static const struct train_measure measures[] = {{.name = "mrr", .title = "MRR"},
                                                    {.name = "hits_1", .title = "Hits@1"},
                                                    {.name = "hits_3", .title = "Hits@3"},
                                                    {.name = "hits_10", .title = "Hits@10"}};
    struct train_task task = {.unit = "triples",
                              .measures = measures,
                              .n_measures = sizeof measures / sizeof *measures,
                              .epoch = epoch,
                              .n_examples = n_examples,
                              .evaluate = model->graph.valid.n > 0 ? evaluate_valid : NULL,
                              .save = save,
                              .renew = renew,
                              .share_out = share_out};
    model->settings = settings_of(model->options, model->graph.entities.n);
    introduce(model);
    return train_agree(train, open_params(model) && make_trainers(model)) &&
           resume(model, train_resumed_model(train)) && train_loop(train, &task, model) &&
           test(model, &task);
}

bool kge_train(const struct train_options *train_options, const struct kge_options *options)
{
    struct train train;
    struct model model = {.options = options, .train = &train};
    if (options->model == KGE_COMPLEX && options->dim % 2 != 0)
        return task_fail("--dim must be even for complex, whose numbers have two parts");
    if (options->model == KGE_RESCAL && options->dim > RESCAL_MAX_DIM)
        return task_fail("--dim can be %d at most for rescal, whose relations are matrices",
                         RESCAL_MAX_DIM);
    if (!train_open(&train, train_options))
        return false;
    bool ok = load(&model);
    ok = train_agree_on(&train, ok, digest(&model)) && run(&model);
    for (size_t i = 0; model.trainers != NULL && i < train.n_threads; i++)
        trainer_fini(&model.trainers[i]);
    free(model.trainers);
    ok = train_close(&train, ok);
    known_fini(&model.known);
    graph_fini(&model.graph);
    return ok;
}
