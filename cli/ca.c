/*
 * tern ca - the certificates of a cluster: an authority of its own, and one certificate per node.
 *
 * Everything is a file in one folder: ca.crt and ca.key of the authority, NAME.crt and NAME.key of each
 * node. A node needs ca.crt, its own .crt and its own .key; ca.key stays where certificates are made.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "certificate.h"
#include "command.h"
#include "options.h"

static const char authority_name[] = "ca";

enum { NAME_MAX_BYTES = 64 }; /* what a certificate's common name may have */

/* ---- Operands ---------------------------------------------------------------------------------- */

static struct operand_list operands;

/* Reads the command line, with so many operands; false when the command is over, with *status. */
static bool read_line(const struct option_set *set, int argc, char **argv, size_t n_operands,
                      int *status)
{
    if (!options_read(set, argc, argv, status))
        return false;
    if (operands.n == n_operands)
        return true;
    if (operands.n > n_operands)
        complain("'%s' does not take '%s'; see '%s --help'", set->program, operands.at[n_operands],
                 set->program);
    else
        complain("'%s' needs %s", set->program, operands.n == 0 ? "a folder, DIR" : "a name, NAME");
    *status = EXIT_USAGE;
    return false;
}

/* ---- tern ca new ------------------------------------------------------------------------------- */

static bool make_folder(const char *folder)
{
    if (mkdir(folder, 0700) == 0 || errno == EEXIST)
        return true;
    complain("cannot make the folder %s: %s", folder, strerror(errno));
    return false;
}

static int new_command(int argc, char **argv)
{
    static const char *name;
    static int64_t days;
    static const struct option options[] = {
        {"name", OPTION_STRING, &name, "Tern", "NAME", "what the authority is called",
         .choices = NULL},
        {"days", OPTION_INT, &days, "3650", "N", "days until it expires", .min = 1, .max = 36500},
    };
    static const struct option_set set = {
        .program = "tern ca new",
        .operands = "DIR",
        .given = &operands,
        .about =
            "Makes an authority: DIR/ca.crt, which every node is given, and DIR/ca.key, which\n"
            "signs the certificates of nodes and is to be kept.",
        .notes = "DIR is made when it is missing. Nothing is overwritten.",
        .options = options,
        .n_options = sizeof options / sizeof *options,
    };
    int status;
    if (!read_line(&set, argc, argv, 1, &status))
        return status;
    const char *folder = operands.at[0];
    if (name[0] == '\0' || strlen(name) > NAME_MAX_BYTES) {
        complain("--name must have 1 to %d characters", NAME_MAX_BYTES);
        return EXIT_USAGE;
    }
    struct credential *authority = credential_new_authority(name, (int)days);
    bool done = authority != NULL && make_folder(folder) &&
                credential_write(authority, folder, authority_name);
    credential_free(authority);
    if (done)
        printf("%s/%s.crt\n%s/%s.key\n", folder, authority_name, folder, authority_name);
    return done ? EXIT_OK : EXIT_FAILED;
}

/* ---- tern ca node ------------------------------------------------------------------------------ */

/* A node's name becomes that of a file. */
static bool is_good_name(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length <= NAME_MAX_BYTES && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               length &&
           strcmp(name, authority_name) != 0;
}

/* The values of every --host; options_read has found them well formed, and keeps the last alone. */
static size_t collect_hosts(int argc, char **argv, const char **hosts)
{
    size_t n = 0;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--host") == 0)
            hosts[n++] = argv[++i];
        else if (strncmp(argv[i], "--host=", 7) == 0)
            hosts[n++] = argv[i] + 7;
        else if (strcmp(argv[i], "--days") == 0 || strcmp(argv[i], "--nodes") == 0)
            i++;
    }
    return n;
}

/* Whether the text is a node's number, or two with a dash between. */
static bool is_range(const char *text)
{
    unsigned first, last;
    char rest;
    size_t length = strspn(text, "0123456789-");
    int n = sscanf(text, "%5u-%5u%c", &first, &last, &rest);
    return text[0] >= '0' && text[0] <= '9' && text[length] == '\0' &&
           ((n == 1 && strchr(text, '-') == NULL && first < 65536) ||
            (n == 2 && first <= last && last < 65536));
}

