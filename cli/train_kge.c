/*
 * tern train kge - trains embeddings of a knowledge graph.
 */
#include <string.h>

#include "command.h"
#include "kge/files.h"
#include "kge/kge.h"
#include "train.h"

/* In the order of enum kge_loss, enum graph_unknown and enum tern_conformity. */
static const char *const loss_names[] = {"softmax", "logistic", NULL};
static const char *const unknown_names[] = {"refuse", "add", "skip", NULL};
static const char *const sampling_names[] = {"conform",     "bounded", "long-term",
                                             "non-conform", "auto",    NULL};
static const char *const divide_names[] = {"near", "random", "auto", NULL};
static const char *const format_names[] = {"npy", "text", "binary", NULL};

enum { SMALL_BATCH = 8, SMALL_NEGATIVES = 50 };

static struct kge_options args;
static const char *model, *loss, *sampling, *unknown, *divide;
static struct string_list formats;

static const struct option options[] = {
    {"data", OPTION_STRING, &train_args.data, .takes = "PATH",
     .help = "a folder with train, valid and test, or TRAIN[,VALID[,TEST]]", .group = "Data"},
    {"model", OPTION_STRING, &model, "complex", "NAME", "complex, distmult or rescal",
     .choices = model_names, .group = "Model"},
    {"dim", OPTION_INT, &args.dim, "200", "N", "dimension of a vector", .min = 1, .max = 65536,
     .aliases = "dimension"},
    {"epochs", OPTION_INT, &train_args.n_epochs, "20", "N", "passes over the training triples",
     .min = 0, .max = 1e9, .group = "Training"},
    {"batch", OPTION_INT, &args.batch, "512", "N", "triples of a batch", .min = 1, .max = 1e6,
     .aliases = "batch-size"},
    {"negatives", OPTION_INT, &args.n_negatives, "500", "N",
     "negatives per side of a triple, shared by the triples of a batch", .min = 1, .max = 1e6,
     .aliases = "negative"},
    {"sampling", OPTION_STRING, &sampling, "auto", "NAME",
     "how strictly negatives follow their distribution: conform, bounded, long-term, "
     "non-conform; auto: bounded if --batch is at most 8 and --negatives at most 50, else conform",
     .choices = sampling_names},
    {"loss", OPTION_STRING, &loss, "softmax", "NAME", "softmax or logistic", .choices = loss_names},
    {"rate", OPTION_DOUBLE, &args.rate, "0.2", "X", "learning rate of AdaGrad", .min = 1e-9,
     .max = 1e3, .aliases = "lr,learning-rate"},
    {"spread", OPTION_DOUBLE, &args.spread, "0.1", "X", "standard deviation of the initial values",
     .min = 0, .max = 1e15, .aliases = "init-std"},
    {"penalty", OPTION_DOUBLE, &args.entity_penalty, "0.1", "X",
     "weight of the penalty on the entities of each triple", .min = 0, .max = 1e3,
     .aliases = "regularization"},
    {"relation-penalty", OPTION_DOUBLE, &args.relation_penalty, "0.1", "X",
     "the same on its relation", .min = 0, .max = 1e3},
    {"power", OPTION_INT, &args.penalty_power, "3", "N",
     "power of the values in the penalty: 3 (N3) or 2 (L2)", .min = 2, .max = 3},
    {"unknown", OPTION_STRING, &unknown, "add", "WHAT",
     "triples of valid and test with names that train lacks: add, skip or refuse",
     .choices = unknown_names, .group = "Data"},
    TRAIN_PATIENCE("0"),
    {"formats", OPTION_STRINGS, &formats, "npy", "LIST",
     "formats of the vectors: npy; text and binary of word2vec", .choices = format_names,
     .group = "Output"},
    {"divide", OPTION_STRING, &divide, "auto", "HOW",
     "which triples a node learns from: random ones, or near: those that have entities in common; "
     "auto: near where --sampling auto is bounded",
     .choices = divide_names, .group = "Cluster"},
    TRAIN_PLACEMENT,
};

static const struct option_set option_set = {
    .program = "tern train kge",
    .about =
        "Trains embeddings of the entities and relations of a knowledge graph, and measures how\n"
        "well they predict test triples.",
    .notes = "A file of triples has lines of subject, relation and object, separated by tabs; it "
             "may be\n"
             "compressed by gzip or zstd. Results are filtered mean reciprocal rank (MRR) and the\n"
             "share of right answers among the first 1, 3 and 10 (Hits@1, Hits@3, Hits@10).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = train_general,
    .n_common = TRAIN_N_GENERAL,
};

/* Small batches get along with negatives that others have had, and with triples that have much in common. */
static void choose_sampling(void)
{
    const bool is_small = args.batch <= SMALL_BATCH && args.n_negatives <= SMALL_NEGATIVES;
    if (strcmp(sampling, "auto") == 0)
        args.sampling = is_small ? TERN_BOUNDED : TERN_CONFORM;
    else
        args.sampling = (enum tern_conformity)options_choice(sampling_names, sampling);
    args.divides = strcmp(divide, "auto") == 0 ? is_small : strcmp(divide, "near") == 0;
}

int train_kge_command(int argc, char **argv)
{
    int status;
    if (!train_begin(&option_set, argc, argv, &status))
        return status;
    args.model = (enum kge_model)options_choice(model_names, model);
    args.loss = (enum kge_loss)options_choice(loss_names, loss);
    choose_sampling();
    args.unknown = (enum graph_unknown)options_choice(unknown_names, unknown);
    for (size_t i = 0; i < formats.n; i++)
        args.formats |= formats.choice[i] == 1   ? FILES_TEXT
                        : formats.choice[i] == 2 ? FILES_BINARY
                                                 : 0;
    if (train_args.data == NULL) {
        complain("which triples? --data PATH; see 'tern train kge --help'");
        return EXIT_USAGE;
    }
    return train_end(kge_train(&train_args, &args));
}
