/* read - see read.h. */
#include "partition/read.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/input.h"
#include "common/placement.h"
#include "common/sentence.h"

enum { MAX_GRAPH_WEIGHTS = 64, UCI_HEAD_LINES = 3 };

struct reader {
    struct input input;
    struct granules *granules;
    bool both_ways;
    uint64_t n_lines; /* that were rows, or edges */
    uint64_t n_expected,
        n_halves; /* of a METIS graph: vertices, and twice the edges, as its heading says */
    bool is_uci;  /* documents in UCI's format */
    uint64_t n_skipped,
        n_weights; /* of a METIS graph: numbers before the neighbours, and behind each */
};

/* Rows are numbered, and results are kept for each number up to the largest. */
#define MAX_ROWS (UINT64_C(1) << 32)

/* The length of the separator at `at`; 0: there is none. MovieLens has "::". */
static size_t separator(const char *at)
{
    if (*at == ' ' || *at == '\t' || *at == ',' || *at == ';')
        return 1;
    return at[0] == ':' && at[1] == ':' ? 2 : 0;
}

static char *skip_separators(char *at)
{
    for (size_t n; (n = separator(at)) > 0;)
        at += n;
    return at;
}

/* Reads a number at *at, behind which the field must end. */
static bool read_number(struct reader *reader, char **at, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(*at, &end, 10);
    if (!isdigit((unsigned char)**at) || (*end != '\0' && !separator(end)))
        return input_fail(&reader->input, "'%.30s' is not a whole number", *at);
    if (errno == ERANGE)
        return input_fail(&reader->input, "'%.30s' is above 64 bits", *at);
    *at = skip_separators(end);
    return true;
}

static bool check_row(struct reader *reader, uint64_t row)
{
    return row < MAX_ROWS ||
           input_fail(&reader->input, "row %" PRIu64 " is above the limit of 2^32", row);
}

static bool is_comment(const char *line)
{
    return line[0] == '\0' || line[0] == '#' || line[0] == '%';
}

/* ---- The formats ------------------------------------------------------------------------------- */

/* Whether a first line is a heading: it has a letter somewhere. */
static bool is_heading(const struct reader *reader, const char *line)
{
    bool has_letter = false;
    for (const char *at = line; *at != '\0'; at++)
        has_letter |= isalpha((unsigned char)*at) != 0;
    return reader->n_lines == 0 && has_letter;
}

static bool read_edge(struct reader *reader, char *line)
{
    uint64_t row, key;
    char *at = skip_separators(line);
    if (is_comment(line) || is_heading(reader, line))
        return true;
    reader->n_lines++;
    if (!read_number(reader, &at, &row))
        return false;
    if (*at == '\0')
        return input_fail(&reader->input, "the line has a row and no key");
    if (!read_number(reader, &at, &key) || !check_row(reader, row) ||
        !granules_add(reader->granules, row, key))
        return false;
    return !reader->both_ways ||
           (check_row(reader, key) && granules_add(reader->granules, key, row));
}

static bool read_list(struct reader *reader, char *line)
{
    uint64_t row, key;
    char *at = skip_separators(line);
    if (is_comment(line))
        return true;
    reader->n_lines++;
    if (!read_number(reader, &at, &row) || !check_row(reader, row))
        return false;
    granules_add_row(reader->granules, row);
    while (*at != '\0')
        if (!read_number(reader, &at, &key) || !granules_add(reader->granules, row, key))
            return false;
    return true;
}

