/*
 * help_man - man pages from the tables of commands and options: tern.1, tern-train.1, tern-train-kge.1.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tern/tern.h>

#include "help.h"

enum { FILL_COLUMNS = 50 }; /* with escapes and one more word a line has less than 80 */

static struct {
    const char *folder;
    FILE *page;
    bool failed;
} man;

/* Prints text as roff: '-' as it is typed, no word that could be a request or an escape. A line of the page
 * ends at the first blank after `width` columns; 0: only where the text has a line end. */
static void put_lines(const char *text, size_t n, size_t width)
{
    size_t column = 0;
    for (size_t i = 0; i < n; i++) {
        if (column == 0 && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", man.page);
        bool ends_line = text[i] == '\n' || (text[i] == ' ' && width > 0 && column >= width);
        column = ends_line ? 0 : column + 1;
        if (ends_line) {
            fputc('\n', man.page);
            continue;
        }
        if (text[i] == '\\')
            fputs("\\e", man.page);
        else if (text[i] == '-')
            fputs("\\-", man.page);
        else if (text[i] == '`' || text[i] == '\'')
            fputs(text[i] == '`' ? "\\(ga" : "\\(aq", man.page);
        else
            fputc(text[i], man.page);
        if (text[i] == ',' && i + 1 < n && text[i + 1] != ' ' && text[i + 1] != '\n')
            fputs("\\:", man.page); /* a long list may be broken here */
    }
}

static void put(const char *text, size_t n)
{
    put_lines(text, n, FILL_COLUMNS);
}

static void put_text(const char *text)
{
    put(text, strlen(text));
}

/* The name of a page: "tern train kge" has "tern-train-kge". */
static void page_name(const char *program, char name[128])
{
    snprintf(name, 128, "%s", program);
    for (char *at = name; (at = strchr(at, ' ')) != NULL;)
        *at = '-';
}

/* The date of the page: that of the build, as SOURCE_DATE_EPOCH says if it is set. */
static void page_date(char date[16])
{
    const char *given = getenv("SOURCE_DATE_EPOCH");
    time_t now = given != NULL ? (time_t)strtoll(given, NULL, 10) : time(NULL);
    struct tm parts;
    strftime(date, 16, "%Y-%m-%d", gmtime_r(&now, &parts));
}

static bool begin_page(const char *program, const char *summary)
{
    char name[128], date[16], path[4096];
    page_name(program, name);
    page_date(date);
    snprintf(path, sizeof path, "%s/%s.1", man.folder, name);
    man.page = fopen(path, "w");
    if (man.page == NULL) {
        complain("cannot write %s: %s", path, strerror(errno));
        man.failed = true;
        return false;
    }
    fputs(".TH \"", man.page);
    for (const char *at = name; *at != '\0'; at++)
        fputc(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at, man.page);
    fprintf(man.page, "\" 1 \"%s\" \"Tern %s\" \"Tern Manual\"\n.SH NAME\n", date, tern_version());
    put_text(name);
    fputs(" \\- ", man.page);
    put_text(summary);
    return true;
}

static void end_page(const char *program)
{
    char name[128];
    fputs("\n.SH EXIT STATUS\n0 on success, 1 when the work failed, 2 when the command line is "
          "wrong.\n.SH SEE ALSO\n",
          man.page);
    page_name(program, name);
    const char *last = strrchr(program, ' ');
    if (last != NULL) { /* the page of the command above */
        name[last - program] = '\0';
        fputs(".BR ", man.page);
        put_text(name);
        fputs(" (1)\n", man.page);
    } else {
        fputs("The folder docs of the sources.\n", man.page);
    }
    bool ok = !ferror(man.page);
    if (fclose(man.page) != 0 || !ok) {
        complain("cannot write the man page of '%s': %s", program, strerror(errno));
        man.failed = true;
    }
}

/* Prints a text, which begins on a line of its own. */
static void put_blocks(const char *text)
{
    struct help_block block;
    bool is_first = true;
    for (; help_next_block(&text, &block); is_first = false) {
        if (block.kind == HELP_TERM) {
            fputs("\n.TP\n", man.page);
            put(block.term, block.n_term);
            fputs("\n", man.page);
        } else if (block.kind == HELP_EXAMPLE) {
            fputs("\n.PP\n.nf\n", man.page);
        } else {
            fputs(is_first ? "\n" : "\n.PP\n", man.page);
        }
        put_lines(block.text, block.n_text, block.kind == HELP_EXAMPLE ? 0 : FILL_COLUMNS);
        fputs(block.kind == HELP_EXAMPLE ? "\n.fi" : "", man.page);
    }
}

/* ---- Pages ------------------------------------------------------------------------------------- */

static void put_name(const char *name)
{
    fputs(name[1] == '\0' ? "\\fB\\-" : "\\fB\\-\\-", man.page);
    put_text(name);
    fputs("\\fR", man.page);
}

static void put_option(const struct option *option)
{
    char alias[ALIAS_MAX_BYTES];
    fputs("\n.TP\n", man.page);
    put_name(option->name);
    for (const char *rest = option->aliases; option_next_alias(&rest, alias);) {
        fputs(", ", man.page);
        put_name(alias);
    }
    if (option->takes != NULL) {
        fputs(" \\fI", man.page);
        put_text(option->takes);
        fputs("\\fR", man.page);
    }
    fputs("\n", man.page);
    put_text(option->help);
    if (option->initial != NULL) {
        fputs(" (default: ", man.page);
        put_text(option->initial);
        fputs(")", man.page);
    }
}

static void write_command(const struct option_set *set)
{
    struct help_option sorted[HELP_MAX_OPTIONS];
    const char *group = NULL;
    size_t n = help_sort(set, sorted);
    if (!begin_page(set->program, help_summary()))
        return;
    fputs("\n.SH SYNOPSIS\n\\fB", man.page);
    put_text(set->program);
    fputs("\\fR [\\fIOPTION\\fR]...", man.page);
    if (set->operands != NULL) {
        fputs(" ", man.page);
        put_text(set->operands);
    }
    fputs("\n.SH DESCRIPTION", man.page);
    put_blocks(set->about);
    fputs("\n.SH OPTIONS", man.page);
    for (size_t i = 0; i < n; i++) {
        bool is_new = group == NULL || strcmp(group, sorted[i].group) != 0;
        group = sorted[i].group;
        if (is_new && strcmp(group, "Options") != 0) {
            fputs("\n.SS ", man.page);
            put_text(group);
        }
        put_option(sorted[i].option);
    }
    fputs("\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint a summary of this page", man.page);
    if (set->notes != NULL) {
        fputs("\n.SH NOTES", man.page);
        put_blocks(set->notes);
    }
    end_page(set->program);
}

static void write_commands(const struct command_set *set)
{
    char name[128];
    /* The summary of the set itself: its sentence for tern, its row's line for the others. */
    if (!begin_page(set->program, help_summary()))
        return;
    fputs("\n.SH SYNOPSIS\n\\fB", man.page);
    put_text(set->program);
    fputs("\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH DESCRIPTION", man.page);
    put_blocks(set->about);
    fputs("\n.SH COMMANDS", man.page);
    page_name(set->program, name);
    for (size_t i = 0; i < set->n_commands; i++) {
        fputs("\n.TP\n.BR ", man.page);
        put_text(name);
        fputs("\\-", man.page);
        put_text(set->commands[i].name);
        fputs(" (1)\n", man.page);
        put_text(set->commands[i].summary);
    }
    if (set->notes != NULL) {
        fputs("\n.SH NOTES", man.page);
        put_blocks(set->notes);
    }
    end_page(set->program);
    help_walk(set);
}

bool help_write_man(const struct command_set *program, const char *folder)
{
    static const struct help_writer writer = {write_command, write_commands};
    man.folder = folder;
    help_set_writer(&writer);
    help_set_summary("a parameter manager for large sparse models");
    write_commands(program);
    return !man.failed;
}
