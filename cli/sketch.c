/*
 * tern sketch - counts keys in memory of a fixed size, asks such a sketch, and merges several. See docs/tables.md.
 */
#include <math.h>

#include <tern/tern.h>

#include "command.h"
#include "options.h"
#include "sketch/sketch.h"
#include "train.h"

static struct {
    double epsilon, delta;
    int64_t width, depth, seed, n_counters, n_top, n_nodes;
    bool conservative;
    const char *out;
    struct operand_list operands;
} args;

/* ---- tern sketch count ----------------------------------------------------------------------- */

static const struct option count_options[] = {
    {"out", OPTION_STRING, &args.out, .takes = "FILE", .help = "where the sketch goes",
     .aliases = "o", .group = "Output"},
    {"top", OPTION_INT, &args.n_top, "0", "K",
     "print the K heaviest keys: key, count, largest error", .min = 0, .max = 1e6},
    {"epsilon", OPTION_DOUBLE, &args.epsilon, "1e-5", "X",
     "estimates exceed the truth by at most X times the sum of all counts ...", .min = 0, .max = 1,
     .group = "Size"},
    {"delta", OPTION_DOUBLE, &args.delta, "0.01", "X", "... with a probability of at least 1 - X",
     .min = 0, .max = 1},
    {"width", OPTION_INT, &args.width, "0", "N", "cells of a row; 0: e / epsilon", .min = 0,
     .max = (double)TERN_MAX_SKETCH_WIDTH},
    {"depth", OPTION_INT, &args.depth, "0", "N", "rows; 0: ln(1 / delta)", .min = 0,
     .max = TERN_MAX_SKETCH_DEPTH},
    {"counters", OPTION_INT, &args.n_counters, "0", "N",
     "heaviest keys that are followed, at each node; 0: 10 for each of --top", .min = 0,
     .max = TERN_MAX_SKETCH_COUNTERS},
    {"conservative", OPTION_FLAG, &args.conservative,
     .help = "raise only cells that are too low: lower estimates, slower"},
    {"seed", OPTION_INT, &args.seed, "1", "S",
     "of the hash; sketches are merged only if theirs is the same", .min = 1, .max = 1e15},
    {"nodes", OPTION_INT, &args.n_nodes, "1", "N", "nodes of this process, with a thread each",
     .min = 1, .max = SKETCH_MAX_NODES, .group = "Cluster"},
};

static const struct option_set count_set = {
    .program = "tern sketch count",
    .about = "Counts the keys of files in a CountMin sketch.",
    .notes =
        "A line is a key and, behind a blank or a tab, perhaps a count. Files may be compressed;\n"
        "without one, or as '-', lines are read from standard input. A key that is a number below\n"
        "2^64 is that number; other keys are hashed. The rate goes to standard error.",
    .options = count_options,
    .n_options = sizeof count_options / sizeof *count_options,
    .operands = "[FILE...]",
    .given = &args.operands,
};

static bool is_share(double x, const char *option)
{
    if (x > 0 && x < 1)
        return true;
    complain("--%s must be above 0 and below 1, not %g", option, x);
    return false;
}

/* The shape that the options ask for. */
static bool find_shape(struct sketch_shape *shape)
{
    if (!is_share(args.epsilon, "epsilon") || !is_share(args.delta, "delta"))
        return false;
    const double width = args.width ? (double)args.width : ceil(exp(1) / args.epsilon);
    const double depth = args.depth ? (double)args.depth : ceil(log(1 / args.delta));
    *shape =
        (struct sketch_shape){.seed = (uint64_t)args.seed, .is_conservative = args.conservative};
    if (width > (double)TERN_MAX_SKETCH_WIDTH || depth > TERN_MAX_SKETCH_DEPTH) {
        complain("--epsilon or --delta is too small: a sketch has at most 2^40 cells in each of %d "
                 "rows",
                 TERN_MAX_SKETCH_DEPTH);
        return false;
    }
    shape->width = (uint64_t)width;
    shape->depth = (uint32_t)depth;
    return true;
}

