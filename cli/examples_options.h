/* examples_options - options that say how examples are read, for all commands that read some. */
#ifndef CLI_EXAMPLES_OPTIONS_H
#define CLI_EXAMPLES_OPTIONS_H

#include <string.h>

#include "common/examples.h"
#include "options.h"

/* Where the options below go; examples_chosen() turns them into what the reader takes. */
struct examples_args {
    const char *format, *label, *weight, *numeric, *ignore;
    int64_t hash_bits, n_grams, first_index;
};

#define EXAMPLES_OPTIONS(args)                                                                    \
    {"format",                                                                                    \
     OPTION_STRING,                                                                               \
     &(args).format,                                                                              \
     "detect",                                                                                    \
     "NAME",                                                                                      \
     "format of the examples: libsvm, libffm, vw, csv, tsv, criteo; or by the first line",        \
     .choices = examples_formats,                                                                 \
     .group = "Data"},                                                                            \
        {"hash-bits", OPTION_INT, &(args).hash_bits,                                              \
         "0",         "N",        "bits of a feature's key that count; 0: all 64",                \
         .min = 0,    .max = 63},                                                                 \
        {"ngrams", OPTION_INT, &(args).n_grams,                                                   \
         "1",      "N",        "vw: also runs of up to N names of a namespace",                   \
         .min = 1, .max = 16},                                                                    \
        {"first-index", OPTION_INT, &(args).first_index,                                          \
         "0",           "N",        "libsvm, libffm: a lower index is an error",                  \
         .min = 0,      .max = 1},                                                                \
        {"label", OPTION_STRING, &(args).label, .takes = "COLUMN",                                \
         .help = "csv, tsv: the column of the label; 'label' unless given"},                      \
        {"weight", OPTION_STRING, &(args).weight, .takes = "COLUMN",                              \
         .help = "csv, tsv: the column of the example's weight"},                                 \
        {"numeric", OPTION_STRING, &(args).numeric, .takes = "COLUMNS",                           \
         .help = "csv, tsv: columns of numbers, such as age,price; others are categories"},       \
    {                                                                                             \
        "ignore", OPTION_STRING, &(args).ignore, .takes = "COLUMNS",                              \
                                                 .help = "csv, tsv: columns that are no features" \
    }

static inline struct examples_options examples_chosen(const struct examples_args *args)
{
    int format = 0;
    while (strcmp(examples_formats[format], args->format) != 0)
        format++;
    return (struct examples_options){.format = (enum examples_format)format,
                                     .hash_bits = (uint32_t)args->hash_bits,
                                     .n_grams = (uint32_t)args->n_grams,
                                     .first_index = (uint64_t)args->first_index,
                                     .label = args->label,
                                     .weight = args->weight,
                                     .numeric = args->numeric,
                                     .ignore = args->ignore};
}

#endif
