/*
 * tern checkpoint - looks at checkpoints: lists them, compares their files with their hashes, and exports tables. See
 * docs/survive.md.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tern/tern.h>

#include "command.h"
#include "common/quoted.h"
#include "options.h"

enum { BLOCK_ROWS = 4096 };

static struct {
    bool json;
    const char *table, *format, *out;
    struct operand_list operands;
} args;

static const char *const type_names[] = {
    [TERN_F32] = "f32", [TERN_F64] = "f64", [TERN_I32] = "i32", [TERN_I64] = "i64"};

/* ---- tern checkpoint ls -------------------------------------------------------------------------- */

static const struct option ls_options[] = {
    {"json", OPTION_FLAG, &args.json, .help = "one JSON line per table on standard output"},
};

static const struct option_set ls_set = {
    .program = "tern checkpoint ls",
    .about = "Lists checkpoints and their tables.",
    .notes =
        "DIR is a checkpoint, or a folder that has some. Files are not read; 'tern checkpoint\n"
        "verify' does that.",
    .options = ls_options,
    .n_options = sizeof ls_options / sizeof *ls_options,
    .operands = "DIR...",
    .given = &args.operands,
};

static void print_table(const char *path, const struct tern_checkpoint_table *table)
{
    const char *index = table->index == TERN_DENSE    ? "dense"
                        : table->index == TERN_SKETCH ? "sketch"
                                                      : "sparse";
    if (!args.json) {
        printf("  %-24s %s, %" PRIu64 " rows of %" PRIu32 " %s, updater %s\n", table->name, index,
               table->n_rows, table->length, type_names[table->type], table->updater);
        return;
    }
    printf("{\"checkpoint\":");
    write_quoted(stdout, path);
    printf(",\"table\":");
    write_quoted(stdout, table->name);
    printf(",\"index\":\"%s\",\"type\":\"%s\",\"rows\":%" PRIu64 ",\"length\":%" PRIu32
           ",\"updater\":",
           index, type_names[table->type], table->n_rows, table->length);
    write_quoted(stdout, table->updater);
    printf(",\"state\":%" PRIu32 "}\n", table->state_length);
}

static bool list_one(const char *path)
{
    struct tern_checkpoint *checkpoint;
    struct tern_checkpoint_info info = {.struct_size = sizeof info};
    if (tern_checkpoint_open(path, &checkpoint)) {
        complain_tern("cannot list a checkpoint");
        return false;
    }
    (void)tern_checkpoint_get_info(checkpoint, &info);
    if (!args.json)
        printf("%s: %zu table%s, %.1f MB in %zu file%s by %" PRIu32 " node%s, clocks %" PRIu64
               " to %" PRIu64 "\n",
               path, info.n_tables, info.n_tables == 1 ? "" : "s", (double)info.bytes / 1e6,
               info.n_files, info.n_files == 1 ? "" : "s", info.n_nodes,
               info.n_nodes == 1 ? "" : "s", info.lowest_clock, info.highest_clock);
    for (size_t i = 0; i < info.n_tables; i++) {
        struct tern_checkpoint_table table = {.struct_size = sizeof table};
        (void)tern_checkpoint_get_table(checkpoint, i, &table);
        print_table(path, &table);
    }
    (void)tern_checkpoint_close(checkpoint);
    return true;
}

/* Whether a folder has a manifest: it is a checkpoint then, perhaps a damaged one. */
static bool is_checkpoint(const char *path)
{
    char manifest[PATH_MAX + 32];
    struct stat there;
    snprintf(manifest, sizeof manifest, "%s/manifest.json", path);
    return stat(manifest, &there) == 0;
}

/* What is done with a checkpoint; whether it succeeded. */
typedef bool visit_function(const char *path);

