/*
 * command - finds a command in a table, and reports errors.
 */
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tern/tern.h>

#include "help.h"
#include "suggest.h"

void complain(const char *format, ...)
{
    /* In one write: a signal may end the program, and other nodes may write to the same file. */
    char *sentence;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&sentence, format, args);
    va_end(args);
    if (n < 0)
        return;
    fprintf(stderr, "tern: %s\n", sentence);
    free(sentence);
}

bool flush_output(void)
{
    static bool failed;
    if (!failed && (fflush(stdout) != 0 || ferror(stdout))) {
        failed = true;
        complain("cannot write to standard output: %s", strerror(errno));
    }
    return !failed;
}

int complain_tern(const char *doing)
{
    complain("%s: %s", doing, tern_error());
    return EXIT_FAILED;
}

static int unknown_command(const struct command_set *set, const char *name)
{
    const char *close = suggest(name, set->commands, set->n_commands, sizeof *set->commands);
    if (close != NULL)
        complain("there is no command '%s %s'; did you mean '%s'?", set->program, name, close);
    else
        complain("there is no command '%s %s'; '%s --help' lists them", set->program, name,
                 set->program);
    return EXIT_USAGE;
}

int command_dispatch(const struct command_set *set, int argc, char **argv)
{
    if (argc < 2) {
        complain("which command? '%s --help' lists them", set->program);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        help_of_commands(set);
        return EXIT_OK;
    }
    if (name[0] == '-') {
        complain("'%s' has no option '%s'; see '%s --help'", set->program, name, set->program);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < set->n_commands; i++)
        if (strcmp(name, set->commands[i].name) == 0)
            return set->commands[i].run(argc - 1, argv + 1);
    return unknown_command(set, name);
}
