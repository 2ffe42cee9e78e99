/*
 * bench_models - the models that benchmarks train, and their default data.
 */
#ifndef CLI_BENCH_MODELS_H
#define CLI_BENCH_MODELS_H

#include <stdbool.h>

enum { BENCH_DATA_WORDS = 10 };

struct bench_model {
    const char *name;
    const char *measure; /* of its quality; NULL: it has no zero, so 90 % of it means nothing */
    bool lower_is_better;
    const char *
        data[BENCH_DATA_WORDS]; /* the command that makes data, without the output folder; none: the
                                           benchmark makes its own there */
    bool makes_bags;            /* the data become bags of words */
    bool adds; /* its updates add up: it can be trained under policies with bounds */
};

/* NULL if there is none of that name. */
const struct bench_model *bench_model_find(const char *name);

/* Runs a benchmark on the given data; if NULL, on data that are made for it and removed when this process ends.
 * Returns the result of `run`. */
int bench_on_data(const struct bench_model *model, const char *data,
                  int (*run)(void *bench, const char *data), void *bench);

/* Complains of a task that `program` does not have, "" if none was given; names the nearest one, or all of them as
 * `known`: "kge, wordvec or mf". */
void bench_complain_task(const char *program, const char *given, const char *known);

/* The number of words of a command line before "--". */
int bench_own_words(int argc, char **argv);

#endif
