/*
 * help - commands that explain themselves: as text, as man pages, as completions of a shell.
 *
 * All three come from the tables of options and commands. A command that reads --help hands its table
 * to the current writer, which at first prints text. `tern help --man` and `--completion` set another
 * writer and then give --help to every command in turn (help_walk).
 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "command.h"
#include "options.h"

/* What --help does: explain a command by its options, or list the commands of one that has some. */
void help_of_command(const struct option_set *set);
void help_of_commands(const struct command_set *set);

/* `tern help`, with the commands of `tern` itself. */
int help_command(const struct command_set *program, int argc, char **argv);

/* ---- For writers ------------------------------------------------------------------------------- */

struct help_writer {
    void (*command)(const struct option_set *set);
    void (*commands)(const struct command_set *set);
};

/* Gives --help to each command of the set. Meanwhile help_summary() is the line of the command's
 * row, for its table does not have it. */
void help_walk(const struct command_set *set);
const char *help_summary(void);
void help_set_summary(const char *summary);

enum { HELP_MAX_OPTIONS = 96 };

struct help_option {
    const struct option *option;
    const char *group;
};

/* The options of a set group by group, groups in the order of their first option; their number. */
size_t help_sort(const struct option_set *set, struct help_option sorted[HELP_MAX_OPTIONS]);

/* A text is made of paragraphs, between empty lines, and of lines that begin with two blanks. Such a line is
 * a term and its explanation, with two blanks or more between them; or an example, to be left as it is. */
struct help_block {
    enum { HELP_PARAGRAPH, HELP_EXAMPLE, HELP_TERM } kind;
    bool after_gap; /* an empty line comes before it */
    const char *term, *text;
    size_t n_term, n_text; /* bytes */
};

/* Takes the next block off a text; false at its end. */
bool help_next_block(const char **text, struct help_block *block);

/* Man pages of all commands in a folder; a completion for bash on a file. False after a complaint. */
bool help_write_man(const struct command_set *program, const char *folder);
void help_write_bash(const struct command_set *program, FILE *out);

/* Sets what --help does from now on. */
void help_set_writer(const struct help_writer *writer);

#endif