/* "vertices edges [fmt [ncon]]": fmt has a digit each for sizes, vertex weights and edge weights. */
static bool read_graph_heading(struct reader *reader, char *line)
{
    uint64_t fields[4] = {0};
    char *at = skip_separators(line);
    size_t n = 0;
    while (*at != '\0' && n < 4)
        if (!read_number(reader, &at, &fields[n++]))
            return false;
    if (n < 2 || *at != '\0' || fields[0] == 0)
        return input_fail(
            &reader->input,
            "a graph begins with its numbers of vertices and edges, not with this line");
    if (fields[2] > 111 || fields[2] % 10 > 1 || fields[2] / 10 % 10 > 1 ||
        fields[3] > MAX_GRAPH_WEIGHTS)
        return input_fail(&reader->input,
                          "the third number of a graph's heading is made of three digits 0 or 1");
    if (!check_row(reader, fields[0]))
        return false;
    bool has_weights = fields[2] / 10 % 10;
    reader->n_expected = fields[0];
    reader->n_halves = 2 * fields[1];
    reader->n_skipped = fields[2] / 100 + (has_weights ? (fields[3] ? fields[3] : 1) : 0);
    reader->n_weights = fields[2] % 10;
    return true;
}

static bool read_vertex(struct reader *reader, char *line)
{
    uint64_t number;
    const uint64_t row = reader->n_lines++;
    char *at = skip_separators(line);
    if (row >= reader->n_expected)
        return skip_separators(line)[0] == '\0' ||
               input_fail(&reader->input,
                          "there are more lines than the %" PRIu64 " vertices of the heading",
                          reader->n_expected);
    granules_add_row(reader->granules, row);
    for (uint64_t i = 0; i < reader->n_skipped && *at != '\0'; i++)
        if (!read_number(reader, &at, &number))
            return false;
    while (*at != '\0') {
        if (!read_number(reader, &at, &number))
            return false;
        if (number == 0 || number > reader->n_expected)
            return input_fail(&reader->input,
                              "neighbour %" PRIu64 " is not among the vertices 1 to %" PRIu64,
                              number, reader->n_expected);
        if (!granules_add(reader->granules, row, number - 1) ||
            (reader->n_weights && *at != '\0' && !read_number(reader, &at, &number)))
            return false;
    }
    return true;
}

static bool read_graph_line(struct reader *reader, char *line)
{
    if (line[0] == '%' || line[0] == '#')
        return true;
    return reader->n_expected == 0 ? read_graph_heading(reader, line) : read_vertex(reader, line);
}

static bool read_example(struct reader *reader, char *line)
{
    if (is_comment(line))
        return true;
    const uint64_t row = reader->n_lines++;
    char *at = line + strcspn(line, " \t");
    granules_add_row(reader->granules, row);
    for (at += strspn(at, " \t"); *at != '\0' && *at != '#'; at += strspn(at, " \t")) {
        char *end;
        errno = 0;
        uint64_t key = strtoull(at, &end, 10);
        if (strncmp(at, "qid:", 4) == 0) {
            at += strcspn(at, " \t");
            continue;
        }
        if (!isdigit((unsigned char)*at) || *end != ':' || errno == ERANGE)
            return input_fail(&reader->input,
                              "'%.30s' is not an index and its value, such as 7:0.5", at);
        if (!granules_add(reader->granules, row, key))
            return false;
        at = end + strcspn(end, " \t");
    }
    return true;
}

static bool read_names(struct reader *reader, char *line)
{
    const uint64_t row = reader->n_lines++;
    granules_add_row(reader->granules, row);
    for (char *at = line + strspn(line, " \t"); *at != '\0'; at += strspn(at, " \t")) {
        size_t length = strcspn(at, " \t");
        if (!granules_add(reader->granules, row, placement_name_key(at, length)))
            return false;
        at += length;
    }
    return true;
}

/* A triple per line, as `tern train kge` reads them; its keys are the names of subject and object. */
static bool read_triple(struct reader *reader, char *line)
{
    char *names[3] = {0};
    if (input_fields(line, "\t", names, 3) != 3)
        return input_fail(&reader->input,
                          "a triple is subject, relation and object separated by tabs");
    const uint64_t row = reader->n_lines++;
    return granules_add(reader->granules, row, placement_name_key(names[0], strlen(names[0]))) &&
           granules_add(reader->granules, row, placement_name_key(names[2], strlen(names[2])));
}

/* Whether the first line of documents is that of UCI's format. */
static bool is_uci(const char *line)
{
    return strpbrk(line, " \t:") == NULL && strcmp(line, "0") != 0;
}

