/*
 * tern train - trains models. Each model is a command of its own; this file has what they share.
 *
 * With --nodes N the command starts itself N times by `tern run`. A process that a launcher has
 * started, be it this one or another, is a node and joins the others.
 */
#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "common/quoted.h"

struct train_options train_args;

static const char *link_speed; /* as given to `tern run` */
static double ahead_ms;

const struct option train_general[TRAIN_N_GENERAL] = {
    {"nodes", OPTION_INT, &train_args.n_nodes, "1", "N", "nodes to start on this host", .min = 1,
     .max = 1024, .aliases = "n", .group = "Cluster"},
    {"threads", OPTION_INT, &train_args.n_threads, "0", "N",
     "threads of each node; 0: the cores of this host, shared by its nodes", .min = 0, .max = 1024},
    {"link", OPTION_STRING, &link_speed, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, as 'tern run --link' does, such as 1gbit,0.1ms"},
    {"policy", OPTION_STRING, &train_args.policy, .takes = "NAME",
     .help = "how the nodes manage the parameters; Tern's default unless given"},
    {"hot", OPTION_DOUBLE, &train_args.hot_factor, "0", "FACTOR",
     "with --policy multi: replicate keys that are used more than so many times as often as the "
     "average; 0: 100",
     .min = 0, .max = 1e9},
    {"staleness", OPTION_INT, &train_args.staleness_ms, "0", "MS",
     "milliseconds that replicas may be old; 0: Tern's default, 10", .min = 0, .max = 1e6},
    {"filters", OPTION_STRING, &train_args.filters, .takes = "LIST",
     .help = "filters that shorten messages between nodes, such as zeros,fixed:16"},
    {"backups", OPTION_INT, &train_args.backups, "0", "N",
     "deaths of nodes other than node 0 that training outlives, one after another; with --policy "
     "static, which is the default then; on one host any policy",
     .min = 0, .max = TERN_MAX_BACKUPS},
    {"plain", OPTION_FLAG, &train_args.plain,
     .help = "keep the parameters in ordinary arrays, as a baseline; one node"},
    {"ahead", OPTION_DOUBLE, &ahead_ms, "50", "MS",
     "milliseconds of work that several nodes prepare before it is used", .min = 0, .max = 10000},
    {"seed", OPTION_INT, &train_args.seed, "1", "S", "seed of the random numbers", .min = 0,
     .max = 1e15, .group = "Training"},
    {"time-limit", OPTION_DOUBLE, &train_args.time_limit_s, "0", "S",
     "seconds after which training ends; 0: none", .min = 0, .max = 1e9},
    {"eval-every", OPTION_INT, &train_args.eval_every, "1", "N", "epochs between evaluations",
     .min = 1, .max = 1e9},
    {"clocks", OPTION_INT, &train_args.n_clocks, "0", "N",
     "clocks of an epoch, for --policy bsp, ssp:S, essp:S, vap:V; 0: one for each batch", .min = 0,
     .max = 1e9},
    {"slow", OPTION_INT, &train_args.slow, "-1", "NODE",
     "with --clocks: a node that takes three times as long for its batches; -1: none", .min = -1,
     .max = 1023},
    {"json", OPTION_FLAG, &train_args.json, .help = "one JSON line per epoch on standard output",
     .group = "Output"},
    {"out", OPTION_STRING, &train_args.out, .takes = "DIR",
     .help = "where the best model is written; without, it is not kept", .aliases = "o"},
    {"overwrite", OPTION_FLAG, &train_args.overwrite,
     .help = "replace the model that is in the folder of --out"},
    {"resume", OPTION_STRING, &train_args.resume, .takes = "DIR",
     .help = "go on with the model in that folder, or from the newest of its checkpoints"},
    {"checkpoint-every", OPTION_INT, &train_args.checkpoint_every, "0", "N",
     "epochs between checkpoints; 0: there are none", .min = 0, .max = 1e9},
    {"checkpoints", OPTION_STRING, &train_args.checkpoints, .takes = "DIR",
     .help = "the folder of the checkpoints, which all nodes can write"},
};

static const struct command models[] = {
    {"fm", "a factorization machine: weights and embeddings of sparse features", train_fm_command},
    {"kge", "embeddings of a knowledge graph", train_kge_command},
    {"lda", "topics of documents", train_lda_command},
    {"linear", "weights of sparse features: a classifier or a regression", train_linear_command},
    {"net", "a dense network: layers, convolutions or a graph of your own", train_net_command},
    {"rica", "filters of images: reconstruction ICA", train_rica_command},
    {"mf", "factors of a matrix of ratings", train_mf_command},
    {"wordvec", "vectors of words from plain text", train_wordvec_command},
};

static const struct command_set train_set = {
    .program = "tern train",
    .about = "Trains a model, in one process or in several nodes.",
    .commands = models,
    .n_commands = sizeof models / sizeof *models,
};

int train_command(int argc, char **argv)
{
    return command_dispatch(&train_set, argc, argv);
}

/* As many nodes as the launcher that has started this process has made; 0: there is no launcher. The
 * variables are those by which the library finds its place. */
static long count_launched(void)
{
    static const struct {
        const char *mark, *n_nodes;
    } launchers[] = {{"TERN_NODE", "TERN_NODES"},
                     {"RANK", "WORLD_SIZE"},
                     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                     {"SLURM_STEP_ID", "SLURM_NTASKS"}};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *mark = getenv(launchers[i].mark), *n_nodes = getenv(launchers[i].n_nodes);
        long n = n_nodes != NULL ? strtol(n_nodes, NULL, 10) : 1;
        if (mark != NULL && mark[0] != '\0')
            return n > 1 ? n : 1;
    }
    return 0;
}

