/* ratings - reads the known cells of a matrix. See ratings.h. */
#include "mf/ratings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/input.h"
#include "common/list.h"
#include "common/rng.h"
#include "common/sentence.h"

enum { N_FIELDS = 3 };

/* A file that is being read, and what becomes of its ratings. */
struct reading {
    struct input input;
    struct ratings *ratings;
    struct rating_list *list;
    enum ratings_unknown unknown;
    const char *separator; /* NULL before the first line */
    double test_share;     /* of the ratings that go to `test` instead */
    struct rng rng;
};

/* ---- Fields ---------------------------------------------------------------------------------- */

static const char *find_separator(const char *line)
{
    static const char *const known[] = {"::", "\t", ",", ";", " "};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(line, known[i]) != NULL)
            return known[i];
    return ",";
}

/* Takes the quotes off a field, in place; what follows it, or NULL when it does not end. */
static char *unquote(char *field)
{
    char *to = field;
    for (char *from = field + 1; *from != '\0'; from++) {
        if (*from == '"' && *++from != '"') {
            *to = '\0';
            return from;
        }
        *to++ = *from;
    }
    return NULL;
}

/* Cuts off the first field of *rest, which becomes what follows the separator, or NULL after the last
 * field. NULL when a quote is out of place. */
static char *next_field(char **rest, const char *separator)
{
    bool may_be_quoted = separator[0] == ',' || separator[0] == ';';
    char *field = *rest, *end = field;
    bool quoted = may_be_quoted && *field == '"';
    if (quoted && (end = unquote(field)) == NULL)
        return NULL;
    char *cut = strstr(end, separator);
    if (quoted && cut != end && *end != '\0')
        return NULL;
    *rest = cut != NULL ? cut + strlen(separator) : NULL;
    if (cut != NULL && !quoted)
        *cut = '\0';
    return field;
}

static bool cut_line(struct reading *reading, char *line, char *fields[N_FIELDS])
{
    char *rest = line;
    if (reading->separator == NULL)
        reading->separator = find_separator(line);
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (rest == NULL)
            return input_fail(&reading->input,
                              "a rating is user, item and a number, separated by '%s' as in the "
                              "first line, but this line has %zu field%s",
                              reading->separator[0] == '\t' ? "\\t" : reading->separator, i,
                              i == 1 ? "" : "s");
        fields[i] = next_field(&rest, reading->separator);
        if (fields[i] == NULL)
            return input_fail(&reading->input, "field %zu has a quote out of place", i + 1);
    }
    return true;
}

/* Infinite if it is too large. */
static bool read_number(const char *text, float *number)
{
    char *end;
    *number = strtof(text, &end);
    while (*end == ' ')
        end++;
    return end != text && *end == '\0' && !isnan(*number);
}

/* ---- Ratings --------------------------------------------------------------------------------- */

static bool add_rating(struct rating_list *list, struct rating rating)
{
    struct rating *at = list_grow(list->at, sizeof *at, list->n, &list->capacity, "the ratings");
    if (at == NULL)
        return false;
    list->at = at;
    list->at[list->n++] = rating;
    return true;
}

/* The number of a name; *is_unknown is set when train lacks it. */
static bool read_name(struct reading *reading, const char *kind, struct names *names,
                      uint32_t n_trained, const char *name, uint32_t *number, bool *is_unknown)
{
    size_t length = strlen(name);
    const char *flaw = names_flaw(name, length);
    if (length == 0)
        return input_fail(&reading->input, "the name of the %s is empty", kind);
    if (flaw != NULL)
        return input_fail(
            &reading->input,
            "the name of the %s has %s in it, which a name cannot have; lines end with "
            "LF or CRLF",
            kind, flaw);
    *number = names_find(names, name, length);
    *is_unknown |= *number >= n_trained;
    if (*number != NAMES_NONE || reading->unknown == RATINGS_SKIP)
        return true;
    if (reading->unknown == RATINGS_ADD)
        return names_add(names, name, length, number);
    return input_fail(&reading->input,
                      "%s '%s' does not occur in the training ratings (--unknown add takes it all "
                      "the same, --unknown skip leaves such ratings out)",
                      kind, name);
}