static int make_node(const char *folder, const char *name, int argc, char **argv, int days,
                     const char *nodes)
{
    char bound[64];
    if (nodes != NULL && !is_range(nodes)) {
        complain("--nodes takes the number of a node or a range such as 0-7, not '%s'", nodes);
        return EXIT_USAGE;
    }
    const char **hosts = calloc((size_t)argc + 1, sizeof *hosts);
    if (hosts == NULL) {
        complain("no memory");
        return EXIT_FAILED;
    }
    size_t n_hosts = collect_hosts(argc, argv, hosts);
    for (size_t i = 0; i < n_hosts; i++) {
        if (hosts[i][0] != '\0')
            continue;
        complain("--host needs a host name or an address");
        free(hosts);
        return EXIT_USAGE;
    }
    if (nodes != NULL) {
        snprintf(bound, sizeof bound, CERTIFICATE_NODES "%.40s", nodes);
        hosts[n_hosts++] = bound;
    }
    struct credential *authority = credential_read(folder, authority_name);
    struct credential *node =
        authority != NULL ? credential_new_node(authority, name, hosts, n_hosts, days) : NULL;
    bool done = node != NULL && credential_write(node, folder, name);
    credential_free(node);
    credential_free(authority);
    free(hosts);
    if (done)
        printf("%s/%s.crt\n%s/%s.key\n", folder, name, folder, name);
    return done ? EXIT_OK : EXIT_FAILED;
}

static int node_command(int argc, char **argv)
{
    static const char *last_host, *nodes;
    static int64_t days;
    static const struct option options[] = {
        {"host", OPTION_STRING, &last_host, NULL, "HOST",
         "a host name or address of the node; may be given several times", .choices = NULL},
        {"nodes", OPTION_STRING, &nodes, NULL, "K[-L]",
         "bind it to node K, or nodes K to L: no other may use it", .choices = NULL},
        {"days", OPTION_INT, &days, "365", "N",
         "days until it expires, with the authority at the latest", .min = 1, .max = 36500},
    };
    static const struct option_set set = {
        .program = "tern ca node",
        .operands = "DIR NAME",
        .given = &operands,
        .about =
            "Makes the certificate of a node, DIR/NAME.crt, and its key, DIR/NAME.key, signed by\n"
            "the authority in DIR.",
        .notes =
            "Without --nodes, whoever has the certificate may be any node: only the authority is\n"
            "checked. A node whose own certificate is bound accepts bound ones alone.\n"
            "\n"
            "Tern does not compare hosts, because nodes are found by address; they are for other\n"
            "programs. NAME has letters, digits, '.', '_' and '-'. Nothing is overwritten.",
        .options = options,
        .n_options = sizeof options / sizeof *options,
    };
    int status;
    if (!read_line(&set, argc, argv, 2, &status))
        return status;
    const char *folder = operands.at[0], *name = operands.at[1];
    if (!is_good_name(name)) {
        complain("'%s' cannot be the name of a node; see 'tern ca node --help'", name);
        return EXIT_USAGE;
    }
    return make_node(folder, name, argc, argv, (int)days, nodes);
}

/* ---- tern ca show ------------------------------------------------------------------------------ */

static int is_certificate(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 4 && entry->d_name[0] != '.' && strcmp(entry->d_name + length - 4, ".crt") == 0;
}

static bool show_one(const char *folder, const char *file)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)strlen(file) - 4, file);
    struct certificate_facts facts;
    if (!certificate_facts(folder, name, authority_name, &facts))
        return false;
    if (facts.key_mode != 0)
        complain("%s/%s.key can be used by others than its owner; make it private with chmod 600",
                 folder, name);
    printf("%-24s  %-9s  %s  %s\n", facts.name, facts.is_authority ? "authority" : "node",
           facts.expires,
           !facts.is_ours      ? "of another authority"
           : facts.has_expired ? "expired"
                               : "valid");
    return true;
}

static int show_command(int argc, char **argv)
{
    static const struct option_set set = {
        .program = "tern ca show",
        .operands = "DIR",
        .given = &operands,
        .about =
            "Lists the certificates in DIR: name, kind, when it expires, and whether it is valid.",
    };
    int status;
    if (!read_line(&set, argc, argv, 1, &status))
        return status;
    const char *folder = operands.at[0];
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, is_certificate, alphasort);
    if (n <= 0) {
        complain("%s has no certificates: %s", folder,
                 n < 0 ? strerror(errno) : "make an authority with 'tern ca new'");
        free(entries);
        return EXIT_FAILED;
    }
    bool done = true;
    for (int i = 0; i < n; i++) {
        done = show_one(folder, entries[i]->d_name) && done;
        free(entries[i]);
    }
    free(entries);
    return done ? EXIT_OK : EXIT_FAILED;
}

/* ---- tern ca ----------------------------------------------------------------------------------- */

static const struct command ca_commands[] = {
    {"new", "make an authority", new_command},
    {"node", "make the certificate of a node", node_command},
    {"show", "list the certificates and when they expire", show_command},
};

static const struct command_set ca_set = {
    .program = "tern ca",
    .about = "Makes the certificates that nodes on several machines show each other.",
    .notes = "For example:\n"
             "  tern ca new certs\n"
             "  tern ca node certs alpha\n"
             "  tern ca node certs beta\n"
             "Node alpha is then given certs/ca.crt, certs/alpha.crt and certs/alpha.key.",
    .commands = ca_commands,
    .n_commands = sizeof ca_commands / sizeof *ca_commands,
};

int ca_command(int argc, char **argv)
{
    return command_dispatch(&ca_set, argc, argv);
}
