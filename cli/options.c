/*
 * options - reads a command line by its table.
 */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "help.h"
#include "suggest.h"

/* ---- Values ---------------------------------------------------------------------------------- */

static bool bounded(const struct option *option)
{
    return option->min < option->max;
}

static bool within(const struct option *option, double number)
{
    return !bounded(option) || (number >= option->min && number <= option->max);
}

static bool wrong_number(const struct option *option, const char *what, const char *text)
{
    if (bounded(option))
        complain("--%s takes %s from %.10g to %.10g, not '%s'", option->name, what, option->min,
                 option->max, text);
    else
        complain("--%s takes %s, not '%s'", option->name, what, text);
    return false;
}

static bool read_int(const struct option *option, const char *what, const char *text,
                     int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || !within(option, (double)number))
        return wrong_number(option, what, text);
    *value = number;
    return true;
}

static bool read_double(const struct option *option, const char *text, double *value)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(number) || !within(option, number))
        return wrong_number(option, "a number", text);
    *value = number;
    return true;
}

static bool read_choice(const struct option *option, const char *text, size_t *choice)
{
    *choice = 0;
    if (option->choices == NULL)
        return true;
    size_t n = 0;
    for (; option->choices[n] != NULL; n++) {
        if (strcmp(text, option->choices[n]) == 0) {
            *choice = n;
            return true;
        }
    }
    const char *close = suggest(text, option->choices, n, sizeof *option->choices);
    if (close != NULL) {
        complain("--%s does not know '%s'; did you mean '%s'?", option->name, text, close);
        return false;
    }
    char known[256] = "";
    for (size_t i = 0, used = 0; i < n && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                 option->choices[i]);
    complain("--%s does not know '%s'; it takes %s", option->name, text, known);
    return false;
}

static bool append_string(const struct option *option, char *item, struct string_list *list)
{
    list->at[list->n] = item;
    if (item[0] == '\0') {
        complain("--%s has an empty item in its list", option->name);
        return false;
    }
    return read_choice(option, item, &list->choice[list->n++]);
}

static bool append_int(const struct option *option, const char *item, struct int_list *list)
{
    return read_int(option, "whole numbers, separated by commas,", item, &list->at[list->n++]);
}

/* Cuts `text` at its commas and appends each piece. */
static bool read_list(const struct option *option, const char *text)
{
    struct string_list *strings = option->value;
    struct int_list *ints = option->value;
    bool of_strings = option->kind == OPTION_STRINGS;
    char copy[sizeof strings->text];
    char *pieces = of_strings ? strings->text : copy;
    size_t *n = of_strings ? &strings->n : &ints->n;
    *n = 0;
    if (strlen(text) >= sizeof copy) {
        complain("--%s has a list of more than %zu characters", option->name, sizeof copy - 1);
        return false;
    }
    strcpy(pieces, text);
    for (char *item; (item = strsep(&pieces, ",")) != NULL;) {
        if (*n == LIST_MAX) {
            complain("--%s takes at most %d items", option->name, LIST_MAX);
            return false;
        }
        if (!(of_strings ? append_string(option, item, strings) : append_int(option, item, ints)))
            return false;
    }
    return true;
}

static bool read_value(const struct option *option, const char *text)
{
    size_t choice;
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)option->value = true;
        return true;
    case OPTION_INT:
        return read_int(option, "a whole number", text, option->value);
    case OPTION_DOUBLE:
        return read_double(option, text, option->value);
    case OPTION_STRING:
        *(const char **)option->value = text;
        return read_choice(option, text, &choice);
    case OPTION_INTS:
    case OPTION_STRINGS:
        return read_list(option, text);
    }
    return false;
}

static bool set_initial(const struct option *option)
{
    if (option->kind == OPTION_FLAG) {
        *(bool *)option->value = false;
        return true;
    }
    if (option->initial == NULL && option->kind == OPTION_STRING) {
        *(const char **)option->value = NULL;
        return true;
    }
    return read_value(option, option->initial);
}

/* ---- Own and common options as one list ------------------------------------------------------ */

size_t options_count(const struct option_set *set)
{
    return set->n_options + set->n_common;
}

const struct option *options_at(const struct option_set *set, size_t i)
{
    return i < set->n_options ? &set->options[i] : &set->common[i - set->n_options];
}

bool option_next_alias(const char **rest, char name[ALIAS_MAX_BYTES])
{
    if (*rest == NULL || **rest == '\0')
        return false;
    size_t length = strcspn(*rest, ",");
    snprintf(name, ALIAS_MAX_BYTES, "%.*s", (int)length, *rest);
    *rest += length + ((*rest)[length] == ',');
    return true;
}

/* ---- The command line ------------------------------------------------------------------------ */