/* A line of UCI's docword: document, word, count, both from 1. */
static bool read_docword(struct reader *reader, char *line)
{
    uint64_t document, word;
    char *at = skip_separators(line);
    if (reader->input.line <= UCI_HEAD_LINES)
        return read_number(reader, &at, &document);
    reader->n_lines++;
    if (!read_number(reader, &at, &document) || !read_number(reader, &at, &word) ||
        !check_row(reader, document))
        return false;
    if (document == 0 || word == 0)
        return input_fail(&reader->input, "documents and words are counted from 1");
    return granules_add(reader->granules, document - 1, word - 1);
}

/* A document of lda-c: how many pairs there are, then word:count, words from 0. */
static bool read_ldac(struct reader *reader, char *line)
{
    const uint64_t row = reader->n_lines++;
    uint64_t n_pairs;
    char *at = skip_separators(line);
    if (!read_number(reader, &at, &n_pairs))
        return false;
    granules_add_row(reader->granules, row);
    for (; *at != '\0'; at += strspn(at, " \t")) {
        char *end;
        errno = 0;
        const uint64_t word = strtoull(at, &end, 10);
        if (!isdigit((unsigned char)*at) || *end != ':' || errno == ERANGE)
            return input_fail(&reader->input, "'%.30s' is not a word and its count, such as 7:2",
                              at);
        if (!granules_add(reader->granules, row, word))
            return false;
        at = end + strcspn(end, " \t");
    }
    return true;
}

/* Documents as `tern train lda` reads them: the first line tells UCI's format from that of lda-c. */
static bool read_bag(struct reader *reader, char *line)
{
    if (reader->input.line == 1)
        reader->is_uci = is_uci(line);
    return reader->is_uci ? read_docword(reader, line) : read_ldac(reader, line);
}

/* ---- The whole --------------------------------------------------------------------------------- */

static bool ends_in(const char *path, const char *end)
{
    size_t length = strlen(path), n = strlen(end);
    return length >= n && strcmp(path + length - n, end) == 0;
}

static bool is_named(const char *path, const char *end)
{
    char packed[32];
    bool found = ends_in(path, end);
    for (size_t i = 0; i < 2 && !found; i++) {
        snprintf(packed, sizeof packed, "%s.%s", end, i == 0 ? "gz" : "zst");
        found = ends_in(path, packed);
    }
    return found;
}

static enum read_format format_of(const char *path)
{
    if (is_named(path, ".graph"))
        return READ_GRAPH;
    const char *slash = strrchr(path, '/');
    if (strncmp(slash != NULL ? slash + 1 : path, "docword", strlen("docword")) == 0)
        return READ_BAGS;
    return is_named(path, ".svm") || is_named(path, ".libsvm") ? READ_LIBSVM : READ_EDGES;
}

/* The file of a folder that a model learns from; *path is to be freed, and NULL if `data` is no folder. */
static bool find_in_folder(const char *data, enum read_format format, char **path)
{
    static const char *const stems[][2] = {[READ_TRIPLES] = {"train", NULL},
                                           [READ_BAGS] = {"docword", NULL},
                                           [READ_EDGES] = {"train", "ratings"}};
    struct stat status;
    *path = NULL;
    if (stat(data, &status) != 0 || !S_ISDIR(status.st_mode))
        return true;
    if (format != READ_TRIPLES && format != READ_BAGS && format != READ_EDGES)
        return task_fail("%s is a folder; name a file, or --format edges, triples or bags", data);
    for (size_t i = 0; *path == NULL && i < 2 && stems[format][i] != NULL; i++)
        if (!input_find(data, stems[format][i], path))
            return false;
    return *path != NULL || task_fail("there is no file '%s' in %s", stems[format][0], data);
}

static bool (*const read_line_of[])(struct reader *, char *) = {
    [READ_EDGES] = read_edge,     [READ_LISTS] = read_list,  [READ_GRAPH] = read_graph_line,
    [READ_LIBSVM] = read_example, [READ_WORDS] = read_names, [READ_TRIPLES] = read_triple,
    [READ_BAGS] = read_bag,
};