static bool read_rating(struct reading *reading, char *line)
{
    char *fields[N_FIELDS];
    struct rating rating = {0};
    struct ratings *ratings = reading->ratings;
    bool is_unknown = false, is_train = reading->list == &ratings->train;
    if (!cut_line(reading, line, fields))
        return false;
    if (!read_number(fields[2], &rating.value))
        return reading->input.line == 1 ||
               input_fail(&reading->input, "'%s' is not a number", fields[2]);
    if (isinf(rating.value))
        return input_fail(&reading->input, "'%s' is too large for a rating", fields[2]);
    if (!read_name(reading, "user", &ratings->rows, ratings->n_trained_rows, fields[0], &rating.row,
                   &is_unknown) ||
        !read_name(reading, "item", &ratings->columns, ratings->n_trained_columns, fields[1],
                   &rating.column, &is_unknown))
        return false;
    ratings->n_unknown += is_unknown && !is_train;
    bool is_test = reading->test_share > 0 && rng_unit(&reading->rng) < reading->test_share;
    return (is_unknown && reading->unknown == RATINGS_SKIP) ||
           add_rating(is_test ? &ratings->test : reading->list, rating);
}

static bool read_lines(struct reading *reading)
{
    enum input_result result = INPUT_FAILED;
    char *line;
    size_t length;
    bool ok = true;
    while (ok && (result = input_line(&reading->input, &line, &length)) == INPUT_LINE)
        ok = length != strlen(line) ? input_fail(&reading->input, "the line has a NUL character")
                                    : read_rating(reading, line);
    return ok && result == INPUT_END;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static bool read_file(struct reading *reading, const char *path)
{
    size_t n_before = reading->ratings->train.n + reading->ratings->test.n;
    if (!input_open(&reading->input, path))
        return false;
    bool ok = read_lines(reading);
    if (ok && reading->ratings->train.n + reading->ratings->test.n == n_before &&
        reading->ratings->n_unknown == 0)
        ok = task_fail("there are no ratings in %s", path);
    input_close(&reading->input);
    return ok;
}

static bool read_files(struct ratings *ratings, const struct ratings_source *source,
                       const char *train, const char *test)
{
    ratings->drawn_share = test == NULL ? source->test_share : 0;
    struct reading first = {.ratings = ratings,
                            .list = &ratings->train,
                            .unknown = RATINGS_ADD,
                            .test_share = ratings->drawn_share,
                            .rng = rng_seed(source->seed, UINT64_MAX)};
    struct reading second = {
        .ratings = ratings, .list = &ratings->test, .unknown = source->unknown};
    if (!read_file(&first, train))
        return false;
    ratings->n_trained_rows = ratings->rows.n;
    ratings->n_trained_columns = ratings->columns.n;
    return test == NULL || read_file(&second, test);
}

static bool read_folder(struct ratings *ratings, const struct ratings_source *source)
{
    char *train = NULL, *test = NULL;
    bool ok = input_find(source->data, "train", &train) && input_find(source->data, "test", &test);
    if (ok && train == NULL && test == NULL)
        ok = input_find(source->data, "ratings", &train);
    if (ok && train == NULL)
        ok = task_fail("there is neither 'train' nor 'ratings' (.txt, .tsv, .csv or .dat; plain, "
                       ".gz or .zst) in %s",
                       source->data);
    ok = ok && read_files(ratings, source, train, test);
    free(train);
    free(test);
    return ok;
}

static bool read_list(struct ratings *ratings, const struct ratings_source *source)
{
    char *files[2] = {0};
    char *copy = strdup(source->data);
    if (copy == NULL)
        return task_fail_memory("the names of files");
    bool ok = input_fields(copy, ",", files, 2) <= 2
                  ? read_files(ratings, source, files[0], files[1])
                  : task_fail("'%s' names more than two files", source->data);
    free(copy);
    return ok;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool summarize(struct ratings *ratings, const char *data)
{
    const struct rating_list *train = &ratings->train;
    if (train->n == 0)
        return task_fail("there are no training ratings in %s", data);
    ratings->low = ratings->high = train->at[0].value;
    for (size_t i = 0; i < train->n; i++) {
        float value = train->at[i].value;
        ratings->mean += (double)value / (double)train->n;
        ratings->low = fminf(ratings->low, value);
        ratings->high = fmaxf(ratings->high, value);
    }
    double variance = 0;
    for (size_t i = 0; i < train->n; i++)
        variance += pow((double)train->at[i].value - ratings->mean, 2) / (double)train->n;
    ratings->deviation = sqrt(variance);
    return true;
}

bool ratings_read(struct ratings *ratings, const struct ratings_source *source)
{
    struct stat status;
    *ratings = (struct ratings){0};
    bool is_folder = stat(source->data, &status) == 0 && S_ISDIR(status.st_mode);
    return (is_folder ? read_folder(ratings, source) : read_list(ratings, source)) &&
           summarize(ratings, source->data);
}

void ratings_forget(struct ratings *ratings)
{
    free(ratings->train.at);
    free(ratings->test.at);
    ratings->train.at = ratings->test.at = NULL;
}

void ratings_fini(struct ratings *ratings)
{
    ratings_forget(ratings);
    names_fini(&ratings->rows);
    names_fini(&ratings->columns);
    *ratings = (struct ratings){0};
}
