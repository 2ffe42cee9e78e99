/*
 * help - the text of --help, the walk through all commands, and `tern help`.
 *
 * Text is wrapped at the width of the terminal, but at 80 columns where that is wider or there is none.
 */
#include "help.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { STICKY = '\001' }; /* a blank at which no line ends */

enum {
    WIDTH = 80,
    MIN_WIDTH = 40,
    LEFT_MAX = 22, /* columns of an option and its argument; a longer one has a line to itself */
};

/* ---- Tables ------------------------------------------------------------------------------------ */

size_t help_sort(const struct option_set *set, struct help_option sorted[HELP_MAX_OPTIONS])
{
    struct help_option all[HELP_MAX_OPTIONS];
    const char *group = "Options";
    size_t n = options_count(set), n_sorted = 0;
    n = n < HELP_MAX_OPTIONS ? n : HELP_MAX_OPTIONS;
    for (size_t i = 0; i < n; i++) {
        const struct option *option = options_at(set, i);
        if (option->group != NULL)
            group = option->group;
        all[i] = (struct help_option){option, group};
    }
    for (size_t i = 0; i < n; i++) {
        if (all[i].option == NULL)
            continue;
        group = all[i].group;
        for (size_t j = i; j < n; j++) {
            if (all[j].option == NULL || strcmp(all[j].group, group) != 0)
                continue;
            sorted[n_sorted++] = all[j];
            all[j].option = NULL;
        }
    }
    return n_sorted;
}

/* Splits a line into its term and the explanation; false if it has no two blanks inside. */
static bool split_term(const char *line, size_t n, struct help_block *block)
{
    const char *gap = memmem(line, n, "  ", 2);
    if (gap == NULL)
        return false;
    size_t n_blanks = strspn(gap, " ");
    block->kind = HELP_TERM;
    block->term = line;
    block->n_term = (size_t)(gap - line);
    block->text = gap + n_blanks;
    block->n_text = n - block->n_term - n_blanks;
    return true;
}

bool help_next_block(const char **text, struct help_block *block)
{
    const char *at = *text;
    size_t n_ends = strspn(at, "\n");
    at += n_ends;
    if (*at == '\0')
        return false;
    size_t n = strcspn(at, "\n");
    *block = (struct help_block){.after_gap = n_ends > 1, .text = at};
    if (strncmp(at, "  ", 2) == 0) {
        block->kind = HELP_EXAMPLE;
        block->n_text = n;
        size_t n_blanks = strspn(at, " ");
        (void)split_term(at + n_blanks, n - n_blanks, block);
    } else {
        while (at[n] == '\n' && at[n + 1] != '\n' && at[n + 1] != ' ' && at[n + 1] != '\0')
            n += 1 + strcspn(at + n + 1, "\n");
        block->n_text = n;
    }
    *text = at + n;
    return true;
}

/* ---- Text -------------------------------------------------------------------------------------- */

static size_t text_width(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_col > WIDTH)
        return WIDTH;
    return size.ws_col > MIN_WIDTH ? size.ws_col : MIN_WIDTH;
}

/* How much of a word of n bytes to print in a line with `room` columns: all of it, or of a list that is
 * longer than a whole line the items that fit. */
static size_t cut_word(const char *word, size_t n, size_t room, size_t whole_line)
{
    if (n <= whole_line)
        return n;
    for (size_t i = room < n ? room : n; i > 0; i--)
        if (word[i - 1] == ',')
            return i;
    return n;
}

/* Prints words from column `column` on, in lines that begin at column `indent`, and a line end. */
static void print_wrapped(const char *text, size_t n_bytes, size_t column, size_t indent)
{
    const char *end = text + n_bytes;
    size_t width = text_width();
    bool glue = true; /* the next piece follows without a blank */
    while (text < end) {
        text += strspn(text, " \n");
        size_t word = strcspn(text, " \n");
        word = word < (size_t)(end - text) ? word : (size_t)(end - text);
        while (word > 0) {
            size_t room = column + !glue < width ? width - column - !glue : 0;
            size_t n = cut_word(text, word, room, width - indent);
            if (n > room && column > indent) {
                printf("\n%*s", (int)indent, "");
                column = indent;
                glue = true;
                continue;
            }
            printf("%s", glue ? "" : " ");
            for (size_t i = 0; i < n; i++)
                putchar(text[i] == STICKY ? ' ' : text[i]);
            column += n + !glue;
            text += n;
            word -= n;
            glue = word > 0;
        }
    }
    printf("\n");
}

/* Prints a row of two columns, the first of `width`. */
static void print_row(const char *left, size_t n_left, size_t width, const char *right,
                      size_t n_right)
{
    size_t indent = width + 4;
    printf("  %.*s", (int)n_left, left);
    if (n_left > width)
        printf("\n%*s", (int)indent, "");
    else
        printf("%*s", (int)(indent - 2 - n_left), "");
    print_wrapped(right, n_right, indent, indent);
}

static size_t widest_term(const char *text)
{
    struct help_block block;
    size_t width = 0;
    while (help_next_block(&text, &block))
        if (block.kind == HELP_TERM && block.n_term > width && block.n_term <= LEFT_MAX)
            width = block.n_term;
    return width;
}

static void print_text(const char *text)
{
    struct help_block block;
    size_t width = widest_term(text);
    while (help_next_block(&text, &block)) {
        if (block.after_gap)
            printf("\n");
        if (block.kind == HELP_EXAMPLE)
            printf("%.*s\n", (int)block.n_text, block.text);
        else if (block.kind == HELP_TERM)
            print_row(block.term, block.n_term, width, block.text, block.n_text);
        else
            print_wrapped(block.text, block.n_text, 0, 0);
    }
}

