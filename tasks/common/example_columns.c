/*
 * example_columns - rows of CSV and TSV files with a heading, and of Criteo's files. See example_lines.h.
 *
 * The key of a number is the hash of its column's name, that of a category the hash of column and text. An empty field
 * is absent. Criteo's counts are also categories: n up to 2 as it is, and floor(log(n)^2) beyond, which the winners
 * of Criteo's competition used.
 */
#include "common/example_lines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

enum { FIELD_MAX_BYTES = 1 << 16, CRITEO_COUNTS = 13, CRITEO_CATEGORIES = 26 };

enum column_kind { CATEGORY, NUMBER, COUNT, LABEL, WEIGHT, IGNORED };

struct column {
    enum column_kind kind;
    uint64_t hash; /* of its name */
    char *name;
};

struct example_columns {
    char separator;
    size_t n;
    struct column at[];
};

void example_columns_free(struct example_columns *columns)
{
    for (size_t i = 0; columns != NULL && i < columns->n; i++)
        free(columns->at[i].name);
    free(columns);
}

/* One more column; there is room for it. */
static bool append_column(struct example_columns *columns, enum column_kind kind, const char *name,
                          size_t length)
{
    char *copy = strndup(name, length);
    if (copy == NULL)
        return task_fail_memory("a heading");
    columns->at[columns->n++] = (struct column){kind, examples_hash(name, length, 0), copy};
    return true;
}

/* ---- Fields ----------------------------------------------------------------------------------- */

/* A field without its quotes; its text is in the line, or in the buffer if it had quotes within. */
struct field {
    const char *text;
    size_t length;
    char buffer[FIELD_MAX_BYTES];
};

/* A field in double quotes, in which two of them stand for one; *at is behind the first. */
static bool read_quoted(const struct example_line *line, const char **at, const char *end,
                        char separator, struct field *field)
{
    const char *from = *at;
    size_t length = 0;
    for (;; from++) {
        if (from == end)
            return example_fail(line, "a double quote is not closed");
        if (*from == '"' && (from + 1 == end || from[1] != '"'))
            break;
        from += *from == '"';
        if (length == FIELD_MAX_BYTES)
            return example_fail(line, "a field is longer than %d bytes", FIELD_MAX_BYTES);
        field->buffer[length++] = *from;
    }
    from++;
    if (from < end && *from != separator)
        return example_fail(line, "a separator must follow a closing double quote");
    field->text = field->buffer;
    field->length = length;
    *at = from;
    return true;
}

/* The next field; *at moves to the separator behind it, or to the end. */
static bool read_field(const struct example_line *line, const char **at, const char *end,
                       char separator, struct field *field)
{
    if (separator == ',' && *at < end && **at == '"') {
        (*at)++;
        return read_quoted(line, at, end, separator, field);
    }
    const char *stop = memchr(*at, separator, (size_t)(end - *at));
    stop = stop != NULL ? stop : end;
    field->text = *at;
    field->length = (size_t)(stop - *at);
    *at = stop;
    return true;
}

/* ---- Headings --------------------------------------------------------------------------------- */

static bool is_text(const struct field *field, const char *text)
{
    return strlen(text) == field->length && memcmp(field->text, text, field->length) == 0;
}

/* Whether a list, separated by commas, has the name. */
static bool is_listed(const char *list, const struct field *field)
{
    for (size_t length; list != NULL && *list != '\0'; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (length == field->length && memcmp(list, field->text, length) == 0)
            return true;
    }
    return false;
}

static size_t list_length(const char *list)
{
    size_t n = list != NULL && *list != '\0';
    for (; list != NULL && *list != '\0'; list++)
        n += *list == ',' && list[1] != '\0';
    return n;
}

static enum column_kind kind_of(const struct examples_options *options, const struct field *name)
{
    if (options->label != NULL ? is_text(name, options->label)
                               : name->length == 5 && strncasecmp(name->text, "label", 5) == 0)
        return LABEL;
    if (options->weight != NULL && is_text(name, options->weight))
        return WEIGHT;
    if (is_listed(options->ignore, name))
        return IGNORED;
    return is_listed(options->numeric, name) ? NUMBER : CATEGORY;
}

/* Names that the options have and the heading lacks are mistakes. */
static bool check_columns(const struct example_line *line, const struct example_columns *columns)
{
    const struct examples_options *options = line->options;
    size_t n[IGNORED + 1] = {0};
    for (size_t i = 0; i < columns->n; i++)
        n[columns->at[i].kind]++;
    if (n[LABEL] > 1)
        return example_fail(line, "there are %zu columns of the label", n[LABEL]);
    if (options->label != NULL && n[LABEL] == 0)
        return example_fail(line, "there is no column '%s' for the label", options->label);
    if (options->weight != NULL && n[WEIGHT] != 1)
        return example_fail(line, "there must be one column '%s' of the weight, not %zu",
                            options->weight, n[WEIGHT]);
    if (n[NUMBER] < list_length(options->numeric))
        return example_fail(line, "only %zu columns of the numeric ones '%s' are in the heading",
                            n[NUMBER], options->numeric);
    if (n[IGNORED] < list_length(options->ignore))
        return example_fail(line, "only %zu columns of those to ignore, '%s', are in the heading",
                            n[IGNORED], options->ignore);
    return true;
}