/* Visits the checkpoints of a folder; those that are being written have another ending and no manifest yet. */
static bool visit_folder(const char *path, visit_function *visit)
{
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, versionsort);
    bool ok = n >= 0, found = false;
    if (n < 0)
        complain("cannot read %s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char inside[PATH_MAX];
        snprintf(inside, sizeof inside, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && is_checkpoint(inside)) {
            ok = visit(inside) && ok;
            found = true;
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    if (n >= 0 && !found)
        complain("there is no checkpoint in %s", path);
    return ok && found;
}

/* Visits checkpoints, or those in the folders, that the operands name. */
static bool visit_all(visit_function *visit)
{
    bool ok = true;
    for (size_t i = 0; i < args.operands.n; i++) {
        const char *path = args.operands.at[i];
        ok = (is_checkpoint(path) ? visit(path) : visit_folder(path, visit)) && ok;
    }
    return ok;
}

int checkpoint_ls_command(int argc, char **argv)
{
    int status;
    if (!options_read(&ls_set, argc, argv, &status))
        return status;
    if (args.operands.n == 0) {
        complain("which one? tern checkpoint ls DIR...");
        return EXIT_USAGE;
    }
    return visit_all(list_one) ? EXIT_OK : EXIT_FAILED;
}

/* ---- tern checkpoint verify ---------------------------------------------------------------------- */

static const struct option_set verify_set = {
    .program = "tern checkpoint verify",
    .about = "Reads all files of checkpoints and compares them with their hashes.",
    .notes = "DIR is a checkpoint, or a folder that has some.",
    .operands = "DIR...",
    .given = &args.operands,
};

static bool verify_one(const char *path)
{
    struct tern_checkpoint *checkpoint;
    bool ok = tern_checkpoint_open(path, &checkpoint) == TERN_OK;
    if (ok) {
        ok = tern_checkpoint_verify(checkpoint) == TERN_OK;
        if (ok)
            printf("%s: good\n", path);
        else
            complain_tern("cannot verify a checkpoint");
        (void)tern_checkpoint_close(checkpoint);
    } else {
        complain_tern("cannot verify a checkpoint");
    }
    return ok;
}

int checkpoint_verify_command(int argc, char **argv)
{
    int status;
    if (!options_read(&verify_set, argc, argv, &status))
        return status;
    if (args.operands.n == 0) {
        complain("which one? tern checkpoint verify DIR...");
        return EXIT_USAGE;
    }
    return visit_all(verify_one) ? EXIT_OK : EXIT_FAILED;
}

/* ---- tern checkpoint export ---------------------------------------------------------------------- */

static const char *const formats[] = {"npy", "word2vec", NULL};

static const struct option export_options[] = {
    {"table", OPTION_STRING, &args.table, .takes = "NAME",
     .help = "the table; needed unless there is one alone"},
    {"format", OPTION_STRING, &args.format, "npy", "FORMAT", "npy, or word2vec: text",
     .choices = formats},
    {"out", OPTION_STRING, &args.out, .takes = "FILE", .help = "where to", .aliases = "o"},
};

static const struct option_set export_set = {
    .program = "tern checkpoint export",
    .about =
        "Writes the values of a table to a file for numpy or for tools that read word vectors.",
    .notes =
        "npy: a matrix with a row for each key. Of a dense table the rows are in the order of\n"
        "keys; of a sparse one FILE.keys.npy has the keys of the rows.\n"
        "word2vec: a line with the number of rows and their length, then a line per row: its key\n"
        "and its values.",
    .options = export_options,
    .n_options = sizeof export_options / sizeof *export_options,
    .operands = "DIR",
    .given = &args.operands,
};

/* A table that is being exported. */
struct export
{
    struct tern_checkpoint *checkpoint;
    size_t number;
    struct tern_checkpoint_table table;
    size_t row_bytes;
    FILE *out, *keys; /* keys of a sparse table, for npy */
    uint64_t block_keys[BLOCK_ROWS];
    char *values;
};

/* The header of an npy file, padded so that the data begins at a multiple of 64. */
static void write_npy_header(FILE *file, const char *type, uint64_t n_rows, uint32_t n_columns)
{
    char text[128], shape[64];
    if (n_columns > 0)
        snprintf(shape, sizeof shape, "(%" PRIu64 ", %" PRIu32 ")", n_rows, n_columns);
    else
        snprintf(shape, sizeof shape, "(%" PRIu64 ",)", n_rows);
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                     type, shape);
    int padded = (10 + n + 1 + 63) / 64 * 64 - 10;
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    putc(padded & 0xff, file);
    putc(padded >> 8, file);
    fprintf(file, "%-*s\n", padded - 1, text);
}

static void print_value(FILE *file, enum tern_type type, const char *value, size_t i)
{
    switch (type) {
    case TERN_F32:
        fprintf(file, " %.9g", (double)((const float *)value)[i]);
        break;
    case TERN_F64:
        fprintf(file, " %.17g", ((const double *)value)[i]);
        break;
    case TERN_I32:
        fprintf(file, " %" PRId32, ((const int32_t *)value)[i]);
        break;
    case TERN_I64:
        fprintf(file, " %" PRId64, ((const int64_t *)value)[i]);
        break;
    }
}

static void write_text(const struct export *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fprintf(to->out, "%" PRIu64, to->block_keys[i]);
        for (size_t j = 0; j < to->table.length; j++)
            print_value(to->out, to->table.type, to->values + i * to->row_bytes, j);
        putc('\n', to->out);
    }
}

/* The rows of a dense table go to the places of their keys. */
static bool write_matrix(const struct export *to, off_t data_at, size_t n)
{
    bool ok = true;
    if (to->table.index == TERN_SPARSE) {
        fwrite(to->block_keys, sizeof *to->block_keys, n, to->keys);
        fwrite(to->values, to->row_bytes, n, to->out);
        return true;
    }
    for (size_t i = 0; ok && i < n; i++) {
        ok = to->block_keys[i] < to->table.n_keys;
        if (ok && (i == 0 || to->block_keys[i] != to->block_keys[i - 1] + 1))
            ok = fseeko(to->out, data_at + (off_t)(to->block_keys[i] * to->row_bytes), SEEK_SET) ==
                 0;
        if (ok)
            fwrite(to->values + i * to->row_bytes, to->row_bytes, 1, to->out);
    }
    if (!ok)
        complain("a key of table '%s' cannot be placed in %s", to->table.name, args.out);
    return ok;
}

