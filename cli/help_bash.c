/*
 * help_bash - a completion for bash from the tables of commands and options.
 *
 * The script finds the command that the line names so far, and offers its commands, its options, or the
 * choices of the option before the cursor. For every other word bash offers files.
 */
#include <string.h>

#include "help.h"

/* What the script asks about: the commands of a path, its options, or the values of an option. */
enum question { COMMANDS, OPTIONS, VALUES };

static struct {
    FILE *out;
    const struct command_set *program;
    enum question question;
} bash;

/* ---- One command ------------------------------------------------------------------------------- */

static void put_name(const char *name)
{
    fprintf(bash.out, " %s%s", name[1] == '\0' ? "-" : "--", name);
}

static void put_options(const struct option_set *set)
{
    char alias[ALIAS_MAX_BYTES];
    fprintf(bash.out, "    '%s') words='--help", set->program);
    for (size_t i = 0; i < options_count(set); i++) {
        put_name(options_at(set, i)->name);
        for (const char *rest = options_at(set, i)->aliases; option_next_alias(&rest, alias);)
            put_name(alias);
    }
    fprintf(bash.out, "' ;;\n");
}

/* A case of the words that name the option: 'tern train kge --rate' | 'tern train kge --lr'. */
static void put_pattern(const struct option_set *set, const struct option *option)
{
    char alias[ALIAS_MAX_BYTES];
    fprintf(bash.out, "    '%s --%s'", set->program, option->name);
    for (const char *rest = option->aliases; option_next_alias(&rest, alias);)
        fprintf(bash.out, " | '%s %s%s'", set->program, alias[1] == '\0' ? "-" : "--", alias);
    fprintf(bash.out, ")");
}

static void put_values(const struct option_set *set)
{
    for (size_t i = 0; i < options_count(set); i++) {
        const struct option *option = options_at(set, i);
        if (option->kind == OPTION_FLAG)
            continue;
        put_pattern(set, option);
        fprintf(bash.out, " takes=%s", option->kind == OPTION_STRINGS ? "list" : "value");
        fprintf(bash.out, " words='");
        for (size_t k = 0; option->choices != NULL && option->choices[k] != NULL; k++)
            fprintf(bash.out, "%s%s", k > 0 ? " " : "", option->choices[k]);
        fprintf(bash.out, "' ;;\n");
    }
}

static void write_command(const struct option_set *set)
{
    if (bash.question == OPTIONS)
        put_options(set);
    else if (bash.question == VALUES)
        put_values(set);
}

static void write_commands(const struct command_set *set)
{
    if (bash.question == COMMANDS) {
        fprintf(bash.out, "    '%s') words='", set->program);
        for (size_t i = 0; i < set->n_commands; i++)
            fprintf(bash.out, "%s%s", i > 0 ? " " : "", set->commands[i].name);
        fprintf(bash.out, "' ;;\n");
    } else if (bash.question == OPTIONS) {
        fprintf(bash.out, "    '%s') words='--help%s' ;;\n", set->program,
                set == bash.program ? " --version" : "");
    }
    help_walk(set);
}

/* ---- The script -------------------------------------------------------------------------------- */

static void put_function(const char *name, const char *subject, enum question question)
{
    fprintf(bash.out, "%s() {\n    words=\n    case %s in\n", name, subject);
    bash.question = question;
    write_commands(bash.program);
    fprintf(bash.out, "    esac\n}\n\n");
}

static const char body[] =
    "_tern() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local path=tern help= takes= words= before= word i\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [ \"$path $word\" = 'tern help' ]; then\n"
    "            help=1\n"
    "            continue\n"
    "        fi\n"
    "        _tern_commands\n"
    "        case \" $words \" in *\" $word \"*) path=\"$path $word\" ;; esac\n"
    "    done\n"
    "    # --name=value reaches us as three words.\n"
    "    [ \"$cur\" != = ] || cur=\n"
    "    [ \"$prev\" != = ] || prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    [ -z \"$help\" ] || [ \"${cur#-}\" = \"$cur\" ] || path='tern help'\n"
    "    _tern_values\n"
    "    if [ -z \"$takes\" ]; then\n"
    "        case $cur in\n"
    "        -*) _tern_options ;;\n"
    "        *) _tern_commands ;;\n"
    "        esac\n"
    "    elif [ $takes = list ]; then\n"
    "        case $cur in *,*) before=${cur%,*}, cur=${cur##*,} ;; esac\n"
    "    fi\n"
    "    [ -z \"$words\" ] || mapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$words\" -- "
    "\"$cur\")\n"
    "}\n"
    "complete -o default -F _tern tern\n";

void help_write_bash(const struct command_set *program, FILE *out)
{
    static const struct help_writer writer = {write_command, write_commands};
    bash.out = out;
    bash.program = program;
    help_set_writer(&writer);
    fprintf(out, "# Completion of tern for bash, written by `tern help --completion`.\n\n");
    put_function("_tern_commands", "$path", COMMANDS);
    put_function("_tern_options", "$path", OPTIONS);
    put_function("_tern_values", "\"$path $prev\"", VALUES);
    fputs(body, out);
}
