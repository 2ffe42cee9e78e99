/*
 * options - the options of a command, from one table.
 *
 * A command describes each option once: its name, its argument, its purpose, its default as the user
 * would type it, and where the value goes. The table yields the parser, the checks, --help, the man
 * page and the shell completion (help.h). Defaults are read by the same code as the user's arguments.
 *
 * The parser accepts `--name VALUE` and `--name=VALUE`. Commas separate the items of a list. All words
 * after `--` are operands, also those that begin with '-'.
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

/* The words of the command line that are not options, in their order. */
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
    const char *takes;          /* the argument's name in --help: "N", "LIST" */
    const char *help;           /* a phrase without a full stop; it names the choices */
    double min, max;            /* bounds of numbers; both 0: none */
    const char *const *choices; /* the strings allowed, NULL past the last; or NULL */
    /* Further names, separated by commas: "lr,learning-rate". One of a single letter is a short
     * option: "o" is -o. NULL: none. */
    const char *aliases;
    /* The heading above this option and those that follow it, up to the next one with a heading.
     * Options under equal headings are listed together. NULL: as the option before, or "Options". */
    const char *group;
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

/* The options of a set, its own and then the common ones. */
size_t options_count(const struct option_set *set);
const struct option *options_at(const struct option_set *set, size_t i);

enum { ALIAS_MAX_BYTES = 64 };

/* Copies the next alias to `name` and moves *rest past it; false when there is none left. *rest begins
 * as option->aliases. */
bool option_next_alias(const char **rest, char name[ALIAS_MAX_BYTES]);

/* The index of a string among the choices that its option allows. */
size_t options_choice(const char *const *choices, const char *text);

#endif