static bool has_name(const struct option *option, const char *name)
{
    char alias[ALIAS_MAX_BYTES];
    if (strcmp(option->name, name) == 0)
        return true;
    for (const char *rest = option->aliases; option_next_alias(&rest, alias);)
        if (strcmp(alias, name) == 0)
            return true;
    return false;
}

static const struct option *find(const struct option_set *set, const char *name)
{
    for (size_t i = 0; i < options_count(set); i++)
        if (has_name(options_at(set, i), name))
            return options_at(set, i);
    return NULL;
}

enum { MAX_NAMES = 256 };

/* Complains of an option that does not exist, and names the nearest one, be it an alias. */
static void complain_unknown(const struct option_set *set, const char *typed)
{
    static char aliases[MAX_NAMES][ALIAS_MAX_BYTES];
    const char *names[MAX_NAMES];
    size_t n = 0, n_aliases = 0;
    for (size_t i = 0; i < options_count(set) && n < MAX_NAMES; i++) {
        const char *rest = options_at(set, i)->aliases;
        names[n++] = options_at(set, i)->name;
        for (; n < MAX_NAMES && option_next_alias(&rest, aliases[n_aliases]); n_aliases++)
            names[n++] = aliases[n_aliases];
    }
    const char *close = suggest(typed, names, n, sizeof *names);
    if (close != NULL)
        complain("'%s' has no option '--%s'; did you mean '--%s'?", set->program, typed, close);
    else
        complain("'%s' has no option '--%s'; see '%s --help'", set->program, typed, set->program);
}

/* Reads the option at argv[*i], whose name follows n_dashes, and leaves *i at the last argument used. */
static bool read_option(const struct option_set *set, size_t n_dashes, int argc, char **argv,
                        int *i)
{
    char name[ALIAS_MAX_BYTES];
    const char *word = argv[*i] + n_dashes;
    size_t length = strcspn(word, "=");
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    const struct option *option = length < sizeof name ? find(set, name) : NULL;
    if (option == NULL) {
        complain_unknown(set, name);
        return false;
    }
    const char *text = word[length] == '=' ? word + length + 1 : NULL;
    if (option->kind == OPTION_FLAG && text != NULL) {
        complain("--%s takes no value, but got '%s'", option->name, text);
        return false;
    }
    if (option->kind != OPTION_FLAG && text == NULL) {
        if (*i + 1 == argc) {
            complain("--%s needs a value: --%s %s", option->name, option->name, option->takes);
            return false;
        }
        text = argv[++*i];
    }
    return read_value(option, text);
}

/* Whether a word is a short option of the command: "-o". */
static bool is_short(const struct option_set *set, const char *word)
{
    return word[0] == '-' && word[1] != '\0' && word[1] != '-' && word[2] == '\0' &&
           find(set, word + 1) != NULL;
}

static bool read_operand(const struct option_set *set, const char *text, bool options_ended)
{
    if (set->operands == NULL) {
        complain("'%s' does not take '%s'; see '%s --help'", set->program, text, set->program);
        return false;
    }
    if (text[0] == '-' && text[1] != '\0' && !options_ended) {
        complain(
            "'%s' has no option '%s'; a word that begins with '-' and is no option must follow "
            "'--'",
            set->program, text);
        return false;
    }
    if (set->given->n == LIST_MAX) {
        complain("'%s' takes at most %d operands", set->program, LIST_MAX);
        return false;
    }
    set->given->at[set->given->n++] = text;
    return true;
}

static bool is_help(const char *text)
{
    return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

static bool read_arguments(const struct option_set *set, int argc, char **argv, bool *help)
{
    bool ended = false;
    for (int i = 1; i < argc; i++) {
        if (!ended && strcmp(argv[i], "--") == 0) {
            ended = true;
            continue;
        }
        if (!ended && is_help(argv[i])) {
            *help = true;
            return true;
        }
        size_t n_dashes = ended ? 0 : strncmp(argv[i], "--", 2) == 0 ? 2 : is_short(set, argv[i]);
        if (!(n_dashes > 0 ? read_option(set, n_dashes, argc, argv, &i)
                           : read_operand(set, argv[i], ended)))
            return false;
    }
    return true;
}

bool options_read(const struct option_set *set, int argc, char **argv, int *status)
{
    bool help = false;
    *status = EXIT_USAGE;
    for (size_t i = 0; i < options_count(set); i++)
        if (!set_initial(options_at(set, i)))
            return false;
    if (set->given != NULL)
        set->given->n = 0;
    if (!read_arguments(set, argc, argv, &help))
        return false;
    if (help) {
        help_of_command(set);
        *status = EXIT_OK;
    }
    return !help;
}

size_t options_choice(const char *const *choices, const char *text)
{
    size_t i = 0;
    while (strcmp(choices[i], text) != 0)
        i++;
    return i;
}