static bool check_whole(const struct reader *reader, enum read_format format)
{
    if (format == READ_GRAPH && reader->n_expected == 0)
        return task_fail(
            "%s has no heading; a METIS graph begins with its numbers of vertices and edges",
            reader->input.path);
    if (format == READ_GRAPH && reader->n_lines < reader->n_expected)
        return task_fail("%s has %" PRIu64 " lines of vertices, but its heading says %" PRIu64,
                         reader->input.path, reader->n_lines, reader->n_expected);
    if (format == READ_GRAPH && reader->granules->n_edges != reader->n_halves)
        return task_fail("%s has %" PRIu64 " neighbours, but its heading says %" PRIu64
                         " edges, each of which "
                         "is at two vertices",
                         reader->input.path, reader->granules->n_edges, reader->n_halves / 2);
    return true;
}

static bool read_file(const char *path, enum read_format format, bool both_ways,
                      struct granules *granules)
{
    struct reader reader = {.granules = granules, .both_ways = both_ways};
    if (!input_open(&reader.input, path))
        return false;
    char *line;
    size_t length;
    bool ok = true;
    enum input_result result = INPUT_LINE;
    while (ok && (result = input_line(&reader.input, &line, &length)) == INPUT_LINE)
        ok = strlen(line) == length ? read_line_of[format](&reader, line)
                                    : input_fail(&reader.input, "the line has a byte of value 0");
    ok = ok && result == INPUT_END && check_whole(&reader, format);
    input_close(&reader.input);
    return ok;
}

bool read_rows(const char *data, enum read_format format, bool both_ways, struct granules *granules)
{
    char *found;
    if (format == READ_AUTO)
        format = format_of(data);
    bool ok = find_in_folder(data, format, &found) &&
              read_file(found != NULL ? found : data, format, both_ways, granules);
    free(found);
    return ok;
}

/* ---- Lines ------------------------------------------------------------------------------------- */

/* The row of a line that was read before, so that it is right; false: it is a comment. */
static bool find_row(struct reader *reader, enum read_format format, const char *line,
                     bool *is_heading_line, uint64_t *row)
{
    const bool is_numbered = format == READ_EDGES || format == READ_LISTS;
    if ((is_numbered || format == READ_LIBSVM) && is_comment(line))
        return false;
    *is_heading_line = format == READ_EDGES && is_heading(reader, line);
    *row = is_numbered ? strtoull(line + strspn(line, " \t,;"), NULL, 10) : reader->n_lines;
    reader->n_lines += !*is_heading_line;
    return true;
}

static bool visit_lines(struct reader *reader, enum read_format format, read_visitor *visit,
                        void *context)
{
    enum input_result result = INPUT_LINE;
    char *line;
    size_t length;
    bool ok = true;
    while (ok && (result = input_line(&reader->input, &line, &length)) == INPUT_LINE) {
        bool is_heading_line = false;
        uint64_t row = 0;
        if (format == READ_BAGS && reader->input.line == 1 && is_uci(line))
            ok = input_fail(&reader->input,
                            "a file of docword cannot be split by lines; its heading counts them");
        else if (find_row(reader, format, line, &is_heading_line, &row))
            ok = visit(context, is_heading_line, row, line, length);
    }
    return ok && result == INPUT_END;
}

bool read_lines(const char *data, enum read_format format, read_visitor *visit, void *context)
{
    struct reader reader = {0};
    char *found;
    if (format == READ_AUTO)
        format = format_of(data);
    if (format == READ_GRAPH)
        return task_fail("%s is a METIS graph, whose parts are no graphs: it cannot be split",
                         data);
    bool ok = find_in_folder(data, format, &found) &&
              input_open(&reader.input, found != NULL ? found : data);
    if (ok) {
        ok = visit_lines(&reader, format, visit, context);
        input_close(&reader.input);
    }
    free(found);
    return ok;
}