static void print_words(const char *left, size_t width, const char *right)
{
    print_row(left, strlen(left), width, right, strlen(right));
}

/* Prints an option's short forms, its name and what it takes: "-o, --out FILE". */
static size_t print_left(char *left, size_t size, const struct option *option)
{
    char alias[ALIAS_MAX_BYTES];
    size_t n = 0;
    for (const char *rest = option->aliases; option_next_alias(&rest, alias);)
        if (alias[1] == '\0')
            n += (size_t)snprintf(left + n, size - n, "-%s, ", alias);
    n += (size_t)snprintf(left + n, size - n, "--%s%s%s", option->name,
                          option->takes != NULL ? " " : "",
                          option->takes != NULL ? option->takes : "");
    return n;
}

/* Prints what an option is for, its longer aliases and its default. */
static void print_right(char *right, size_t size, const struct option *option)
{
    char alias[ALIAS_MAX_BYTES];
    bool first = true;
    size_t n = (size_t)snprintf(right, size, "%s", option->help);
    for (const char *rest = option->aliases; n < size && option_next_alias(&rest, alias);) {
        if (alias[1] == '\0')
            continue;
        n += (size_t)snprintf(right + n, size - n, "%s--%s", first ? "; also " : ", ", alias);
        first = false;
    }
    if (option->initial != NULL && n < size)
        snprintf(right + n, size - n, " (default:%c%s)", STICKY, option->initial);
}

static void print_command(const struct option_set *set)
{
    struct help_option sorted[HELP_MAX_OPTIONS];
    char left[128], right[1024];
    size_t n = help_sort(set, sorted), width = strlen("-h, --help");
    const char *group = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t length = print_left(left, sizeof left, sorted[i].option);
        width = length > width && length <= LEFT_MAX ? length : width;
    }
    printf("Usage: %s [OPTION]...%s%s\n\n", set->program, set->operands != NULL ? " " : "",
           set->operands != NULL ? set->operands : "");
    print_text(set->about);
    for (size_t i = 0; i < n; i++) {
        if (group == NULL || strcmp(group, sorted[i].group) != 0)
            printf("\n%s:\n", sorted[i].group);
        group = sorted[i].group;
        print_left(left, sizeof left, sorted[i].option);
        print_right(right, sizeof right, sorted[i].option);
        print_words(left, width, right);
    }
    printf(n > 0 ? "" : "\nOptions:\n");
    print_words("-h, --help", width, "print this text");
    if (set->notes != NULL) {
        printf("\n");
        print_text(set->notes);
    }
}

static void print_commands(const struct command_set *set)
{
    char last[128];
    size_t width = 10;
    for (size_t i = 0; i < set->n_commands; i++)
        if (strlen(set->commands[i].name) > width)
            width = strlen(set->commands[i].name);
    printf("Usage: %s COMMAND [OPTION]...\n\n", set->program);
    print_text(set->about);
    printf("\nCommands:\n");
    for (size_t i = 0; i < set->n_commands; i++)
        print_words(set->commands[i].name, width, set->commands[i].summary);
    snprintf(last, sizeof last, "`%s COMMAND --help` explains a command.", set->program);
    printf("\n%s\n", last);
    if (set->notes != NULL)
        print_text(set->notes);
}

/* ---- The writer in use ------------------------------------------------------------------------- */

static const struct help_writer text_writer = {print_command, print_commands};
static const struct help_writer *current = &text_writer;
static const char *summary;

void help_set_writer(const struct help_writer *writer)
{
    current = writer;
}

void help_of_command(const struct option_set *set)
{
    current->command(set);
}

void help_of_commands(const struct command_set *set)
{
    current->commands(set);
}

void help_set_summary(const char *text)
{
    summary = text;
}

void help_walk(const struct command_set *set)
{
    for (size_t i = 0; i < set->n_commands; i++) {
        char *words[] = {(char *)set->commands[i].name, (char[]){"--help"}, NULL};
        help_set_summary(set->commands[i].summary);
        set->commands[i].run(2, words);
    }
}

const char *help_summary(void)
{
    return summary;
}

/* ---- tern help --------------------------------------------------------------------------------- */

static struct {
    const char *man;
    bool completion;
    struct operand_list words;
} args;

static const struct option options[] = {
    {"man", OPTION_STRING, &args.man, .takes = "DIR",
     .help = "write a man page for every command to DIR"},
    {"completion", OPTION_FLAG, &args.completion, .help = "print a completion script for bash"},
};

static const struct option_set option_set = {
    .program = "tern help",
    .about = "Explains a command, as `tern COMMAND --help` does.",
    .notes = "Examples:\n"
             "  tern help train kge\n"
             "  source <(tern help --completion)",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "[COMMAND]...",
    .given = &args.words,
};

int help_command(const struct command_set *program, int argc, char **argv)
{
    int status, n = 0;
    char *words[LIST_MAX + 2];
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if ((args.man != NULL) + args.completion + (args.words.n > 0) > 1) {
        complain("'tern help' takes one of --man, --completion and a command");
        return EXIT_USAGE;
    }
    if (args.man != NULL)
        return help_write_man(program, args.man) ? EXIT_OK : EXIT_FAILED;
    if (args.completion) {
        help_write_bash(program, stdout);
        return EXIT_OK;
    }
    words[n++] = (char[]){"tern"};
    for (size_t i = 0; i < args.words.n; i++)
        words[n++] = (char *)args.words.at[i];
    words[n++] = (char[]){"--help"};
    return command_dispatch(program, n, words);
}
