/*
 * bench_models - the models that benches train, and the data they learn from unless others are given.
 */
#ifndef CLI_BENCH_MODELS_H
#define CLI_BENCH_MODELS_H

#include <stdbool.h>

enum { BENCH_DATA_WORDS = 10 };

struct bench_model {
    const char *name;
    const char *measure; /* of its quality; NULL: it has no zero, so no share of it can be told */
    bool lower_is_better;
    const char *data[BENCH_DATA_WORDS]; /* what makes data, without the folder they go to */
    bool makes_bags;                    /* the data are then made into bags of words */
    bool adds; /* its updates add up: it can be trained under policies with bounds */
};

/* NULL if there is none of that name. */
const struct bench_model *bench_model_find(const char *name);

/* Runs a bench on the data given or, if they are NULL, on data that are made for it and gone with this
 * process. Returns what it returns. */
int bench_on_data(const struct bench_model *model, const char *data,
                  int (*run)(void *bench, const char *data), void *bench);

/* How many words of a command line are the bench's own: those before "--". */
int bench_own_words(int argc, char **argv);

#endif