/* Complains of a pipe among a list of files: each node reads all of them itself, and a pipe gives every
 * byte to one of the nodes. */
static bool nodes_can_read_list(const char *files)
{
    char path[PATH_MAX];
    struct stat status;
    for (size_t length; files != NULL && *files != '\0'; files += length + (files[length] == ',')) {
        length = strcspn(files, ",");
        snprintf(path, sizeof path, "%.*s", (int)length, files);
        if (stat(path, &status) == 0 && S_ISFIFO(status.st_mode)) {
            complain(
                "%s is a pipe, which several nodes cannot read; write the data to a file first",
                path);
            return false;
        }
    }
    return true;
}

/* The same for all that the model reads: its options name nothing else that could be a pipe. */
static bool nodes_can_read(const struct option_set *set)
{
    bool ok = true;
    for (size_t i = 0; ok && i < set->n_options; i++)
        if (set->options[i].kind == OPTION_STRING)
            ok = nodes_can_read_list(*(const char *const *)set->options[i].value);
    return ok;
}

/* Runs `tern train argv...` as nodes; its exit status. */
static int start_nodes(int argc, char **argv)
{
    enum { N_BEFORE = 10 };
    char path[4096], count[24];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    char **words = calloc((size_t)argc + N_BEFORE + 1, sizeof *words);
    if (length < 0 || words == NULL) {
        complain("cannot start nodes: %s", strerror(errno));
        free(words);
        return EXIT_FAILED;
    }
    path[length] = '\0';
    snprintf(count, sizeof count, "%lld", (long long)train_args.n_nodes);
    char *const before[] = {"run", "-n", count, "--no-prefix"};
    char *const after[] = {"--", path, "train"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        words[n++] = before[i];
    if (link_speed != NULL) {
        words[n++] = "--link";
        words[n++] = (char *)link_speed;
    }
    if (train_args.backups > 0)
        words[n++] = "--survive";
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        words[n++] = after[i];
    memcpy(words + n, argv, (size_t)argc * sizeof *argv);
    int status = run_command(argc + (int)n, words);
    free(words);
    return status;
}

static void choose_threads(void)
{
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (train_args.n_threads == 0)
        train_args.n_threads = n_cores > train_args.n_nodes ? n_cores / train_args.n_nodes : 1;
}

/* One line of what all nodes must have alike: a number, a choice, or whether something is given. A flag is about
 * printing, a list about the files of the model, which are node 0's, and --nodes is looked at elsewhere. */
static int describe(const struct option *option, char *line, size_t size)
{
    const char *name = option->name, *text;
    if (option->kind == OPTION_INT && option->value != &train_args.n_nodes)
        return snprintf(line, size, "has --%s %" PRId64 "\n", name, *(int64_t *)option->value);
    if (option->kind == OPTION_DOUBLE)
        return snprintf(line, size, "has --%s %.15g\n", name, *(double *)option->value);
    if (option->kind != OPTION_STRING)
        return 0;
    text = *(const char **)option->value;
    if (option->choices != NULL)
        return snprintf(line, size, "has --%s %s\n", name, text);
    return snprintf(line, size, "was %sgiven --%s\n", text != NULL ? "" : "not ", name);
}

static void describe_alike(const struct option_set *set)
{
    size_t used = 0, size = sizeof train_args.alike;
    for (size_t i = 0; i < set->n_options + set->n_common && used < size; i++)
        used += (size_t)describe(i < set->n_options ? &set->options[i]
                                                    : &set->common[i - set->n_options],
                                 train_args.alike + used, size - used);
}

/* ---- Settings, for model.txt and JSON --------------------------------------------------------- */

/* The value of an option as text; NULL: it was not given. Paths are absolute, as far as they can be. */
static const char *value_text(const struct option *option, char text[PATH_MAX])
{
    const struct string_list *strings = option->value;
    const char *string = option->kind == OPTION_STRING ? *(const char *const *)option->value : NULL;
    int used = 0;
    switch (option->kind) {
    case OPTION_INT:
        snprintf(text, PATH_MAX, "%" PRId64, *(const int64_t *)option->value);
        return text;
    case OPTION_DOUBLE:
        snprintf(text, PATH_MAX, "%.15g", *(const double *)option->value);
        return text;
    case OPTION_STRINGS:
        for (size_t i = 0; i < strings->n; i++)
            used += snprintf(text + used, sizeof strings->text, "%s%s", i > 0 ? "," : "",
                             strings->at[i]);
        return text;
    case OPTION_FLAG:
    case OPTION_INTS:
    case OPTION_STRING:
        break;
    }
    return string != NULL && option->choices == NULL && realpath(string, text) != NULL ? text
                                                                                       : string;
}

static void write_text_setting(FILE *file, const struct option *option)
{
    char text[PATH_MAX];
    const char *value = value_text(option, text);
    if (value == NULL)
        return;
    fprintf(file, "%s ", option->name);
    for (; *value != '\0'; value++)
        putc((unsigned char)*value < 0x20 ? '?' : *value, file);
    putc('\n', file);
}

static void write_json_setting(FILE *file, const struct option *option)
{
    char text[PATH_MAX];
    const char *value = value_text(option, text);
    fprintf(file, "\"%s\":", option->name);
    if (option->kind == OPTION_FLAG)
        fputs(*(const bool *)option->value ? "true" : "false", file);
    else if (value == NULL)
        fputs("null", file);
    else if (option->kind == OPTION_INT || option->kind == OPTION_DOUBLE)
        fputs(value, file);
    else
        write_quoted(file, value);
}

/* Sets what model.txt and the first line of JSON say of the options; false: there is no memory. */
static bool describe_settings(const struct option_set *set)
{
    static char *text, *json;
    size_t text_bytes, json_bytes;
    FILE *text_file = open_memstream(&text, &text_bytes);
    FILE *json_file = open_memstream(&json, &json_bytes);
    bool ok = text_file != NULL && json_file != NULL;
    if (ok)
        fprintf(text_file, "version %s\n", tern_version());
    for (size_t i = 0; ok && i < options_count(set); i++) {
        const struct option *option = options_at(set, i);
        if (i < set->n_options || option->value == &train_args.seed)
            write_text_setting(text_file, option);
        putc(i > 0 ? ',' : '{', json_file);
        write_json_setting(json_file, option);
    }
    if (ok)
        putc('}', json_file);
    ok = (text_file == NULL || fclose(text_file) == 0) && ok;
    ok = (json_file == NULL || fclose(json_file) == 0) && ok;
    train_args.settings = text;
    train_args.json_settings = json;
    return ok;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool is_bounded(const char *policy)
{
    static const char *const kinds[] = {"bsp", "ssp:", "essp:", "vap:"};
    bool found = false;
    for (size_t i = 0; policy != NULL && i < sizeof kinds / sizeof *kinds; i++)
        found |= strncmp(policy, kinds[i], strlen(kinds[i])) == 0;
    return found;
}

/* Whether --plain, if given, goes with the rest. */
static bool may_be_plain(void)
{
    const long n_launched = count_launched();
    if (!train_args.plain)
        return true;
    if (train_args.n_nodes > 1 || train_args.policy != NULL || train_args.filters != NULL ||
        train_args.staleness_ms > 0)
        complain(
            "--plain goes with none of --nodes, --policy, --staleness and --filters: it is one "
            "process with arrays");
    else if (n_launched > 1)
        complain("--plain is one process with arrays, but a launcher has started %ld, which would "
                 "train as many models: let it start one, or leave --plain out",
                 n_launched);
    else
        return true;
    return false;
}

static bool may_have_backups(void)
{
    if (train_args.backups == 0)
        return true;
    if (train_args.plain) {
        complain("--backups goes with tables, not with --plain");
        return false;
    }
    if (train_args.policy == NULL)
        train_args.policy = "static";
    return true;
}

static bool may_have_checkpoints(void)
{
    if ((train_args.checkpoint_every > 0) != (train_args.checkpoints != NULL))
        complain("--checkpoint-every N and --checkpoints DIR go together: how often, and where");
    else if (train_args.checkpoint_every > 0 && train_args.plain)
        complain("--checkpoint-every goes with tables, not with --plain");
    else
        return true;
    return false;
}

/* Whether a node takes the policy, the filters and the backups. Nobody else is there: no launcher has started this process. */
static bool is_management(const char *policy, const char *filters)
{
    struct tern_node *node = NULL;
    struct tern_table *table;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .n_keys = 1,
                                         .length = 1,
                                         .policy = policy,
                                         .staleness_ms = (uint32_t)train_args.staleness_ms,
                                         .backups = (uint32_t)train_args.backups};
    bool ok = (policy == NULL && filters == NULL) || tern_node_open(NULL, &node) == TERN_OK;
    if (ok && policy != NULL && tern_table_open(node, "parameters", &options, &table) != TERN_OK)
        ok = false;
    if (!ok)
        complain("--policy: %s", tern_error());
    options.filters = filters;
    if (ok && filters != NULL && tern_table_open(node, "filtered", &options, &table) != TERN_OK) {
        complain("--filters: %s", tern_error());
        ok = false;
    }
    if (node != NULL)
        (void)tern_node_close(node);
    return ok;
}

bool train_begin(const struct option_set *set, int argc, char **argv, int *status)
{
    if (!options_read(set, argc, argv, status))
        return false;
    train_args.task = argv[0];
    *status = EXIT_USAGE;
    if (!may_be_plain())
        return false;
    if (train_args.n_clocks > 0 && !is_bounded(train_args.policy)) {
        complain("--clocks goes with a policy that bounds reads: bsp, ssp:S, essp:S or vap:V");
        return false;
    }
    if (train_args.hot_factor > 0 &&
        (train_args.policy == NULL || strcmp(train_args.policy, "multi") != 0)) {
        complain("--hot goes with --policy multi");
        return false;
    }
    if (train_args.slow >= 0 && train_args.n_clocks == 0) {
        complain("--slow goes with --clocks");
        return false;
    }
    if (!may_have_backups() || !may_have_checkpoints())
        return false;
    const bool is_launched = count_launched() > 0;
    if (link_speed != NULL && train_args.n_nodes == 1 && !is_launched) {
        complain("--link is between nodes: it goes with --nodes N");
        return false;
    }
    if (train_args.backups > 0 && train_args.n_nodes == 1 && !is_launched) {
        complain(
            "--backups goes with --nodes 2 or more: one process alone leaves nobody to continue");
        return false;
    }
    if (!is_launched && !is_management(train_args.policy, train_args.filters))
        return false;
    choose_threads();
    describe_alike(set);
    if (!describe_settings(set)) {
        complain("there is no memory for the options");
        *status = EXIT_FAILED;
        return false;
    }
    train_args.ahead_s = ahead_ms / 1000;
    if (train_args.n_nodes == 1 || is_launched)
        return true;
    *status = nodes_can_read(set) ? start_nodes(argc, argv) : EXIT_FAILED;
    return false;
}

int train_end(bool ok)
{
    if (!ok && task_error()[0] != '\0')
        complain("%s", task_error());
    return ok ? EXIT_OK : EXIT_FAILED;
}