int sketch_count_command(int argc, char **argv)
{
    static const char *const standard_input[] = {"-"};
    int status;
    struct sketch_shape shape;
    if (!options_read(&count_set, argc, argv, &status))
        return status;
    if (!find_shape(&shape))
        return EXIT_USAGE;
    if (args.out == NULL && args.n_top == 0) {
        complain("what for? Give --out FILE, --top K or both");
        return EXIT_USAGE;
    }
    const bool has_files = args.operands.n > 0;
    const int64_t counters = args.n_counters ? args.n_counters : 10 * args.n_top;
    return train_end(sketch_count(&(struct sketch_job){
        .inputs = has_files ? args.operands.at : standard_input,
        .n_inputs = has_files ? args.operands.n : 1,
        .shape = shape,
        .n_nodes = (size_t)args.n_nodes,
        .n_top = (size_t)args.n_top,
        .n_counters =
            (uint32_t)(counters < TERN_MAX_SKETCH_COUNTERS ? counters : TERN_MAX_SKETCH_COUNTERS),
        .out = args.out}));
}

/* ---- tern sketch query ----------------------------------------------------------------------- */

static const struct option query_options[] = {
    {"top", OPTION_INT, &args.n_top, "0", "K",
     "print the K heaviest keys: key, count, largest error", .min = 0, .max = 1e9},
};

static const struct option_set query_set = {
    .program = "tern sketch query",
    .about = "Prints how often keys were counted, as a sketch estimates it: never too low.",
    .notes = "Without a key and without --top, keys are read from standard input, one in a line.",
    .options = query_options,
    .n_options = sizeof query_options / sizeof *query_options,
    .operands = "FILE [KEY...]",
    .given = &args.operands,
};

int sketch_query_command(int argc, char **argv)
{
    int status;
    if (!options_read(&query_set, argc, argv, &status))
        return status;
    if (args.operands.n == 0) {
        complain("which sketch? tern sketch query FILE [KEY...]");
        return EXIT_USAGE;
    }
    const char *const *operands = args.operands.at;
    return train_end(
        sketch_query(operands[0], operands + 1, args.operands.n - 1, (size_t)args.n_top));
}

/* ---- tern sketch merge ----------------------------------------------------------------------- */

static const struct option merge_options[] = {
    {"out", OPTION_STRING, &args.out, .takes = "FILE", .help = "where the sum goes",
     .aliases = "o"},
};

static const struct option_set merge_set = {
    .program = "tern sketch merge",
    .about = "Adds up sketches of the same width, depth, seed and kind of update.",
    .notes =
        "The result is the sketch of all that was counted. Its counts of the heaviest keys are\n"
        "not too low, and have their largest errors; it lists as many keys as the longest list\n"
        "of the files.",
    .options = merge_options,
    .n_options = sizeof merge_options / sizeof *merge_options,
    .operands = "FILE...",
    .given = &args.operands,
};

int sketch_merge_command(int argc, char **argv)
{
    int status;
    if (!options_read(&merge_set, argc, argv, &status))
        return status;
    if (args.operands.n == 0 || args.out == NULL) {
        complain("which ones, and where to? tern sketch merge --out FILE FILE...");
        return EXIT_USAGE;
    }
    return train_end(sketch_merge(args.operands.at, args.operands.n, args.out));
}

/* ---- tern sketch ----------------------------------------------------------------------------- */

static const struct command commands[] = {
    {"count", "count the keys of files", sketch_count_command},
    {"merge", "add up sketches of the same shape", sketch_merge_command},
    {"query", "print estimates of keys", sketch_query_command},
};

static const struct command_set set = {
    .program = "tern sketch",
    .about = "Counts any number of keys in memory of a fixed size.",
    .commands = commands,
    .n_commands = sizeof commands / sizeof *commands,
};

int sketch_command(int argc, char **argv)
{
    return command_dispatch(&set, argc, argv);
}