struct example_columns *example_columns_read(const struct example_line *line, const char *at,
                                             const char *end, char separator)
{
    size_t n_most = 1;
    for (const char *from = at; from < end; from++)
        n_most += *from == separator;
    struct example_columns *columns = calloc(1, sizeof *columns + n_most * sizeof *columns->at);
    struct field *name = malloc(sizeof *name);
    bool ok = (columns != NULL && name != NULL) || task_fail_memory("a heading");
    for (bool more = true; ok && more;) {
        ok = read_field(line, &at, end, separator, name) &&
             append_column(columns, kind_of(line->options, name), name->text, name->length);
        more = at++ < end;
    }
    if (ok) {
        columns->separator = separator;
        ok = check_columns(line, columns);
    }
    free(name);
    if (!ok) {
        example_columns_free(columns);
        columns = NULL;
    }
    return columns;
}

struct example_columns *example_columns_criteo(void)
{
    const size_t n = 1 + CRITEO_COUNTS + CRITEO_CATEGORIES;
    struct example_columns *columns = calloc(1, sizeof *columns + n * sizeof *columns->at);
    bool ok = (columns != NULL || task_fail_memory("a heading")) &&
              append_column(columns, LABEL, "label", 5);
    for (int i = 1; ok && i <= CRITEO_COUNTS + CRITEO_CATEGORIES; i++) {
        char name[24];
        bool is_count = i <= CRITEO_COUNTS;
        int length = snprintf(name, sizeof name, "%c%d", is_count ? 'I' : 'C',
                              is_count ? i : i - CRITEO_COUNTS);
        ok = append_column(columns, is_count ? COUNT : CATEGORY, name, (size_t)length);
    }
    if (!ok) {
        example_columns_free(columns);
        return NULL;
    }
    columns->separator = '\t';
    return columns;
}

/* ---- Rows ------------------------------------------------------------------------------------- */

static bool field_real(const struct example_line *line, const struct field *field, double *number)
{
    const char *at = field->text, *end = at + field->length;
    return (example_real(&at, end, number) && at == end) ||
           example_fail(line, "'%.*s' is not a finite number",
                        field->length < 40 ? (int)field->length : 40, field->text);
}

/* Names the feature that was added last: its column, and perhaps what is in it. */
static bool name_field(const struct example_line *line, const struct column *column,
                       const char *between, const char *text, size_t length)
{
    if (line->options->namer == NULL)
        return true;
    const struct example_piece pieces[3] = {
        {column->name, strlen(column->name)}, {between, strlen(between)}, {text, length}};
    return example_name(line, pieces, 3);
}

/* A count up to 2 is called I1=2, one beyond by its square of the logarithm, I1~9. */
static bool add_count(const struct example_line *line, const struct column *column, double n,
                      uint32_t number)
{
    char text[32];
    double square = n > 2 ? floor(log(n) * log(n)) : n;
    int length = snprintf(text, sizeof text, "%s%.0f", n > 2 ? "" : "=", square);
    return example_add(line, examples_hash(text, (size_t)length, column->hash), 1, number) &&
           name_field(line, column, n > 2 ? "~" : "", text, (size_t)length);
}

static bool add_field(const struct example_line *line, const struct field *field, uint32_t number,
                      double *label, double *weight)
{
    const struct column *column = &line->columns->at[number];
    double value;
    if (column->kind == IGNORED || field->length == 0)
        return (column->kind != LABEL && column->kind != WEIGHT) ||
               example_fail(line, "the %s is empty", column->kind == LABEL ? "label" : "weight");
    if (column->kind == CATEGORY)
        return example_add(line, examples_hash(field->text, field->length, column->hash), 1,
                           number) &&
               name_field(line, column, "=", field->text, field->length);
    if (!field_real(line, field, &value))
        return false;
    if (column->kind == NUMBER)
        return example_add(line, column->hash, value, number) &&
               name_field(line, column, "", "", 0);
    if (column->kind == COUNT)
        return add_count(line, column, value, number);
    *(column->kind == LABEL ? label : weight) = value;
    return column->kind == LABEL || value >= 0 ||
           example_fail(line, "the weight %g is negative", value);
}

bool example_row(const struct example_line *line, const char *at, const char *end)
{
    double label = (double)NAN, weight = 1;
    struct field field;
    size_t n = 0;
    if (at == end)
        return true;
    for (bool more = true; more; n++) {
        if (n == line->columns->n)
            return example_fail(line, "the row has more than %zu fields", line->columns->n);
        if (!read_field(line, &at, end, line->columns->separator, &field) ||
            !add_field(line, &field, (uint32_t)n, &label, &weight))
            return false;
        more = at++ < end;
    }
    return n == line->columns->n
               ? example_end(line, label, weight)
               : example_fail(line, "the row has %zu fields, but there are %zu columns", n,
                              line->columns->n);
}