static bool write_rows(struct export *to)
{
    static const char *const npy_types[] = {
        [TERN_F32] = "<f4", [TERN_F64] = "<f8", [TERN_I32] = "<i4", [TERN_I64] = "<i8"};
    const bool is_text = strcmp(args.format, "word2vec") == 0;
    if (is_text)
        fprintf(to->out, "%" PRIu64 " %" PRIu32 "\n", to->table.n_rows, to->table.length);
    else
        write_npy_header(to->out, npy_types[to->table.type], to->table.n_rows, to->table.length);
    if (to->keys != NULL)
        write_npy_header(to->keys, "<u8", to->table.n_rows, 0);
    const off_t data_at = ftello(to->out);
    size_t n = 0;
    for (uint64_t first = 0; first < to->table.n_rows; first += n) {
        if (tern_checkpoint_read(to->checkpoint, to->number, first, BLOCK_ROWS, to->block_keys,
                                 to->values, NULL, &n)) {
            complain_tern("cannot export a table");
            return false;
        }
        if (is_text)
            write_text(to, n);
        else if (!write_matrix(to, data_at, n))
            return false;
    }
    return true;
}

static bool end_file(FILE *file, const char *path)
{
    if (file == NULL)
        return true;
    const bool failed = ferror(file) != 0;
    if (fclose(file) == 0 && !failed)
        return true;
    complain("cannot write %s: %s", path, strerror(errno));
    return false;
}

static bool export_table(struct export *to)
{
    char keys_path[PATH_MAX];
    const bool has_keys = to->table.index == TERN_SPARSE && strcmp(args.format, "npy") == 0;
    snprintf(keys_path, sizeof keys_path, "%s.keys.npy", args.out);
    to->row_bytes = (size_t)to->table.length *
                    (to->table.type == TERN_F64 || to->table.type == TERN_I64 ? 8 : 4);
    to->values = malloc(BLOCK_ROWS * to->row_bytes);
    to->out = fopen(args.out, "wb");
    to->keys = has_keys && to->out != NULL ? fopen(keys_path, "wb") : NULL;
    bool ok = to->values != NULL && to->out != NULL && (!has_keys || to->keys != NULL);
    if (!ok)
        complain("cannot write %s: %s", args.out, strerror(errno));
    ok = ok && write_rows(to);
    ok = end_file(to->out, args.out) && ok;
    ok = end_file(to->keys, keys_path) && ok;
    free(to->values);
    return ok;
}

/* The table that --table names, or the only one. */
static bool find_table(struct export *to)
{
    struct tern_checkpoint_info info = {.struct_size = sizeof info};
    (void)tern_checkpoint_get_info(to->checkpoint, &info);
    to->table.struct_size = sizeof to->table;
    for (to->number = 0; to->number < info.n_tables; to->number++) {
        (void)tern_checkpoint_get_table(to->checkpoint, to->number, &to->table);
        if (args.table != NULL ? strcmp(args.table, to->table.name) != 0 : info.n_tables != 1)
            continue;
        if (to->table.index != TERN_SKETCH)
            return true;
        complain("table '%s' is a sketch, which has no rows to export", to->table.name);
        return false;
    }
    if (args.table != NULL)
        complain("%s has no table '%s'; 'tern checkpoint ls' lists those it has",
                 args.operands.at[0], args.table);
    else
        complain("%s has %zu tables: choose one with --table", args.operands.at[0], info.n_tables);
    return false;
}

int checkpoint_export_command(int argc, char **argv)
{
    static struct export to;
    int status;
    if (!options_read(&export_set, argc, argv, &status))
        return status;
    if (args.operands.n != 1 || args.out == NULL) {
        complain("what, and where to? tern checkpoint export DIR --table NAME --out FILE");
        return EXIT_USAGE;
    }
    if (tern_checkpoint_open(args.operands.at[0], &to.checkpoint))
        return complain_tern("cannot export a table");
    bool ok = find_table(&to);
    if (ok && tern_checkpoint_verify(to.checkpoint)) {
        complain_tern("cannot export a table");
        ok = false;
    }
    ok = ok && export_table(&to);
    (void)tern_checkpoint_close(to.checkpoint);
    return ok ? EXIT_OK : EXIT_FAILED;
}

/* ---- tern checkpoint ----------------------------------------------------------------------------- */

static const struct command checkpoint_commands[] = {
    {"export", "write a table for numpy or as word vectors", checkpoint_export_command},
    {"ls", "list checkpoints and their tables", checkpoint_ls_command},
    {"verify", "compare all files with their hashes", checkpoint_verify_command},
};

static const struct command_set checkpoint_set = {
    .program = "tern checkpoint",
    .about = "Looks at checkpoints.",
    .commands = checkpoint_commands,
    .n_commands = sizeof checkpoint_commands / sizeof *checkpoint_commands,
};

int checkpoint_command(int argc, char **argv)
{
    return command_dispatch(&checkpoint_set, argc, argv);
}
