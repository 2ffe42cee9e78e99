/*
 * options - the options of a command, from one table.
 *
 * A command describes each option once: its name, what it takes, what it is for, its default as the
 * user would write it, and where the value goes. From that table come the parser, the checks, the
 * text of --help and the defaults, which are read by the same code as the user's own words.
 *
 * Both `--name VALUE` and `--name=VALUE` are understood. Lists are separated by commas. Behind `--` there are
 * operands alone, which may begin with '-'.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIST_MAX 64

struct int_list {
    size_t n;
    int64_t at[LIST_MAX];
};

/* `at` points into `text`, so a list is not copied; `choice` is the index among the choices. */
struct string_list {
    size_t n;
    const char *at[LIST_MAX];
    size_t choice[LIST_MAX];
    char text[512];
};

/* What stands on the command line beside options, in its order. */
struct operand_list {
    size_t n;
    const char *at[LIST_MAX];
};

enum option_kind {
    OPTION_FLAG,    /* bool */
    OPTION_INT,     /* int64_t */
    OPTION_DOUBLE,  /* double */
    OPTION_STRING,  /* const char * */
    OPTION_INTS,    /* struct int_list */
    OPTION_STRINGS, /* struct string_list */
};

struct option {
    const char *name; /* without the dashes; first, for suggest() */
    enum option_kind kind;
    void *value;                /* of the type named at the kind */
    const char *initial;        /* the default as it would be typed; NULL: false or NULL */
    const char *takes;          /* what stands for the argument in --help: "N", "LIST" */
    const char *help;           /* a phrase without a full stop */
    double min, max;            /* bounds of numbers; both 0: none */
    const char *const *choices; /* the strings allowed, NULL past the last; or NULL */
};

struct option_set {
    const char *program; /* what the user types: "tern bench local" */
    const char *about;   /* what the command does, one or more lines */
    const char *notes;   /* further lines below the options, or NULL */
    const struct option *options;
    size_t n_options;
    const struct option *common; /* further options, which several commands share; or NULL */
    size_t n_common;
    const char *operands; /* what follows the options in --help: "DIR"; NULL: none are taken */
    struct operand_list *given; /* where they go, when operands are taken */
};

/* Reads the command line. When it returns false the command is over, with *status: --help was
 * printed, or a complaint. */
bool options_read(const struct option_set *set, int argc, char **argv, int *status);

#endif
